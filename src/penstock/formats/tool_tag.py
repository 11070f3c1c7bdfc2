"""Calls in one tag for all tools: ``<tool name="…">`` with an ``<arg name="…">`` for each argument.

Texts stand between the tags, escaped as in XML or in a CDATA section; anything else is JSON there.
The content of a file, a patch or a command is not escaped at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct, structs

from penstock.errors import UsageError
from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.grammar import PLACE, Outline, Parameters, Slot, around, slot_of
from penstock.formats.grammar.notations import JSON_IN_XML
from penstock.formats.grammar.texts import XML_LETTERS, Marks
from penstock.formats.json_tags import as_json
from penstock.formats.proof import proved
from penstock.formats.tool_readers import find_reader
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.bodies.piped_tools import PipedTool
from penstock.parsing.bodies.tool_tags import ToolTagReader
from penstock.tools import Tool
from penstock.values.rxml.text import escape_text, quote_attribute

_MARKS: Final = Marks(("</arg",), folds=True)
"""What a text that is not escaped may not hold in a grammar."""


class ToolTags(Struct, frozen=True):
    """``<tool name="…"> … </tool>``, for known tools only."""

    @property
    def starts(self) -> tuple[str, ...]:
        """How the opening tag begins."""
        return ("<tool",)

    @property
    def folds(self) -> bool:
        """Tags count in any case."""
        return True

    def syntax(self, tools: Iterable[Tool]) -> ToolTags:
        """Give itself: the tag is the same for any *tools*."""
        del tools
        return self

    def body(self, marker: str) -> ToolTagReader:
        """Give a fresh reader for what follows *marker*."""
        return ToolTagReader(marker, find_reader)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* with one ``<arg>`` for each argument."""
        reader = find_reader(call.name)
        tool = reader if isinstance(reader, PipedTool) else PipedTool()
        refused: UsageError | None = None
        for marked in (False, True):
            written = "".join(_argument(*item, tool, marked) for item in call.arguments.items())
            try:
                return proved(self, call, _tagged(call.name, written))
            except UsageError as exc:
                refused = exc
        raise refused or UsageError("no way to write this")

    def outline(self, tool: Tool) -> Outline:
        """Give the outline of a call of *tool*."""
        reader = find_reader(tool.name)
        read = reader if isinstance(reader, PipedTool) else PipedTool()

        def slot(key: str, kind: str) -> Slot:
            del kind
            written = _tagged_argument(key, PLACE)
            if key == read.content:
                return slot_of(written, _MARKS)
            plain = slot_of(written, letters=XML_LETTERS)
            return structs.replace(plain, solid=key in read.metadata)

        parameters = Parameters(slot, JSON_IN_XML)
        return Outline(around(_tagged(tool.name, PLACE), parameters, PLACE), trigger="<tool ")

    def render_result(self, result: ToolResult) -> str:
        """Write a result in a tag that mirrors the call's."""
        return render_result(result)


def render_result(result: ToolResult) -> str:
    """Write what a call gave back as ``<tool_result name="…">``; one that failed says so.

    The content stands there as it is, but for what would end it.
    """
    content = result.content if isinstance(result.content, str) else as_json(result.content)
    content = _RESULT_END.sub("&lt;", content)
    name = quote_attribute(result.name, minimal=True)
    failed = ' is_error="true"' if result.is_error else ""
    return f"<tool_result name={name}{failed}>{content}</tool_result>"


_RESULT_END: Final = re.compile(r"<(?=/tool_result)", re.IGNORECASE)


def _tagged(name: str, written: str) -> str:
    """Write a call whose arguments are *written*."""
    quoted = quote_attribute(name, minimal=True)
    return f"<tool name={quoted}><arguments>{written}</arguments></tool>"


def _tagged_argument(key: str, written: str) -> str:
    return f"<arg name={quote_attribute(key, minimal=True)}>{written}</arg>"


def _argument(key: str, value: Any, tool: PipedTool, marked: bool) -> str:  # noqa: FBT001
    if key != tool.content or not isinstance(value, str):
        written = _escaped(value)
    elif marked and tool.start_marker:
        written = f"{tool.start_marker}\n{value}{tool.end_marker}"
    else:
        written = value
    return _tagged_argument(key, written)


def _escaped(value: Any) -> str:
    """Write a value so that the reader, which trims and decodes, gives it back."""
    if not isinstance(value, str):
        return as_json(value).replace("<", "\\u003c").replace("&", "\\u0026")
    if value != value.strip():
        return f"<![CDATA[{value}]]>"
    return escape_text(value, minimal=True)


TOOL_TAG: Final[Format] = Format(
    name="tool_tag",
    calls=ToolTags(),
    prompt=prompts.HEAD
    + """\
To call a tool, write a `tool` tag with its name, and in it one `arg` tag for each argument, like \
this:

{example}

A text stands between the `arg` tags as it is, but write & as &amp; and < as &lt;, or put the \
whole text into <![CDATA[ and ]]>. The white space around a text is no part of it. Write numbers, \
true, false, null, lists and objects as JSON. The content of `write_file`, the patch of \
`edit_file` and the command of `run_bash` are not escaped: write them exactly as they are to be. \
Close every tag. For several calls, write one `tool` tag for each.
"""
    + prompts.TAIL,
)
