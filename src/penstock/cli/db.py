"""``penstock db``: the gateway's database, brought up to date by hand."""

from __future__ import annotations

import typer
from rich.console import Console

from penstock.cli.logs import Url, using
from penstock.cli.output import say
from penstock.store import upgrade as upgrade_store

app = typer.Typer(help="Look after the gateway's database.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Look after the gateway's database."""


@app.command()
def upgrade(store: Url = None) -> None:
    """Make the tables, or bring them up to date; done twice, it changes nothing."""
    with using(store) as address:
        upgrade_store(address)
    say(Console(), "the database is up to date", "green")
