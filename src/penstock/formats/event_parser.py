"""The text inside events becomes text, reasoning and calls: events in, events out.

The text of a provider goes through a parser; every other block passes unchanged. Blocks are
numbered again, since one text may become several. The parser ignores where the provider ends one
block of text and begins another; any other block, and the end of the response, finish the text
before them. The terminal event is replaced: its message has the parsed blocks, and its reason is
``tool_use`` if calls were parsed.

A signature ends the text that it signs. The text is finished only when the next event has come,
because only the end of the response distinguishes a call that the model left open from one that
was cut. The signature stays on text: providers would refuse it on a call or on reasoning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Unpack

from msgspec import structs

from penstock.errors import UsageError
from penstock.events import (
    DELTAS,
    ENDS,
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
from penstock.formats.base import (
    Format,
    ParserOptions,
    stop_reason_for,
)
from penstock.formats.heal import EventHealer, EventReader
from penstock.formats.parser import Parser, parse, prepare_tools
from penstock.formats.registry import FormatLike, get
from penstock.messages import (
    AssistantMessage,
    CallIds,
    Content,
    StopReason,
    Text,
    Thinking,
    ToolCall,
)
from penstock.parsing import Reasoning, Schemas

Block = (
    ThinkingStart | ThinkingDelta | ThinkingEnd | ToolCallStart | ToolCallDelta | ToolCallEnd | Part
)
"""An event of a block that is not text."""

_BLOCK_STARTS: Final = (ThinkingStart, ToolCallStart, Part)


class EventParser:
    """Parses the text inside events as they arrive; the options are those of `Parser`.

    `add` every event of a response; call `finish` if it ends without a terminal event.
    """

    __slots__ = (
        "_after_reasoning",
        "_called",
        "_content",
        "_format",
        "_indexes",
        "_max_calls",
        "_next",
        "_options",
        "_parser",
        "_received",
        "_rest",
        "_signature",
        "_tools",
        "next_id",
    )  # fmt: skip

    def __init__(
        self,
        format: FormatLike = "auto",  # noqa: A002 - as everywhere in the interface
        tools: object = (),
        *,
        reasoning: str | Reasoning | None = None,
        **options: Unpack[ParserOptions],
    ) -> None:
        self._format = get(format)
        self._tools = prepare_tools(self._format, tools)
        self._options: dict[str, Any] = dict(options)
        if reasoning is not None:
            self._options["reasoning"] = reasoning
        self._max_calls: int | None = self._options.pop("max_calls", None)
        self.next_id = CallIds()
        """Returns an id that none of the provider's calls has."""
        if isinstance(self._format, Format):  # A custom format creates its own ids.
            self._options.setdefault("ids", self.next_id)
        else:
            self._max_calls = None
        self._after_reasoning = False  # the last block that is not text is reasoning
        self._called = 0  # complete calls so far, including the provider's own
        self._parser: Parser | None = None  # of the text that is being read
        self._received: dict[int, int] = {}  # characters received of each text block
        self._signature = ""  # of the text that was parsed, until more follows
        self._content: dict[int, Content] = {}  # complete blocks, by index
        self._indexes: dict[int, int] = {}  # of blocks that are not text: the provider's to ours
        self._next = 0  # the index of the next block
        self._rest = ""  # text that no event has claimed

    def add(self, event: Event) -> list[Event]:
        """Handle one event; return the events that are certain now."""
        if isinstance(event, TextDelta):
            text, index = event.text, event.index
            self._received[index] = self._received.get(index, 0) + len(text)
            if self._parser is None or self._signature or self._rest:
                return self._read(text)
            events = self._parser.feed(text)
            # Nearly all deltas become one delta, which completes no block.
            if len(events) == 1 and isinstance(events[0], DELTAS):
                return events
            return self._record(events)
        if isinstance(event, TextStart):
            return []
        if isinstance(event, TextEnd):
            return self._end_block(event)
        if isinstance(event, MessageStart):
            return [event]
        if isinstance(event, ENDS):
            return self._end(event)
        return self._pass(event)

    def finish(self) -> list[Event]:
        """End a sequence that has no terminal event: its text was cut."""
        return self._finish_text(cut=True)

    # --- text ---

    def _read(self, text: str) -> list[Event]:
        if self._signature and text:
            return self._finish_text(cut=True) + self._read(text)
        if self._parser is None:
            self._parser = Parser(self._format, self._tools, **self._options, **self._limit())
            self._parser.number_from(self._next)
            if self._after_reasoning:
                self._parser.follow_reasoning()
            self._options.pop("prompt_suffix", None)  # it applies to the first text only
        return self._record(self._parser.feed(text))

    def _limit(self) -> dict[str, Any]:
        """Return the `max_calls` option for the next text, if there is a limit."""
        most = self._max_calls
        return {} if most is None else {"max_calls": max(0, most - self._called)}

    def _end_block(self, event: TextEnd) -> list[Event]:
        """Parse text that only the end event has; keep the signature."""
        missing = event.text[self._received.pop(event.index, 0) :]
        before = self._read(missing) if missing else []
        if event.signature:
            if self._signature:  # Two adjacent blocks: each has its own.
                before += self._finish_text(cut=True)
            self._signature = event.signature
        return before

    def _finish_text(self, *, cut: bool) -> list[Event]:
        """Finish the text, with the signature of its block."""
        parser, self._parser = self._parser, None
        signature, self._signature = self._signature, ""
        events = [] if parser is None else parser.finish(cut)
        if signature and events and isinstance(last := events[-1], TextEnd):
            events[-1] = structs.replace(last, signature=signature)
            signature = ""
        events = self._record(events)
        self._rest += "" if parser is None else parser.rest
        return events + (self._sign_empty(signature) if signature else [])

    def _sign_empty(self, signature: str) -> list[Event]:
        """Put *signature* on an empty block of text: its own has ended or never began."""
        return self._record([TextStart(self._next), TextEnd(self._next, "", signature)])

    def _record(self, events: list[Event]) -> list[Event]:
        """Record the blocks that *events* complete; the first event gets the unclaimed text."""
        for event in events:
            if isinstance(event, TextDelta):  # nearly all of them
                continue
            if isinstance(event, TextEnd):
                self._keep(event.index, Text(event.text, event.signature))
            elif isinstance(event, ToolCallEnd):
                self._keep(event.index, event.call)
                self._called += event.call.complete
            elif isinstance(event, ThinkingEnd):
                self._keep(event.index, Thinking(event.text, event.signature))
            elif isinstance(event, Part):
                self._keep(event.index, event.part)
        if self._rest and events:
            events[0] = structs.replace(events[0], raw=self._rest + events[0].raw)
            self._rest = ""
        return events

    def _keep(self, index: int, block: Content) -> None:
        self._content[index] = block
        self._next = max(self._next, index + 1)

    # --- other blocks ---

    def _pass(self, event: Block) -> list[Event]:
        """Pass an event of another block, with its new number."""
        before: list[Event] = []
        if isinstance(event, _BLOCK_STARTS):
            self._after_reasoning = isinstance(event, ThinkingStart)
            before = self._finish_text(cut=True)
            self._indexes[event.index] = self._next
            self._next += 1
        if event.index not in self._indexes:
            raise UsageError(f"block {event.index} has not started: add its start event first")
        if isinstance(event, ToolCallStart):
            self.next_id.taken.add(event.id)
        index = self._indexes[event.index]
        passed = event if index == event.index else structs.replace(event, index=index)
        return before + self._record([passed])

    def _end(self, event: Done | Failed) -> list[Event]:
        is_whole = isinstance(event, Done) and event.reason != "length"
        before = self._finish_text(cut=not is_whole)
        raw, self._rest = self._rest + event.raw, ""
        if isinstance(event, Failed):
            message = self._message(event.message, event.reason)
            return [*before, structs.replace(event, message=message, raw=raw)]
        message = self._message(event.message, event.reason)
        reason = stop_reason_for(message, event.reason)
        message.stop_reason = reason
        return [*before, Done(reason, message, raw)]

    def _message(self, source: AssistantMessage, reason: StopReason) -> AssistantMessage:
        content = [self._content[index] for index in sorted(self._content)]
        return structs.replace(source, content=content, stop_reason=reason)


