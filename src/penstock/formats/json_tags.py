"""Calls in JSON between two markers: Hermes's tags, Gemma's fences, and any others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from penstock import _json
from penstock.errors import UsageError
from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.grammar import Outline, outline_of
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import JSONCallReader
from penstock.tools import Tool


class JSONCalls(Struct, frozen=True):
    """An object with a name and arguments, or a list of them, from *start* to *end*."""

    start: str
    end: str
    result_start: str = "<tool_response>"
    result_end: str = "</tool_response>"
    folds: bool = False

    def syntax(self, tools: Iterable[Tool]) -> JSONCalls:
        """Give itself: the markers are the same for any *tools*."""
        del tools
        return self

    @property
    def starts(self) -> tuple[str, ...]:
        """The one marker that opens calls."""
        return (self.start,)

    def body(self, marker: str) -> JSONCallReader:
        """Give a fresh reader for what follows *marker*."""
        del marker
        return JSONCallReader(self.end)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as one object."""
        return self.start + as_json({"name": call.name, "arguments": call.arguments}) + self.end

    def outline(self, tool: Tool) -> Outline:
        """Give the outline of a call of *tool*."""
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
