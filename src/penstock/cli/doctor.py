"""``penstock doctor``: find out by requests what a server supports, and how to configure it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer
from msgspec import structs
from rich.console import Console

from penstock.cli.admin import load_upstream
from penstock.cli.output import complete_values, option, refuse, say, show_json
from penstock.errors import UsageError
from penstock.gateway.advice import LOCAL_SERVERS
from penstock.gateway.discovery import find_servers
from penstock.gateway.doctor import PROBE_SECONDS, Diagnosis, diagnose
from penstock.gateway.probes import ProbeFinding

NO_RESPONSE: Final = 1
"""The exit code if the server did not respond."""

_STYLES: Final = {"yes": "green", "no": "red", "partly": "yellow", "unknown": "dim"}
_MARKS: Final = {"unknown": "?"}
_TITLES: Final = {
    "reach": "reachable",
    "auth": "authentication",
    "models": "models",
    "stream": "streams",
    "end": "ends properly",
    "usage": "reports usage",
    "tools": "native tool calls",
    "format": "calls as text",
    "reasoning": "reasoning apart",
    "json_schema": "JSON schema",
    "grammar": "grammar",
    "structural_tag": "structural tags",
}


def command(  # noqa: PLR0913 - each is an option of the command
    *,
    upstream: Annotated[
        str, option("Server to examine.", shown="the one on this machine", metavar="URL")
    ] = "",
    api: Annotated[
        str,
        option(
            "API of the server.",
            shown="detected",
            metavar="NAME",
            autocompletion=complete_values("api"),
        ),
    ] = "",
    model: Annotated[
        str, option("Model to use.", shown="the first one listed", metavar="NAME")
    ] = "",
    key_env: Annotated[
        str,
        option(
            "Environment variable with the API key.",
            shown="the provider's usual one",
            metavar="VARIABLE",
        ),
    ] = "",
    proxy: Annotated[
        str, option("Proxy for the server.", shown="by HTTP_PROXY etc.", metavar="URL")
    ] = "",
    ca: Annotated[
        str, option("CA bundle to verify the server.", shown="the system's", metavar="FILE")
    ] = "",
    seconds: Annotated[
        float,
        option(
            "Seconds to wait for the next bytes; a whole response gets twice that.",
            min=0.1,
            max=3600,
        ),
    ] = PROBE_SECONDS,
    name: Annotated[str, option("Name of the upstream in the printed settings.")] = "mine",
    as_json: Annotated[bool, option("Print one JSON object.", "--json")] = False,
) -> None:
    """Find out what a server supports, and print the command to use it.

    The exit code is 1 if the server cannot be used.
    """
    out = Console()
    url = upstream or _discover()
    flags = {"upstream": url, "api": api, "model": model, "key_env": key_env}

    def show(finding: ProbeFinding) -> None:
        if not as_json:
            mark = _MARKS.get(finding.verdict, finding.verdict)
            title = _TITLES.get(finding.probe, finding.probe)
            say(out, f"{title:<18} {mark:<7} {finding.words}", _STYLES[finding.verdict])

    try:
        settings = load_upstream({**flags, "proxy": proxy, "ca": ca}, os.environ)
        with _quiet_log():
            found = asyncio.run(diagnose(settings, api=api, seconds=seconds, on_finding=show))
    except UsageError as exc:
        refuse(str(exc), exc)
    if as_json:
        extra = {"toml": found.toml(name), "command": found.command}
        show_json(out, [{**structs.asdict(found), **extra}])
    else:
        _show_advice(out, found, name)
    if not found.answered:
        raise typer.Exit(NO_RESPONSE)


def _discover() -> str:
    """Return the URL of the only server on this machine; exit with what to do otherwise."""
    found = asyncio.run(find_servers())
    if not found:
        ports = ", ".join(f"{one.name} ({one.port})" for one in LOCAL_SERVERS)
        refuse(f"no server was found on this machine: {ports}; pass its URL with --upstream")
    # A guess would send the user's prompts to one of them.
    if len(found) > 1:
        listed = ", ".join(f"{one.url} ({one.program.name})" for one in found)
        refuse(f"{len(found)} servers run on this machine; choose one with --upstream: {listed}")
    return found[0].url


def _show_advice(out: Console, found: Diagnosis, name: str) -> None:
    """Print the settings of the upstream *name* and the command to run next."""
    title = "# try this next"
    if found.answered:
        say(out, "")
        say(out, "# settings for penstock.toml", "dim")
        for line in found.toml(name).splitlines():
            say(out, line, "bold")
        title = "# run this next"
        if "--config" in found.command:
            title = "# save the settings as penstock.toml, then run this"
    if found.command:
        say(out, "")
        say(out, title, "dim")
        say(out, found.command, "bold")


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Suppress warnings about fields that an API does not have: probes report those."""
    log = logging.getLogger("penstock.models")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
