"""What a running gateway can take over from a changed file, and what waits for its next start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.gateway.config.problems import ConfigError, Place
from penstock.gateway.config.settings import Settings, StoreSettings

FIXED: Final = (
    *(
        ("server", name)
        for name in (
            *("host", "port", "workers", "insecure", "tls_cert", "tls_key"),
            *("keepalive_seconds", "header_seconds"),
        )
    ),
    ("limits", "header_bytes"),
    *(("store", name) for name in StoreSettings.__struct_fields__),
)
"""The settings that belong to sockets, processes and the database, which live on.

`insecure` is one of them: nobody opens a door to everybody by the way.
"""


def needs_restart(old: Settings, new: Settings) -> list[str]:
    """Name the settings that differ and that only a new start brings in."""
    return [*_changed(old, new)]


def check_door(running: Settings, new: Settings) -> None:
    """Raise `ConfigError` where *new* would leave the door of *running* open to other machines.

    What counts is the address that the process was begun with, since there it still listens, and
    not the one that the file names by now. `insecure` has to have been said at the start too.
    """
    is_meant = running.server.insecure and new.server.insecure
    if not (new.keys or running.server.is_local or is_meant):
        problem = (
            f"keys: other machines can reach {running.server.host}, which this process listens on, "
            "and no key is left: keep one, or start anew (also for `insecure = true`)"
        )
        raise ConfigError([problem])


def _changed(old: Settings, new: Settings) -> Iterator[str]:
    for section, name in FIXED:
        before, after = (getattr(getattr(one, section), name) for one in (old, new))
        if before != after:
            yield str(Place((section, name)))
