"""Parsers for responses in any format: whole texts and streams, one or many.

Reading tools from JSON and their schemas costs more than parsing a short response: 0.3 ms for 31
tools. `compile` does that once, for programs that parse many responses. Nothing of one response is
kept for the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, Self, Unpack

from msgspec import structs

from penstock.errors import UsageError
from penstock.events import (
    ENDS,
    Event,
    MessageStart,
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
    Preparation,
    build_message,
    collect_message,
    prepare,
)
from penstock.formats.registry import AnyFormat, FormatLike, get
from penstock.messages import (
    AssistantMessage,
)
from penstock.parsing import Arguments, Engine, FencedCalls, OnError, Reasoning, Untrusted
from penstock.parsing.body import ReasoningOnly, StrayReasoning
from penstock.tools import Tool, read_tools


def prepare_tools(format: AnyFormat, tools: object) -> Preparation | list[Tool]:  # noqa: A002
    """Return *tools* as a parser of *format* takes them: a custom one takes a list."""
    if isinstance(format, Format):
        return prepare(format, tools)
    return read_tools(tools)


class InitSignature:
    """Makes `inspect.signature` of a class show `__init__`: `__new__` hides its options."""

    def __get__(self, instance: object, owner: type) -> Any:
        """Return the signature of *owner*."""
        from inspect import signature  # noqa: PLC0415 - only tools that show signatures need it

        found = signature(owner.__init__)  # type: ignore[misc]
        return found.replace(parameters=list(found.parameters.values())[1:])


class Parser(Engine):
    """Parses one response of a model as it arrives: `feed` text, get events; `finish` at its end.

    *format* is the name of a format, or a format; ``auto`` recognises any. *tools* are those that
    the model may call, in any shape that `read_tools` accepts. If tools are given, ``auto`` reads
    calls of these only; without any it reads every call that has a marker.

    * *arguments*: ``whole`` emits a call when it is complete; anything else is text. ``live``
      emits a call as it arrives; it may turn out incomplete.
    * *reasoning*: how the model marks its reasoning; None means the format's usual style,
      ``none`` leaves reasoning in the text. *prompt_suffix* is the end of the prompt, which may
      have opened reasoning.
    * *trim*: drop white space that touches a call, and blank lines between reasoning and the text
      after it.
    * *repair*: repair a call that is broken, or that the model left open at its end, if the tool is
      known and its schema is satisfied.
    * *on_error*: called with a message and the segment for text that was meant to be a call.
    * *ids*: creates an id for a call without one.
    * *max_calls*: how many calls a response may have; further calls are text. None means no limit.
    * *untrusted*: texts of the conversation that are not instructions, such as tool results. A call
      that occurs in one of them, apart from white space and escapes, is quoted: it is text, and
      *on_error* is called.
    * *fenced*: how a call in a code fence, in inline code or in a block quote is read: as ``text``,
      or as ``calls``, for a model that always fences its calls.
    * *reasoning_only*: what a response is that ended inside reasoning which the prompt had opened:
      ``reasoning``, or ``text`` as well, so that the answer is not empty. None means ``text`` with
      *repair*.
    * *stray_reasoning*: what an end marker of reasoning without a beginning is: ``text``, or
      ``split``: it is dropped, and what follows is the answer, in a block of its own. None means
      ``split`` with *repair*.

    Model text never makes it raise. After `finish`, `rest` is text that no event claimed.
    """

    __signature__ = InitSignature()

    def __new__(cls, format: FormatLike = "auto", tools: object = (), **options: Any) -> Self:  # noqa: A002
        """Create a parser, or a wrapper around the parser of a custom format object."""
        del tools, options
        is_ours = isinstance(format, Format) or isinstance(get(format), Format)
        kind: Any = cls if is_ours else _CustomParser
        return super().__new__(kind)  # type: ignore[no-any-return]

    def __init__(  # noqa: PLR0913 - each is an option of every parser
        self,
        format: FormatLike = "auto",  # noqa: A002 - as everywhere in the interface
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
        reasoning_only: ReasoningOnly | None = None,
        stray_reasoning: StrayReasoning | None = None,
    ) -> None:
        found = format if isinstance(format, Format) else get(format)
        assert isinstance(found, Format)  # noqa: S101 - checked in `__new__`
        super().__init__(
            **found.engine_setup(tools, reasoning),
            arguments=arguments,
            prompt_suffix=prompt_suffix,
            trim=trim,
            repair=repair,
            on_error=on_error,
            ids=ids,
            max_calls=max_calls,
            untrusted=untrusted,
            fenced=fenced,
            reasoning_only=reasoning_only,
            stray_reasoning=stray_reasoning,
        )


class _CustomParser(Parser):
    """Wraps the parser of a custom format object, which receives only the options given."""

    def __init__(self, format: FormatLike = "auto", tools: object = (), **options: Any) -> None:  # noqa: A002
        self.rest = ""
        self.spans = []
        self._first_index = 0
        self._wrapped = get(format).parser(read_tools(tools), **options)

    def feed(self, text: str) -> list[Event]:
        """Parse more text; return the events that are certain now."""
        return self._renumber(self._wrapped.feed(text))

    def finish(self, cut: bool = True) -> list[Event]:  # noqa: FBT001, FBT002
        """End the response; a custom parser does not receive *cut*."""
        del cut
        events = self._renumber(self._wrapped.finish())
        # Optional in the protocol of custom parsers: many hold nothing.
        self.rest = str(getattr(self._wrapped, "rest", ""))
        return events

    def number_from(self, index: int) -> None:
        """Begin the numbers of the blocks at *index*."""
        self._first_index = index

    def follow_reasoning(self) -> None:
        """Do nothing: custom parsers are not notified of other blocks."""

    def _renumber(self, events: list[Event]) -> list[Event]:
        first = self._first_index
        if not first:
            return list(events)
        return [structs.replace(event, index=event.index + first) for event in events]  # type: ignore[union-attr]


def parse(
    text: str,
    format: FormatLike = "auto",  # noqa: A002
    tools: object = (),
    *,
    reasoning: str | Reasoning | None = None,
    **options: Unpack[ParserOptions],
) -> AssistantMessage:
    """Parse a whole response; the options are those of `Parser`.

    The stop reason is ``tool_use`` if the message has calls and all of them are complete, otherwise
    ``stop``: the model is assumed to have stopped of its own accord. Raises `UsageError` if *text*
    is not a `str`.
    """
    if not isinstance(text, str):
        raise UsageError(f"the text of a model must be str, not {type(text).__name__}")
    found = get(format)
    if not isinstance(found, Format):
        return found.parse(text, read_tools(tools))
    parser = found.parser(tools, reasoning=reasoning, **options)
    return collect_message([*parser.feed(text), *parser.finish(cut=False)])


# --- a format prepared for a set of tools ---

SpanKind = Literal["text", "thinking", "tool_call", "other"]
"""The kind of block that a span belongs to; `other` where there is no block at all."""

_OUTSIDE: Final = (MessageStart, *ENDS)
_KINDS: Final[dict[type, SpanKind]] = {
    **dict.fromkeys((ThinkingStart, ThinkingDelta, ThinkingEnd), "thinking"),
    **dict.fromkeys((ToolCallStart, ToolCallDelta, ToolCallEnd), "tool_call"),
}


class Span(NamedTuple):
    """Text from *start* to *end* that belongs to the *block* of this number, with its markers."""

    kind: SpanKind
    block: int
    start: int
    end: int


class CompiledFormat:
    """A *format* for *tools*; `compile` creates it. It can be shared by threads.

    The options are those of `Parser` and apply to every response; each method accepts further ones.
    """

    __slots__ = ("_options", "_tools", "format")

    def __init__(self, format: FormatLike, tools: object, options: dict[str, Any]) -> None:  # noqa: A002
        self.format = get(format)
        self._tools = prepare_tools(self.format, tools)
        self._options = options

    @property
    def tools(self) -> list[Tool]:
        """The tools that a response may call."""
        return list(self._tools if isinstance(self._tools, list) else self._tools.schemas.tools)

    def parser(
        self, *, reasoning: str | Reasoning | None = None, **options: Unpack[ParserOptions]
    ) -> Parser:
        """Return a new parser for one response."""
        given: dict[str, Any] = {**self._options, **options}
        if reasoning is not None:
            given["reasoning"] = reasoning
        return Parser(self.format, self._tools, **given)

    def parse(
        self, text: str, *, reasoning: str | Reasoning | None = None,
        **options: Unpack[ParserOptions],
    ) -> AssistantMessage:  # fmt: skip
        """Parse a whole response."""
        if not isinstance(self.format, Format):
            parser = self.parser(reasoning=reasoning, **options)
            return build_message([*parser.feed(text), *parser.finish(cut=False)])
        given: dict[str, Any] = {**self._options, **options}
        if reasoning is not None:
            given["reasoning"] = reasoning
        engine = self.format.parser(self._tools, **given)
        return collect_message([*engine.feed(text), *engine.finish(cut=False)])

    def parse_many(
        self, texts: Iterable[str], **options: Unpack[ParserOptions]
    ) -> list[AssistantMessage]:
        """Parse several whole responses."""
        return [self.parse(text, **options) for text in texts]

    def spans(self, text: str, offsets: Sequence[tuple[int, int]] | None = None) -> list[Span]:
        """Return which part of *text* belongs to which block; the spans cover every character once.

        Text that no block shows, such as an end marker, belongs to the block before it; `other` is
        text that a custom format did not account for, or a response without any block. With
        *offsets*, the start and end of each token in *text* as a tokenizer returns them, the spans
        count tokens: a token belongs to the block of its first character, an empty one to the block
        of the token before it. So a training loss can be masked by block.
        """
        _, spans = self.parse_with_spans(text)
        return spans if offsets is None else count_in_tokens(spans, offsets)

    def parse_with_spans(
        self, text: str, *, cut: bool = False
    ) -> tuple[AssistantMessage, list[Span]]:
        """Parse a whole response once, and return its message and its spans.

        *cut* says that the model was stopped before its end, as by a token limit.
        """
        if not isinstance(self.format, Format):
            parser: Engine = self.parser()
            build = build_message
        else:
            parser, build = self.format.parser(self._tools, **self._options), collect_message
        events = [*parser.feed(text), *parser.finish(cut=cut)]
        return build(events), find_spans(events, len(parser.rest), len(text))


def compile(  # noqa: A001 - as `re.compile`
    format: FormatLike = "auto",  # noqa: A002 - the word of the whole interface
    tools: object = (),
    *,
    reasoning: str | Reasoning | None = None,
    **options: Unpack[ParserOptions],
) -> CompiledFormat:
    """Prepare *format* for *tools*; the options are those of `Parser`.

    Everything that does not depend on a response is read once: tools, schemas and markers.
    """
    given: dict[str, Any] = dict(options)
    if reasoning is not None:
        given["reasoning"] = reasoning
    return CompiledFormat(format, tools, given)


def find_spans(events: Iterable[Event], rest: int, size: int) -> list[Span]:
    """Return the spans of *events* and of the *rest* after them, in a text of *size* characters."""
    spans: list[Span] = []
    kind: SpanKind = "other"
    block = start = end = 0
    for event in events:
        if not event.raw or isinstance(event, _OUTSIDE):
            continue  # A parser emits blocks only.
        # Text has no start marker of its own: what its start carries belongs to the block before.
        if not end or not isinstance(event, TextStart):
            new, number = _KINDS.get(type(event), "text"), event.index
            if new != kind or number != block:
                if end > start:
                    spans.append(Span(kind, block, start, end))
                kind, block, start = new, number, end
        end += len(event.raw)
    end += rest
    if kind != "other" and end < size:
        spans.append(Span(kind, block, start, end))
        kind, start = "other", end
    end = max(end, size)
    if end > start:
        spans.append(Span(kind, block, start, end))
    return spans


def _extend(spans: list[Span], kind: SpanKind, block: int, size: int) -> None:
    """Add *size* units of a block to *spans*."""
    if not size:
        return
    start = spans[-1].end if spans else 0
    end = start + size
    if spans and spans[-1].block == block and spans[-1].kind == kind:
        start = spans.pop().start
    spans.append(Span(kind, block, start, end))


def count_in_tokens(spans: Sequence[Span], offsets: Sequence[tuple[int, int]]) -> list[Span]:
    """Return *spans* counted in tokens with these *offsets*, as `CompiledFormat.spans` says."""
    starts = [span.start for span in spans]
    tokens: list[Span] = []
    span = Span("other", 0, 0, 0)
    first = 0  # the first token of the span
    for at, (start, end) in enumerate(offsets):
        if start < end and not span.start <= start < span.end and spans:
            found = spans[bisect_right(starts, start) - 1]
            if found is not span:
                _extend(tokens, span.kind, span.block, at - first)
                span, first = found, at
    _extend(tokens, span.kind, span.block, len(offsets) - first)
    return tokens
