"""Calls in one tag for all tools: ``<tool name="…">`` with an ``<arg name="…">`` for each argument.

Texts between the tags are escaped as in XML or in a CDATA section; anything else is JSON. The
content of a file, a patch or a command is not escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct, structs

from penstock.errors import UsageError
from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.json_calls import as_json
from penstock.formats.round_trip import require_round_trip
from penstock.grammar import PLACE, Outline, ParameterOutline, Slot, make_slot, split_around
from penstock.grammar.outline import JSON_IN_XML
from penstock.grammar.text_without import ATTRIBUTE_LETTERS, XML_LETTERS, Marks
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.body import Syntax
from penstock.readers.tagged.piped_tools import (
    EDIT_FILE,
    FILE_TOOLS,
    GENERIC,
    REQUIRED,
    RUN_BASH,
    WRITE_FILE,
    FileTagReader,
    PipedTool,
)
from penstock.readers.tagged.tool_tag import ToolReader, ToolTagReader
from penstock.tools import Tool
from penstock.values.rxml.writer import escape_text, quote_attribute
from penstock.values.schema import Schema

# How the calls of single tools are read in ``<tool name="…">``, by the tool's name.
#
# A tool's reader is a `PipedTool`, which names its special arguments, or a function that makes a
# body reader. Names are in lower case here, so ``MY_TOOL`` finds ``my_tool``. A tool that was not
# registered is read by its schema.
#
# ``EDIT_FILE`` and its like are frozen values: `msgspec.structs.replace` makes a variant of one.


class RegisteredTool(Struct, frozen=True):
    """How one tool is read, and the type of its segments in segment events."""

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

    *reader* is a `PipedTool`, or a function that makes a body reader from the tool's name and the
    attributes of the tag. *segment_type* is the type of the calls in segment events.

    Raise `UsageError` for an empty name and for an invalid reader.
    """
    if not name.strip():
        raise UsageError("the name of a tool must not be empty")
    if not isinstance(reader, PipedTool) and not callable(reader):
        raise UsageError(f"a reader must be a PipedTool or a function, not {type(reader).__name__}")
    _tools[name.lower()] = RegisteredTool(reader, segment_type)


def unregister_tool(name: str) -> None:
    """Undo `register_tool`; the built-in reader of the name, if there is one, is used again."""
    _tools.pop(name.lower(), None)
    if name.lower() in _BUILT_IN:
        _tools[name.lower()] = _BUILT_IN[name.lower()]


def registered_tool(name: str) -> RegisteredTool:
    """Return how the tool *name* is read; the default for one that was not registered."""
    return _tools.get(name.lower(), _OTHER)


def find_reader(name: str) -> ToolReader:
    """Return the reader of the tool *name*."""
    return registered_tool(name).reader


# What a text that is not escaped may not hold in a grammar.
_MARKS: Final = Marks(("</arg",), folds=True)


class ToolTags(Syntax, Struct, frozen=True):
    """``<tool name="…"> … </tool>``, for known tools only."""

    starts = ("<tool",)
    folds = True

    def body(self, marker: str) -> ToolTagReader:
        """Return a new reader for the text after *marker*."""
        return ToolTagReader(marker, find_reader)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* with one ``<arg>`` for each argument."""
        reader = find_reader(call.name)
        tool = reader if isinstance(reader, PipedTool) else PipedTool()
        refused: UsageError | None = None
        for marked in (False, True):
            written = "".join(
                _write_argument(*item, tool, marked) for item in call.arguments.items()
            )
            try:
                return require_round_trip(self, call, _write_call(call.name, written))
            except UsageError as exc:
                refused = exc
        raise refused or UsageError("this call cannot be written in this format")

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        reader = find_reader(tool.name)
        read = reader if isinstance(reader, PipedTool) else PipedTool()

        def slot(key: str, kind: str) -> Slot:
            del kind
            written = _write_argument_tag(key, PLACE)
            if key == read.content:
                return make_slot(written, _MARKS)
            plain = make_slot(written, letters=XML_LETTERS)
            return structs.replace(plain, solid=key in read.metadata)

        parameters = ParameterOutline(slot, JSON_IN_XML)
        return Outline(
            split_around(_write_call(tool.name, PLACE), parameters, PLACE), trigger="<tool "
        )

    def render_result(self, result: ToolResult) -> str:
        """Write a result in a tag that mirrors the call's."""
        return render_result(result)


def render_result(result: ToolResult) -> str:
    """Write a result as ``<tool_result name="…">``, with ``is_error`` if the call failed.

    The content is written as it is, except for a tag that would end it.
    """
    content = result.content if isinstance(result.content, str) else as_json(result.content)
    content = _RESULT_END.sub("&lt;", content)
    name = quote_attribute(result.name, minimal=True)
    failed = ' is_error="true"' if result.is_error else ""
    return f"<tool_result name={name}{failed}>{content}</tool_result>"


