"""The handler of one response: text, chunks or events in, segments and invocations out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, assert_never

from msgspec import structs

from penstock import _json
from penstock.errors import UsageError
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.formats.base import Format
from penstock.formats.combined import mixed
from penstock.formats.json_calls import json_tool
from penstock.formats.sentinel import SENTINEL
from penstock.formats.tool_tag import FILE_TAGS, TOOL_TAG, registered_tool
from penstock.messages import ToolCall, Usage
from penstock.parsing import BrokenCall, Engine, OnError, Reasoning
from penstock.parsing.call_shape import find_name
from penstock.readers.signed_json import CallSignature, find_profile
from penstock.tools import Tool, read_tools
from penstock.values.incremental import IncrementalJSON
from penstock.values.schema import Schema
from penstock.views.segments.events import (
    INCOMPLETE,
    REASONING,
    RUN_BASH,
    TOOL_CALL,
    CallPiece,
    Chunk,
    SegmentEvent,
)
from penstock.views.segments.invocations import BUILT_IN, Adapter, ToolInvocation
from penstock.views.segments.text import ParsedText, PlainText, SegmentTextReader
from penstock.views.segments.writer import ContentSegment, SegmentWriter

NATIVE: Final = "api_tool_call"
"""The strategy for native calls: text is not parsed."""

# The detector of each strategy that parses text.
_DETECTORS: Final = {"xml": "xml_tag", "json": "json_tool", "sentinel": "sentinel"}

STRATEGIES: Final = tuple(sorted([NATIVE, *_DETECTORS]))
"""The names of all strategies."""

# The second name is that of the project whose vocabulary this view speaks (AutoByteus).
VARIABLES: Final = ("PENSTOCK_STREAM_PARSER", "AUTOBYTEUS_STREAM_PARSER")
"""The environment variables with the name of a strategy; the first that is set counts."""


def find_strategy(environ: Mapping[str, str]) -> str:
    """Return the strategy that *environ* names; the default is native calls."""
    named = (environ.get(variable, "").strip().lower() for variable in VARIABLES)
    wanted = next(filter(None, named), NATIVE)
    return wanted if wanted in STRATEGIES else NATIVE


def find_detectors(strategy: str) -> tuple[str, ...]:
    """Return the detectors of *strategy*; raise `UsageError` if the name is unknown."""
    name = strategy.strip().lower()
    if name not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise UsageError(f"no strategy is called {strategy!r}; there are {known}")
    return (_DETECTORS[name],) if name in _DETECTORS else ()


def find_signature(detectors: Iterable[str], provider: str | None) -> CallSignature | None:
    """Return the start of JSON that is a call; None if JSON is not parsed."""
    return CallSignature(find_profile(provider).signatures) if "json_tool" in detectors else None


def make_format(detectors: Iterable[str], provider: str | None) -> Format | None:
    """Return the format that reads with *detectors*, in order; None if there are none.

    Unknown names are ignored.
    """
    formats: list[Format] = []
    for name in dict.fromkeys(detectors):
        match name:
            case "xml_tag":
                formats += [TOOL_TAG, FILE_TAGS]
            case "json_tool":
                formats.append(json_tool(provider))
            case "sentinel":
                formats.append(SENTINEL)
            case _:
                pass
    return mixed("segments", *formats) if formats else None


_T = TypeVar("_T")

OnSegment = Callable[[SegmentEvent], object]
"""Called with every event, without delay."""

OnInvocation = Callable[[ToolInvocation], object]
"""Called with every invocation, after the END of its segment."""


class Handler:
    """Converts one response to segments.

    *strategy* is where calls are: in the text as ``xml``, ``json`` (*provider* decides the shapes)
    or ``sentinel``, or native as ``api_tool_call``. *order* may name several detectors instead.
    *tools* are names, `Tool`s or their JSON; the default is the three tools with tags of their own.
    With an empty list, or without *parse_tool_calls*, text is not parsed. *id_prefix* is added to
    new ids, and *turn_id* to every invocation.

    `events` and `invocations` have everything that was emitted, `usage` the token counts. A
    callback that raises does not end the stream: *on_error* is called, as for broken calls.
    """

    def __init__(  # noqa: PLR0913 - each is an option of the view
        self,
        strategy: str = "xml",
        *,
        provider: str | None = None,
        tools: object = None,
        order: Iterable[str] | None = None,
        parse_tool_calls: bool = True,
        reasoning: str | Reasoning | None = None,
        on_segment: OnSegment | None = None,
        on_invocation: OnInvocation | None = None,
        on_error: OnError | None = None,
        id_prefix: str = "",
        turn_id: str | None = None,
        invoke_incomplete: bool = False,
    ) -> None:
        self.strategy = strategy
        detectors = find_detectors(strategy) if order is None else tuple(order)
        self._tools = _read_tools(tools)
        may_parse = parse_tool_calls and bool(self._tools)
        self._may_invoke = may_parse
        self._format = make_format(detectors, provider) if may_parse else None
        self._signature = find_signature(detectors, provider)
        self._reasoning = reasoning
        self._on_segment = on_segment
        self._on_invocation = on_invocation
        self._on_error = on_error
        self._adapter = Adapter(
            self._tools, provider=provider, turn_id=turn_id, incomplete=invoke_incomplete
        )
        self.reset(id_prefix)

    def reset(self, id_prefix: str | None = None) -> None:
        """Start a new response with the same options; a new *id_prefix* keeps ids unique."""
        if id_prefix is not None:
            self._prefix = id_prefix
        self.events: list[SegmentEvent] = []
        self.invocations: list[ToolInvocation] = []
        self.usage: Usage | Mapping[str, Any] | None = None
        self.rest = ""
        self._adapter.reset()
        self._writer = SegmentWriter(self._put, self._prefix)
        schemas = {tool.name: Schema(tool.parameters) for tool in self._tools}
        self._calls = NativeCalls(self._writer, schemas)
        self._text: SegmentTextReader = PlainText(self._writer)
        if self._format is not None:
            make = self._parser_factory(self._format)
            self._text = ParsedText(self._writer, make, self._signature)
        self._was_cut = False  # by its terminal event
        self._finished = False

    def feed(self, piece: str | Chunk | Event) -> list[SegmentEvent]:
        """Add a piece of the response; return the events that it makes certain.

        Raises `UsageError` after `finish`.
        """
        if self._finished:
            raise UsageError("the handler is finished: reset it for a new response")
        before = len(self.events)
        if isinstance(piece, str):
            self._take_text(piece)
        elif isinstance(piece, Chunk):
            self._take_chunk(piece)
        elif isinstance(piece, Event):
            self._take_event(piece)
        else:
            raise UsageError(f"expected text, a Chunk or an event, not {type(piece).__name__}")
        return self.events[before:]

    def finish(self, *, cut: bool = False) -> list[SegmentEvent]:
        """End the response and its open segments; a second call has no effect.

        *cut* is whether the connection broke: a call without arguments may have lost them.
        """
        if self._finished:
            return []
        before = len(self.events)
        self._text.finish()
        self._writer.end_shown()
        self._calls.finish(cut=cut or self._was_cut)
        self._finished = True
        self.rest = self._writer.rest
        return self.events[before:]

    # --- input ---

    def _take_text(self, text: str) -> None:
        if text:
            self._calls.settle()
            self._text.feed(text)

    def _take_reasoning(self, text: str) -> None:
        if text:
            self._calls.settle()
            self._text.finish()
            self._writer.show(REASONING, text)

    def _take_chunk(self, chunk: Chunk) -> None:
        self._take_reasoning(chunk.reasoning)
        self._take_text(chunk.content)
        for piece in chunk.tool_calls or ():
            self._text.finish()
            self._calls.take(CallPiece.read(piece))
        if chunk.usage is not None:
            self.usage = chunk.usage

    def _take_event(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._take_text(event.text)
            case ThinkingDelta():
                self._take_reasoning(event.text)
            case ToolCallStart() | ToolCallDelta() | ToolCallEnd():
                self._text.finish()
                self._calls.take_event(event)
            case ThinkingEnd():
                self._writer.end_shown()
            case Done() | Failed():
                self._text.finish()
                self._was_cut = isinstance(event, Failed) or event.reason == "length"
                self.usage = event.message.usage
            case MessageStart() | TextStart() | TextEnd() | ThinkingStart() | Part():
                pass
            case _:
                assert_never(event)

    def _parser_factory(self, format: Format) -> Callable[[], Engine]:  # noqa: A002
        return lambda: format.parser(
            self._tools, arguments="live", reasoning=self._reasoning, on_error=self._on_error
        )

    # --- output ---

    def _put(self, event: SegmentEvent, calls: Sequence[ToolCall]) -> None:
        self.events.append(event)
        self._notify(self._on_segment, event)
        for invocation in self._adapter.add(event, calls) if self._may_invoke else ():
            self.invocations.append(invocation)
            self._notify(self._on_invocation, invocation)

    def _notify(self, callback: Callable[[_T], object] | None, what: _T) -> None:
        """Call *callback*, if there is one; an exception does not end the stream."""
        if callback is None:
            return
        try:
            callback(what)
        except Exception as exc:  # noqa: BLE001 - the callback is the caller's
            if self._on_error is not None:
                with suppress(Exception):
                    self._on_error(f"a callback failed: {exc!r}", BrokenCall(""))


def create(
    tools: object = (),
    provider: str | None = None,
    environ: Mapping[str, str] | None = None,
    **options: Any,
) -> Handler:
    """Return a handler with the strategy that *environ* names; see `Handler` for the options.

    `PENSTOCK_STREAM_PARSER` is the strategy; if unset or unknown, calls are native. Without *tools*
    text is not parsed. The environment itself is not read: pass ``os.environ`` or a part of it. The
    default of `id_prefix` is ``turn_<turn_id>:`` if there is a `turn_id`.
    """
    strategy = find_strategy(environ or {})
    if options.get("turn_id"):
        options.setdefault("id_prefix", f"turn_{options['turn_id']}:")
    return Handler(strategy, provider=provider, tools=tools or (), **options)


def _read_tools(tools: object) -> tuple[Tool, ...]:
    if tools is None:
        return tuple(Tool(syntax.tool_name) for syntax in BUILT_IN)
    if isinstance(tools, str):
        tools = [tools]
    if isinstance(tools, Iterable) and not isinstance(tools, Mapping):
        tools = [Tool(tool) if isinstance(tool, str) else tool for tool in tools]
    return tuple(read_tools(tools))


# --- native calls ---
#
# Pieces are routed by the provider's index. A segment starts with the name, or for a file with its
# path; earlier pieces are held. It ends when the call has ended: by an event, when another call
# takes its index, when something else starts and its arguments are whole, or with the response. A
# call whose arguments are not a whole JSON object is incomplete: it is emitted and never run.

# The kind of input and its index: a chunk counts calls, an event counts blocks.
_Key = tuple[str, int]

_CHUNK: Final = "chunk"
_EVENT: Final = "event"


class NativeCalls:
    """The native calls of one response; *schemas* are those of the known tools."""

    def __init__(self, writer: SegmentWriter, schemas: Mapping[str, Schema]) -> None:
        self._writer = writer
        self._schemas = schemas
        self._open: dict[_Key, _Call] = {}
        self._whole: list[_Key] = []  # calls of chunks with whole arguments

    def take(self, piece: CallPiece) -> None:
        """Add a piece of a call."""
        self._take((_CHUNK, piece.index), piece)

    def take_event(self, event: ToolCallStart | ToolCallDelta | ToolCallEnd) -> None:
        """Add an event of a call."""
        key = (_EVENT, event.index)
        if isinstance(event, ToolCallStart):
            self._end(key)
            self._take(key, CallPiece(event.index, event.id, event.name))
        elif isinstance(event, ToolCallDelta):
            self._take(key, CallPiece(event.index, arguments=event.arguments))
        else:
            call = self._open.pop(key, None) or _Call(self._writer)
            call.take(CallPiece(event.index, event.call.id, event.call.name))
            call.end(structs.replace(event.call, name=self._known_name(event.call.name)))

    def settle(self) -> None:
        """End the calls of chunks whose arguments are whole: something else starts."""
        whole, self._whole = self._whole, []
        for key in whole:
            self._end(key)

    def finish(self, *, cut: bool = False) -> None:
        """End the open calls, in the order in which they started.

        If the response was *cut*, a call without arguments may have lost them.
        """
        for key in list(self._open):
            self._end(key, cut=cut)

    def _take(self, key: _Key, piece: CallPiece) -> None:
        call = self._open.get(key)
        if call is not None and call.is_over(piece):
            self._end(key)
            call = None
        if call is None:
            if not (piece.id or piece.name or piece.arguments.strip()):
                return  # white space after whole arguments
            self.settle()
            call = self._open[key] = _Call(self._writer)
        was_whole = call.is_whole
        call.take(piece)
        if key[0] == _CHUNK and call.is_whole and not was_whole:
            self._whole.append(key)

    def _end(self, key: _Key, *, cut: bool = False) -> None:
        call = self._open.pop(key, None)
        if call is not None:
            name = self._known_name(call.name)
            made = call.make_call(self._schemas.get(name), cut=cut)
            call.end(structs.replace(made, name=name))

    def _known_name(self, name: str) -> str:
        """Return the tool's own name; the model may write it in another case."""
        return find_name(name, self._schemas) or name


