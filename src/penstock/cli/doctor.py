"""``penstock doctor``: what a server can do, found out by asking it, and how to set it up."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Final

import typer
from msgspec import structs
from rich.console import Console

from penstock.cli.log_table import show_json
from penstock.cli.output import refuse, say
from penstock.errors import UsageError
from penstock.gateway.config import UpstreamSettings, load
from penstock.gateway.config.flags import UPSTREAM_KEY
from penstock.gateway.doctor.diagnose import PROBE_SECONDS, Diagnosis, diagnose
from penstock.gateway.doctor.probes import ProbeFinding

UNANSWERED: Final = 1
"""The exit code where the server could not be asked."""

_STYLES: Final = {"yes": "green", "no": "red", "partly": "yellow", "unknown": "dim"}
_MARKS: Final = {"unknown": "?"}
_TITLES: Final = {
    "reach": "is it there",
    "models": "models",
    "stream": "streams",
    "end": "ends properly",
    "usage": "reports usage",
    "tools": "native tool calls",
    "format": "calls as text",
    "reasoning": "thoughts apart",
    "json_schema": "JSON schema",
    "grammar": "grammar",
    "structural_tag": "structural tags",
}


@contextmanager
def _quiet() -> Iterator[None]:
    """Say nothing of what an API has no word for: that is among the findings."""
    log = logging.getLogger("penstock.models")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def command(  # noqa: PLR0913 - each is an option of the command
    *,
    upstream: Annotated[str, typer.Option(metavar="URL", help="The server to ask.")],
    api: Annotated[str, typer.Option(help="What it speaks; left out, it is tried.")] = "",
    model: Annotated[str, typer.Option(help="The model to ask; left out, one that it lists.")] = "",
    key_env: Annotated[str, typer.Option(help="The variable that holds its key.")] = "",
    proxy: Annotated[str, typer.Option(metavar="URL", help="The proxy before it.")] = "",
    ca: Annotated[str, typer.Option(metavar="FILE", help="The authorities to trust.")] = "",
    seconds: Annotated[
        float,
        typer.Option(min=0.1, max=3600, help="How long to wait for a word; twice that for all."),
    ] = PROBE_SECONDS,
    name: Annotated[str, typer.Option(help="What to call the upstream in the settings.")] = "mine",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for machines.")] = False,
) -> None:
    """Ask a server what it can do, and print the settings that fit it (exit code 1: no answer)."""
    flags = {"upstream": upstream, "api": api, "model": model, "key_env": key_env}
    out = Console()

    def tell(finding: ProbeFinding) -> None:
        if not as_json:
            show_finding(out, finding)

    try:
        settings = upstream_of({**flags, "proxy": proxy, "ca": ca}, os.environ)
        with _quiet():
            found = asyncio.run(diagnose(settings, api=api, seconds=seconds, tell=tell))
    except UsageError as exc:
        refuse(str(exc), exc)
    if as_json:
        show_json(out, [{**structs.asdict(found), "toml": found.toml(name)}])
    elif found.answered:
        _show_advice(out, found, name)
    if not found.answered:
        raise typer.Exit(UNANSWERED)


def upstream_of(flags: Mapping[str, str], environ: Mapping[str, str]) -> UpstreamSettings:
    """Read the flags as those of ``penstock serve`` are; raise `UsageError` for a wrong one.

    Of penstock's own variables only the one with the key counts: the rest is about a gateway.
    """
    known = {
        variable: value
        for variable, value in environ.items()
        if not variable.startswith("PENSTOCK_") or variable == UPSTREAM_KEY
    }
    settings = load(None, known, **{flag: value or None for flag, value in flags.items()})
    return settings.upstreams[settings.default_upstream]


def show_finding(out: Console, finding: ProbeFinding) -> None:
    """Print one finding."""
    mark = _MARKS.get(finding.verdict, finding.verdict)
    title = _TITLES.get(finding.probe, finding.probe)
    say(out, f"{title:<18} {mark:<7} {finding.words}", _STYLES[finding.verdict])


def _show_advice(out: Console, found: Diagnosis, name: str) -> None:
    say(out, "")
    say(out, "# what penstock.toml should say of it", "dim")
    for line in found.toml(name).splitlines():
        say(out, line, "bold")