_RESULT_END: Final = re.compile(r"<(?=/tool_result)", re.IGNORECASE)


def _write_call(name: str, written: str) -> str:
    """Write a call whose arguments are *written*."""
    quoted = quote_attribute(name, minimal=True)
    return f"<tool name={quoted}><arguments>{written}</arguments></tool>"


def _write_argument_tag(key: str, written: str) -> str:
    return f"<arg name={quote_attribute(key, minimal=True)}>{written}</arg>"


def _write_argument(key: str, value: Any, tool: PipedTool, marked: bool) -> str:  # noqa: FBT001
    if key != tool.content or not isinstance(value, str):
        written = _escape(value)
    elif marked and tool.start_marker:
        written = f"{tool.start_marker}\n{value}{tool.end_marker}"
    else:
        written = value
    return _write_argument_tag(key, written)


def _escape(value: Any) -> str:
    """Write a value so that the reader, which trims and decodes, returns it."""
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

Write strings between the `arg` tags, with & as &amp; and < as &lt;, or put the whole string into \
<![CDATA[ and ]]>. White space around a string is not part of it. Write numbers, \
true, false, null, lists and objects as JSON. The content of `write_file`, the patch of \
`edit_file` and the command of `run_bash` are not escaped: write them exactly as they are. \
Close every tag. For several calls, write one `tool` tag for each.
"""
    + prompts.TAIL,
)


# --- a tag per tool ---


class FileTags(Syntax, Struct, frozen=True):
    """``<write_file path="…">``, ``<edit_file path="…">`` and ``<run_bash>``, for tools *names*."""

    folds = True
    names: tuple[str, ...] = ()

    @property
    def starts(self) -> tuple[str, ...]:
        """How the opening tags begin."""
        return tuple(f"<{name}" for name in self.names)

    def syntax(self, tools: Iterable[Tool]) -> FileTags:
        """Return the syntax of those of *tools* that have a tag."""
        names = {tool.name.lower() for tool in tools}
        return FileTags(tuple(name for name in FILE_TOOLS if name in names))

    def body(self, marker: str) -> FileTagReader:
        """Return a new reader for the text after *marker*."""
        return FileTagReader(marker)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as its tag; only the tools that have one can be called."""
        tool = FILE_TOOLS.get(call.name.lower())
        content = call.arguments.get(tool.content) if tool is not None else None
        if tool is None or not isinstance(content, str):
            raise UsageError(f"this format cannot write this call of {call.name!r}")
        attributes = "".join(
            f" {key}={quote_attribute(_attribute(value), minimal=True)}"
            for key, value in call.arguments.items()
            if key != tool.content
        )
        name = call.name.lower()
        return require_round_trip(self, call, f"<{name}{attributes}>{content}</{name}>")

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        found = FILE_TOOLS.get(tool.name.lower())
        if found is None:
            raise UsageError(f"this format has no tag for the tool {tool.name!r}")
        properties = Schema(tool.parameters).properties
        self.render_call(
            ToolCall("", tool.name, {key: _sample(child) for key, child in properties.items()})
        )
        name = tool.name.lower()
        attributes = ParameterOutline(
            _attribute_slot, JSON_IN_XML, but=found.content, needs=(REQUIRED,)
        )
        content = ParameterOutline(
            lambda *_: Slot("", "", Marks((f"</{name}",), folds=True)), only=found.content
        )
        return Outline((f"<{name}", attributes, ">", content, f"</{name}>"), trigger=f"<{name}")

    def render_result(self, result: ToolResult) -> str:
        """Write a result in a tag that names the tool."""
        return render_result(result)


def _sample(schema: Schema) -> Any:
    """Return a value that *schema* may accept, to check whether it can be written."""
    return {"boolean": True, "integer": 1, "number": 1}.get(schema.wants or "", "text")


def _attribute_slot(key: str, kind: str) -> Slot:
    del kind
    return Slot(f' {key}="', '"', letters=ATTRIBUTE_LETTERS, solid=key == REQUIRED)


def _attribute(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


FILE_TAGS: Final[Format] = Format(
    name="file_tags",
    calls=FileTags(),
    prompt=prompts.HEAD
    + """\
The tools `write_file`, `edit_file` and `run_bash`, if they are listed, are called with a tag of \
the same name. The content, the patch or the command is between the opening and the closing tag, \
and every other argument is an attribute of the opening tag, like this:

{example}

Write the text between the tags exactly as it is: escape nothing, and add no line break after the \
opening tag. The first closing tag of \
that name ends the text. Put attributes in double quotes. For several calls, write one tag after \
the other.
"""
    + prompts.TAIL,
)
