"""Reading an answer in any format: at once, as it comes, or inside a sequence of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, Final, Self, Unpack

from msgspec import structs

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
from penstock.formats.base import Format, ParserOptions, end_of, message_of
from penstock.formats.reasoning import reasoning_of
from penstock.formats.registry import FormatLike, get
from penstock.messages import AssistantMessage, Content, StopReason, Text, Thinking
from penstock.parsing import Arguments, Engine, FencedCalls, OnError, Reasoning, Untrusted
from penstock.tools import read_tools


class Parser(Engine):
    """Reads one answer of a model, as it arrives: `feed` text, get events; `finish` at its end.

    *format* is the name of a format, or a format. *tools* are those that the model may call, in any
    shape that `read_tools` reads.

    * *arguments*: ``whole``, where a call comes out when it is complete and anything else is text,
      or ``live``, where it comes out as it arrives and may turn out incomplete.
    * *reasoning*: how the model marks its reasoning; None is what the format's models do, ``none``
      leaves them in the text. *prompt_suffix* is what the prompt ended with: it may have opened a
      thought.
    * *trim*: white space that touches a call is not a text, and neither are the blank lines between
      reasoning and the text after it.
    * *repair*: a call that is broken, or left open by a model that ended by itself, is repaired if
      the tool is known and its schema satisfied.
    * *on_error*: told in words, and with the segment, of text that was meant to be a call.
    * *ids*: gives an id to a call that brings none.
    * *max_calls*: how many calls an answer may have; what follows them stays text. None is any
      number.
    * *untrusted*: texts of the conversation that are not instructions, such as tool results. A call
      that occurs in one of them word for word is quoted: it is text, and *on_error* says so.
    * *fenced*: what a call in a code fence, in inline code or in a block quote is: ``text``, or
      ``calls`` for a model that always fences its calls.

    No text of a model makes it raise. After `finish`, `rest` is text that no event claimed.
    """

    def __new__(cls, format: FormatLike, tools: object = (), **options: Any) -> Self:  # noqa: A002
        """Make the parser that *format* asks for: a format of the user's own brings its own."""
        del tools, options
        kind: Any = cls if isinstance(get(format), Format) else _BorrowedParser
        return super().__new__(kind)  # type: ignore[no-any-return]

    def __init__(  # noqa: PLR0913 - each is an option of every parser
        self,
        format: FormatLike,  # noqa: A002 - the word of the whole interface
        tools: object = (),
        *,
        arguments: Arguments = "whole",
        reasoning: str | Reasoning | None = None,
        prompt_suffix: str = "",
        trim: bool = False,
        repair: bool = False,
        on_error: OnError | None = None,
        ids: Callable[[], str] | None = None,
        max_calls: int | None = None,
        untrusted: Untrusted | Iterable[str] | None = None,
        fenced: FencedCalls = "text",
    ) -> None:
        found, known = get(format), read_tools(tools)
        assert isinstance(found, Format)  # noqa: S101 - `__new__` has looked
        super().__init__(
            found.calls.syntax(known),
            known,
            arguments=arguments,
            reasoning=reasoning_of(found.usual_reasoning, reasoning),
            wrappers=found.wrappers,
            prompt_suffix=prompt_suffix,
            trim=trim,
            repair=repair,
            on_error=on_error,
            ids=ids,
            max_calls=max_calls,
            untrusted=untrusted,
            fenced=fenced,
        )


class _BorrowedParser(Parser):
    """The parser of a format of the user's own, which is told only the options that were given."""

    def __init__(self, format: FormatLike, tools: object = (), **options: Any) -> None:  # noqa: A002
        self.rest = ""
        self.spans = []
        self._first_index = 0
        self._own = get(format).parser(read_tools(tools), **options)

    def feed(self, text: str) -> list[Event]:
        """Read more text; return the events that it makes certain."""
        return self._numbered(self._own.feed(text))

    def finish(self, cut: bool = True) -> list[Event]:  # noqa: FBT001, FBT002
        """End the answer; how it ended is nothing that such a parser is told."""
        del cut
        events = self._numbered(self._own.finish())
        self.rest = str(getattr(self._own, "rest", ""))
        return events

    def number_from(self, index: int) -> None:
        """Give the blocks numbers from *index* on."""
        self._first_index = index

    def follow_thought(self) -> None:
        """Do nothing: such a parser is told nothing of what came before."""

    def _numbered(self, events: list[Event]) -> list[Event]:
        first = self._first_index
        if not first:
            return list(events)
        return [structs.replace(event, index=event.index + first) for event in events]  # type: ignore[union-attr]


