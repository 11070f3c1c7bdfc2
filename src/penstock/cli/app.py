"""The commands, put together."""

from __future__ import annotations

import typer

from penstock.cli import repair

app = typer.Typer(
    name="penstock",
    help="Tool calls from any model, streamed correctly, to any client.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("repair")(repair.command)


@app.callback()
def _root() -> None:
    """Keep `penstock NAME` the form of every command, even while there is only one."""
