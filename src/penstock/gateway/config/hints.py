"""What to say of a key that no setting has: the one that was meant, where that can be told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.gateway.config.problems import nearest
from penstock.gateway.config.settings import (
    KeySettings,
    LimitSettings,
    ServerSettings,
    Settings,
    StoreSettings,
)
from penstock.gateway.config.upstreams import ModelSettings, UpstreamSettings

_OTHER_WORDS: Final[dict[type, dict[str, str]]] = {
    Settings: {"upstream": "upstreams", "model": "models", "key": "keys", "listen": "server"},
    ServerSettings: {"address": "host", "bind": "host", "ssl_certfile": "tls_cert"},
    StoreSettings: {"path": "url", "database": "url", "retention": "keep_days"},
    ModelSettings: {"name": "model", "alias": "model", "provider": "upstream"},
    UpstreamSettings: {
        "url": "base_url",
        "api_base": "base_url",
        "api_key": "key_env",
        "token": "key_env",
        "provider": "api",
        "type": "api",
        "timeout": "timeouts",
        "parser": "format",
    },
}
"""What the same things are called elsewhere."""

_SECTIONS: Final = {
    name: f"{section}.{name}"
    for section, struct in (
        ("server", ServerSettings),
        ("limits", LimitSettings),
        ("store", StoreSettings),
    )
    for name in struct.__struct_fields__
}
"""Where the settings with a name of their own stand, which some look for at the top."""


def hint_for(table: type, name: str, known: Iterable[str]) -> str:
    """Say that *table* has no *name*, and which of its *known* ones was meant."""
    if table is KeySettings and name in ("key", "secret", "token", "value"):
        return "a key is not written down here: `penstock key new` makes one, and the hash of it"
    other = _OTHER_WORDS.get(table, {}).get(name.lower().replace("-", "_"))
    near = other or nearest(name, known) or _SECTIONS.get(nearest(name, _SECTIONS), "")
    meant = f"did you mean {near!r}?" if near else f"there are {', '.join(known)}"
    return f"there is no such setting; {meant}"
