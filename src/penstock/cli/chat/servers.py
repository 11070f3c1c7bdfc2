"""The MCP servers of a chat, which ``--mcp`` names.

A value is a file with an object ``mcpServers``, as other clients store it, the URL of a server, or
a command line that starts one. The names of a server's tools begin with the name of the server.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from penstock import _json
from penstock.agent import AgentTool
from penstock.agent.tools.mcp import MCPServer
from penstock.agent.tools.mcp_context import Elicitation, ElicitationAnswer
from penstock.agent.tools.validate import find_faults
from penstock.cli.chat.render import escape_text
from penstock.errors import JSONParseError, UsageError
from penstock.values import Schema

SEPARATOR: Final = "__"
"""What is between the name of a server and that of its tool."""

_UNNAMED: Final = "mcp"


class NamedServer(Struct, frozen=True):
    """The name of a server, and its entry in a settings file."""

    name: str
    entry: dict[str, Any]


def read_servers(values: Sequence[str], folder: Path) -> list[NamedServer]:
    """Read the values of ``--mcp``; raise `UsageError` for an invalid one, or a repeated name."""
    found: dict[str, NamedServer] = {}
    for value in values:
        for server in _read_value(value, folder):
            if server.name in found:
                raise UsageError(f"--mcp: there are two servers named {server.name!r}.")
            found[server.name] = server
    return list(found.values())


def _read_value(value: str, folder: Path) -> list[NamedServer]:
    if value.startswith(("http://", "https://")):
        return [NamedServer(_make_name(urlsplit(value).hostname or ""), {"url": value})]
    if value.endswith(".json") and " " not in value:
        return _read_file(Path(value))
    try:
        command, *args = shlex.split(value)
    except ValueError as exc:
        raise UsageError(f"--mcp {value!r} is not a file, a URL or a command line.") from exc
    entry = {"command": command, "args": args, "cwd": str(folder)}
    return [NamedServer(_make_name(Path(command).stem), entry)]


def _read_file(path: Path) -> list[NamedServer]:
    try:
        settings = _json.decode(path.read_bytes())
    except OSError as exc:
        raise UsageError(f"--mcp {path}: {exc.strerror or exc}") from exc
    except JSONParseError as exc:
        raise UsageError(f"--mcp {path} is not valid JSON: {exc}") from exc
    entries = settings.get("mcpServers") if isinstance(settings, Mapping) else None
    if not isinstance(entries, Mapping) or not all(
        isinstance(entry, dict) for entry in entries.values()
    ):
        raise UsageError(f'--mcp {path} must have an object "mcpServers" of servers.')
    return [
        NamedServer(_make_name(name), entry)
        for name, entry in entries.items()
        if not entry.get("disabled")
    ]


def _make_name(text: str) -> str:
    # Providers allow letters, digits, "_" and "-" in the name of a tool, which begins with this
    # one.
    return re.sub(r"[^A-Za-z0-9-]+", "_", text).strip("_") or _UNNAMED


@asynccontextmanager
async def connect_servers(
    servers: Sequence[NamedServer], questions: ServerQuestions | None = None
) -> AsyncIterator[list[AgentTool]]:
    """Connect the *servers*; yield the tools of all, which need approval.

    *questions* asks the user what servers ask; without it, they are refused.
    """
    async with AsyncExitStack() as stack:
        tools: list[AgentTool] = []
        if servers:
            # What a server prints would be drawn over the prompt.
            silence = open(os.devnull, "w")  # noqa: ASYNC230, PTH123, SIM115 - the stack closes it
            stack.callback(silence.close)
            for server in servers:
                connection = MCPServer(
                    server.entry,
                    prefix=f"{server.name}{SEPARATOR}",
                    stderr=silence,
                    elicit=questions and partial(_ask_for, questions, server.name),
                )
                tools += (await stack.enter_async_context(connection)).tools
        yield tools


async def _ask_for(questions: ServerQuestions, name: str, asked: Elicitation) -> ElicitationAnswer:
    """Ask the user for the server *name*."""
    return await questions(replace(asked, server=name))


# --- questions of servers to the user ---
#
# An empty input takes the default of a field, or skips it if it is optional. Ctrl-C declines. What
# a server writes is shown as text, and always with the name of the server.


class FormQuestion:
    """A question that waits for the user."""

    def __init__(self, asked: Elicitation) -> None:
        self.asked = asked
        self.answer: asyncio.Future[ElicitationAnswer] = asyncio.get_running_loop().create_future()
        properties = asked.schema.get("properties")
        self._fields: dict[str, Any] = dict(properties) if isinstance(properties, dict) else {}
        required = asked.schema.get("required")
        self._required = set(required) if isinstance(required, list) else set()
        self._values: dict[str, Any] = {}

    @property
    def title(self) -> str:
        """What the server asks for now."""
        server = escape_text(self.asked.server)
        if self.field:
            return f"{server} asks for {escape_text(self.field)}."
        if self.asked.url:
            return f"{server} asks you to open {escape_text(self.asked.url)}"
        return f"{server} asks whether you agree."

    @property
    def field(self) -> str:
        """The name of the field to fill in; empty if the user only agrees."""
        return next(iter(self._fields), "")

    @property
    def hint(self) -> str:
        """What can be entered."""
        if not self.field:
            return f"y {'if you opened it' if self.asked.url else 'agrees'}, n declines"
        schema = self._fields[self.field]
        parts = [_describe_value(schema)]
        if about := schema.get("description") or schema.get("title"):
            parts.insert(0, escape_text(str(about)))
        if "default" in schema:
            parts.append(f"Enter takes {_write_value(schema['default'])}")
        elif self.field not in self._required:
            parts.append("Enter skips it")
        return "; ".join([*(one for one in parts if one), "Ctrl-C declines"])

    def enter(self, text: str) -> None:
        """Take *text* for the current field; raise `UsageError` if it does not fit."""
        name = self.field
        if not name:
            if (word := text.strip().lower()) in ("y", "yes"):
                self._finish(True)
            elif word in ("n", "no"):
                self.decline()
            return
        schema = self._fields[name]
        if not text.strip() and "default" in schema:
            self._values[name] = schema["default"]
        elif text.strip():
            self._values[name] = _parse_input(name, text.strip(), schema)
        elif name in self._required:
            raise UsageError(f"{escape_text(name)} is required; Ctrl-C declines.")
        del self._fields[name]
        if not self._fields:
            self._finish(self._values)

    def decline(self) -> None:
        """End the question without an answer."""
        self._finish(None)

    def _finish(self, answer: ElicitationAnswer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class ServerQuestions:
    """Passes the questions of servers to the chat; without one, they are declined."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] | None = None
        """Called when a question was asked or has ended."""
        self._open: list[FormQuestion] = []

    @property
    def current(self) -> FormQuestion | None:
        """The question to ask now."""
        return self._open[0] if self._open else None

    async def __call__(self, asked: Elicitation) -> ElicitationAnswer:
        """Ask the user; return the answer, None if the user declined."""
        if self.on_change is None:
            return None
        question = FormQuestion(asked)
        self._open.append(question)
        self.on_change()
        try:
            return await question.answer
        finally:
            self._open.remove(question)
            self.on_change()

    def decline_all(self) -> None:
        """Decline what is open: the call that caused it has ended."""
        for question in self._open:
            question.decline()


