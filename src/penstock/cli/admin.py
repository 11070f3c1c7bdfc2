"""``penstock config``, ``penstock key`` and ``penstock db``: set a gateway up.

Also the upstream that the flags of ``doctor`` and ``chat`` describe.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penstock.cli.output import USAGE, argument, option, refuse, say
from penstock.config import (
    ConfigError,
    Settings,
    UpstreamSettings,
    describe,
    find_file,
    find_warnings,
    hash_key,
    load,
    make_state_folder,
    new_key,
)
from penstock.config.errors import render_key
from penstock.config.flags import UPSTREAM_KEY
from penstock.config.types import ENTRY_NAME

config_app = typer.Typer(
    help="Check and show the configuration of the gateway.",
    no_args_is_help=True,
    add_completion=False,
)
key_app = typer.Typer(
    help="Create keys for the clients of the gateway.", no_args_is_help=True, add_completion=False
)
db_app = typer.Typer(
    help="Maintain the database of the gateway.", no_args_is_help=True, add_completion=False
)

File = Annotated[
    Path | None,
    argument(
        "Configuration file.",
        shown="the one in PENSTOCK_CONFIG, else ./penstock.toml",
        metavar="[FILE]",
    ),
]
StoreUrl = Annotated[
    str | None,
    option("Database: a URL, or a SQLite file.", "--store", shown="the one in the configuration"),
]


@config_app.command()
def check(file: File = None) -> None:
    """Check the configuration: print all problems (exit code 2) and warnings."""
    settings, source = _load(file)
    warnings = find_warnings(settings, os.environ)
    err = Console(stderr=True)
    for warning in warnings:
        say(err, f"warning: {warning}", "yellow")
    count = f", {len(warnings)} warning{'s' if len(warnings) > 1 else ''}" if warnings else ""
    say(Console(), f"{source}: valid{count}", "green")


@config_app.command()
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


# A Typer app with one command and no callback is that command: `penstock key` would be `new`.
@key_app.callback()
@db_app.callback()
def _group() -> None:
    pass


@key_app.command()
def new(
    name: Annotated[str, argument("Name of the key in penstock.toml and in the log.")] = "default",
) -> None:
    """Create a key: it is printed to stdout once, and its entry for penstock.toml to stderr."""
    try:
        ENTRY_NAME.parse(name)
    except ValueError as exc:
        refuse(f"invalid key name: {exc}", exc)
    key = new_key()
    # Alone on stdout, so that a script can store it: `KEY=$(penstock key new)`.
    typer.echo(key)
    err = Console(stderr=True)
    say(err, "The key is shown only once. Add this to penstock.toml:", "dim")
    say(err, f"[{render_key('keys', name)}]", "cyan")
    say(err, f'hash = "{hash_key(key)}"', "cyan")


@db_app.command()
def upgrade(store: StoreUrl = None) -> None:
    """Create the tables, or upgrade them to this version."""
    # These need the extra `server`, without which this command is not registered.
    from penstock.cli.logs import store_errors  # noqa: PLC0415
    from penstock.store import upgrade as upgrade_store  # noqa: PLC0415

    with store_errors(store) as url:
        if not store:
            make_state_folder(load(find_file(os.environ, Path()), os.environ), os.environ)
        upgrade_store(url)
    say(Console(), "the database is up to date", "green")


def load_upstream(flags: Mapping[str, str], environ: Mapping[str, str]) -> UpstreamSettings:
    """Return the upstream that *flags* describe, read as ``penstock serve`` reads them.

    Of the variables ``PENSTOCK_*`` only the one with the key is used: the others configure a
    gateway. Raises `UsageError` for an invalid flag.
    """
    known = {
        variable: value
        for variable, value in environ.items()
        if not variable.startswith("PENSTOCK_") or variable == UPSTREAM_KEY
    }
    settings = load(None, known, **{flag: value or None for flag, value in flags.items()})
    return settings.upstreams[settings.default_upstream]
