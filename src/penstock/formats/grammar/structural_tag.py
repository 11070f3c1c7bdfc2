"""Structural tags, as xgrammar, vLLM and SGLang take them: text, and calls where a trigger came.

A tag begins with all that is certain about a call of one tool. Where its arguments are plain JSON
the engine gets the tool's schema; else it gets a grammar in the same words as llama.cpp's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.errors import UsageError
from penstock.formats.grammar.gbnf import write_piece
from penstock.formats.grammar.outline import JSON, Arguments, Outline, Piece
from penstock.formats.grammar.schema import arguments_of
from penstock.tools import Tool


def write_structural_tag(
    outlines: Iterable[tuple[Tool, Outline]], *, at_least_one: bool, stop_after_first: bool
) -> dict[str, Any]:
    """Return the structural tag of the tools, each as its outline has it."""
    found = list(outlines)
    if not found:
        raise UsageError("a structural tag needs a tool that can be called")
    if any(outline.leads for _, outline in found) and not (at_least_one and stop_after_first):
        raise UsageError(
            "a call counts in this format only where the answer begins: ask for a call with "
            "at_least_one and stop_after_first, no other structural tag can be given"
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
        raise UsageError("a structural tag needs text at both ends of a call")
    begin, end = outline.opening + begin, end + outline.closing
    contents = [_content(tool, piece) for piece in inside]
    content = contents[0] if len(contents) == 1 else {"type": "sequence", "elements": contents}
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _content(tool: Tool, piece: Piece) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"type": "const_string", "value": piece}
    if isinstance(piece, Arguments) and piece.notation == JSON:
        return {"type": "json_schema", "json_schema": arguments_of(tool) or {"type": "object"}}
    return {"type": "grammar", "grammar": write_piece(tool, piece)}


def _triggers(outlines: list[tuple[Tool, Outline]], begins: list[str]) -> list[str]:
    """Return what the engine looks for: the mark of a call, or all that comes before a name."""
    found = [
        outline.trigger or begin.partition(tool.name)[0]
        for (tool, outline), begin in zip(outlines, begins, strict=True)
    ]
    told = [
        trigger if len(trigger) > 1 else begin for trigger, begin in zip(found, begins, strict=True)
    ]
    # Of two triggers that begin alike only the shorter one is looked for: a tag has but one.
    return [one for one in dict.fromkeys(told) if not any(
        one != other and one.startswith(other) for other in told)]  # fmt: skip
