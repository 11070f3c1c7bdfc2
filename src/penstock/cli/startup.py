"""The start of ``penstock serve``: find an upstream, ask for its models, print the banner, run.

This needs the extra ``server``, so `serve` imports it after it has checked for the extra.
"""

from __future__ import annotations

import asyncio
import os
import sys
from logging import getLogger
from pathlib import Path
from typing import Any, Final

from penstock.cli.banner import Banner
from penstock.config import find_file, has_upstream, load, make_state_folder
from penstock.config.flags import CONFIG, UPSTREAM_URL
from penstock.config.settings import Settings
from penstock.errors import UsageError
from penstock.gateway import process
from penstock.gateway.discovery import FoundServer, UpstreamStatus, check_upstream, find_servers
from penstock.gateway.request_lines import configure_log

_NEED_UPSTREAM: Final = frozenset({"model", "map"})
"""The flags that are invalid without an upstream."""

_LOG: Final = getLogger("penstock.gateway")


def serve(flags: dict[str, Any]) -> None:
    """Serve with *flags* until a signal ends the process.

    Raises `UsageError` for an invalid configuration, and if several servers were found.
    """
    is_worker = process.is_worker()
    found = None if is_worker else discover(flags)
    settings = load_settings(flags)
    make_state_folder(settings, os.environ)
    status = UpstreamStatus() if is_worker else _check(settings)
    configure_log(settings.server, os.environ)
    process.block_signals()
    from penstock.gateway.server import run  # noqa: PLC0415 - slow; signals are blocked by now

    # Workers and reloads use the same file, and fail if it disappears.
    if path := _find_file(flags):
        os.environ[CONFIG.variable] = str(path)
    run(
        settings,
        lambda: load_settings(flags),
        lambda port: announce(Banner(settings, port, status, found)),
        status.models,
    )


def load_settings(flags: dict[str, Any]) -> Settings:
    """Load the settings from the file, the environment and *flags*."""
    return load(_find_file(flags), os.environ, **flags)


def _find_file(flags: dict[str, Any]) -> Path | None:
    named = flags.get("config")
    return Path(named) if named else find_file(os.environ, Path.cwd())


def discover(flags: dict[str, Any]) -> list[FoundServer] | None:
    """Look for servers on this machine if no upstream is configured, and use the only one.

    Return those that were found, or None without a search. Raises `UsageError` if there are
    several.
    """
    path = _find_file(flags)
    if has_upstream(path, os.environ, flags):
        return None
    # These flags need an upstream, which may be found here.
    others = {name: value for name, value in flags.items() if name not in _NEED_UPSTREAM}
    environ = {
        name: value
        for name, value in os.environ.items()
        if name.removeprefix("PENSTOCK_").lower() not in _NEED_UPSTREAM
    }
    if not load(path, environ, **others).server.discover:
        return None
    found = asyncio.run(find_servers())
    if len(found) > 1:
        listed = "\n".join(f"  {one.description}\n    {one.command}" for one in found)
        raise UsageError(
            f"{len(found)} servers run on this machine. Choose one of them:\n{listed}\n"
            "or the scripted demo model:\n    penstock serve --api demo"
        )
    for one in found:
        os.environ[UPSTREAM_URL.variable] = one.url  # for workers and reloads too
    return found


def _check(settings: Settings) -> UpstreamStatus:
    upstream = settings.upstreams.get(settings.default_upstream)
    return UpstreamStatus() if upstream is None else asyncio.run(check_upstream(upstream))


def announce(banner: Banner) -> None:
    """Print the banner; a single line if the log is quiet or JSON."""
    server = banner.settings.server
    if server.log_format == "json":
        _LOG.info("penstock serves %s", banner.url)
    elif not server.log_requests:
        sys.stderr.write(f"penstock serves {banner.url}\n")
    else:
        sys.stderr.write(banner.text())
    sys.stderr.flush()
