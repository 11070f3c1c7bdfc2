"""A format prepared for a set of tools, for programs that parse many responses.

Reading tools from JSON and their schemas costs more than parsing a short response: 0.3 ms for 31
tools. `compile` does that once. Nothing of one response is kept for the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, Unpack

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
from penstock.formats.base import Format, ParserOptions, build_message, collect_message
from penstock.formats.parser import Parser, prepare_tools
from penstock.formats.registry import FormatLike, get
from penstock.messages import AssistantMessage
from penstock.parsing import Reasoning
from penstock.tools import Tool

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
        parser = self.parser()
        events = [*parser.feed(text), *parser.finish(cut=cut)]
        build = collect_message if isinstance(self.format, Format) else build_message
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
    for event in events:
        if not event.raw or isinstance(event, _OUTSIDE):
            continue  # A parser emits blocks only.
        kind, block = _KINDS.get(type(event), "text"), event.index
        if spans and isinstance(event, TextStart):  # Text has no start marker of its own.
            kind, block = spans[-1].kind, spans[-1].block
        _extend(spans, kind, block, len(event.raw))
    last = spans[-1] if spans else Span("other", 0, 0, 0)
    _extend(spans, last.kind, last.block, rest)
    covered = spans[-1].end if spans else 0
    _extend(spans, "other", last.block, size - covered)
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
