"""One response in, one result out: what every batch job does with each row.

`RowParser` keeps formats and tools prepared. It never raises for the content of a row: a row that
cannot be parsed has the outcome ``invalid`` and says why, so that a job of a million rows does not
end because of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, Unpack

from msgspec import Struct, field

from penstock import _json
from penstock.errors import JSONParseError, UsageError
from penstock.formats import CompiledFormat, Span, find_unread
from penstock.formats import compile as compile_format
from penstock.formats.base import ParserOptions
from penstock.formats.registry import FormatLike
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall
from penstock.parsing import Reasoning

Outcome = Literal["calls", "text", "unread", "incomplete", "invalid"]
"""What became of a row.

* ``calls``: it has calls, and all of them are complete.
* ``text``: it has no call.
* ``unread``: it has no call, but text that looks like one; `error` says why it is not a call.
* ``incomplete``: at least one of its calls is incomplete.
* ``invalid``: the row could not be parsed; `error` says why.
"""

OUTCOMES: Final[tuple[Outcome, ...]] = ("calls", "text", "unread", "incomplete", "invalid")

MAX_TOOL_SETS: Final = 256
"""How many sets of tools are kept prepared; a log has one or two for each client program."""

_CUT_REASONS: Final = frozenset(
    {"length", "max_tokens", "model_length", "max_output_tokens", "incomplete", "aborted", "error"}
)
"""Finish reasons, in lower case, that say that the model was stopped before its end.

`length` is OpenAI's, `max_tokens` that of Anthropic and Gemini, `model_length` Mistral's, and
`max_output_tokens` that of the Responses API."""


class ParsedRow(Struct):
    """The result of one row.

    *repairs* are those of all its calls. *spans* are positions in the response. *error* is the
    reason of the outcomes ``unread`` and ``invalid``, else None.
    """

    text: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    outcome: Outcome = "text"
    error: str | None = None


class RowParser:
    """Parses the responses of a batch; the options are those of `penstock.Parser`.

    With *spans*, each result says which characters belong to which block. With *unread*, responses
    without a call are searched for text that looks like one.
    """

    def __init__(
        self,
        format: FormatLike = "auto",  # noqa: A002 - as everywhere in the interface
        tools: object = (),
        *,
        spans: bool = True,
        unread: bool = True,
        reasoning: str | Reasoning | None = None,
        **options: Unpack[ParserOptions],
    ) -> None:
        self._settings: dict[str, Any] = {"reasoning": reasoning, **options}
        self._compiled = compile_format(format, tools, **self._settings)
        self._compiled.parser()  # An invalid option is an error now, not at the first row.
        self._sets: dict[bytes, CompiledFormat] = {}
        self._spans = spans
        self._unread = unread

    def parse(self, text: object, *, tools: object = None, finish: object = None) -> ParsedRow:
        """Parse one response.

        *tools* replaces the tools of the batch: a list, or its JSON. *finish* is the finish reason
        that the provider reported: a call that the token limit cut is never repaired.
        """
        if not isinstance(text, str):
            written = "" if text is None else _json.encode(text).decode()
            why = "the response is null" if text is None else "the response is not a text"
            return ParsedRow(text=written, outcome="invalid", error=why)
        try:
            compiled = self._compiled if tools is None else self._find_compiled(tools)
        except (UsageError, JSONParseError) as exc:
            return ParsedRow(text=text, outcome="invalid", error=f"invalid tools: {exc}")
        was_cut = isinstance(finish, str) and finish.lower() in _CUT_REASONS
        message, spans = compiled.parse_with_spans(text, cut=was_cut)
        row = make_row(message)
        if self._spans:
            row.spans = spans
        if row.outcome == "text" and self._unread:
            found = find_unread(message, compiled.format, compiled.tools)
            if found:
                row.outcome, row.error = "unread", found[0].description
        return row

    def parse_many(self, texts: Iterable[object]) -> list[ParsedRow]:
        """Parse several responses with the tools of the batch."""
        return [self.parse(text) for text in texts]

    def _find_compiled(self, tools: object) -> CompiledFormat:
        """Return the format prepared for *tools*, a list or its JSON."""
        key = tools.encode("utf-8", "replace") if isinstance(tools, str) else _json.encode(tools)
        if (known := self._sets.get(key)) is not None:
            return known
        value = _json.decode(key)
        compiled = compile_format(self._compiled.format, value or (), **self._settings)
        if len(self._sets) >= MAX_TOOL_SETS:
            del self._sets[next(iter(self._sets))]
        self._sets[key] = compiled
        return compiled


def make_row(message: AssistantMessage) -> ParsedRow:
    """Return the row of a parsed *message*."""
    row = ParsedRow()
    texts: list[str] = []
    thoughts: list[str] = []
    for block in message.content:
        if isinstance(block, ToolCall):
            row.calls.append(block)
            row.repairs += block.repairs
            if row.outcome != "incomplete":
                row.outcome = "calls" if block.complete else "incomplete"
        elif isinstance(block, Text):
            texts.append(block.text)
        elif isinstance(block, Thinking):
            thoughts.append(block.text)
    row.text, row.reasoning = "".join(texts), "".join(thoughts)
    return row
