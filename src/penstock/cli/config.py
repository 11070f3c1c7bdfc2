"""``penstock config``: is the configuration right, and what does it come to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from penstock.cli.output import USAGE, say
from penstock.gateway.config import ConfigError, Settings, find_file, load
from penstock.gateway.config import check as warnings_of

app = typer.Typer(help="Check and show the configuration of the gateway.", no_args_is_help=True)

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]",
        help="The file; without it the one in PENSTOCK_CONFIG, else penstock.toml if it is here.",
    ),
]


@app.command()
def check(file: File = None) -> None:
    """Tell every problem of the configuration, and what may not be meant."""
    settings, source = _load(file)
    warnings = warnings_of(settings, os.environ)
    err = Console(stderr=True)
    for warning in warnings:
        say(err, f"warning: {warning}", "yellow")
    counted = f", {len(warnings)} warning{'s' if len(warnings) > 1 else ''}" if warnings else ""
    say(Console(), f"{source}: good{counted}", "green")


@app.command()
def show(file: File = None) -> None:
    """Print the settings as they count: file, variables and defaults, every secret hidden."""
    settings, source = _load(file)
    out = Console()
    say(out, f"# {source}, with the environment and the defaults", "dim")
    for line in settings.describe().splitlines():
        say(out, line, "bold" if line.startswith("[") else "")


def _load(file: Path | None) -> tuple[Settings, str]:
    """Return the settings and where they are from; end the command where they have problems."""
    path = file or find_file(os.environ, Path())
    source = str(path) if path else "without a file"
    try:
        return load(path, os.environ), source
    except ConfigError as exc:
        _tell(source, exc)


def _tell(source: str, error: ConfigError) -> NoReturn:
    err = Console(stderr=True)
    for problem in error.problems:
        say(err, f"penstock: {problem}", "red")
    count = len(error.problems)
    say(err, f"{source}: {count} problem{'s' if count > 1 else ''}", "bold red")
    raise typer.Exit(USAGE) from error
