"""``penstock config``: check the configuration, or show it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penstock.cli.output import USAGE, say
from penstock.gateway.config import (
    ConfigError,
    Settings,
    describe,
    find_file,
    find_warnings,
    load,
)

app = typer.Typer(help="Check and show the configuration of the gateway.", no_args_is_help=True)

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]",
        help="Configuration file (default: the one in PENSTOCK_CONFIG, else ./penstock.toml).",
    ),
]


@app.command()
def check(file: File = None) -> None:
    """Check the configuration: print all problems (exit code 2) and warnings."""
    settings, source = _load(file)
    warnings = find_warnings(settings, os.environ)
    err = Console(stderr=True)
    for warning in warnings:
        say(err, f"warning: {warning}", "yellow")
    count = f", {len(warnings)} warning{'s' if len(warnings) > 1 else ''}" if warnings else ""
    say(Console(), f"{source}: valid{count}", "green")


@app.command()
def show(file: File = None) -> None:
    """Print the settings from the file, the environment and the defaults, with secrets hidden."""
    settings, source = _load(file)
    out = Console()
    say(out, f"# {source}, with the environment and the defaults", "dim")
    for line in describe(settings).splitlines():
        say(out, line, "bold" if line.startswith("[") else "")


def _load(file: Path | None) -> tuple[Settings, str]:
    """Return the settings and the name of their file; exit with 2 if they have problems."""
    path = file or find_file(os.environ, Path())
    source = str(path) if path else "no configuration file"
    try:
        return load(path, os.environ), source
    except ConfigError as exc:
        err = Console(stderr=True)
        for problem in exc.problems:
            say(err, f"penstock: {problem}", "red")
        count = len(exc.problems)
        say(err, f"{source}: {count} problem{'s' if count > 1 else ''}", "bold red")
        raise typer.Exit(USAGE) from exc
