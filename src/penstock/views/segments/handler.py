"""The handler of one response: text, chunks or events in, segments and invocations out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, assert_never

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
from penstock.formats.file_tags import FILE_TAGS
from penstock.formats.json_calls import json_tool
from penstock.formats.sentinel import SENTINEL
from penstock.formats.tool_tag import TOOL_TAG
from penstock.messages import ToolCall, Usage
from penstock.parsing import BrokenCall, Engine, OnError, Reasoning
from penstock.readers.signed_json import CallSignature, find_profile
from penstock.tools import Tool, read_tools
from penstock.values.schema import Schema
from penstock.views.segments.events import REASONING, CallPiece, Chunk, SegmentEvent
from penstock.views.segments.invocations import BUILT_IN, Adapter, ToolInvocation
from penstock.views.segments.native import NativeCalls
from penstock.views.segments.text import ParsedText, PlainText, SegmentTextReader
from penstock.views.segments.writer import SegmentWriter

NATIVE: Final = "api_tool_call"
"""The strategy for native calls: text is not parsed."""

_DETECTORS: Final = {"xml": "xml_tag", "json": "json_tool", "sentinel": "sentinel"}
"""The detector of each strategy that parses text."""

STRATEGIES: Final = tuple(sorted([NATIVE, *_DETECTORS]))
"""The names of all strategies."""

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
