"""The commands, put together."""

from __future__ import annotations

import typer

from penstock.cli import formats, parse, repair

app = typer.Typer(
    name="penstock",
    help="Tool calls from any model, streamed correctly, to any client.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("parse")(parse.command)
app.command("formats")(formats.command)
app.command("repair")(repair.command)
