"""The command ``penstock chat``: an agent in the terminal.

Here the flags are read and the agent is made, from `models`, `servers`, `sessions` and `approval`.
`chat` decides what an input means, with `slash_commands` and `mentions`. `render` turns the agent's
events into lines, with `markdown`, and `terminal` shows them above a prompt, with `status` and
`completion`; `script` prints them without one. Without a server the command uses the scripted
model, which needs no network and no key.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import structs
from rich.console import Console

from penstock.cli import describe_install
from penstock.cli.output import argument, complete_values, option, refuse, say
from penstock.errors import PenstockError, UsageError

__all__ = ["command"]


if TYPE_CHECKING:
    from penstock.agent import AgentTool
    from penstock.cli.chat.approval import ApprovalPolicy
    from penstock.cli.chat.chat import TerminalChat
    from penstock.cli.chat.models import ModelChoice
    from penstock.cli.chat.servers import NamedServer, ServerQuestions
    from penstock.models.base import Model

FAILED: Final = 1
"""The exit code if the response to a prompt failed."""

RULES: Final = ".penstock/rules"
"""The default folder of rules, below the folder of the chat."""

SCRIPTED: Final = (
    "This is the scripted demo model, not a language model. "
    "Pass --upstream URL to chat with a model."
)
"""The warning about the model without a server."""

SYSTEM: Final = """\
You are an agent in a terminal. You work in the folder {folder} with the tools that you are given.
Read a file before you change it, and change no more than you were asked to.
Keep your responses short: they are read in a terminal, and so is every call that you make.\
"""
"""The system prompt."""


INPUT_SECONDS: Final = 3.0
"""How long the first byte of a pipe is waited for."""

MAX_INPUT: Final = 50_000_000
"""How many bytes of stdin are read: more than a model can read."""


def command(  # noqa: PLR0913 - each is an option of the command
    prompt: Annotated[str, argument("The first prompt; - reads it from stdin.", shown=False)] = "",
    *,
    upstream: Annotated[
        str, option("The server of the model.", shown="the scripted demo model", metavar="URL")
    ] = "",
    api: Annotated[str, option("The API of the server.", shown="by its URL")] = "",
    model: Annotated[
        str, option("The name of the model.", shown="the first one that the server lists")
    ] = "",
    key_env: Annotated[
        str, option("The environment variable with the API key.", shown="the provider's usual one")
    ] = "",
    format_: Annotated[
        str,
        option(
            "How calls are parsed: auto, native, or a format's name.",
            "--format",
            autocompletion=complete_values("format"),
        ),
    ] = "auto",
    system: Annotated[
        str,
        option(
            "The system prompt; @FILE reads it from a file.",
            shown="a short one for work in a folder",
            metavar="TEXT",
        ),
    ] = "",
    effort: Annotated[
        str,
        option(
            "How much the model reasons: none, minimal, low, medium, high, xhigh or max.",
            shown="the model's own",
        ),
    ] = "",
    no_agents_md: Annotated[
        bool, option("Do not read the AGENTS.md files of the project.", "--no-agents-md")
    ] = False,
    mcp: Annotated[
        list[str] | None,
        option(
            "An MCP server: a .json file with mcpServers, a URL, or a command line."
            " Can be repeated.",
            shown="none",
            metavar="SERVER",
        ),
    ] = None,
    pace: Annotated[
        float | None,
        option("Seconds between tokens of the scripted model.", shown="0.02", min=0, max=60),
    ] = None,
    folder: Annotated[Path, option("The folder that the agent works in.")] = Path(),
    session: Annotated[
        Path | None,
        option(
            "Continue or begin the session in FILE.",
            shown="a new file in the folder for sessions",
            metavar="FILE",
        ),
    ] = None,
    resume: Annotated[bool, option("Continue the last session of the folder.", "--resume")] = False,
    no_session: Annotated[bool, option("Do not record the conversation.", "--no-session")] = False,
    sessions: Annotated[
        Path | None,
        option(
            "The folder for sessions.", shown="$XDG_STATE_HOME/penstock/sessions", metavar="DIR"
        ),
    ] = None,
    rules: Annotated[
        Path | None, option("The folder of rules.", shown=f"{RULES} in the folder", metavar="DIR")
    ] = None,
    approve: Annotated[
        str, option("What runs without approval: ask (only reading), edits, or all.")
    ] = "ask",
    eager: Annotated[
        bool, option("Start tools before the response is complete.", "--eager")
    ] = False,
    no_color: Annotated[bool, option("Do not use colours.", "--no-color")] = False,
    print_: Annotated[
        bool, option("Print the response to one prompt, and exit.", "--print", "-p")
    ] = False,
    json: Annotated[
        bool, option("With --print: print the result as one JSON object.", "--json")
    ] = False,
) -> None:
    """Chat with an agent that works in a folder."""
    # Imports of the agent are in functions: the other commands of penstock start without them.
    from penstock.cli.chat.approval import parse_policy  # noqa: PLC0415
    from penstock.cli.chat.models import ModelChoice  # noqa: PLC0415
    from penstock.cli.chat.servers import read_servers  # noqa: PLC0415
    from penstock.cli.chat.sessions import default_folder  # noqa: PLC0415

    # In a pipe the scripted model does not pause between tokens.
    interactive = not print_ and has_terminal()
    try:
        if json and interactive:
            raise UsageError("--json needs --print: there is no JSON of an interactive chat.")
        choice = ModelChoice(upstream, api, model, key_env, format_, pace if interactive else 0)
        folder = check_folder(folder)
        options = ChatOptions(
            choice=structs.replace(choice, effort=effort),
            folder=folder,
            system=read_system(system),
            agents_md=not no_agents_md,
            servers=read_servers(mcp or [], folder),
            policy=parse_policy(approve),
            prompt=read_prompt(prompt, interactive=interactive),
            piped=read_input() if not interactive and prompt not in ("", "-") else b"",
            session=session,
            sessions=None if no_session else sessions or default_folder(),
            resume=resume,
            rules=rules,
            eager=eager,
            colours=not no_color and not os.environ.get("NO_COLOR"),
            interactive=interactive,
            json=json,
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
    system: str
    agents_md: bool
    servers: list[NamedServer]
    policy: ApprovalPolicy
    prompt: str
    piped: bytes
    session: Path | None
    sessions: Path | None
    resume: bool
    rules: Path | None
    eager: bool
    colours: bool
    interactive: bool
    json: bool


def has_terminal() -> bool:
    """Return whether stdin and stdout are a terminal that can move its cursor."""
    # The terminal is driven through termios, which Windows does not have.
    if sys.platform == "win32" or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return sys.stdin.isatty() and sys.stdout.isatty()


def check_folder(folder: Path) -> Path:
    """Return the absolute path of *folder*; raise `UsageError` if it is not a directory."""
    if not folder.is_dir():
        raise UsageError(f"--folder {folder} is not a directory.")
    return folder.resolve()


def read_system(text: str) -> str:
    """Return the system prompt, read from a file if it begins with ``@``; raise `UsageError`."""
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except (OSError, ValueError) as exc:
        raise UsageError(f"--system {text}: the file cannot be read: {exc}") from exc


def read_prompt(prompt: str, *, interactive: bool) -> str:
    """Return the first prompt, read from stdin if it is ``-`` or stdin is a pipe.

    Raises `UsageError` if there is neither a prompt nor a terminal to type one.
    """
    if prompt == "-" or not (interactive or prompt or sys.stdin.isatty()):
        prompt = sys.stdin.read()
    if not interactive and not prompt.strip():
        raise UsageError("There is no terminal: pass the prompt as an argument or on stdin.")
    return prompt.strip()


def read_input() -> bytes:
    """Return what stdin has beside a prompt: data of a pipe or a file."""
    try:
        number = sys.stdin.fileno()
        mode = os.fstat(number).st_mode
    except (AttributeError, OSError, ValueError):  # it is closed
        return b""
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        return b""
    # A script may have inherited a pipe that nothing is written to. Windows cannot wait for one.
    if sys.platform != "win32" and not select.select([number], [], [], INPUT_SECONDS)[0]:
        say(Console(stderr=True), "! stdin is a pipe without data, which is ignored", "yellow")
        return b""
    return sys.stdin.buffer.read(MAX_INPUT)


async def run_chat(options: ChatOptions) -> bool:
    """Run the chat; return whether it succeeded."""
    from penstock.cli.chat.models import choose_name, is_scripted, make_model  # noqa: PLC0415
    from penstock.cli.chat.servers import ServerQuestions, connect_servers  # noqa: PLC0415

    model = make_model(options.choice, os.environ)
    choice = await choose_name(options.choice, model)
    if choice != options.choice:
        await model.close()
        model = make_model(choice, os.environ)
    warnings = [SCRIPTED] if is_scripted(choice, os.environ) else []
    questions = ServerQuestions() if options.interactive else None
    async with connect_servers(options.servers, questions) as tools:
        return await _converse(replace(options, choice=choice), model, tools, warnings, questions)


async def _converse(
    options: ChatOptions,
    model: Model,
    tools: list[AgentTool],
    warnings: list[str],
    questions: ServerQuestions | None,
) -> bool:
    """Chat with *model*, which has *tools* besides those of the folder."""
    from penstock.agent import Agent, Compaction  # noqa: PLC0415
    from penstock.agent.rules import RuleGuard, load_rules  # noqa: PLC0415
    from penstock.cli.chat.approval import Approver, describe_interrupted  # noqa: PLC0415
    from penstock.cli.chat.mentions import add_input, read_mentions  # noqa: PLC0415
    from penstock.cli.chat.models import writes_patches  # noqa: PLC0415
    from penstock.cli.chat.script import print_response  # noqa: PLC0415
    from penstock.cli.chat.sessions import ChatSessions  # noqa: PLC0415
    from penstock.workspace import workspace_tools  # noqa: PLC0415
    from penstock.workspace.edit_guard import EditGuard  # noqa: PLC0415
    from penstock.workspace.instructions import read_instructions  # noqa: PLC0415

    system = options.system or SYSTEM.format(folder=options.folder.name or options.folder)
    instructions = read_instructions(options.folder) if options.agents_md else None
    if instructions is not None and instructions.text:
        system = f"{system}\n\n{instructions.text}"
    approver = Approver(options.policy)
    rules = load_rules(options.rules or options.folder / RULES, warnings.append)
    agent = Agent(
        model,
        [*workspace_tools(options.folder, apply_patch=writes_patches(model.name)), *tools],
        system,
        approve=approver,
        guards=[RuleGuard(rules, folder=options.folder), EditGuard(options.folder)],
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
            prompt = read_mentions(options.prompt, options.folder)
            add_input(prompt, options.piped)
            warnings += [
                f"{describe_interrupted(call)}; it is not run again" for call in agent.interrupted
            ]
            warnings += [
                f"{call.name} was not approved before the last chat ended; it is not run"
                for call in agent.deferred
            ]
            for warning in (*warnings, *prompt.warnings):
                say(Console(stderr=True), f"! {warning}", "yellow")
            return await print_response(sessions, prompt.message, as_json=options.json)
        chat = _import_chat()(
            sessions, approver, options.choice, questions, colours=options.colours
        )
        name = agent.model.name or "unnamed model"
        chat.lines.write(f"penstock chat: {name} in {options.folder}", "bold")
        for path in instructions.files if instructions is not None else ():
            chat.lines.note(f"with the instructions of {path}", "dim")
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
        raise UsageError(f"prompt_toolkit is not installed: {describe_install('cli')}") from exc
    return TerminalChat
