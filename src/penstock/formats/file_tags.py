"""Calls with a tag per tool: files, patches and commands, with their text exactly as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.json_calls import as_json
from penstock.formats.round_trip import require_round_trip
from penstock.formats.tool_tag import render_result
from penstock.grammar import Outline, ParameterOutline, Slot
from penstock.grammar.outline import JSON_IN_XML
from penstock.grammar.text_without import ATTRIBUTE_LETTERS, Marks
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.body import Syntax
from penstock.readers.tagged.piped_tools import FILE_TOOLS, REQUIRED, FileTagReader
from penstock.tools import Tool
from penstock.values.rxml.writer import quote_attribute
from penstock.values.schema import Schema


class FileTags(Syntax, Struct, frozen=True):
    """``<write_file path="…">``, ``<edit_file path="…">`` and ``<run_bash>``, for tools *names*."""

    names: tuple[str, ...] = ()

    @property
    def starts(self) -> tuple[str, ...]:
        """How the opening tags begin."""
        return tuple(f"<{name}" for name in self.names)

    @property
    def folds(self) -> bool:
        """Tags count in any case."""
        return True

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
