"""Calls with a tag for each parameter and its value as raw text: how a dialect is read and written.

The families of dialects stand in files of their own: `qwen3_coder`, `glm`, `invokes`, `minimax`.
How a call is written is a template that looks like the call: ``NAME`` is the tool, ``PARAMETERS``
all of its parameters, ``KEY`` and ``VALUE`` one of them. Calls of one message may share a section.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats.grammar import PLACE, Outline, Parameters, Slot, around, check_names, slot_of
from penstock.formats.grammar.notations import Notation
from penstock.formats.grammar.texts import Marks
from penstock.formats.json_text import spaced_json
from penstock.formats.prompts import HEAD, TAIL
from penstock.formats.proof import proved
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.bodies.parameters import Dialect, ParameterCallReader
from penstock.parsing.bodies.parameters.dialects import grammar_of
from penstock.parsing.bodies.parameters.nested import ITEM
from penstock.tools import Tool

_PLACES: Final = re.compile(r'"(?:NAME|KEY)"|NAME|KEY|IS_TEXT|PARAMETERS|VALUE|CONTENT')


class ParameterCalls(Struct, frozen=True):
    """Calls of *dialect*, written as *call* and *parameter* show, results as *result* shows.

    *other_parameter* is how a value is written that the usual way would lose something of. The
    calls of one message stand from *opening* to *closing* with *between* between them.
    """

    dialect: Dialect
    call: str
    parameter: str
    other_parameter: str = ""
    opening: str = ""
    closing: str = ""
    between: str = "\n"
    result: str = "<tool_response>\nCONTENT\n</tool_response>"

    def syntax(self, tools: Iterable[Tool]) -> ParameterCalls:
        """Give itself: the markers are the same for any *tools*."""
        del tools
        return self

    @property
    def starts(self) -> tuple[str, ...]:
        """What opens a section of calls, or a call."""
        return self.dialect.starts

    @property
    def folds(self) -> bool:
        """Markers are matched as they are."""
        return False

    def body(self, marker: str) -> ParameterCallReader:
        """Give a fresh reader for what follows *marker*."""
        return ParameterCallReader(self.dialect, marker)

    def render_call(self, call: ToolCall) -> str:
        """Write *call*; raise `UsageError` for a value that holds what would end it."""
        return self.render_calls([call])

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* in one section; raise `UsageError` as `render_call` does."""
        return self._in_section(self.between.join(map(self._call, calls)))

    def outline(self, tool: Tool) -> Outline:
        """Give the outline of a call of *tool*."""
        check_names(self.render_call, tool)
        places = {"NAME": tool.name, "PARAMETERS": PLACE}
        notation = Notation("json-in-tags", marks=self._marks)
        nests = self.dialect.nests
        parameters = Parameters(self._slot, notation, elements=nests, item=ITEM if nests else "")
        return Outline(
            around(_filled(self.call, places), parameters, PLACE),
            self.opening,
            self.closing,
            between=self.between,
            trigger=next(filter(self._in_section(self.call).startswith, self.dialect.starts), ""),
        )

    def render_result(self, result: ToolResult) -> str:
        """Write a result: text as it is, any other value as JSON."""
        content = result.content if isinstance(result.content, str) else spaced_json(result.content)
        return _filled(self.result, {"NAME": result.name, "CONTENT": content})

    @property
    def _marks(self) -> Marks:
        """What a value may not hold in a grammar: whatever might end it."""
        return Marks(grammar_of(self.dialect).ends)

    def _in_section(self, written: str) -> str:
        return self.opening + written + self.closing

    def _call(self, call: ToolCall) -> str:
        """Write *call* in the first way that reads back."""
        refused: UsageError | None = None
        for template in filter(None, (self.parameter, self.other_parameter)):
            written = "".join(self._parameter(template, *item) for item in call.arguments.items())
            text = _filled(self.call, {"NAME": call.name, "PARAMETERS": written})
            try:
                proved(self, call, self._in_section(text))
            except UsageError as exc:
                refused = exc
            else:
                return text
        raise refused or UsageError("no way to write this")

    def _slot(self, key: str, kind: str) -> Slot:
        places = {"KEY": key, "VALUE": PLACE, "IS_TEXT": "true" if kind == "string" else "false"}
        return slot_of(_filled(self.parameter, places), self._marks)

    def _parameter(self, template: str, key: str, value: Any) -> str:
        is_text = isinstance(value, str)
        prefix = self.dialect.spelling.prefix
        written = _elements(value, prefix) if self.dialect.nests else _written(value)
        places = {"KEY": key, "VALUE": written, "IS_TEXT": "true" if is_text else "false"}
        return _filled(template, places)


def prompt_of(how: str) -> str:
    """Give the prompt of a format; *how* says what is special about its values."""
    return f"{HEAD}{_CALL}{how} For several calls, {_REPEAT}\n{TAIL}"


_CALL: Final = """\
To call a tool, write its name and each of its arguments between tags, like this:

{example}

"""
_REPEAT: Final = "repeat all of it, one after the other."


def _filled(template: str, places: Mapping[str, str]) -> str:
    """Fill the places of *template*, all at once: what is put in may hold the name of a place."""

    def fill(place: re.Match[str]) -> str:
        name = place[0]
        if name.startswith('"'):
            return _quoted(places[name[1:-1]])
        return places[name]

    return _PLACES.sub(fill, template)


def _quoted(text: str) -> str:
    quote = "'" if '"' in text else '"'
    return f"{quote}{text}{quote}"


def _written(value: Any) -> str:
    return value if isinstance(value, str) else spaced_json(value)


class _Mark(str):
    """Markup that stands between values."""

    __slots__ = ()


def _elements(value: Any, prefix: str) -> str:
    """Write *value* as elements; what is inside of it waits in a list, so that it may be deep."""
    pieces: list[str] = []
    waiting = [value]
    while waiting:
        match waiting.pop():
            case _Mark() as mark:
                pieces.append(mark)
            case dict() as members:
                for key, inner in reversed(members.items()):
                    waiting += _element(key, inner, prefix)
            case list() as items:
                for inner in reversed(items):
                    waiting += _element(ITEM, inner, prefix)
            case leaf:
                pieces.append(_written(leaf))
    return "".join(pieces)


def _element(key: str, value: Any, prefix: str) -> list[Any]:
    return [_Mark(f"{prefix}</{key}>"), value, _Mark(f"{prefix}<{key}>")]
