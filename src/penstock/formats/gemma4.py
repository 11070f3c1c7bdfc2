"""Calls that are spelled out, with marks of their own around texts: the newer Gemma models.

A text is between two marks as it is, so that nothing in it needs an escape; a text that holds
the mark itself cannot be written, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.grammar import ANY, Arguments, Outline, around, check_names
from penstock.formats.grammar.outline import Notation
from penstock.formats.grammar.text_without import RAW, Marks
from penstock.formats.json_calls import as_json
from penstock.formats.prompts import HEAD, TAIL
from penstock.formats.round_trip import checked_round_trip
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.readers.delimited import DelimitedReader, Delimiters
from penstock.tools import Tool

_BARE_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_VALUE: Final = "value"
"""The key under which a result stands that is not an object."""


class DelimitedCalls(Struct, frozen=True):
    """``call:NAME{k:v,…}`` from *start* to *end*, with a *quote* on both sides of a text."""

    start: str
    end: str
    quote: str
    result_start: str
    result_end: str

    def syntax(self, tools: Iterable[Tool]) -> DelimitedCalls:
        """Return itself: the markers are the same for any *tools*."""
        del tools
        return self

    @property
    def starts(self) -> tuple[str, ...]:
        """The one marker that opens a call."""
        return (self.start,)

    @property
    def folds(self) -> bool:
        """Markers are matched as they are."""
        return False

    def body(self, marker: str) -> DelimitedReader:
        """Return a fresh reader for what follows *marker*."""
        del marker
        return DelimitedReader(Delimiters(self.start, self.end, self.quote))

    def render_call(self, call: ToolCall) -> str:
        """Write *call*; raise `UsageError` for a text that holds the quote."""
        arguments = _written(call.arguments, self.quote)
        return checked_round_trip(self, call, f"{self.start}call:{call.name}{arguments}{self.end}")

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* with nothing between them."""
        return "".join(map(self.render_call, calls))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        check_names(self.render_call, tool)
        written = self.render_call(ToolCall("", tool.name, ANY))
        place = _written(ANY, self.quote)
        arguments = Arguments(self._notation())
        return Outline(around(written, arguments, place), between="", trigger=self.start)

    def _notation(self) -> Notation:
        """Say how values are written, for a grammar."""
        return Notation(
            "delimited",
            quote=self.quote,
            letters=RAW,
            marks=Marks((self.quote,)),
            spaced=False,
            write=lambda value: _written(value, self.quote),
            key=lambda key: _key(key, self.quote),
        )

    def render_result(self, result: ToolResult) -> str:
        """Write a result; raise `UsageError` for a text that holds the quote."""
        content = result.content if isinstance(result.content, dict) else {_VALUE: result.content}
        written = _written(content, self.quote)
        return f"{self.result_start}response:{result.name}{written}{self.result_end}"


class _Mark(str):
    """Text that stands as it is between values."""

    __slots__ = ()


def _written(value: Any, quote: str) -> str:
    """Write *value*; what is inside of it waits in a list, so that it may be deep."""
    pieces: list[str] = []
    waiting = [value]
    while waiting:
        match waiting.pop():
            case _Mark() as mark:
                pieces.append(mark)
            case str() as text:
                pieces.append(_quoted(text, quote))
            case dict() as members:
                waiting += reversed(_members(members, quote))
            case list() as items:
                waiting += reversed(_items(items))
            case other:
                pieces.append(as_json(other))
    return "".join(pieces)


def _members(members: dict[Any, Any], quote: str) -> list[Any]:
    parts: list[Any] = [_Mark("{")]
    for key, value in members.items():
        if not isinstance(key, str):
            raise UsageError(f"a key is text, not {type(key).__name__}")
        parts += [_Mark(f"{_key(key, quote)}:"), value, _Mark(",")]
    return [*(parts[:-1] if members else parts), _Mark("}")]


def _key(key: str, quote: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _quoted(key, quote)


def _items(items: list[Any]) -> list[Any]:
    parts: list[Any] = [_Mark("[")]
    for item in items:
        parts += [item, _Mark(",")]
    return [*(parts[:-1] if items else parts), _Mark("]")]


def _quoted(text: str, quote: str) -> str:
    if quote in text:
        raise UsageError(f"a text that holds {quote!r} cannot be written in this format")
    return f"{quote}{text}{quote}"


_HOW: Final = """\
To call a tool, write its name and its arguments as in this example, and keep every mark of it:

{example}

Put QUOTE right before and right behind every text. Between the two the text stands as it is, with \
its quotes and its new lines: nothing is escaped, and QUOTE itself must not occur in it. Numbers, \
true, false and null stand alone; a list is [1,2] and an object {key:1,other:2}, to any depth. For \
several calls, repeat all of it, one after the other.
"""


def _prompt(calls: DelimitedCalls) -> str:
    return HEAD + _HOW.replace("QUOTE", calls.quote) + TAIL


_GEMMA4: Final = DelimitedCalls(
    start="<|tool_call>",
    end="<tool_call|>",
    quote='<|"|>',
    result_start="<|tool_response>",
    result_end="<tool_response|>",
)

_FUNCTION_GEMMA: Final = DelimitedCalls(
    start="<start_function_call>",
    end="<end_function_call>",
    quote="<escape>",
    result_start="<start_function_response>",
    result_end="<end_function_response>",
)

GEMMA4: Final[Format] = Format(
    name="gemma4",
    models=("gemma-4",),
    calls=_GEMMA4,
    prompt=_prompt(_GEMMA4),
)

FUNCTION_GEMMA: Final[Format] = Format(
    name="functiongemma",
    models=("functiongemma",),
    calls=_FUNCTION_GEMMA,
    prompt=_prompt(_FUNCTION_GEMMA),
)

FORMATS: Final[tuple[Format, ...]] = (GEMMA4, FUNCTION_GEMMA)
