"""The MCP servers of a chat, which ``--mcp`` names.

A value is a file with an object ``mcpServers``, as other clients store it, the URL of a server, or
a command line that starts one. The names of a server's tools begin with the name of the server.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
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
from penstock.cli.chat.forms import ServerQuestions
from penstock.errors import JSONParseError, UsageError

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
