"""Calls as elements with a YAML mapping inside, for any model by prompt (AI SDK ``yamlXml``)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.morph_xml import MORPH_XML
from penstock.formats.prompts import HEAD, TAIL, spaced_json
from penstock.formats.round_trip import require_round_trip
from penstock.grammar import Outline, ParameterOutline, Slot, check_names
from penstock.messages import ToolCall, ToolResult
from penstock.readers.yaml_calls import YAMLCalls
from penstock.tools import Tool
from penstock.values import yaml
from penstock.values.rxml.markup import is_name

_PLAIN: Final = re.compile(r"[A-Za-z_/](?:[\w ./-]*[\w./-])?")
"""Strings that are written without quotes, if they are not a word of YAML."""

_BLOCK: Final = re.compile(r"[^\s\x00-\x1f\x7f-\x9f].*(?:\n.*)+", re.DOTALL)
"""Strings of several lines that a literal block can hold."""

_UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


class YAMLStyle(Struct, frozen=True):
    """An element per call, with one line or one literal block per argument."""

    def syntax(self, tools: Iterable[Tool]) -> YAMLCalls:
        """Return the syntax of calls of *tools*: no other name is ever called."""
        return YAMLCalls(tuple(tool.name for tool in tools if is_name(tool.name)))

    def render_call(self, call: ToolCall) -> str:
        """Write *call*; raise `UsageError` for names that a tag or a YAML key cannot have."""
        if not is_name(call.name):
            raise UsageError(f"{call.name!r} cannot be the name of a tag")
        lines = "".join(f"{key}: {_write(value)}\n" for key, value in call.arguments.items())
        return require_round_trip(self, call, f"<{call.name}>\n{lines}</{call.name}>")

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*: a line for each argument, in JSON.

        JSON is YAML, and a grammar cannot count how deep the lines of a block are indented.
        """
        check_names(self.render_call, tool)
        arguments = ParameterOutline(lambda key, _: Slot(f"{key}: ", "\n"), quotes=True)
        return Outline((f"<{tool.name}>\n", arguments, f"</{tool.name}>"))

    def render_result(self, result: ToolResult) -> str:
        """Write a result as one element with the tool's name and its content."""
        return MORPH_XML.calls.render_result(result)


def _write(value: Any) -> str:
    """Write *value* as a YAML value on the line of its key."""
    if not isinstance(value, str):
        return spaced_json(value)
    if _PLAIN.fullmatch(value) and yaml.resolve(value) == value:
        return value
    if _BLOCK.fullmatch(value) and not _UNPRINTABLE.search(value):
        body = value.rstrip("\n")
        ends = len(value) - len(body)
        mark = "-" if ends == 0 else "" if ends == 1 else "+"
        lines = "\n".join(f"  {line}" if line else "" for line in body.split("\n"))
        return f"|{mark}\n{lines}" + "\n" * max(ends - 1, 0)
    return spaced_json(value)


_HOW: Final = """\
To call a tool, write one element: its tag is the name of the tool, and inside it is a YAML \
mapping with one key for each argument, like this:

{example}

Write a string of several lines after a `|`, and indent only its lines. Put a string in double \
quotes if it looks like a number or contains a colon or a `#`. For several calls, write one \
element for each, one after the other. Close every tag.
"""

YAML_XML: Final[Format] = Format(name="yaml_xml", calls=YAMLStyle(), prompt=HEAD + _HOW + TAIL)
