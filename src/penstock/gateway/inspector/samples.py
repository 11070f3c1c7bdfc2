"""What the page knows of formats, APIs and models before anything has passed: its menus."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from penstock import formats
from penstock.errors import UsageError
from penstock.formats.reasoning import NONE, STYLES
from penstock.messages import ToolCall
from penstock.tools import read_tools

TOOLS: Final[list[dict[str, Any]]] = [
    {
        "name": "write_file",
        "description": "Writes a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    },
    {
        "name": "get_weather",
        "description": "Tells the weather of a city for some days.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
]
"""The tools that samples call."""

_CALLS: Final = (
    ToolCall("", "get_weather", {"city": "Leith", "days": 3}),
    ToolCall("", "write_file", {"path": "tides.md", "content": "# Leith\nhigh water: 14:20"}),
)
_WORDS: Final = "I will look it up."


@cache
def described() -> list[dict[str, Any]]:
    """Describe every format: its name, its family, who writes it, and how it looks."""
    return [
        {
            "name": found.name,
            "family": type(getattr(found, "calls", found)).__name__,
            "models": list(getattr(found, "models", ())),
            "sample": sample(found),
        }
        for found in map(formats.get, formats.names())
    ]


def sample(found: formats.AnyFormat) -> str:
    """Write an answer with a call in it, in a format; a format without calls has words alone.

    In some formats a call is all of an answer.
    """
    tools = read_tools(TOOLS)
    for call in _CALLS:
        try:
            written = found.render_call(call)
        except UsageError:
            continue
        text = f"{_WORDS}\n\n{written}"
        return text if found.parse(text, tools).tool_calls else written
    return _WORDS


def reasoning_styles() -> list[str]:
    """Name the ways in which models mark their thoughts."""
    return [NONE, *STYLES]
