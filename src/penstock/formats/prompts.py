"""What a model is told about its tools: the words of each format, filled with the caller's tools.

A prompt is text with two places: ``{tools}``, where the tools stand as JSON, and ``{example}``,
where a call of one of them stands as this format writes it. Nothing else in it is special, so a
prompt may hold any braces.

The words are ours. The list of tools is as a model's own template writes it, where that is JSON:
a `ToolList` says what stands around it and what each tool looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.errors import UsageError
from penstock.formats.rendering import indented_json, spaced_json
from penstock.messages import ToolCall
from penstock.tools import Tool
from penstock.values.schema import Schema

# A call that a tool's schema would accept, to show a model how one is written.


MAX_EXAMPLE_DEPTH: Final = 4
"""How deep an example goes into a schema: it shows the form, not all that is possible."""

MAX_EXAMPLE_ARGUMENTS: Final = 3
"""How many arguments an example has, unless more are required."""

_PLAIN: Final[dict[str, Any]] = {
    "string": "some text",
    "boolean": True,
    "integer": 1,
    "number": 1.5,
    "null": None,
}


def example_call(tool: Tool) -> ToolCall:
    """Make a call of *tool*: what is required, and some of the other arguments."""
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

_TAGGED: Final = f"<tools>\n{_TOOLS}\n</tools>"
"""Where the tools are in our own words."""

HEAD: Final = f"""\
You can call the tools below. Each has a name, says what it does, and has a JSON Schema that its \
arguments must satisfy.

{_TAGGED}

"""
"""How every prompt begins; what follows says how a call is written."""

TAIL: Final = """
Call a tool only when you need what it gives. What you write outside of calls is read by the user. \
After your calls, stop: the results come in the next message.
"""
"""How every prompt ends."""

JSON_MIX: Final = (
    HEAD
    + """\
To call a tool, write its name and its arguments as one JSON object between the two tags, like this:

{example}

Write strict JSON: keys and texts in double quotes; inside a text a quote is \\" and a new line is \
\\n. For several calls, repeat the whole block, one for each call.
"""
    + TAIL
)

FENCES: Final = (
    HEAD
    + """\
To call a tool, write a code block labelled `tool_call` that holds one JSON object with the name \
and the arguments and nothing else, like this:

{example}

The opening and the closing line of the block stand alone. Write strict JSON: keys and texts in \
double quotes; inside a text a quote is \\" and a new line is \\n. For several calls, write one \
block for each.
"""
    + TAIL
)


class ToolList(Struct, frozen=True):
    """How models were taught to see the list of their tools.

    *frame* shows where the list stands, in place of the tags of our own words. The tools are in
    it from *opening* to *closing* with *between* between them, each as *tool* shows it: ``{json}``
    is the tool, and ``{lines}`` the same over lines. A tool that is *typed* says that it is a
    function.
    """

    frame: str = _TAGGED
    opening: str = ""
    closing: str = ""
    between: str = "\n"
    tool: str = "{json}"
    typed: bool = True

    def framed(self, prompt: str) -> str:
        """Return *prompt* with the frame in which these models expect their tools."""
        return prompt.replace(_TAGGED, self.frame)

    def written(self, tools: Sequence[Tool]) -> str:
        """Write *tools* as what is in the frame."""
        return self.opening + self.between.join(map(self._tool, tools)) + self.closing

    def _tool(self, tool: Tool) -> str:
        shown = {"type": "function", "function": _shown(tool)} if self.typed else _shown(tool)
        if "{lines}" in self.tool:
            return self.tool.replace("{lines}", indented_json(shown))
        return self.tool.replace("{json}", spaced_json(shown))


LINES: Final = ToolList()
"""A tool on each line, between the tags of our own words: what most templates do."""

TOOL_LINES: Final = ToolList(tool="<tool>{json}</tool>", typed=False)
"""The same with tags around each tool."""


def listed_in(frame: str, *, typed: bool = True) -> ToolList:
    """Say that the tools are one JSON list, where *frame* has ``{tools}``."""
    return ToolList(frame, "[", "]", ", ", typed=typed)


def lines_in(frame: str, *, typed: bool = True) -> ToolList:
    """Say that each tool is a line, where *frame* has ``{tools}``."""
    return ToolList(frame, typed=typed)


def fill(
    template: str | Callable[[str], str],
    tools: Sequence[Tool],
    render_call: Callable[[ToolCall], str],
    shown_as: ToolList | None = None,
) -> str:
    """Put *tools*, and an example that calls one of them, into *template*.

    The tools are a plain JSON array, unless *shown_as* says how else they are written.
    """
    shown = show_tools(tools) if shown_as is None else shown_as.written(tools)
    if callable(template):
        return template(shown)
    if shown_as is not None:
        template = shown_as.framed(template)
    example = _first_example(tools, render_call) if _EXAMPLE in template else ""
    # Not one after the other: what is put in may itself hold the name of a place.
    parts = [part.replace(_EXAMPLE, example) for part in template.split(_TOOLS)]
    return shown.join(parts)


def show_tools(tools: Sequence[Tool]) -> str:
    """Write *tools* as a JSON array, each schema as it is."""
    return "[" + ",\n".join(_json.encode(_shown(tool)).decode() for tool in tools) + "]"


def _shown(tool: Tool) -> dict[str, Any]:
    description = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **description, "parameters": tool.parameters}


def _first_example(tools: Sequence[Tool], render_call: Callable[[ToolCall], str]) -> str:
    """Write a call of the first tool that says most about the form: one that takes arguments."""
    for tool in sorted(tools, key=lambda tool: not tool.parameters.get("properties")):
        try:
            return render_call(example_call(tool))
        except UsageError:
            continue
    return ""
