"""The slash commands: what is said to the chat, and not to the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import Struct, structs

from penstock.agent.session import SessionInfo, to_html, to_markdown
from penstock.cli.chat.assembly import rule_watch
from penstock.cli.chat.keeping import Keeper
from penstock.cli.chat.models import Choice, listed
from penstock.cli.chat.page import Page
from penstock.cli.chat.telling import Teller
from penstock.errors import UsageError
from penstock.models.base import Model

MAX_LISTED: Final = 15
"""How many sessions or models a list shows."""


class Desk(Protocol):
    """What the commands work on: the chat."""

    page: Page
    teller: Teller
    keeper: Keeper
    choice: Choice

    def change_model(self, choice: Choice) -> Model:
        """Let another model answer; raise `UsageError` if there is none such."""

    def recall(self) -> None:
        """Show how far the conversation is."""

    def clear(self) -> None:
        """Empty the screen."""

    def leave(self) -> None:
        """End the chat."""


class Command(Struct, frozen=True):
    """One command: what stands behind it, what it does, and how."""

    argument: str
    words: str
    run: Callable[[Desk, str], Awaitable[None]]
    while_busy: bool = False
    is_long: bool = False


def is_long(line: str) -> bool:
    """Tell whether what *line* says takes its time, and may be stopped."""
    command = COMMANDS.get(line.removeprefix("/").partition(" ")[0])
    return command is not None and command.is_long


async def obey(desk: Desk, line: str, *, busy: bool) -> None:
    """Do what *line* says; raise `UsageError` where that cannot be done."""
    name, _, argument = line.removeprefix("/").partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise UsageError(f"there is no /{name}; /help lists what there is")
    if busy and not command.while_busy:
        raise UsageError(f"/{name} has to wait until the answer is there; Ctrl-C stops it")
    await command.run(desk, argument.strip())


async def _help(desk: Desk, _: str) -> None:
    for name, command in COMMANDS.items():
        called = f"/{name} {command.argument}".rstrip()
        desk.page.note(f"{called:<18} {command.words}", lead="  ")
    desk.page.note("While it works: Enter steers, a + before it waits until the end.", "dim", "  ")
    desk.page.note("Ctrl-C asks what instead, twice stops; Ctrl-D leaves.", "dim", "  ")
    desk.page.note("Alt-Enter, or \\ before Enter, begins a new line.", "dim", "  ")


async def _model(desk: Desk, name: str) -> None:
    if name:
        desk.change_model(structs.replace(desk.choice, model=name))
        desk.page.note(f"the model is {name}", "dim", "  ")
        return
    model = desk.keeper.agent.model
    for each in (await listed(model))[:MAX_LISTED]:
        mark = "●" if each == model.name else " "
        desk.page.note(f"{mark} {each}", lead="  ")


async def _format(desk: Desk, name: str) -> None:
    if name:
        desk.change_model(structs.replace(desk.choice, format=name))
    desk.page.note(f"the format is {desk.choice.format}", "dim", "  ")


async def _sessions(desk: Desk, chosen: str) -> None:
    infos = (await desk.keeper.listed())[:MAX_LISTED]
    if not infos:
        desk.page.note("no sessions are kept", "dim", "  ")
        return
    if not chosen:
        here = desk.keeper.session.path
        for number, info in enumerate(infos, 1):
            desk.page.note(_described(number, info, here=info.path == here), lead="  ")
        desk.page.note("/sessions NUMBER goes on with one", "dim", "  ")
        return
    if not chosen.isdecimal() or not 1 <= int(chosen) <= len(infos):
        raise UsageError(f"a session is a number from 1 to {len(infos)}")
    path = infos[int(chosen) - 1].path
    if path is not None and path != desk.keeper.session.path:
        await desk.keeper.open(path)
    desk.recall()


def _described(number: int, info: SessionInfo, *, here: bool) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.updated))
    mark = "●" if here else " "
    about = info.title or info.prompt or "(nothing said)"
    return f"{mark} {number:>2}  {when}  {info.messages:>4} messages  {about[:60]}"


async def _fork(desk: Desk, _: str) -> None:
    before = desk.keeper.session.id
    await desk.keeper.fork()
    desk.page.note(f"a copy of {before}; that one stays as it is", "dim", "  ")


async def _tools(desk: Desk, _: str) -> None:
    for tool in desk.keeper.agent.tools:
        about = tool.tool.description.split("\n")[0]
        asks = " (asks)" if tool.asks else ""
        desk.page.note(f"{tool.name:<12} {about}{asks}", lead="  ")


async def _rules(desk: Desk, _: str) -> None:
    watch = rule_watch(desk.keeper.agent)
    if not watch.rules:
        desk.page.note("there are no rules; --rules names a folder of them", "dim", "  ")
    for rule in watch.rules:
        spoken = " (has spoken)" if rule.name in watch.spoken else ""
        desk.page.note(f"{rule.name}{spoken}: {', '.join(rule.conditions)}", lead="  ")


async def _compact(desk: Desk, _: str) -> None:
    done = await desk.keeper.session.compact()
    told = "the conversation is summed up" if done else "nothing could be summed up"
    desk.page.note(told, "dim", "  ")


async def _usage(desk: Desk, _: str) -> None:
    usage = desk.keeper.session.usage
    parts: dict[str, Any] = {
        "in": usage.input,
        "out": usage.output,
        "from the cache": usage.cache_read,
        "reasoning": usage.reasoning,
    }
    told = ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    context = len(desk.keeper.agent.messages)
    desk.page.note(f"{told or 'no'} tokens; messages in the context: {context}", lead="  ")


async def _export(desk: Desk, file: str) -> None:
    if not file:
        raise UsageError("/export needs the name of a file: .md, or .html")
    path = Path(desk.keeper.cwd, file)
    write = to_html if path.suffix in (".html", ".htm") else to_markdown
    session = desk.keeper.session
    text = write(session.header, session.tree, leaf=session.leaf)
    try:
        await asyncio.to_thread(path.write_text, text, encoding="utf-8")
    except OSError as exc:
        raise UsageError(f"{path}: {exc.strerror or exc}") from exc
    desk.page.note(f"wrote {path}", "dim", "  ")


async def _thoughts(desk: Desk, _: str) -> None:
    thoughts = desk.teller.thoughts
    desk.page.note(thoughts[-1] if thoughts else "no thoughts so far", "dim italic", "┆ ")


async def _clear(desk: Desk, _: str) -> None:
    await desk.keeper.begin()
    desk.clear()


async def _quit(desk: Desk, _: str) -> None:
    desk.leave()


COMMANDS: Final = {
    "help": Command("", "says what there is", _help, while_busy=True),
    "model": Command("[NAME]", "asks another model, or lists them", _model, is_long=True),
    "format": Command("[NAME]", "how calls are read: auto, native, hermes …", _format),
    "sessions": Command("[NUMBER]", "lists conversations, or goes on with one", _sessions),
    "fork": Command("", "goes on in a copy of this conversation", _fork),
    "tools": Command("", "lists what the model can call", _tools, while_busy=True),
    "rules": Command("", "lists the rules that watch it", _rules, while_busy=True),
    "thoughts": Command("", "shows the last thought whole", _thoughts, while_busy=True),
    "compact": Command("", "has the conversation summed up", _compact, is_long=True),
    "usage": Command("", "counts the tokens", _usage, while_busy=True),
    "export": Command("FILE", "writes the conversation as .md or .html", _export),
    "clear": Command("", "begins a new conversation", _clear),
    "quit": Command("", "leaves", _quit, while_busy=True),
}
"""Every command, in the order in which help shows them."""
