"""What the scripted model takes out of a request: the user's words, the tools, the last result.

Tools may stand in the request, or as text in its system prompt, as any format shows them. A result
may be one, or the user's turn behind an answer that called a tool. So the script is the same with a
middleware in front of it and without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from json import JSONDecoder
from typing import Any, Final

from msgspec import Struct, field

from penstock.apis.history import text_of
from penstock.errors import UsageError
from penstock.formats import FormatLike, get
from penstock.messages import AssistantMessage, ToolCall, ToolResult
from penstock.models.middleware.choice import MUST_CALL
from penstock.request import Request, UserMessage
from penstock.tools import Tool

MAX_LOOKS: Final = 1000
"""How many brackets of a system prompt are tried: a script need not find every tool of a hostile
one."""

_DECODER: Final = JSONDecoder()
_JSON: Final = re.compile(r"[\[{]")
_LISTED: Final = re.compile(r"^## (\S+)\nDescription: (.*)\n", re.MULTILINE)
_PARAMETER: Final = re.compile(
    r"^- (\S+): \((required|optional)\) (\w+)(?: - (.*))?$", re.MULTILINE
)
_PLACE: Final = "\ue000"
"""A letter that no result has: it shows where the text of one stands."""


class Heard(Struct, frozen=True):
    """What a request is about: *words* of the user, *tools* that may be called, *results*.

    *must_call* tells whether a tool is to be called whatever the words are.
    """

    words: str = ""
    tools: list[Tool] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)
    must_call: bool = False


def hear(request: Request, format: FormatLike) -> Heard:  # noqa: A002
    """Take out of *request* what the script needs; *format* is what the model writes."""
    tools = list(request.tools) or shown_tools(request.system)
    choice = request.tool_choice
    mode = choice.mode if choice is not None else "auto"
    results = _results(request) or _told_results(request, tools, format)
    if mode == "none":
        tools = []
    elif mode == "tool" and choice is not None:
        tools = [tool for tool in tools if tool.name == choice.name]
    forced = mode in ("required", "tool") or MUST_CALL in request.system
    return Heard(_words(request), tools, results, must_call=forced)


def _words(request: Request) -> str:
    said = (m.text for m in reversed(request.messages) if isinstance(m, UserMessage))
    return next(said, "")


# --- tools in a prompt ---


def shown_tools(system: str) -> list[Tool]:
    """Find the tools that a system prompt shows: as JSON in any frame, or as a list in words.

    Where a call is shown too, as an example, it comes behind the tool of its name.
    """
    found: dict[str, Tool] = {}
    for value in _json_values(system):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict) and ("parameters" in each or "function" in each):
                with suppress(UsageError):
                    tool = Tool.read(each)
                    found.setdefault(tool.name, tool)
    return list(found.values()) or _listed_tools(system)


def _json_values(text: str) -> Iterator[object]:
    """Give every JSON object and array that stands in *text*, the outermost of each."""
    at = 0
    for _ in range(MAX_LOOKS):
        start = _JSON.search(text, at)
        if start is None:
            return
        try:
            value, at = _DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            at = start.end()
        else:
            yield value


def _listed_tools(shown: str) -> list[Tool]:
    _, *cells = _LISTED.split(shown)  # a name, a description, what follows; and the next
    names, descriptions, rests = cells[::3], cells[1::3], cells[2::3]
    return [
        Tool(name, description, _listed_schema(rest))
        for name, description, rest in zip(names, descriptions, rests, strict=True)
    ]


def _listed_schema(text: str) -> dict[str, Any]:
    found = _PARAMETER.findall(text.partition("\nUsage:")[0])
    return {
        "type": "object",
        "properties": {name: {"type": kind, "description": why} for name, _, kind, why in found},
        "required": [name for name, needed, _, _ in found if needed == "required"],
    }


# --- results ---


def _results(request: Request) -> list[tuple[str, str]]:
    """Give the results that stand at the end of the conversation."""
    found: list[tuple[str, str]] = []
    for message in reversed(request.messages):
        if not isinstance(message, ToolResult):
            break
        found.insert(0, (message.name or _called(request, message.id), text_of(message.content)))
    return found


def _called(request: Request, call_id: str) -> str:
    answers = (m for m in request.messages if isinstance(m, AssistantMessage))
    calls = (call for answer in answers for call in answer.tool_calls)
    return next((call.name for call in calls if call.id == call_id), "the tool")


def _told_results(
    request: Request,
    tools: list[Tool],
    format: FormatLike,  # noqa: A002
) -> list[tuple[str, str]]:
    """Take the user's last turn for results, if the answer before it called a tool."""
    match request.messages:
        case [*_, AssistantMessage() as answer, UserMessage() as told]:
            calls = _calls_in(answer.text, tools, format)
        case _:
            return []
    if not calls:
        return []
    found = []
    rest = told.text
    for call in calls:
        text, rest = _cut_out(call, rest, format)
        found.append((call.name, text))
    return found


def _calls_in(text: str, tools: list[Tool], format: FormatLike) -> list[ToolCall]:  # noqa: A002
    for name in (format, "auto"):
        calls = get(name).parse(text, tools).tool_calls
        if calls:
            return calls
    return []


def _cut_out(call: ToolCall, text: str, format: FormatLike) -> tuple[str, str]:  # noqa: A002
    """Take the text of the result of *call* out of *text*; give it, and what follows it."""
    # Whoever told the result may have known the call by another id, or by none.
    probes = [ToolResult(id_, call.name, _PLACE) for id_ in (call.id, "")]
    formats = (get(format), get("hermes"))
    frames = [fmt.render_result(probe).partition(_PLACE) for fmt in formats for probe in probes]
    # Of two that are there the longer one says more about where the text begins.
    for before, _, after in sorted(frames, key=lambda frame: -len(frame[0])):
        start = text.find(before)
        if before and start != -1:
            return _inside(text, start + len(before), after)
    return text.partition(":\n")[2] or text, ""


def _inside(text: str, at: int, after: str) -> tuple[str, str]:
    """Give the text from *at* to *after*, or what the JSON string says that begins there."""
    if text[at - 1] == '"':
        with suppress(ValueError):
            value, end = _DECODER.raw_decode(text, at - 1)
            return str(value), text[end:]
    if not after:
        return text[at:], ""
    inside, _, rest = text[at:].partition(after)
    return inside, rest
