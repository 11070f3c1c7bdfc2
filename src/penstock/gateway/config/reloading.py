"""What a running gateway can take over from a changed file, and what waits for its next start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.gateway.config.problems import Place
from penstock.gateway.config.settings import Settings, StoreSettings

FIXED: Final = (
    *(
        ("server", name)
        for name in (
            *("host", "port", "workers", "tls_cert", "tls_key"),
            *("keepalive_seconds", "header_seconds"),
        )
    ),
    ("limits", "header_bytes"),
    *(("store", name) for name in StoreSettings.__struct_fields__),
)
"""The settings that belong to sockets, processes and the database, which live on."""


def needs_restart(old: Settings, new: Settings) -> list[str]:
    """Name the settings that differ and that only a new start brings in."""
    return [*_changed(old, new)]


def _changed(old: Settings, new: Settings) -> Iterator[str]:
    for section, name in FIXED:
        before, after = (getattr(getattr(one, section), name) for one in (old, new))
        if before != after:
            yield str(Place((section, name)))
