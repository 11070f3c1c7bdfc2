"""Calls as JSON anywhere in an answer, in the shapes that each provider's models were taught.

`json_tool` makes the format of one provider; `JSON_TOOL` is that of all that have none of their
own. Only known tools are called so: other JSON is text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.grammar import Outline, outline_of
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.bodies.json_shapes import DEFAULT, GEMINI, OPENAI, Profile, profile_of
from penstock.tools import Tool
from penstock.values import rjson


class ShapedCalls(Struct, frozen=True):
    """Calls as one JSON object each, in the shape of *profile*."""

    profile: Profile

    def syntax(self, tools: Iterable[Tool]) -> Profile:
        """Give the profile: it reads calls of any *tools*."""
        del tools
        return self.profile

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as the profile's prompt shows it."""
        return rjson.dumps(_shaped(self.profile, call.name, call.arguments))

    def outline(self, tool: Tool) -> Outline:
        """Give the outline of a call of *tool*."""
        return outline_of(self.render_call, tool)

    def render_result(self, result: ToolResult) -> str:
        """Write a result as one object; no bracket in it begins as a call does."""
        failed = {"is_error": True} if result.is_error else {}
        return rjson.dumps({"tool_result": result.name, **failed, "content": result.content})


def _shaped(profile: Profile, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if profile is OPENAI:
        return {"tool": {"function": {"name": name, "arguments": arguments}}}
    if profile is GEMINI:
        return {"name": name, "args": arguments}
    return {"tool": {"function": name, "parameters": arguments}}


PROMPT: Final = (
    prompts.HEAD
    + """\
To call a tool, write one JSON object of exactly this form:

{example}

Keep the keys and their order; change only the name of the tool and its arguments. Write strict \
JSON: keys and texts in double quotes; inside a text a quote is \\" and a new line is \\n. For \
several calls, write one object after the other, each on a line of its own.
"""
    + prompts.TAIL
)


def json_tool(provider: str | None = None) -> Format:
    """Give the format of *provider*, whose name may be in any case."""
    return _FORMATS[profile_of(provider).name]


def _format(profile: Profile) -> Format:
    name = "json_tool" if profile is DEFAULT else f"json_tool_{profile.name}"
    return Format(name, ShapedCalls(profile), PROMPT)


_FORMATS: Final = {profile.name: _format(profile) for profile in (DEFAULT, OPENAI, GEMINI)}

JSON_TOOL: Final[Format] = _FORMATS[DEFAULT.name]
