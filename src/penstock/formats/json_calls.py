"""Calls in JSON between two markers: Hermes's tags, Gemma's fences, and any others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.errors import UsageError
from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.grammar import Outline, outline_of
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import JSONCallReader
from penstock.parsing.readers.bare_json import BareCalls, is_definition
from penstock.parsing.readers.signed_json import DEFAULT, GEMINI, OPENAI, Profile, profile_of
from penstock.tools import Tool
from penstock.values import rjson

# Calls as bare JSON: an object with a name and arguments, at the start of a line or of a fence.


class BareJSON(Struct, frozen=True):
    """Calls as one JSON object each, with nothing around it."""

    def syntax(self, tools: Iterable[Tool]) -> BareCalls:
        """Return a fresh syntax, for one answer: it follows the fences in it."""
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
        """Return the outline of a call of *tool*."""
        return outline_of(self.render_call, tool)

    def render_result(self, result: ToolResult) -> str:
        """Write a result as one object on a line."""
        failed = {"is_error": True} if result.is_error else {}
        return rjson.dumps({"tool_result": result.name, **failed, "content": result.content})


BARE_JSON_PROMPT: Final = (
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

BARE_JSON: Final[Format] = Format(name="bare_json", calls=BareJSON(), prompt=BARE_JSON_PROMPT)


# Calls as JSON anywhere in an answer, in the shapes that each provider's models were taught.
#
# `json_tool` makes the format of one provider; `JSON_TOOL` is that of all that have none of
# their own. Only known tools are called so: other JSON is text.


class ShapedCalls(Struct, frozen=True):
    """Calls as one JSON object each, in the shape of *profile*."""

    profile: Profile

    def syntax(self, tools: Iterable[Tool]) -> Profile:
        """Return the profile: it reads calls of any *tools*."""
        del tools
        return self.profile

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as the profile's prompt shows it."""
        return rjson.dumps(_shaped(self.profile, call.name, call.arguments))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
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


JSON_TOOL_PROMPT: Final = (
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
    """Return the format of *provider*, whose name may be in any case."""
    return _FORMATS[profile_of(provider).name]


def _format(profile: Profile) -> Format:
    name = "json_tool" if profile is DEFAULT else f"json_tool_{profile.name}"
    return Format(name, ShapedCalls(profile), JSON_TOOL_PROMPT)


_FORMATS: Final = {profile.name: _format(profile) for profile in (DEFAULT, OPENAI, GEMINI)}

JSON_TOOL: Final[Format] = _FORMATS[DEFAULT.name]


class JSONCalls(Struct, frozen=True):
    """An object with a name and arguments, or a list of them, from *start* to *end*."""

    start: str
    end: str
    result_start: str = "<tool_response>"
    result_end: str = "</tool_response>"
    folds: bool = False

    def syntax(self, tools: Iterable[Tool]) -> JSONCalls:
        """Return itself: the markers are the same for any *tools*."""
        del tools
        return self

    @property
    def starts(self) -> tuple[str, ...]:
        """The one marker that opens calls."""
        return (self.start,)

    def body(self, marker: str) -> JSONCallReader:
        """Return a fresh reader for what follows *marker*."""
        del marker
        return JSONCallReader(self.end)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as one object."""
        return self.start + as_json({"name": call.name, "arguments": call.arguments}) + self.end

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        return outline_of(self.render_call, tool, self.start)

    def render_result(self, result: ToolResult) -> str:
        """Write a result as one object."""
        content = as_json({"name": result.name, "content": result.content})
        return self.result_start + content + self.result_end


def as_json(value: object) -> str:
    """Write *value* as JSON text; raise `UsageError` for what JSON has no word for."""
    return _json.encode_strict(value).decode()


def json_mix(
    start: str = "<tool_call>",
    end: str = "</tool_call>",
    result_start: str = "<tool_response>",
    result_end: str = "</tool_response>",
    *,
    name: str = "json_mix",
) -> Format:
    """Make a format of calls in JSON between delimiters of one's own."""
    if not start or not end:
        raise UsageError("calls in JSON need a marker before them and one behind them")
    calls = JSONCalls(start, end, result_start, result_end)
    return Format(name, calls, prompts.JSON_MIX)


HERMES: Final[Format] = Format(
    name="hermes",
    models=("hermes-2-pro", "hermes-3", "qwen2.5", "qwen3"),
    calls=JSONCalls("<tool_call>", "</tool_call>"),
    prompt=prompts.JSON_MIX,
)

GEMMA: Final[Format] = Format(
    name="gemma",
    models=("gemma-2", "gemma-3"),
    calls=JSONCalls("```tool_call\n", "\n```", "```tool_response\n", "\n```"),
    prompt=prompts.FENCES,
)
