"""JSON calls for any model: `HERMES` and other marker pairs, bare JSON, and JSON in prose.

`json_mix` makes a format like hermes with other markers. `BARE_JSON` has no markers, and
`json_tool` returns the format with the call shape of one provider's models. Formats of particular
model families are in `json_models`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from penstock import _json
from penstock.errors import UsageError
from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.grammar import Outline, json_outline
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.body import BodyReader, Syntax
from penstock.parsing.call_shape import CALL
from penstock.readers.bare_json import BARE, BareCalls
from penstock.readers.envelope import is_definition
from penstock.readers.json_calls import JSONCallReader
from penstock.readers.python_lines import ToolCodeReader
from penstock.readers.signed_json import DEFAULT, GEMINI, OPENAI, Profile, find_profile
from penstock.tools import Tool
from penstock.values import rjson


# The end marker is not searched for: a call ends where its JSON does (R3), since "</tool_call>"
# inside a string is data. A missing end marker is tolerated.
class JSONCalls(Syntax, Struct, frozen=True):
    """A JSON object with a name and arguments, or a list of them, between *start* and *end*."""

    start: str
    end: str
    result_start: str = "<tool_response>"
    result_end: str = "</tool_response>"
    folds: bool = False

    @property
    def starts(self) -> tuple[str, ...]:
        """The marker that starts a call."""
        return (self.start,)

    def body(self, marker: str) -> BodyReader:
        """Return a new reader for the text after *marker*."""
        del marker
        return JSONCallReader(self.end)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as one object."""
        return self.start + as_json(CALL.write(call.name, call.arguments)) + self.end

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        return json_outline(self.render_call, tool, self.start)

    def render_result(self, result: ToolResult) -> str:
        """Write a result as one object."""
        content = as_json({"name": result.name, "content": result.content})
        return self.result_start + content + self.result_end


def as_json(value: object) -> str:
    """Write *value* as compact JSON; raise `UsageError` for a value that JSON cannot express."""
    return _json.encode_strict(value).decode()


def json_mix(
    start: str = "<tool_call>",
    end: str = "</tool_call>",
    result_start: str = "<tool_response>",
    result_end: str = "</tool_response>",
    *,
    name: str = "json_mix",
) -> Format:
    """Make a format of JSON calls with custom markers around calls and results."""
    if not start or not end:
        raise UsageError("json_mix needs a non-empty start and end marker")
    calls = JSONCalls(start, end, result_start, result_end)
    return Format(name, calls, prompts.JSON_MIX)


class FencedCalls(JSONCalls, frozen=True):
    """Calls in a fence from *start* to *end*; in one of *code* each line is a call in Python."""

    code: tuple[tuple[str, str], ...] = (("```tool_code\n", "```"), ("<tool_code>", "</tool_code>"))

    @property
    def starts(self) -> tuple[str, ...]:
        """The markers that start a call."""
        return (self.start, *(start for start, _ in self.code))

    def body(self, marker: str) -> BodyReader:
        """Return a new reader for the text after *marker*."""
        end = dict(self.code).get(marker)
        return super().body(marker) if end is None else ToolCodeReader(end)


# Three families share "<tool_call>": JSON after it is hermes, "<function=" is Qwen3-Coder, and a
# bare name is GLM. `auto` decides by the first characters after it.
HERMES: Final[Format] = Format(
    name="hermes",
    models=("hermes-2-pro", "hermes-3", "qwen2.5", "qwen3"),
    calls=JSONCalls("<tool_call>", "</tool_call>"),
    prompt=prompts.JSON_MIX,
)

# Gemma 2 and 3 have no tokens for calls. They were trained on code blocks, and also write Python in
# a block labelled `tool_code`, as Google's documentation shows it.
GEMMA: Final[Format] = Format(
    name="gemma",
    models=("gemma-2", "gemma-3"),
    calls=FencedCalls("```tool_call\n", "\n```", "```tool_response\n", "\n```"),
    prompt=prompts.FENCES,
)


# Bare JSON: an object with a name and arguments, at the start of a line or of a code fence.


class BareJSON(Struct, frozen=True):
    """One JSON object per call, without markers."""

    def syntax(self, tools: Iterable[Tool]) -> BareCalls:
        """Return a new syntax for one response: it keeps track of code fences."""
        del tools
        return BareCalls()

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as one object on a line.

        Raises `UsageError` for arguments that are a JSON Schema: the reader takes an object with
        such arguments for the definition of a tool.
        """
        if is_definition(call.arguments):
            raise UsageError(
                f"arguments of {call.name!r} are a JSON Schema and would parse as a definition"
            )
        return rjson.dumps(BARE.write(call.name, call.arguments))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        return json_outline(self.render_call, tool)

    def render_result(self, result: ToolResult) -> str:
        """Write a result as one object on a line."""
        return _write_result(result)


def _write_result(result: ToolResult) -> str:
    """Write a result as one object; its first key differs from that of any call shape."""
    failed = {"is_error": True} if result.is_error else {}
    return rjson.dumps({"tool_result": result.name, **failed, "content": result.content})


BARE_JSON_PROMPT: Final = f"""\
{prompts.HEAD}\
To call a tool, write one JSON object with its name and its arguments on a line of its own, with \
nothing before or after it, like this:

{{example}}

{prompts.STRICT_JSON} For several calls, write one object after the other, each on a line of its \
own.
{prompts.TAIL}"""

BARE_JSON: Final[Format] = Format(name="bare_json", calls=BareJSON(), prompt=BARE_JSON_PROMPT)


# JSON anywhere in a response, in the shapes that each provider's models were trained on. Only JSON
# that names a known tool is a call; other JSON is text.


class ShapedCalls(Struct, frozen=True):
    """One JSON object per call, in the shape of *profile*."""

    profile: Profile

    def syntax(self, tools: Iterable[Tool]) -> Profile:
        """Return the profile: it does not depend on *tools*."""
        del tools
        return self.profile

    def render_call(self, call: ToolCall) -> str:
        """Write *call* in the shape of the profile."""
        return rjson.dumps(self.profile.shape.write(call.name, call.arguments))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        return json_outline(self.render_call, tool)

    def render_result(self, result: ToolResult) -> str:
        """Write a result as one object."""
        return _write_result(result)


JSON_TOOL_PROMPT: Final = f"""\
{prompts.HEAD}\
To call a tool, write one JSON object of exactly this form:

{{example}}

Keep the keys and their order; change only the name of the tool and its arguments. \
{prompts.STRICT_JSON} For \
several calls, write one object after the other, each on a line of its own.
{prompts.TAIL}"""


def json_tool(provider: str | None = None) -> Format:
    """Return the format for *provider*, ignoring case; unknown providers share `JSON_TOOL`."""
    return _FORMATS[find_profile(provider).name]


def _format(profile: Profile) -> Format:
    name = "json_tool" if profile is DEFAULT else f"json_tool_{profile.name}"
    return Format(name, ShapedCalls(profile), JSON_TOOL_PROMPT)


_FORMATS: Final = {profile.name: _format(profile) for profile in (DEFAULT, OPENAI, GEMINI)}

JSON_TOOL: Final[Format] = _FORMATS[DEFAULT.name]
