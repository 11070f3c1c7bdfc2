"""The command ``penstock chat``: an agent in the terminal.

Without a server it uses the scripted model, which needs no network and no key.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from penstock.cli.output import refuse, say
from penstock.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.cli.chat.approval import ApprovalPolicy
    from penstock.cli.chat.chat import TerminalChat
    from penstock.cli.chat.models import ModelChoice

FAILED: Final = 1
"""The exit code if the response to a prompt failed."""

RULES: Final = ".penstock/rules"
"""The default folder of rules, below the folder of the chat."""

SYSTEM: Final = """\
You are an agent in a terminal. You work in the folder {folder} with the tools that you are given.
Read a file before you change it, and change no more than you were asked to.
Keep your responses short: they are read in a terminal, and so is every call that you make.\
"""
"""The system prompt."""


def command(  # noqa: PLR0913 - each is an option of the command
    prompt: Annotated[
        str, typer.Argument(help="The first prompt; - reads it from stdin.", show_default=False)
    ] = "",
    *,
    upstream: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The server of the model. Default: the scripted model.",
            show_default=False,
        ),
    ] = "",
    api: Annotated[
        str, typer.Option(help="The API of the server. Default: by its URL.", show_default=False)
    ] = "",
    model: Annotated[
        str,
        typer.Option(
            help="The name of the model. Default: the first one listed.", show_default=False
        ),
    ] = "",
    key_env: Annotated[
        str, typer.Option(help="The environment variable with the API key.", show_default=False)
    ] = "",
    format_: Annotated[
        str,
        typer.Option("--format", help="How calls are parsed: auto, native, or a format's name."),
    ] = "auto",
    pace: Annotated[
        float | None,
        typer.Option(min=0, max=60, help="Seconds between tokens of the scripted model."),
    ] = None,
    folder: Annotated[Path, typer.Option(help="The folder that the agent works in.")] = Path(),
    session: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Continue or begin the session in FILE.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the last session of the folder.")
    ] = False,
    no_session: Annotated[
        bool, typer.Option("--no-session", help="Do not record the conversation.")
    ] = False,
    sessions: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder for sessions. Default: $XDG_STATE_HOME/penstock/sessions.",
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help=f"The folder of rules. Default: {RULES} in the folder."),
    ] = None,
    approve: Annotated[
        str, typer.Option(help="What runs without approval: ask (only reading), edits, or all.")
    ] = "ask",
    eager: Annotated[
        bool, typer.Option("--eager", help="Start tools before the response is complete.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Do not use colours.")] = False,
    print_: Annotated[
        bool, typer.Option("--print", "-p", help="Print the response to one prompt, and exit.")
    ] = False,
) -> None:
    """Chat with an agent that works in a folder; by default with the scripted model."""
    # Imports of the agent are in functions: the other commands of penstock start without them.
    from penstock.cli.chat.approval import parse_policy  # noqa: PLC0415
    from penstock.cli.chat.models import ModelChoice  # noqa: PLC0415
    from penstock.cli.chat.sessions import default_folder  # noqa: PLC0415

    interactive = not print_ and has_terminal()
    try:
        options = ChatOptions(
            choice=ModelChoice(upstream, api, model, key_env, format_, pace if interactive else 0),
            folder=check_folder(folder),
            policy=parse_policy(approve),
            prompt=read_prompt(prompt, interactive=interactive),
            session=session,
            sessions=None if no_session else sessions or default_folder(),
            resume=resume,
            rules=rules,
            eager=eager,
            colours=not no_color and not os.environ.get("NO_COLOR"),
            interactive=interactive,
        )
        succeeded = asyncio.run(run_chat(options))
    except PenstockError as exc:
        refuse(str(exc), exc)
    if not succeeded:
        raise typer.Exit(FAILED)


@dataclass(frozen=True, kw_only=True)
class ChatOptions:
    """The options of the command, checked."""

    choice: ModelChoice
    folder: Path
    policy: ApprovalPolicy
    prompt: str
    session: Path | None
    sessions: Path | None
    resume: bool
    rules: Path | None
    eager: bool
    colours: bool
    interactive: bool


def has_terminal() -> bool:
    """Return whether stdin and stdout are a terminal that can move its cursor."""
    if sys.platform == "win32" or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return sys.stdin.isatty() and sys.stdout.isatty()


def check_folder(folder: Path) -> Path:
    """Return the absolute path of *folder*; raise `UsageError` if it is not a directory."""
    if not folder.is_dir():
        raise UsageError(f"--folder {folder} is not a directory.")
    return folder.resolve()


def read_prompt(prompt: str, *, interactive: bool) -> str:
    """Return the first prompt, read from stdin if it is ``-`` or stdin is a pipe.

    Raises `UsageError` if there is neither a prompt nor a terminal to type one.
    """
    if prompt == "-" or not (interactive or prompt or sys.stdin.isatty()):
        prompt = sys.stdin.read()
    if not interactive and not prompt.strip():
        raise UsageError("There is no terminal: pass the prompt as an argument or on stdin.")
    return prompt.strip()


async def run_chat(options: ChatOptions) -> bool:
    """Run the chat; return whether it succeeded."""
    from penstock.agent import Agent, Compaction  # noqa: PLC0415
    from penstock.agent.edit_guard import EditGuard  # noqa: PLC0415
    from penstock.agent.rules import RuleWatch, load_rules  # noqa: PLC0415
    from penstock.agent.workspace import workspace_tools  # noqa: PLC0415
    from penstock.cli.chat.approval import Approver, describe_interrupted  # noqa: PLC0415
    from penstock.cli.chat.models import choose_name, make_model  # noqa: PLC0415
    from penstock.cli.chat.render import print_response  # noqa: PLC0415
    from penstock.cli.chat.sessions import ChatSessions  # noqa: PLC0415

    model = make_model(options.choice, os.environ)
    choice = await choose_name(options.choice, model)
    if choice != options.choice:
        await model.close()
        model = make_model(choice, os.environ)
    warnings: list[str] = []
    approver = Approver(options.policy)
    rules = load_rules(options.rules or options.folder / RULES, warnings.append)
    agent = Agent(
        model,
        workspace_tools(options.folder),
        SYSTEM.format(folder=options.folder.name or options.folder),
        approve=approver,
        guards=[RuleWatch(rules, folder=options.folder), EditGuard(options.folder)],
        compaction=Compaction(),
        eager=options.eager,
    )
    sessions = ChatSessions(agent, options.sessions, options.folder)
    try:
        if options.session is not None:
            await sessions.open(options.session)
        elif options.resume:
            await sessions.resume()
        else:
            await sessions.begin()
        if not options.interactive:
            warnings += [
                f"{describe_interrupted(call)}; it is not run again" for call in agent.interrupted
            ]
            for warning in warnings:
                say(Console(stderr=True), f"! {warning}", "yellow")
            return await print_response(sessions, options.prompt)
        chat = _import_chat()(sessions, approver, choice, colours=options.colours)
        name = agent.model.name or "unnamed model"
        chat.lines.write(f"penstock chat: {name} in {options.folder}", "bold")
        for warning in warnings:
            chat.lines.warn(warning)
        if agent.messages:
            chat.show_history()
        await chat.run(options.prompt)
    finally:
        await sessions.close()
        await agent.model.close()
    return True


def _import_chat() -> type[TerminalChat]:
    try:
        from penstock.cli.chat.chat import TerminalChat  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        if exc.name != "prompt_toolkit":
            raise
        raise UsageError("prompt_toolkit is not installed: pip install 'penstock[cli]'") from exc
    return TerminalChat
