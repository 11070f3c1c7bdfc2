"""Calls as bare JSON: an object with a name and arguments, at the start of a line or of a fence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.grammar import Outline, outline_of
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.bodies.bare_calls import BareCalls
from penstock.parsing.bodies.bare_envelope import is_definition
from penstock.tools import Tool
from penstock.values import rjson


class BareJSON(Struct, frozen=True):
    """Calls as one JSON object each, with nothing around it."""

    def syntax(self, tools: Iterable[Tool]) -> BareCalls:
        """Give a fresh syntax, for one answer: it follows the fences in it."""
        del tools
        return BareCalls()

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as one object on a line.

        Raises `UsageError` for arguments that are a JSON Schema: they read as a definition.
        """
        if is_definition(call.arguments):
            raise UsageError("arguments that are a JSON Schema would read as a tool's definition")
        return rjson.dumps({"name": call.name, "arguments": call.arguments})

    def outline(self, tool: Tool) -> Outline:
        """Give the outline of a call of *tool*."""
        return outline_of(self.render_call, tool)

    def render_result(self, result: ToolResult) -> str:
        """Write a result as one object on a line."""
        failed = {"is_error": True} if result.is_error else {}
        return rjson.dumps({"tool_result": result.name, **failed, "content": result.content})


PROMPT: Final = (
    prompts.HEAD
    + """\
To call a tool, write one JSON object with its name and its arguments on a line of its own, with \
nothing before or behind it, like this:

{example}

Write strict JSON: keys and texts in double quotes; inside a text a quote is \\" and a new line is \
\\n. For several calls, write one object after the other, each on a line of its own.
"""
    + prompts.TAIL
)

BARE_JSON: Final[Format] = Format(name="bare_json", calls=BareJSON(), prompt=PROMPT)
