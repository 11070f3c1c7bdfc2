"""``penstock chat``: an agent in the terminal, to try it all.

Without a server it talks to the scripted model, which needs no network and no key.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli.output import refuse
from penstock.errors import PenstockError

FAILED: Final = 1
"""The exit code of a prompt whose answer failed."""


def command(  # noqa: PLR0913 - each is an option of the command
    prompt: Annotated[str, typer.Argument(help="What to begin with; - reads stdin.")] = "",
    *,
    upstream: Annotated[str, typer.Option(metavar="URL", help="The server that answers.")] = "",
    api: Annotated[str, typer.Option(help="What it speaks; left out, the URL tells.")] = "",
    model: Annotated[str, typer.Option(help="The model to ask it for.")] = "",
    key_env: Annotated[str, typer.Option(help="The variable that holds its key.")] = "",
    format_: Annotated[
        str,
        typer.Option("--format", help="How calls are read: auto, native, or a format's name."),
    ] = "auto",
    pace: Annotated[
        float | None, typer.Option(min=0, max=60, help="Seconds between tokens of the demo.")
    ] = None,
    folder: Annotated[Path, typer.Option(help="The folder to work in.")] = Path(),
    session: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The session to go on with or to begin.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the last session about the folder.")
    ] = False,
    no_session: Annotated[
        bool, typer.Option("--no-session", help="Keep nothing of what is said.")
    ] = False,
    sessions: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where sessions are kept.")
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Rules that watch; else .penstock/rules.")
    ] = None,
    approve: Annotated[
        str, typer.Option(help="What runs without a question: ask (nothing), edits, or all.")
    ] = "ask",
    eager: Annotated[
        bool, typer.Option("--eager", help="Start tools while the answer still comes.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Use no colours.")] = False,
    print_: Annotated[
        bool, typer.Option("--print", "-p", help="Answer one prompt, without a terminal.")
    ] = False,
) -> None:
    """Talk to an agent that works in a folder; without a server, to the scripted model."""
    from penstock.cli.chat import talking  # noqa: PLC0415 - other commands start without an agent

    plain = print_ or not talking.has_terminal()
    try:
        options = talking.Options(
            choice=talking.Choice(upstream, api, model, key_env, format_, 0.0 if plain else pace),
            folder=talking.read_folder(folder),
            policy=talking.read_policy(approve),
            prompt=talking.read_prompt(prompt, plain=plain),
            session=session,
            sessions=None if no_session else sessions or talking.usual_folder(),
            resume=resume,
            rules=rules,
            eager=eager,
            colours=not no_color and not os.environ.get("NO_COLOR"),
            plain=plain,
        )
        well = asyncio.run(talking.talk(options))
    except PenstockError as exc:
        refuse(str(exc), exc)
    if not well:
        raise typer.Exit(FAILED)
