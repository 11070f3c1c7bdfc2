"""Calls as Python writes them: Llama's lists, bare or between markers, OLMo's lines, and LFM2."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.grammar import Keywords, Outline, check_names
from penstock.formats.grammar.notations import PYTHON, PYTHON_OF_JSON
from penstock.formats.json_tags import as_json
from penstock.formats.proof import proved
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import Body
from penstock.parsing.bodies.pythonic import NAME, LeadingCallReader, PythonCallReader
from penstock.parsing.bodies.pythonic_or_json import PythonOrJSONReader
from penstock.tools import Tool
from penstock.values import literals

_BRACKET: Final = "["
_NAME: Final = re.compile(NAME)


class PythonCalls(Struct, frozen=True):
    """A list of calls from *start* to *end*.

    With *bare* the list may also stand alone, where an answer begins. With *lines* each call is a
    line, without brackets. With *json* the list may be one of objects in JSON, and with
    *json_words* values are written in the words of JSON.
    """

    start: str = ""
    end: str = ""
    bare: bool = False
    lines: bool = False
    json: bool = False
    json_words: bool = False
    result_start: str = ""
    result_end: str = ""
    folds: bool = False

    def syntax(self, tools: Iterable[Tool]) -> PythonCalls:
        """Give itself: the markers are the same for any *tools*."""
        del tools
        return self

    @property
    def starts(self) -> tuple[str, ...]:
        """The start marker, and the bracket where that is enough."""
        return tuple(filter(None, [self.start, _BRACKET if self.bare else ""]))

    def body(self, marker: str) -> Body:
        """Give a fresh reader for what follows *marker*."""
        if marker == _BRACKET:
            return LeadingCallReader(self.end)
        if self.json:
            return PythonOrJSONReader(self.end)
        return PythonCallReader(self.end, lines=self.lines)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* with its arguments by name."""
        if not all(_NAME.fullmatch(name) for name in (call.name, *call.arguments)):
            raise UsageError(f"a name that no call in Python can have, in one of {call.name!r}")
        arguments = ", ".join(
            f"{key}={literals.dumps(value, json_words=self.json_words)}"
            for key, value in call.arguments.items()
        )
        written = f"{call.name}({arguments})"
        listed = written if self.lines else f"[{written}]"
        return proved(self, call, self.start + listed + self.end)

    def outline(self, tool: Tool) -> Outline:
        """Give the outline of a call of *tool*."""
        check_names(self.render_call, tool)
        notation = PYTHON_OF_JSON if self.json_words else PYTHON
        opening, closing = ("", "") if self.lines else ("[", "]")
        return Outline(
            (f"{tool.name}(", Keywords(notation), ")"),
            self.start + opening,
            closing + self.end,
            between="\n" if self.lines else ", ",
            trigger=self.start,
            leads=not self.start,
        )

    def render_result(self, result: ToolResult) -> str:
        """Write a result: text as it is, any other value as JSON."""
        content = result.content
        text = content if isinstance(content, str) else as_json(content)
        return self.result_start + text + self.result_end


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
        models=("llama-3.2-1b", "llama-3.2-3b", "toolace-8b"),
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
        calls=PythonCalls("<function_calls>", "</function_calls>", lines=True, json_words=True),
        prompt=_LINES,
    ),
    Format(
        name="lfm2",
        models=("lfm2", "lfm2.5"),
        calls=PythonCalls(
            "<|tool_call_start|>",
            "<|tool_call_end|>",
            json=True,
            result_start="<|tool_response_start|>",
            result_end="<|tool_response_end|>",
        ),
        prompt=_MARKED,
    ),
)
