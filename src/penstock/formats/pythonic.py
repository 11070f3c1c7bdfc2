"""Calls as Python writes them: Llama's lists, bare or between markers, OLMo's lines, and LFM2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.grammar import Keywords, Outline, check_names
from penstock.formats.grammar.outline import PYTHON, PYTHON_OF_JSON, Notation
from penstock.formats.grammar.text_without import JSON_LETTERS, Letters
from penstock.formats.prompts import listed_in
from penstock.formats.rendering import spaced_json
from penstock.formats.round_trip import checked_round_trip
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import BodyReader
from penstock.parsing.readers.pythonic import (
    NAME,
    LeadingCallReader,
    PythonCallReader,
    PythonOrJSONReader,
)
from penstock.tools import Tool
from penstock.values import python_literals

_BRACKET: Final = "["
_NAME: Final = re.compile(NAME)
_STRING: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"')


def _singly_quoted(value: Any) -> str:
    """Write *value* as Python itself would show it, with single quotes in any case."""
    return _STRING.sub(_requoted, python_literals.dumps(value))


def _requoted(string: re.Match[str]) -> str:
    # A double quote in a string of JSON never stands without its backslash.
    inside = string[1].replace('\\"', '"').replace("'", "\\'")
    return f"'{inside}'"


SINGLY_QUOTED: Final = Notation(
    "python-single",
    "True",
    "False",
    "None",
    quote="'",
    letters=Letters("single", "'\\", JSON_LETTERS.ranges, (*JSON_LETTERS.escapes, '"\\\\" "\'"')),
    write=_singly_quoted,
    key=_singly_quoted,
)
"""Literals of Python with single quotes."""


class PythonCalls(Struct, frozen=True):
    """A list of calls from *start* to *end*.

    With *bare* the list may also stand alone, where an answer begins. With *lines* each call is a
    line, without brackets. With *json* the list may be one of objects in JSON. *notation* is how
    values are written.
    """

    start: str = ""
    end: str = ""
    bare: bool = False
    lines: bool = False
    json: bool = False
    notation: Notation = PYTHON
    result_start: str = ""
    result_end: str = ""
    folds: bool = False

    def syntax(self, tools: Iterable[Tool]) -> PythonCalls:
        """Return itself: the markers are the same for any *tools*."""
        del tools
        return self

    @property
    def starts(self) -> tuple[str, ...]:
        """The start marker, and the bracket where that is enough."""
        return tuple(filter(None, [self.start, _BRACKET if self.bare else ""]))

    def body(self, marker: str) -> BodyReader:
        """Return a fresh reader for what follows *marker*."""
        if marker == _BRACKET:
            return LeadingCallReader(self.end)
        if self.json:
            return PythonOrJSONReader(self.end)
        return PythonCallReader(self.end, lines=self.lines)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* with its arguments by name."""
        return checked_round_trip(self, call, self.render_calls([call]))

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* as one list, or on lines of their own."""
        opening, between, closing = self._frame
        return opening + between.join(map(self._call, calls)) + closing

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        check_names(self.render_call, tool)
        opening, between, closing = self._frame
        return Outline(
            (f"{tool.name}(", Keywords(self.notation), ")"),
            opening,
            closing,
            between=between,
            trigger=self.start,
            leads=not self.start,
        )

    def render_result(self, result: ToolResult) -> str:
        """Write a result: text as it is, any other value as JSON."""
        content = result.content
        text = content if isinstance(content, str) else spaced_json(content)
        return self.result_start + text + self.result_end

    @property
    def _frame(self) -> tuple[str, str, str]:
        """What comes before all calls, between two, and after all."""
        if self.lines:
            return self.start, "\n", self.end
        return self.start + "[", ", ", "]" + self.end

    def _call(self, call: ToolCall) -> str:
        """Write *call*; raise `UsageError` for a name that no call in Python can have."""
        if not all(_NAME.fullmatch(name) for name in (call.name, *call.arguments)):
            raise UsageError(f"a name that no call in Python can have, in one of {call.name!r}")
        write = self.notation.write
        arguments = (f"{key}={write(value)}" for key, value in call.arguments.items())
        return f"{call.name}({', '.join(arguments)})"


_LIST: Final = (
    prompts.HEAD
    + """\
To call a tool, write a Python list with the call in it, every argument by its name, like this:

{example}

Values are Python literals: texts in quotes, numbers, True, False, None, lists and dictionaries. \
For several calls, put all of them into the one list, with commas between them.\
"""
)

_MARKED: Final = _LIST + " The two markers stand around the list.\n" + prompts.TAIL
_ALONE: Final = _LIST + " The list is then all that you write.\n" + prompts.TAIL

_LINES: Final = (
    prompts.HEAD
    + """\
To call a tool, write the call between the two tags, every argument by its name, like this:

{example}

Values are JSON: texts in double quotes, numbers, true, false, null, lists and objects. For \
several calls, write one on each line between the same two tags.
"""
    + prompts.TAIL
)

FORMATS: Final[tuple[Format, ...]] = (
    Format(
        name="pythonic",
        models=("toolace-8b",),
        calls=PythonCalls(bare=True),
        prompt=_ALONE,
    ),
    Format(
        name="llama4_pythonic",
        models=("llama-4-scout", "llama-4-maverick"),
        calls=PythonCalls("<|python_start|>", "<|python_end|>", bare=True),
        prompt=_MARKED,
    ),
    Format(
        name="olmo3",
        models=("olmo-3",),
        calls=PythonCalls(
            "<function_calls>", "</function_calls>", lines=True, notation=PYTHON_OF_JSON
        ),
        prompt=_LINES,
    ),
    Format(
        name="lfm2",
        models=("lfm2", "lfm2.5"),
        calls=PythonCalls(
            "<|tool_call_start|>",
            "<|tool_call_end|>",
            json=True,
            notation=SINGLY_QUOTED,
            result_start="<|tool_response_start|>",
            result_end="<|tool_response_end|>",
        ),
        prompt=_MARKED,
        tools=listed_in("List of tools: <|tool_list_start|>{tools}<|tool_list_end|>"),
    ),
)
