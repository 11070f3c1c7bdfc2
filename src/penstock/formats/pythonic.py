"""Calls in Python syntax: ToolACE, Llama 4, OLMo 3 and LFM2."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.json_models import LeadingJSON
from penstock.formats.prompts import text_or_json, tools_as_list
from penstock.formats.round_trip import require_round_trip
from penstock.grammar import ANY, Arguments, Keywords, Outline, check_names, split_around
from penstock.grammar.outline import PYTHON, PYTHON_OF_JSON, Notation
from penstock.grammar.text_without import JSON_LETTERS, Letters
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import BodyReader
from penstock.parsing.body import Syntax
from penstock.readers.python_lines import BracketReader
from penstock.readers.pythonic import (
    NAME,
    DictListReader,
    MarkedDictReader,
    PythonCallReader,
    PythonOrJSONReader,
)
from penstock.tools import Tool
from penstock.values import python_literals

_BRACKET: Final = "["
_NAME: Final = re.compile(NAME)
_STRING: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"')


def _singly_quoted(value: Any) -> str:
    """Write *value* as a Python literal with single quotes."""
    return _STRING.sub(
        # `python_literals.dumps` writes every double quote in a string with a backslash.
        lambda string: "'" + string[1].replace('\\"', '"').replace("'", "\\'") + "'",
        python_literals.dumps(value),
    )


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
"""Python literals with single quotes, as LFM2 writes them."""


# vLLM finds such lists with a pattern that backtracks, which it guards with a timeout, and parses
# the whole list with `ast`. Here literals are read as they arrive.
class PythonCalls(Syntax, Struct, frozen=True):
    """A list of calls from *start* to *end*.

    With *bare* the list may also begin the response without markers. With *lines* each call is a
    line, without brackets. With *json* the list may also contain JSON objects. With *alone*, text
    on the line of its end shows that a bare list was not meant. *notation* is how values are
    written.
    """

    start: str = ""
    end: str = ""
    bare: bool = False
    lines: bool = False
    json: bool = False
    alone: bool = False
    notation: Notation = PYTHON
    result_start: str = ""
    result_end: str = ""
    folds: bool = False

    @property
    def starts(self) -> tuple[str, ...]:
        """The start marker, and with *bare* the bracket."""
        return tuple(filter(None, [self.start, _BRACKET if self.bare else ""]))

    def body(self, marker: str) -> BodyReader:
        """Return a new reader for the text after *marker*."""
        # A bare list counts only if an identifier and "(" follow the bracket, and the name is
        # known: anything else that begins with a bracket is text.
        if marker == _BRACKET:
            return BracketReader(self.end, alone=self.alone)
        if self.json:
            return PythonOrJSONReader(self.end)
        return PythonCallReader(self.end, lines=self.lines)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* with its arguments by name."""
        return require_round_trip(self, call, self.render_calls([call]))

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* as one list, or one per line."""
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
        """Write a result: text verbatim, any other value as JSON."""
        return self.result_start + text_or_json(result.content) + self.result_end

    @property
    def _frame(self) -> tuple[str, str, str]:
        """The text before all calls, between two, and after all."""
        if self.lines:
            return self.start, "\n", self.end
        return self.start + "[", ", ", "]" + self.end

    def _call(self, call: ToolCall) -> str:
        """Write *call*; raise `UsageError` for a name that is not a Python identifier."""
        # Dots are allowed: LFM2 writes names such as `ns.f`.
        if not all(_NAME.fullmatch(name) for name in (call.name, *call.arguments)):
            raise UsageError(
                f"the call of {call.name!r} has a name that is not valid in a Python call"
            )
        write = self.notation.write
        arguments = (f"{key}={write(value)}" for key, value in call.arguments.items())
        return f"{call.name}({', '.join(arguments)})"


class PythonObjects(LeadingJSON, frozen=True):
    """Calls as a Python list of dicts; JSON is read too."""

    def body(self, marker: str) -> BodyReader:
        """Return a new reader for the text after *marker*."""
        return DictListReader(marker) if marker == _BRACKET else MarkedDictReader()

    def _json(self, value: object) -> str:
        return _singly_quoted(value)

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        check_names(self.render_call, tool)
        call = _singly_quoted(self.members(ToolCall("", tool.name, ANY)))
        opening, _, closing = self.written.partition("{call}")
        pieces = split_around(call, Arguments(SINGLY_QUOTED), _singly_quoted(ANY))
        return Outline(pieces, opening, closing, between=self.between, trigger=self.starts[0])


_LIST: Final = f"""\
{prompts.HEAD}\
To call a tool, write a Python list with the call in it, every argument by its name, like this:

{{example}}

Values are Python literals: strings in quotes, numbers, True, False, None, lists and dictionaries. \
For several calls, put all of them into one list, separated by commas.\
"""

_MARKED: Final = f"{_LIST} Put the list between the two markers.\n{prompts.TAIL}"
_ALONE: Final = f"{_LIST} Then write nothing but the list.\n{prompts.TAIL}"

_LINES: Final = f"""\
{prompts.HEAD}\
To call a tool, write the call between the two tags, every argument by its name, like this:

{{example}}

Values are JSON: strings in double quotes, numbers, true, false, null, lists and objects. For \
several calls, write one on each line between the same two tags.
{prompts.TAIL}"""

_DICTS: Final = f"""\
{prompts.HEAD}\
To call a tool, write the marker and a Python list with one dict in it that has the name and the \
arguments, like this:

{{example}}

Values are Python literals: strings in quotes, numbers, True, False, None, lists and dicts. For \
several calls, put one dict for each into the list.
{prompts.TAIL}"""

FORMATS: Final[tuple[Format, ...]] = (
    Format(
        name="pythonic",
        models=("toolace-8b",),
        calls=PythonCalls(bare=True),
        prompt=_ALONE,
    ),
    Format(
        # Both markers are optional, and text before <|python_start|> is content.
        name="llama4_pythonic",
        models=("llama-4-scout", "llama-4-maverick"),
        calls=PythonCalls("<|python_start|>", "<|python_end|>", bare=True),
        prompt=_MARKED,
    ),
    Format(
        # One call per line, without brackets or commas; literals may be JSON's (`true`, `null`).
        name="olmo3",
        models=("olmo-3",),
        calls=PythonCalls(
            "<function_calls>", "</function_calls>", lines=True, notation=PYTHON_OF_JSON
        ),
        prompt=_LINES,
    ),
    Format(
        # The same markers may hold a JSON array of calls.
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
        tools=tools_as_list("List of tools: <|tool_list_start|>{tools}<|tool_list_end|>"),
    ),
)

SARASHINA: Final[Format] = Format(
    name="sarashina",
    models=("sarashina",),
    # Servers usually strip the marker, a special token: the bare list begins the output then.
    calls=PythonObjects(
        starts=("<|tool_calls|>", "["),
        written="<|tool_calls|>[{call}]",
        between=", ",
    ),
    prompt=_DICTS,
)
