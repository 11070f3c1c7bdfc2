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
from penstock.formats.grammar import PLACE, Outline, ParameterOutline, Slot, around, slot_of
from penstock.formats.grammar.outline import JSON_IN_XML
from penstock.formats.grammar.text_without import XML_LETTERS, Marks
from penstock.formats.json_calls import as_json
from penstock.formats.round_trip import checked_round_trip
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.readers.tagged.tool_tag import ToolReader, ToolTagReader
from penstock.parsing.readers.tagged.tool_tag_values import (
    EDIT_FILE,
    GENERIC,
    RUN_BASH,
    WRITE_FILE,
    PipedTool,
)
from penstock.tools import Tool
from penstock.values.rxml.writer import escape_text, quote_attribute

# How the calls of single tools are read in ``<tool name="…">``, by the tool's name.
#
# A tool's reader is a `PipedTool`, which says what of the call is special, or a function that
# makes a body reader of one's own. Names are in lower case here, so ``MY_TOOL`` finds
# ``my_tool``. A tool that nobody registered is read by its schema.
#
# ``EDIT_FILE`` and its like are frozen values: `msgspec.structs.replace` makes a reader of
# one's own out of one of them.


class RegisteredTool(Struct, frozen=True):
    """How one tool is read, and the type of the segments that its calls are shown as."""

    reader: ToolReader = GENERIC
    segment_type: str = "tool_call"

    @property
    def content(self) -> str:
        """The argument that is the segment's content; empty where the whole call is."""
        return self.reader.content if isinstance(self.reader, PipedTool) else ""

    @property
    def metadata(self) -> tuple[str, ...]:
        """The arguments that are the segment's metadata."""
        return self.reader.metadata if isinstance(self.reader, PipedTool) else ()


_BUILT_IN: Final = {
    "write_file": RegisteredTool(WRITE_FILE, "write_file"),
    "edit_file": RegisteredTool(EDIT_FILE, "edit_file"),
    "run_bash": RegisteredTool(RUN_BASH, "run_bash"),
}
_OTHER: Final = RegisteredTool()
_tools = dict(_BUILT_IN)


def register_tool(name: str, reader: ToolReader, segment_type: str = "tool_call") -> None:
    """Read the calls of the tool *name*, in any case, with *reader* from now on.

    *reader* is a `PipedTool`, or makes a body reader when it is given the tool's name and the
    attributes of the tag. *segment_type* is what the calls are shown as in segment events.

    Raises `UsageError` for a name that is empty and for what can be no reader.
    """
    if not name.strip():
        raise UsageError("a tool needs a name")
    if not isinstance(reader, PipedTool) and not callable(reader):
        raise UsageError(f"{type(reader).__name__} is no reader of calls")
    _tools[name.lower()] = RegisteredTool(reader, segment_type)


def unregister_tool(name: str) -> None:
    """Undo `register_tool`; penstock's own reader of the name, if it has one, is back then."""
    _tools.pop(name.lower(), None)
    if name.lower() in _BUILT_IN:
        _tools[name.lower()] = _BUILT_IN[name.lower()]


def registered_tool(name: str) -> RegisteredTool:
    """Return how the tool *name* is read; for one that nobody registered, as any tool is."""
    return _tools.get(name.lower(), _OTHER)


def find_reader(name: str) -> ToolReader:
    """Return the reader of the tool *name*."""
    return registered_tool(name).reader


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
        """Return itself: the tag is the same for any *tools*."""
        del tools
        return self

    def body(self, marker: str) -> ToolTagReader:
        """Return a fresh reader for what follows *marker*."""
        return ToolTagReader(marker, find_reader)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* with one ``<arg>`` for each argument."""
        reader = find_reader(call.name)
        tool = reader if isinstance(reader, PipedTool) else PipedTool()
        refused: UsageError | None = None
        for marked in (False, True):
            written = "".join(_argument(*item, tool, marked) for item in call.arguments.items())
            try:
                return checked_round_trip(self, call, _tagged(call.name, written))
            except UsageError as exc:
                refused = exc
        raise refused or UsageError("no way to write this")

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        reader = find_reader(tool.name)
        read = reader if isinstance(reader, PipedTool) else PipedTool()

        def slot(key: str, kind: str) -> Slot:
            del kind
            written = _tagged_argument(key, PLACE)
            if key == read.content:
                return slot_of(written, _MARKS)
            plain = slot_of(written, letters=XML_LETTERS)
            return structs.replace(plain, solid=key in read.metadata)

        parameters = ParameterOutline(slot, JSON_IN_XML)
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
