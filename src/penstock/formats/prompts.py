"""Prompts that list tools and explain how to call them.

A prompt is text with two places: ``{tools}`` is replaced by the tools as JSON and ``{example}`` by
a call of one of them, rendered by the format. Nothing else is special, so a prompt may contain any
braces.

The instructions are ours. The list of tools follows the model's own chat template where that is
JSON: a `ToolList` describes its frame and the form of each tool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.errors import UsageError
from penstock.messages import ToolCall
from penstock.tools import Tool
from penstock.values import rjson
from penstock.values.schema import Schema

# Chat templates use `tojson` of transformers, which is Python's `json.dumps` with its default
# separators: models were trained on that spelling.
_JSON_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[,:]')
_INDENT: Final = 4


def text_or_json(value: object) -> str:
    """Write a string as it is, any other value as JSON."""
    return value if isinstance(value, str) else spaced_json(value)


class Mark(str):
    """Markup between the values that `write_nested` writes."""

    __slots__ = ()


def write_nested(value: Any, expand: Callable[[Any], str | list[Any]]) -> str:
    """Write *value*, which may nest deeper than Python recurses.

    *expand* returns the text of a value, or the values in it with the marks around them.
    """
    pieces: list[str] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        parts = one if isinstance(one, Mark) else expand(one)
        if isinstance(parts, str):
            pieces.append(parts)
        else:
            waiting += reversed(parts)
    return "".join(pieces)


def spaced_json(value: object) -> str:
    """Write *value* as most chat templates do, with a space after each comma and colon.

    Raises `UsageError` for a value that JSON cannot express.
    """
    return _JSON_TOKEN.sub(
        lambda token: token[0] if token[0].startswith('"') else token[0] + " ", rjson.dumps(value)
    )


def indented_json(value: object, depth: int = 0) -> str:
    """Write *value* over several lines, indented as if it were nested in *depth* containers.

    Raises `UsageError` for a value that JSON cannot express.
    """
    margin = " " * (_INDENT * depth)
    return rjson.dumps(value, indent=_INDENT).replace("\n", f"\n{margin}")


MAX_EXAMPLE_DEPTH: Final = 4
"""How deep an example call follows a schema: it shows the form, not every option."""

MAX_EXAMPLE_ARGUMENTS: Final = 3
"""How many arguments an example call has, unless more are required."""

_PLAIN: Final[dict[str, Any]] = {
    "string": "some text",
    "boolean": True,
    "integer": 1,
    "number": 1.5,
    "null": None,
}


def example_call(tool: Tool) -> ToolCall:
    """Make an example call of *tool* with the required and some other arguments."""
    return ToolCall("", tool.name, _example_object(Schema(tool.parameters), 1))


def _example_object(schema: Schema, depth: int) -> dict[str, Any]:
    names = list(schema.required)
    others = [name for name in schema.properties if name not in names]
    names += others[: max(0, MAX_EXAMPLE_ARGUMENTS - len(names))]
    return {name: _example(schema.property(name), depth) for name in names}


def _example(schema: Schema | None, depth: int) -> Any:
    if schema is None:
        return "some text"
    for given in ("examples", "default"):
        value = schema.raw.get(given) if isinstance(schema.raw, dict) else None
        if isinstance(value, list) and given == "examples":
            value = value[0] if value else None
        # Schemas in the wild have examples and defaults that they themselves do not accept.
        if value is not None and schema.accepts(value):
            return value
    if schema.members is not None and schema.members.values:
        return schema.members.values[0]
    if schema.wants == "object":
        return _example_object(schema, depth + 1) if depth < MAX_EXAMPLE_DEPTH else {}
    if schema.wants == "array":
        item = schema.item(0)
        return [_example(item, depth + 1)] if depth < MAX_EXAMPLE_DEPTH else []
    return _PLAIN.get(schema.wants or "string")


_TOOLS: Final = "{tools}"
_EXAMPLE: Final = "{example}"

# The frame of the tools in our prompts.
_TAGGED: Final = f"<tools>\n{_TOOLS}\n</tools>"

HEAD: Final = f"""\
You can call the tools below. Each has a name, a description and a JSON Schema that its arguments \
must satisfy.

{_TAGGED}