class _Call:
    """An open call, and its segment once the name is known."""

    def __init__(self, writer: SegmentWriter) -> None:
        self.name = ""
        self._writer = writer
        self._id = ""  # the provider's
        self._segment: ContentSegment | _ArgumentsSegment | None = None
        self._is_blank = True  # no arguments have arrived
        self._waiting: list[str] = []  # arguments that came before the name

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are whole."""
        return self._segment is not None and self._segment.arguments.complete

    def is_over(self, piece: CallPiece) -> bool:
        """Return whether *piece*, which has the same index, starts another call."""
        # Ollama and some proxies send every call with index 0: another id is another call.
        if piece.id and self._id:
            return piece.id != self._id
        if not piece.name or not self.name:
            return False
        return piece.name != self.name or (self.is_whole and piece.arguments != "")

    def take(self, piece: CallPiece) -> None:
        """Add a piece: its id, its name, or more of the arguments."""
        self._id = self._id or piece.id
        if piece.name and not self.name:
            self.name = piece.name
            self._open()
        if piece.arguments:
            self._is_blank = self._is_blank and piece.arguments.isspace()
            self._add(piece.arguments)

    def make_call(self, schema: Schema | None, *, cut: bool) -> ToolCall:
        """Return the call with the arguments that have arrived."""
        reader = self._open().arguments
        reader.finish()
        is_read, value = reader.complete and not reader.problems, reader.value
        if self._is_blank or (is_read and value is None):
            # No arguments are valid for a tool that requires none.
            is_read, value = not cut and (schema is None or schema.accepts({})), {}
        is_whole = is_read and isinstance(value, dict) and self.name != ""
        arguments = value if isinstance(value, dict) else {}
        return ToolCall(self._id, self.name, arguments, complete=is_whole)

    def end(self, call: ToolCall) -> None:
        """End the segment of *call*; its content is the arguments, even without any piece."""
        segment = self._open()
        if self._is_blank and call.arguments:
            segment.add(_json.encode(call.arguments).decode())
        segment.end(call)

    def _add(self, arguments: str) -> None:
        if self._segment is None:
            self._waiting.append(arguments)
        else:
            self._segment.add(arguments)

    def _open(self) -> ContentSegment | _ArgumentsSegment:
        """Return the segment; start it, with the held pieces, if it has not started."""
        if self._segment is None:
            tool = registered_tool(self.name)
            metadata: dict[str, Any] = {"tool_name": self.name} if self.name else {}
            if tool.content and tool.segment_type != RUN_BASH:
                self._segment = ContentSegment(self._writer, self._id, tool, metadata, patient=True)
            else:
                self._segment = _ArgumentsSegment(self._writer, self._id, metadata)
            for arguments in self._waiting:
                self._segment.add(arguments)
        return self._segment


class _ArgumentsSegment:
    """A segment whose content is the arguments of a call as JSON text."""

    def __init__(self, writer: SegmentWriter, id: str, metadata: dict[str, Any]) -> None:  # noqa: A002
        self.arguments = IncrementalJSON(recover=True)
        self._writer = writer
        self._id = writer.claim(id)
        writer.start(self._id, TOOL_CALL, metadata)

    def add(self, arguments: str) -> None:
        """Add a piece of the arguments."""
        self.arguments.feed(arguments)
        self._writer.add(self._id, arguments)

    def end(self, call: ToolCall) -> None:
        """End the segment of *call*."""
        metadata = {} if call.complete else {INCOMPLETE: True}
        self._writer.end(self._id, metadata, calls=[call])
