"""Calls read out of segments alone: out of their type, their metadata and their content.

Where an answer is parsed here its calls are known. Segments from elsewhere, such as a store or a
wire, say the same: what a call was written as is their content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock import _json
from penstock.formats.json_tool import json_tool
from penstock.formats.sentinel import SENTINEL
from penstock.formats.tool_tag import TOOL_TAG
from penstock.messages import ToolCall
from penstock.parsing.bodies.opening_tags import known_name
from penstock.parsing.bodies.piped_tools import PipedTool
from penstock.tools import Tool
from penstock.values.rxml.text import quote_attribute
from penstock.views.segments.syntaxes import ToolSyntax, find_syntax


def read_calls(
    segment_type: str,
    metadata: Mapping[str, Any],
    content: str,
    tools: Sequence[Tool],
    provider: str | None = None,
) -> list[ToolCall]:
    """Give the calls of a segment; none where it names no tool.

    The arguments are in the metadata, or else in the content: as the type's syntax has it, as JSON
    or between tags. A name in the metadata goes before one in the content.
    """
    said = str(metadata.get("tool_name") or "")
    name = known_name(said, [tool.name for tool in tools]) or said
    syntax = find_syntax(segment_type)
    arguments = metadata.get("arguments")
    if syntax is not None:
        is_own = name.lower() in ("", syntax.tool_name)
        arguments = _arguments(syntax, metadata, content)
        return [ToolCall("", syntax.tool_name if is_own else name, arguments)]
    if not name:
        found = json_tool(provider).parse(content, tools).tool_calls
        return found or _read_segment({"type": "tool"}, content, tools)
    if isinstance(arguments, dict):
        return [ToolCall("", name, arguments)]
    known = [tool for tool in tools if tool.name == name] or [Tool(name)]
    if content.lstrip().startswith(("{", "[")):
        return _read_segment({"type": "tool", "tool_name": name}, content, known)
    tag = f"<tool name={quote_attribute(name, minimal=True)}>{content}</tool>"
    return TOOL_TAG.parse(tag, known).tool_calls


def _read_segment(header: dict[str, str], content: str, tools: Sequence[Tool]) -> list[ToolCall]:
    """Read JSON that holds arguments, or calls, as the body of a sentinel."""
    written = f"[[SEG_START {_json.encode(header).decode()}]]{content}[[SEG_END]]"
    return SENTINEL.parse(written, tools).tool_calls


def _arguments(syntax: ToolSyntax, metadata: Mapping[str, Any], content: str) -> dict[str, Any]:
    """Give the arguments that *syntax* finds; a command may stand in the metadata."""
    told = {key: value for key, value in metadata.items() if not isinstance(value, str)}
    written = {key: value for key, value in metadata.items() if isinstance(value, str)}
    piped = PipedTool(metadata=syntax.metadata)
    found: dict[str, Any] = piped.read_attributes(written)
    for key, value in told.items():
        name = piped.metadata_name(key)
        if name is not None:
            found[name] = value
    if syntax.content == "command":
        content = content or written.get("command", "") or written.get("cmd", "")
    return {**found, syntax.content: content}
