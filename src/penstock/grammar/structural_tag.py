"""Structural tags for xgrammar, vLLM and SGLang: free text, with calls after a trigger.

Each tool has a tag that begins with the constant start of its call. Plain JSON arguments are given
as the tool's schema, other arguments as a grammar in the notation of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.errors import UsageError
from penstock.grammar.gbnf import write_piece
from penstock.grammar.outline import JSON, Arguments, Outline, Piece
from penstock.grammar.schema import arguments_schema
from penstock.tools import Tool


def write_structural_tag(
    outlines: Iterable[tuple[Tool, Outline]], *, at_least_one: bool, stop_after_first: bool
) -> dict[str, Any]:
    """Return the structural tag of the tools, made from their outlines."""
    found = list(outlines)
    if not found:
        raise UsageError("a structural tag needs at least one tool")
    if any(outline.leads for _, outline in found) and not (at_least_one and stop_after_first):
        raise UsageError(
            "calls of this format must begin the response: a structural tag needs "
            "at_least_one=True and stop_after_first=True"
        )
    tags = [_tag(tool, outline) for tool, outline in found]
    return {
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": _triggers(found, [tag["begin"] for tag in tags]),
            "tags": tags,
            "at_least_one": at_least_one,
            "stop_after_first": stop_after_first,
        },
    }


def _tag(tool: Tool, outline: Outline) -> dict[str, Any]:
    begin, *inside = outline.call
    end = inside.pop()
    if not isinstance(begin, str) or not isinstance(end, str):
        raise UsageError("a structural tag needs constant text at both ends of a call")
    begin, end = outline.opening + begin, end + outline.closing
    contents = [_content(tool, piece) for piece in inside]
    content = contents[0] if len(contents) == 1 else {"type": "sequence", "elements": contents}
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _content(tool: Tool, piece: Piece) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"type": "const_string", "value": piece}
    if isinstance(piece, Arguments) and piece.notation == JSON:
        return {"type": "json_schema", "json_schema": arguments_schema(tool) or {"type": "object"}}
    return {"type": "grammar", "grammar": write_piece(tool, piece)}


def _triggers(outlines: list[tuple[Tool, Outline]], begins: list[str]) -> list[str]:
    """Return the triggers: the start markers of calls, or the text before the names."""
    found = [
        outline.trigger or begin.partition(tool.name)[0]
        for (tool, outline), begin in zip(outlines, begins, strict=True)
    ]
    triggers = [
        trigger if len(trigger) > 1 else begin for trigger, begin in zip(found, begins, strict=True)
    ]
    # xgrammar allows one trigger per tag: drop a trigger that begins with another one.
    return [one for one in dict.fromkeys(triggers) if not any(
        one != other and one.startswith(other) for other in triggers)]  # fmt: skip