"""
"""The start of every prompt; the form of a call follows."""

TAIL: Final = """
Call a tool only when you need its result. Text outside of calls is shown to the user. After your \
calls, stop: the results come in the next message.
"""
"""The end of every prompt."""

STRICT_JSON: Final = """\
Write strict JSON: keys and strings in double quotes; inside a string a quote is \\" and a newline \
is \\n."""
"""The rule for calls in JSON. Small models forget to escape quotes and newlines in code."""

JSON_MIX: Final = f"""\
{HEAD}\
To call a tool, write its name and its arguments as one JSON object between the two tags, like this:

{{example}}

{STRICT_JSON} For several calls, repeat the whole block, one for each call.
{TAIL}"""

FENCES: Final = f"""\
{HEAD}\
To call a tool, write a code block labelled `tool_call` that holds one JSON object with the name \
and the arguments and nothing else, like this:

{{example}}

The opening and the closing line of the block have nothing else on them. {STRICT_JSON} For several \
calls, write one block for each.
{TAIL}"""


class ToolList(Struct, frozen=True):
    """The form of the tool list that models were trained on.

    *frame* replaces the ``<tools>`` tags of our prompts. In it the tools are between *opening* and
    *closing*, separated by *between*, each in the template *tool*: ``{json}`` is the tool on one
    line, ``{lines}`` the same indented. With *typed* a tool is wrapped in
    ``{"type": "function", "function": …}``.
    """

    frame: str = _TAGGED
    opening: str = ""
    closing: str = ""
    between: str = "\n"
    tool: str = "{json}"
    typed: bool = True

    def framed(self, prompt: str) -> str:
        """Return *prompt* with this frame."""
        # Our prompts are in English prose; only the frame of the list is the model's own.
        return prompt.replace(_TAGGED, self.frame)

    def render(self, tools: Sequence[Tool]) -> str:
        """Write *tools* as the content of the frame."""
        return self.opening + self.between.join(map(self._tool, tools)) + self.closing

    def _tool(self, tool: Tool) -> str:
        described = _describe(tool)
        if self.typed:
            described = {"type": "function", "function": described}
        if "{lines}" in self.tool:
            return self.tool.replace("{lines}", indented_json(described))
        return self.tool.replace("{json}", spaced_json(described))


LINES: Final = ToolList()
"""One tool per line between ``<tools>`` tags, as in most templates."""

TOOL_LINES: Final = ToolList(tool="<tool>{json}</tool>", typed=False)
"""One tool per line, each in ``<tool>`` tags."""


def tools_as_list(frame: str, *, typed: bool = True) -> ToolList:
    """Return the list of tools as one JSON array in *frame*, at ``{tools}``."""
    return ToolList(frame, "[", "]", ", ", typed=typed)


def tools_as_lines(frame: str, *, typed: bool = True) -> ToolList:
    """Return the list of tools as one line per tool in *frame*, at ``{tools}``."""
    return ToolList(frame, typed=typed)


def fill(
    template: str | Callable[[str], str],
    tools: Sequence[Tool],
    render_call: Callable[[ToolCall], str],
    tool_list: ToolList | None = None,
) -> str:
    """Put *tools* and an example call of one of them into *template*.

    The tools are a plain JSON array unless *tool_list* gives another form.
    """
    written = render_tools(tools) if tool_list is None else tool_list.render(tools)
    if callable(template):
        return template(written)
    if tool_list is not None:
        template = tool_list.framed(template)
    example = _first_example(tools, render_call) if _EXAMPLE in template else ""
    # Not one after the other: what is put in may itself contain the name of a place.
    parts = [part.replace(_EXAMPLE, example) for part in template.split(_TOOLS)]
    return written.join(parts)


def render_tools(tools: Sequence[Tool]) -> str:
    """Write *tools* as a JSON array with unchanged schemas."""
    return "[" + ",\n".join(_json.encode(_describe(tool)).decode() for tool in tools) + "]"


def _describe(tool: Tool) -> dict[str, Any]:
    description = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **description, "parameters": tool.parameters}


def _first_example(tools: Sequence[Tool], render_call: Callable[[ToolCall], str]) -> str:
    """Write a call of the first tool that takes arguments, or else of any tool."""
    for tool in sorted(tools, key=lambda tool: not tool.parameters.get("properties")):
        try:
            return render_call(example_call(tool))
        # A name that the format cannot write (R6) would otherwise make a whole request fail for the
        # sake of an example.
        except UsageError:
            continue
    return ""
