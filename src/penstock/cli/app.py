"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import chat, config, formats, key, parse, repair, serve
from penstock.gateway.openapi import own_version

app = typer.Typer(
    name="penstock",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - so typer calls it
    if wanted:
        typer.echo(f"penstock {own_version()}")
        raise typer.Exit


@app.callback()
def _main(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Say the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Tool calls from any model, streamed correctly, to any client."""


@app.command(
    "serve",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def _serve(context: typer.Context) -> None:
    """Serve models to clients of OpenAI Chat, OpenAI Responses and Anthropic Messages."""
    serve.command(context.args)


app.command("chat")(chat.command)
app.command("parse")(parse.command)
app.command("formats")(formats.command)
app.command("repair")(repair.command)
app.add_typer(config.app, name="config")
app.add_typer(key.app, name="key")
try:
    from penstock.cli import db, doctor, inspect, logs, replay
except ModuleNotFoundError as exc:  # They read a database, for which the extra `server` is there.
    if exc.name is None or exc.name.startswith("penstock"):
        raise
else:
    app.command("doctor")(doctor.command)
    app.add_typer(logs.app, name="logs")
    app.command("replay")(replay.command)
    app.command("inspect")(inspect.command)
    app.add_typer(db.app, name="db")