def parse(
    text: str,
    format: FormatLike = "hermes",  # noqa: A002
    tools: object = (),
    *,
    reasoning: str | Reasoning | None = None,
    **options: Unpack[ParserOptions],
) -> AssistantMessage:
    """Read a whole answer; the options are those of `Parser`.

    The message ends as ``tool_use`` where it has calls and all of them are complete, else as
    ``stop``: the model is taken to have ended by itself.
    """
    found = get(format)
    if not isinstance(found, Format):
        return found.parse(text, read_tools(tools))
    parser = found.parser(tools, reasoning=reasoning, **options)
    return message_of([*parser.feed(text), *parser.finish(cut=False)])


# Events in, events out: the text inside a sequence of events becomes text, thinking and calls.
#
# What a provider sends as text goes through a parser; every other block passes as it is. Blocks
# are numbered again, since one text may become several. Where the provider ends one block of
# text and begins another means nothing to the parser; any other block, and the end of the
# answer, finish the text before them. The terminal event is made again: its message is what came
# out, and calls that were read make it end as ``tool_use``.
#
# A signature of text finishes the text that it is of, but not before it is known what follows:
# only the end of the answer can tell a call that the model left open from one that was cut. It
# stays on text, for it is the text's: on a call or a thought read from it, others would take it
# for theirs.


Block = (
    ThinkingStart | ThinkingDelta | ThinkingEnd | ToolCallStart | ToolCallDelta | ToolCallEnd | Part
)
"""An event of a block that is not a text."""

_BLOCK_STARTS: Final = (ThinkingStart, ToolCallStart, Part)