def make_event_parser(
    format: FormatLike = "auto",  # noqa: A002 - as everywhere in the interface
    tools: object = (),
    *,
    reasoning: str | Reasoning | None = None,
    heal: bool = False,
    max_tokens: int | None = None,
    **options: Unpack[ParserOptions],
) -> EventReader:
    """Return a parser for the events of one response; `parse_events` explains the options."""
    found = get(format)
    known = prepare_tools(found, tools)
    parser = EventParser(found, known, reasoning=reasoning, **options)
    if not heal:
        return parser
    schemas = Schemas(known) if isinstance(known, list) else known.schemas

    def read_calls(text: str) -> list[ToolCall]:
        """Return the calls that *text* ends with; none if more text follows them."""
        kept: ParserOptions = {"untrusted": options.get("untrusted"), "ids": parser.next_id}
        message = parse(text.rstrip(), found, known, reasoning="none", **kept)
        if not message.content or not isinstance(message.content[-1], ToolCall):
            return []
        calls = message.tool_calls
        return calls if all(call.complete and call.name in schemas for call in calls) else []

    return EventHealer(
        parser, schemas, ids=parser.next_id, read_calls=read_calls, max_tokens=max_tokens
    )


def parse_events(
    events: Iterable[Event],
    format: FormatLike = "auto",  # noqa: A002
    tools: object = (),
    *,
    reasoning: str | Reasoning | None = None,
    heal: bool = False,
    max_tokens: int | None = None,
    **options: Unpack[ParserOptions],
) -> Iterator[Event]:
    """Parse the text inside *events*; the other options are those of `Parser`.

    Yields the events of the same response, with its text parsed into text, thinking and calls. With
    *heal*, native calls that the upstream damaged are repaired, and *max_tokens*, the limit of the
    request, distinguishes a response that reached it from one that ended.
    """
    parser = make_event_parser(
        format, tools, reasoning=reasoning, heal=heal, max_tokens=max_tokens, **options
    )
    for event in events:
        yield from parser.add(event)
    yield from parser.finish()