def _choices(schema: dict[str, Any]) -> list[Any]:
    """Return the values that *schema* allows; none if it has no list."""
    if isinstance(values := schema.get("enum"), list):
        return values
    options = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(options, list):
        return [one["const"] for one in options if isinstance(one, dict) and "const" in one]
    return []


def _describe_value(schema: dict[str, Any]) -> str:
    if found := _choices(schema):
        return "one of " + ", ".join(_write_value(one) for one in found)
    match schema.get("type"):
        case "boolean":
            return "y or n"
        case "integer":
            return "an integer"
        case "number":
            return "a number"
        case "array":
            items = _choices(schema.get("items") or {})
            return "some of " + ", ".join(_write_value(one) for one in items)
    return ""


def _write_value(value: Any) -> str:
    return escape_text(value if isinstance(value, str) else _json.encode(value).decode())


def _parse_input(name: str, text: str, schema: dict[str, Any]) -> Any:
    """Return the value that *text* has for the field *name*; raise `UsageError` if it has none."""
    value: Any = text
    match schema.get("type"):
        case "boolean":
            value = {"y": True, "yes": True, "n": False, "no": False}.get(text.lower(), text)
        case "integer" | "number":
            try:
                value = _json.decode(text)
            except JSONParseError:
                value = text
        case "array":
            value = [one.strip() for one in text.split(",") if one.strip()]
    form = {"type": "object", "properties": {name: schema}}
    fault = next(find_faults({name: value}, Schema.of(form)), None)
    if fault is not None:
        raise UsageError(escape_text(fault))
    return value
