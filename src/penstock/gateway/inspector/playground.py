"""Parse a text that was pasted, in any format, and check the guarantees of the parser on it.

The text is parsed as in a stream, in chunks of any size. `compare_formats` parses it in every
format. The formats come with samples for the page's menus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Final, Literal

from msgspec import Struct, field, structs

from penstock import _json, formats
from penstock.builder import MessageBuilder
from penstock.config.routes import ModelOptions
from penstock.errors import JSONParseError, PenstockError, UsageError
from penstock.events import (
    ENDS,
    Event,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from penstock.formats import Format
from penstock.formats.reasoning import NONE, STYLES
from penstock.gateway.inspector import analysis
from penstock.gateway.inspector.client_view import encode_stream
from penstock.gateway.inspector.recording import Upstream, make_response
from penstock.gateway.inspector.remarks import (
    explain_unread,
    explains,
    make_remarks,
    remarks_for_complaints,
    remarks_for_unread,
)
from penstock.gateway.inspector.truncate import Truncation
from penstock.gateway.replay import fold_events, read_text
from penstock.gateway.response import ApiEndpointFormat
from penstock.messages import ToolCall
from penstock.tools import Tool, read_tools

MAX_PASTED: Final = 300_000
"""How many characters may be pasted: the slowest text takes a second or two to parse."""

MAX_TOOLS: Final = 256
"""How many tools a text may be parsed with: some formats look for a tag of each of them."""

MAX_CHUNKS: Final = 200_000
"""Into how many chunks a text is split at most."""

MAX_COMPARED: Final = 50_000
"""How many characters are parsed in every format."""

MAX_SHOWN_TEXT: Final = 2_000
"""How many characters of its text each format shows: sixty of them are in one table."""

_CHAT: Final = "openai-chat"


class PlaygroundRequest(Struct, frozen=True):
    """A text, and how to parse it: *chunk* characters at a time, or all at once if that is 0."""

    text: str
    format: str = "auto"
    tools: Any = None
    arguments: Literal["whole", "live"] = "live"
    reasoning: str | None = None
    repair: bool = False
    trim: bool = False
    fenced: Literal["text", "calls"] = "text"
    reasoning_only: Literal["reasoning", "text"] = "reasoning"
    stray_reasoning: Literal["text", "split"] = "text"
    chunk: int = 0

    def options(self, format_: str = "") -> ModelOptions:
        """Return the options for the parser; *format_* replaces the format."""
        return ModelOptions(
            format=format_ or self.format,
            arguments=self.arguments,
            reasoning=self.reasoning,
            repair=self.repair,
            trim=self.trim,
            fenced=self.fenced,
            reasoning_only=self.reasoning_only,
            stray_reasoning=self.stray_reasoning,
        )

    def read_tools(self) -> list[Tool]:
        """Return the tools, also if they are JSON text; raise `UsageError` for invalid ones."""
        given = self.tools
        if isinstance(given, str) and given:
            try:
                given = _json.decode(given)
            except JSONParseError as exc:
                raise UsageError(f"the tools are not valid JSON: {exc}") from exc
        if isinstance(given, list) and len(given) > MAX_TOOLS:
            raise UsageError(f"{len(given):,} tools were given; at most {MAX_TOOLS:,} are allowed")
        return read_tools(given or [])


def split_chunks(text: str, chunk: int) -> Iterator[str]:
    """Split *text* into chunks of *chunk* characters, or more where there would be too many."""
    step = max(chunk or len(text), -(-len(text) // MAX_CHUNKS), 1)
    for at in range(0, len(text), step):
        yield text[at : at + step]


def parse(data: bytes, max_depth: int) -> dict[str, Any]:
    """Return the analysis of the text in the body *data*, and which guarantees hold.

    Raises `UsageError` or `Refusal` for an invalid request.
    """
    request = analysis.read_body(data, PlaygroundRequest, max_depth)
    _check_length(request.text, MAX_PASTED)
    options, tools = request.options(), request.read_tools()
    pieces = [*split_chunks(request.text, max(0, request.chunk))]
    reading = read_text(pieces, options, tools)
    events = make_response(reading, "playground")
    reread = analysis.make_rereader(options.format, tools, repair=options.repair)
    shown = analysis.make_reading(events, Upstream([*enumerate(pieces)]), reread)
    unread = explain_unread(
        shown.message, events, shown.attribution, options, tools, reading.reasons
    )
    reasons = [] if explains(unread) else reading.reasons
    remarks = [
        *make_remarks(events, shown.attribution.spans),
        *remarks_for_unread(unread, with_advice=True),
        *remarks_for_complaints(reasons, reading.complaints, request.text),
    ]
    dialect = ApiEndpointFormat(_CHAT, "chatcmpl-playground", "playground", 0, {})
    truncation = Truncation()
    return {
        **analysis.show_reading(shown, remarks, truncation),
        "client": analysis.show_client(encode_stream(dialect, _CHAT, events), truncation),
        "laws": check_laws(
            request.text,
            reading.events,
            reading.rest,
            lambda chunk: read_text(split_chunks(request.text, chunk), options, tools).events,
        ),
        "complaints": reading.reasons,
        "unread": unread,
        "truncated": truncation.cut,
    }


def compare_formats(data: bytes, max_depth: int) -> dict[str, Any]:
    """Return what each format reads in the text of the body *data*, and which is detected."""
    request = analysis.read_body(data, PlaygroundRequest, max_depth)
    _check_length(request.text, MAX_COMPARED)
    request = PlaygroundRequest(request.text, tools=request.tools, arguments="whole")
    tools = request.read_tools()
    found = formats.detect(request.text, tools)
    return {
        "detected": None if found is None else found.name,
        "formats": [_read_as(request, name, tools) for name in formats.names()],
    }


def _read_as(request: PlaygroundRequest, format_: str, tools: Sequence[Tool]) -> dict[str, Any]:
    try:
        reading = read_text([request.text], request.options(format_), tools)
        message = fold_events(reading.events)
    except PenstockError as exc:
        return {"format": format_, "calls": [], "text": "", "complaints": [str(exc)]}
    return {
        "format": format_,
        "calls": message.tool_calls,
        "text": message.text[:MAX_SHOWN_TEXT],
        "thinking": message.thinking[:MAX_SHOWN_TEXT],
        "complaints": reading.reasons,
    }


def _check_length(text: str, limit: int) -> None:
    if len(text) > limit:
        raise UsageError(f"the text has {len(text):,} characters; at most {limit:,} are allowed")


# --- samples ---

TOOLS: Final[list[dict[str, Any]]] = [
    {
        "name": "write_file",
        "description": "Writes a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    },
    {
        "name": "get_weather",
        "description": "Returns the weather forecast for a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
]
"""The tools that the samples call."""

_CALLS: Final = (
    ToolCall("", "get_weather", {"city": "Leith", "days": 3}),
    ToolCall("", "write_file", {"path": "tides.md", "content": "# Leith\nhigh water: 14:20"}),
)
_WORDS: Final = "I will look it up."


@cache
def describe_formats() -> list[dict[str, Any]]:
    """Return the name, the family, the models and a sample of every format."""
    return [
        {
            "name": found.name,
            "family": type(found.calls if isinstance(found, Format) else found).__name__,
            "models": list(found.models) if isinstance(found, Format) else [],
            "sample": make_sample(found),
        }
        for found in map(formats.get, formats.names())
    ]


def make_sample(found: formats.AnyFormat) -> str:
    """Return a response with a call in a format; without the call if the format has none.

    In some formats a call must be all of the response.
    """
    tools = read_tools(TOOLS)
    for call in _CALLS:
        try:
            rendered = found.render_call(call)
        except UsageError:
            continue
        text = f"{_WORDS}\n\n{rendered}"
        return text if found.parse(text, tools).tool_calls else rendered
    return _WORDS


def reasoning_styles() -> list[str]:
    """Return the names of the ways in which models mark their reasoning."""
    return [NONE, *STYLES]


# --- the guarantees of the parser ---
#
# * lossless: the `raw` fields of the events, joined, are the text.
# * chunk-free: the events do not depend on how the text is cut, once adjacent deltas are merged.
# * monotone: no event takes back an earlier one: the events fold into a message, and the deltas
#   of a call join to its arguments.

MAX_CHECKED: Final = 20_000
"""Up to how many characters a text is parsed one character at a time."""

ReadInChunks = Callable[[int], list[Event]]
"""Parses the text in chunks of so many characters; 0 is all of it at once."""


class Laws(Struct):
    """Which guarantees hold; None where the text is too long to check."""

    lossless: bool = True
    chunk_free: bool | None = None
    monotone: bool = True
    notes: list[str] = field(default_factory=list)


def check_laws(text: str, events: list[Event], rest: str, read: ReadInChunks) -> Laws:
    """Check *text*, in which *events* were read and a *rest* was not; *read* parses it again."""
    laws = Laws(lossless="".join(event.raw for event in events) + rest == text)
    if not laws.lossless:
        laws.notes.append("lossless: the raw text of the events is not the text")
    for words in _find_retractions(events):
        laws.monotone = False
        laws.notes.append(f"monotone: {words}")
    if len(text) > MAX_CHECKED:
        laws.notes.append(f"chunk-free: checked up to {MAX_CHECKED:,} characters only")
        return laws
    merged = _merge(events)
    others = {"as a whole": 0, "one character at a time": 1}
    differ = [name for name, chunk in others.items() if _merge(read(chunk)) != merged]
    laws.chunk_free = not differ
    laws.notes += [f"chunk-free: parsed {name}, the events differ" for name in differ]
    return laws


def _find_retractions(events: Iterable[Event]) -> Iterator[str]:
    """Yield where a sequence breaks the contract of events, or contradicts itself."""
    builder = MessageBuilder()
    arguments: dict[int, list[str]] = {}
    for event in events:
        try:
            builder.add(event)
        except UsageError as exc:
            yield str(exc)
            return
        if isinstance(event, ToolCallDelta):
            arguments.setdefault(event.index, []).append(event.arguments)
        elif isinstance(event, ToolCallEnd) and event.call.complete:
            joined = "".join(arguments.pop(event.index, []))
            try:
                is_same = _json.decode(joined) == event.call.arguments
            except JSONParseError:
                is_same = False
            if not is_same:
                yield f"the deltas of `{event.call.name}` do not join to its arguments"


_SPOKEN: Final[dict[type[Event], Callable[[Any], str]]] = {
    TextDelta: lambda event: str(event.text),
    ThinkingDelta: lambda event: str(event.text),
    ToolCallDelta: lambda event: str(event.arguments),
}


def _merge(events: Iterable[Event]) -> list[Any]:
    """Return what of *events* must not depend on the chunks."""
    found: list[Any] = []
    for (kind, index), run in groupby(events, lambda event: (type(event), _block_index(event))):
        if kind not in _SPOKEN:
            found += [structs.replace(event, raw="") for event in run]
        elif text := "".join(map(_SPOKEN[kind], run)):
            found.append((kind, index, text))
    return found


def _block_index(event: Event) -> int:
    """Return the index of the block that *event* belongs to, if it belongs to one."""
    return -1 if isinstance(event, (MessageStart, *ENDS)) else event.index