class EventParser:
    """Reads the text inside events as they come; the options are those of `Parser`.

    `add` every event of an answer; `finish` where they end without a terminal one.
    """

    __slots__ = ("_after_thought", "_called", "_content", "_format", "_heard", "_ids", "_indexes",
                 "_max_calls", "_next", "_numbers", "_options", "_parser", "_rest", "_signature",
                 "_tools")  # fmt: skip

    def __init__(
        self,
        format: FormatLike,  # noqa: A002 - the word of the whole interface
        tools: object = (),
        *,
        reasoning: str | Reasoning | None = None,
        **options: Unpack[ParserOptions],
    ) -> None:
        self._format = get(format)
        self._tools = read_tools(tools)
        self._options: dict[str, Any] = dict(options)
        if reasoning is not None:
            self._options["reasoning"] = reasoning
        self._max_calls: int | None = self._options.pop("max_calls", None)
        if isinstance(self._format, Format):  # Any other makes ids as it likes.
            self._options.setdefault("ids", self._next_id)
        else:
            self._max_calls = None
        self._after_thought = False  # the last block that passed is reasoning
        self._called = 0  # how many calls have come, the provider's own among them
        self._parser: Parser | None = None  # of the text that is being read
        self._heard: dict[int, int] = {}  # how much of each block of text has come
        self._signature = ""  # of the text that has been read, until more follows
        self._content: dict[int, Content] = {}  # what has come out whole, by index
        self._indexes: dict[int, int] = {}  # of the blocks that pass: theirs, and ours
        self._next = 0  # the index of the next block
        self._rest = ""  # text that no event has claimed
        self._ids: dict[str, None] = {}  # that the provider has given; a set takes more room
        self._numbers = count(1)

    def add(self, event: Event) -> list[Event]:
        """Take one event; return those that it makes certain."""
        if isinstance(event, TextDelta):
            self._heard[event.index] = self._heard.get(event.index, 0) + len(event.text)
            return self._read(event.text)
        if isinstance(event, TextStart):
            return []
        if isinstance(event, TextEnd):
            return self._end_block(event)
        if isinstance(event, MessageStart):
            return [event]
        if isinstance(event, Done | Failed):
            return self._end(event)
        return self._pass(event)

    def finish(self) -> list[Event]:
        """End a sequence that has no terminal event: the text ends here, whoever cut it."""
        return self._finish_text(cut=True)

    # --- text ---

    def _read(self, text: str) -> list[Event]:
        if self._signature and text:
            return self._finish_text(cut=True) + self._read(text)
        if self._parser is None:
            self._parser = Parser(self._format, self._tools, **self._options, **self._limit())
            self._parser.number_from(self._next)
            if self._after_thought:
                self._parser.follow_thought()
            self._options.pop("prompt_suffix", None)  # it stood before the first text
        return self._put(self._parser.feed(text))

    def _limit(self) -> dict[str, Any]:
        """Return how many calls may still come, if there is a limit."""
        most = self._max_calls
        return {} if most is None else {"max_calls": max(0, most - self._called)}

    def _end_block(self, event: TextEnd) -> list[Event]:
        """Read what the end of a block says and no delta has said; keep what signs it."""
        missing = event.text[self._heard.pop(event.index, 0) :]
        before = self._read(missing) if missing else []
        if event.signature:
            if self._signature:  # Two blocks side by side: each has its own.
                before += self._finish_text(cut=True)
            self._signature = event.signature
        return before

    def _finish_text(self, *, cut: bool) -> list[Event]:
        """Finish the text, and sign it if its block was signed."""
        parser, self._parser = self._parser, None
        signature, self._signature = self._signature, ""
        events = [] if parser is None else parser.finish(cut)
        if signature and events and isinstance(last := events[-1], TextEnd):
            events[-1] = structs.replace(last, signature=signature)
            signature = ""
        events = self._put(events)
        self._rest += "" if parser is None else parser.rest
        return events + (self._sign_nothing(signature) if signature else [])

    def _sign_nothing(self, signature: str) -> list[Event]:
        """Let an empty block of text carry *signature*, where the text itself is over or none."""
        return self._put([TextStart(self._next), TextEnd(self._next, "", signature)])

    def _put(self, events: list[Event]) -> list[Event]:
        """Note what *events* bring whole, and let the first of them claim what nobody has."""
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

    def _next_id(self) -> str:
        """Make an id that the provider has not given to a call of its own."""
        return next(id_ for n in self._numbers if (id_ := f"call_{n}") not in self._ids)

    # --- what is not a text ---

    def _pass(self, event: Block) -> list[Event]:
        """Let a block pass that is not a text, under a number of our own."""
        before: list[Event] = []
        if isinstance(event, _BLOCK_STARTS):
            self._after_thought = isinstance(event, ThinkingStart)
            before = self._finish_text(cut=True)
            self._indexes[event.index] = self._next
            self._next += 1
        if event.index not in self._indexes:
            raise UsageError(f"block {event.index} has not been started")
        if isinstance(event, ToolCallStart):
            self._ids[event.id] = None
        index = self._indexes[event.index]
        passed = event if index == event.index else structs.replace(event, index=index)
        return before + self._put([passed])

    def _end(self, event: Done | Failed) -> list[Event]:
        is_whole = isinstance(event, Done) and event.reason != "length"
        before = self._finish_text(cut=not is_whole)
        raw, self._rest = self._rest + event.raw, ""
        if isinstance(event, Failed):
            message = self._message(event.message, event.reason)
            return [*before, structs.replace(event, message=message, raw=raw)]
        message = self._message(event.message, event.reason)
        reason = end_of(message, event.reason)
        message.stop_reason = reason
        return [*before, Done(reason, message, raw)]

    def _message(self, source: AssistantMessage, reason: StopReason) -> AssistantMessage:
        content = [self._content[index] for index in sorted(self._content)]
        return structs.replace(source, content=content, stop_reason=reason)


def parse_events(
    events: Iterable[Event],
    format: FormatLike = "hermes",  # noqa: A002
    tools: object = (),
    *,
    reasoning: str | Reasoning | None = None,
    **options: Unpack[ParserOptions],
) -> Iterator[Event]:
    """Read the text inside *events*; the options are those of `Parser`.

    Gives the events of the same answer, where text has become text, thinking and calls.
    """
    parser = EventParser(format, tools, reasoning=reasoning, **options)
    for event in events:
        yield from parser.add(event)
    yield from parser.finish()
