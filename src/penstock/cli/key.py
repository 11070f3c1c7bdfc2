"""``penstock key``: keys for the clients of the gateway."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from penstock.cli.output import refuse, say
from penstock.gateway.config.errors import render_key
from penstock.gateway.config.secrets import hash_key, new_key
from penstock.gateway.config.types import ENTRY_NAME

app = typer.Typer(help="Keys for the clients of the gateway.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keep ``new`` a command of its own, although it is the only one."""


@app.command()
def new(
    name: Annotated[
        str, typer.Argument(help="What the key is called in penstock.toml and in the log.")
    ] = "default",
) -> None:
    """Make a key: it goes to stdout, once; what penstock.toml keeps of it goes to stderr."""
    try:
        ENTRY_NAME.parse(name)
    except ValueError as exc:
        refuse(f"{name!r} cannot be the name of a key: {exc}", exc)
    key = new_key()
    typer.echo(key)
    told = Console(stderr=True)
    say(told, "The key is shown this once. For penstock.toml:", "dim")
    say(told, f"[{render_key('keys', name)}]", "cyan")
    say(told, f'hash = "{hash_key(key)}"', "cyan")
