"""The slash commands: input for the chat itself, not for the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from penstock.agent.rules import RuleGuard
from penstock.agent.session import SessionInfo
from penstock.cli.chat.models import list_names
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.cli.chat.chat import TerminalChat

MAX_LISTED: Final = 15
"""The sessions or models that a list shows."""


class SlashCommand(Struct, frozen=True):
    """A command: its argument, its help text and its function."""

    argument: str
    help: str
    run: Callable[[TerminalChat, str], Awaitable[None]]
    while_busy: bool = False
    can_stop: bool = False
    """Whether Ctrl-C cancels it: it waits for a server."""


def find_command(line: str) -> SlashCommand | None:
    """Return the command that *line* begins with."""
    return COMMANDS.get(line.removeprefix("/").partition(" ")[0])


async def run_command(chat: TerminalChat, line: str, *, busy: bool) -> None:
    """Run the command in *line*; raise `UsageError` if that is not possible."""
    name, _, argument = line.removeprefix("/").partition(" ")
    command = find_command(line)
    if command is None:
        raise UsageError(f"Unknown command /{name}: /help lists the commands.")
    if busy and not command.while_busy:
        raise UsageError(f"/{name} cannot be used during a response: wait, or stop it with Ctrl-C.")
    await command.run(chat, argument.strip())


async def _help(chat: TerminalChat, _: str) -> None:
    for name, command in COMMANDS.items():
        usage = f"/{name} {command.argument}".rstrip()
        chat.lines.note(f"{usage:<18} {command.help}", lead="  ")
    for line in (
        "During a response: Enter sends a message at once, + before it sends it at the end.",
        "Ctrl-C pauses the response, twice stops it; Ctrl-D quits.",
        "Alt-Enter, or \\ before Enter, starts a new line; Tab completes commands and files.",
        "@FILE in a prompt sends the file, or the image, with it.",
    ):
        chat.lines.note(line, "dim", "  ")


async def _model(chat: TerminalChat, name: str) -> None:
    if name:
        chat.change_model(structs.replace(chat.choice, model=name))
        chat.lines.note(f"the model is {name}", "dim", "  ")
        return
    # This waits for the server, up to `LIST_SECONDS`; Ctrl-C cancels it.
    model = chat.sessions.agent.model
    for each in (await list_names(model))[:MAX_LISTED]:
        mark = "●" if each == model.name else " "
        chat.lines.note(f"{mark} {each}", lead="  ")


async def _format(chat: TerminalChat, name: str) -> None:
    if name:
        chat.change_model(structs.replace(chat.choice, format=name))
    chat.lines.note(f"the format is {chat.choice.format}", "dim", "  ")


async def _effort(chat: TerminalChat, level: str) -> None:
    if level:
        chat.change_model(structs.replace(chat.choice, effort=level))
    chat.lines.note(f"the effort is {chat.choice.effort or 'the default'}", "dim", "  ")


async def _sessions(chat: TerminalChat, chosen: str) -> None:
    infos = (await chat.sessions.list())[:MAX_LISTED]
    if not infos:
        chat.lines.note("there are no recorded sessions", "dim", "  ")
        return
    current = chat.sessions.current.path
    if not chosen:
        for number, info in enumerate(infos, 1):
            mark = "●" if info.path == current else " "
            chat.lines.note(f"{mark} {number:>2}  {_describe_session(info)}", lead="  ")
        chat.lines.note("/sessions NUMBER continues one of them", "dim", "  ")
        return
    if not chosen.isdecimal() or not 1 <= int(chosen) <= len(infos):
        raise UsageError(f"No session {chosen}: expected a number from 1 to {len(infos)}.")
    path = infos[int(chosen) - 1].path
    if path is not None and path != current:
        await chat.sessions.open(path)
    chat.show_history()


def _describe_session(info: SessionInfo) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.updated))
    title = info.title or info.prompt or "(no prompt)"
    return f"{when}  {info.messages:>4} messages  {title[:60]}"


async def _fork(chat: TerminalChat, _: str) -> None:
    before = chat.sessions.current.id
    await chat.sessions.fork()
    chat.lines.note(f"this is a copy of {before}, which stays unchanged", "dim", "  ")


async def _tools(chat: TerminalChat, _: str) -> None:
    for tool in chat.sessions.agent.tools:
        summary = tool.tool.description.split("\n")[0]
        approval = " (needs approval)" if tool.needs_approval else ""
        chat.lines.note(f"{tool.name:<12} {summary}{approval}", lead="  ")


async def _rules(chat: TerminalChat, _: str) -> None:
    guards = [guard for guard in chat.sessions.agent.guards if isinstance(guard, RuleGuard)]
    if not any(guard.rules for guard in guards):
        chat.lines.note("there are no rules; --rules names a folder with rules", "dim", "  ")
    for guard in guards:
        for rule in guard.rules:
            used = " (has been applied)" if rule.name in guard.fired_rules else ""
            chat.lines.note(f"{rule.name}{used}: {', '.join(rule.conditions)}", lead="  ")


async def _compact(chat: TerminalChat, _: str) -> None:
    done = await chat.sessions.current.compact()
    result = "the conversation is summarized" if done else "there is nothing to summarize yet"
    chat.lines.note(result, "dim", "  ")


async def _usage(chat: TerminalChat, _: str) -> None:
    usage = chat.sessions.current.usage
    counts = {
        "input": usage.input,
        "output": usage.output,
        "cached": usage.cache_read,
        "reasoning": usage.reasoning,
    }
    tokens = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    messages = len(chat.sessions.agent.messages)
    chat.lines.note(f"{tokens or 'no'} tokens; messages in the context: {messages}", lead="  ")


async def _export(chat: TerminalChat, file: str) -> None:
    if not file:
        raise UsageError("/export needs a file name that ends in .md or .html.")
    # Relative to the folder of the chat, like the paths that the model uses.
    path = Path(chat.sessions.cwd, file)
    session = chat.sessions.current
    is_html = path.suffix in (".html", ".htm")
    text = session.to_html() if is_html else session.to_markdown()
    try:
        await asyncio.to_thread(path.write_text, text, encoding="utf-8")
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror or exc}") from exc
    chat.lines.note(f"wrote {path}", "dim", "  ")


async def _reasoning(chat: TerminalChat, _: str) -> None:
    reasoning = chat.renderer.reasoning
    chat.lines.note(reasoning[-1] if reasoning else "no reasoning so far", "dim italic", "┆ ")


async def _clear(chat: TerminalChat, _: str) -> None:
    await chat.sessions.begin()
    chat.clear_screen()


async def _quit(chat: TerminalChat, _: str) -> None:
    chat.quit()


COMMANDS: Final = {
    "help": SlashCommand("", "list the commands", _help, while_busy=True),
    "model": SlashCommand("[NAME]", "use another model, or list the models", _model, can_stop=True),
    "format": SlashCommand("[NAME]", "how calls are parsed: auto, native, hermes …", _format),
    "effort": SlashCommand("[LEVEL]", "how much the model reasons: low, medium, high …", _effort),
    "sessions": SlashCommand("[NUMBER]", "list the sessions, or continue one", _sessions),
    "fork": SlashCommand("", "continue in a copy of this session", _fork),
    "tools": SlashCommand("", "list the tools of the model", _tools, while_busy=True),
    "rules": SlashCommand("", "list the rules", _rules, while_busy=True),
    "reasoning": SlashCommand("", "show the last reasoning in full", _reasoning, while_busy=True),
    "compact": SlashCommand("", "summarize the conversation", _compact, can_stop=True),
    "usage": SlashCommand("", "count the tokens", _usage, while_busy=True),
    "export": SlashCommand("FILE", "write the conversation to a .md or .html file", _export),
    "clear": SlashCommand("", "begin a new session", _clear),
    "quit": SlashCommand("", "end the chat", _quit, while_busy=True),
}
"""All commands, in the order of /help."""
