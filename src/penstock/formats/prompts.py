"""What a model is told about its tools: the words of each format, filled with the caller's tools.

A prompt is text with two places: ``{tools}``, where the tools stand as JSON, and ``{example}``,
where a call of one of them stands as this format writes it. Nothing else in it is special, so a
prompt may hold any braces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock import _json
from penstock.errors import UsageError
from penstock.formats.examples import example_call
from penstock.messages import ToolCall
from penstock.tools import Tool

_TOOLS: Final = "{tools}"
_EXAMPLE: Final = "{example}"

HEAD: Final = """\
You can call the tools below. Each has a name, says what it does, and has a JSON Schema that its \
arguments must satisfy.

<tools>
{tools}
</tools>

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


def fill(
    template: str | Callable[[str], str],
    tools: Sequence[Tool],
    render_call: Callable[[ToolCall], str],
) -> str:
    """Put *tools*, and an example that calls one of them, into *template*."""
    shown = show_tools(tools)
    if callable(template):
        return template(shown)
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
