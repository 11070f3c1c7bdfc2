"""Calls with delimited strings: Gemma 4 and FunctionGemma.

A call is ``call:NAME{key:value,…}``. Strings are verbatim between two delimiters such as ``<|"|>``,
without escapes, so a string that contains the delimiter cannot be written and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.json_calls import as_json
from penstock.formats.prompts import HEAD, TAIL, Mark, write_nested
from penstock.formats.round_trip import require_round_trip
from penstock.grammar import ANY, Arguments, Outline, check_names, split_around
from penstock.grammar.outline import Notation
from penstock.grammar.text_without import RAW, Marks
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.body import Syntax
from penstock.readers.delimited import DelimitedReader, Delimiters
from penstock.tools import Tool

_BARE_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
# The key of a result that is not an object.
_VALUE: Final = "value"


# The first closing delimiter ends a string, because nothing in it is escaped. A delimiter is one
# special token of the model, so text rarely contains it by chance.
class DelimitedCalls(Syntax, Struct, frozen=True):
    """``call:NAME{k:v,…}`` from *start* to *end*, with a *quote* on both sides of a string."""

    start: str
    end: str
    quote: str
    result_start: str
    result_end: str

    @property
    def starts(self) -> tuple[str, ...]:
        """The marker that starts a call."""
        return (self.start,)

    def body(self, marker: str) -> DelimitedReader:
        """Return a new reader for the text after *marker*."""
        del marker
        return DelimitedReader(Delimiters(self.start, self.end, self.quote))

    def render_call(self, call: ToolCall) -> str:
        """Write *call*; raise `UsageError` for a string that contains the quote."""
        arguments = _written(call.arguments, self.quote)
        return require_round_trip(self, call, f"{self.start}call:{call.name}{arguments}{self.end}")

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* with nothing between them."""
        return "".join(map(self.render_call, calls))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        check_names(self.render_call, tool)
        written = self.render_call(ToolCall("", tool.name, ANY))
        place = _written(ANY, self.quote)
        arguments = Arguments(self._notation())
        return Outline(split_around(written, arguments, place), between="", trigger=self.start)

    def _notation(self) -> Notation:
        """Return the notation of values, for a grammar."""
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
        """Write a result; raise `UsageError` for a string that contains the quote."""
        # The templates write the result of a tool as an object in the notation of a call.
        content = result.content if isinstance(result.content, dict) else {_VALUE: result.content}
        written = _written(content, self.quote)
        return f"{self.result_start}response:{result.name}{written}{self.result_end}"


def _written(value: Any, quote: str) -> str:
    def expand(one: Any) -> str | list[Any]:
        if isinstance(one, str):
            return _quoted(one, quote)
        if isinstance(one, dict):
            return _members(one, quote)
        return _items(one) if isinstance(one, list) else as_json(one)

    return write_nested(value, expand)


def _members(members: dict[Any, Any], quote: str) -> list[Any]:
    parts: list[Any] = [Mark("{")]
    for key, value in members.items():
        if not isinstance(key, str):
            raise UsageError(f"a key must be a string, not {type(key).__name__}")
        parts += [Mark(f"{_key(key, quote)}:"), value, Mark(",")]
    return [*(parts[:-1] if members else parts), Mark("}")]


def _key(key: str, quote: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _quoted(key, quote)


def _items(items: list[Any]) -> list[Any]:
    parts: list[Any] = [Mark("[")]
    for item in items:
        parts += [item, Mark(",")]
    return [*(parts[:-1] if items else parts), Mark("]")]


def _quoted(text: str, quote: str) -> str:
    if quote in text:
        raise UsageError(f"a string that contains {quote!r} cannot be written in this format")
    return f"{quote}{text}{quote}"


_HOW: Final = """\
To call a tool, write its name and its arguments as in this example, with all of its markers:

{example}

Put QUOTE directly before and after every string. Write the string between them exactly as it is, \
with quotes and newlines: escape nothing. It must not contain QUOTE itself. Numbers, \
true, false and null have no quotes; a list is [1,2] and an object {key:1,other:2}, to any depth. \
For several calls, repeat all of it, one after the other.
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

# vLLM reads only values between <escape> and loses numbers, booleans and lists. Here they are bare,
# as in Gemma 4.
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
