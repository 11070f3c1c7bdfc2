"""Calls as segments: a header in JSON between brackets, a body in any text, an end marker.

A file, a patch or a command is in the body as it is, so nothing in it needs an escape. A text that
the body cannot hold, and the arguments of every other tool, are in it as JSON.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats import prompts
from penstock.formats.base import Format
from penstock.formats.json_calls import as_json
from penstock.formats.round_trip import require_round_trip
from penstock.grammar import ANY, PLACE, Arguments, Outline, ParameterOutline, Slot, split_around
from penstock.grammar.outline import Notation
from penstock.grammar.text_without import JSON_LETTERS, Marks
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.body import Syntax
from penstock.readers.sentinel import START, SentinelReader
from penstock.tools import Tool
from penstock.values.schema import Schema

_END: Final = "[[SEG_END]]"
_TRIGGER: Final = "[[SEG_START"
_IN_BODY: Final = Marks((START.partition("_")[0],), folds=True)
# The texts that a string may not hold in a grammar, because they might be markers.
_IN_HEADER: Final = Marks(("[[", "]]"))

# The argument that is the body, by tool; the others are in the header.
_BODIES: Final = {"write_file": "content", "edit_file": "patch", "run_bash": "command"}


class SentinelCalls(Syntax, Struct, frozen=True):
    """Segments whose headers say what they are."""

    starts = (START,)
    folds = True

    def body(self, marker: str) -> SentinelReader:
        """Return a new reader for the text after *marker*."""
        del marker
        return SentinelReader()

    def render_call(self, call: ToolCall) -> str:
        """Write *call* with its text as the body, or else with JSON as the body."""
        key = _BODIES.get(call.name)
        if key is not None and isinstance(text := call.arguments.get(key), str):
            with suppress(UsageError):
                return require_round_trip(self, call, _segment(_make_header(call, key), text))
        arguments = as_json(call.arguments)
        header = {"type": "tool", "tool_name": call.name}
        with suppress(UsageError):
            return require_round_trip(self, call, _segment(header, arguments))
        # A body cannot hold "[[SEG_END]]"; in the header it is escaped as JSON can escape it.
        return require_round_trip(self, call, _segment({**header, "arguments": call.arguments}, ""))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        key = _BODIES.get(tool.name)
        properties = Schema(tool.parameters).properties
        body = properties.get(key) if key is not None else None
        if key is not None and body is not None and body.is_string and "type" not in properties:
            return _outline_with_body(tool.name, key)
        written = _segment({"type": "tool", "tool_name": tool.name}, as_json(ANY))
        arguments = Arguments(Notation("json-in-body", marks=_IN_BODY))
        return Outline(split_around(written, arguments, as_json(ANY)), trigger=_TRIGGER)

    def render_result(self, result: ToolResult) -> str:
        """Write a result as a segment: text as it is, any other value as JSON."""
        header: dict[str, Any] = {"type": "tool_result", "tool_name": result.name}
        if result.is_error:
            header["is_error"] = True
        content = result.content
        # Markers are known in any case, so any spelling of the end would end the segment.
        if not isinstance(content, str) or _END in content.upper():
            content = as_json(content)
        return _segment(header, content)


def _make_header(call: ToolCall, body: str) -> dict[str, Any]:
    beside = {key: value for key, value in call.arguments.items() if key != body}
    if "type" in beside:
        raise UsageError("an argument named `type` cannot be in the header")
    return {"type": call.name, **beside}


def _outline_with_body(name: str, body: str) -> Outline:
    """Return the outline of a call whose text is the body, and whose header has all else."""
    before, _, rest = _segment({"type": name, PLACE: 0}, PLACE).partition(f",{as_json(PLACE)}:0")
    between, _, after = rest.partition(PLACE)
    header = ParameterOutline(_header_slot, Notation("json-in-header", marks=_IN_HEADER), but=body)
    text = ParameterOutline(lambda *_: Slot("", "", _IN_BODY, solid=True), only=body)
    return Outline((before, header, between, text, after), trigger=_TRIGGER)


def _header_slot(key: str, kind: str) -> Slot:
    quote = '"' if kind == "string" else ""
    return Slot(f",{as_json(key)}:{quote}", quote, _IN_HEADER, JSON_LETTERS)


def _segment(header: dict[str, Any], body: str) -> str:
    return f"[[SEG_START {as_json(header)}]]{body}{_END}"


_PROMPT: Final = f"""\
{prompts.HEAD}\
To call a tool, write a segment. It begins with a header, which holds one JSON object between \
double brackets; then comes the body; it ends with [[SEG_END]]. Like this:

{{example}}

For the tools `write_file`, `edit_file` and `run_bash` the header names the tool as its type and \
has all other arguments: {{"type":"write_file","path":"a.md"}}, \
{{"type":"edit_file","path":"a.md"}}, {{"type":"run_bash"}}. The body is the content of the file, \
the patch or the command, exactly as it is: escape nothing, and add no line break or code fence. \
It must not contain [[SEG_END]].

For every other tool the header is {{"type":"tool","tool_name":"its name"}}, and the body is one \
JSON object with the arguments. {prompts.STRICT_JSON} For several calls, write one segment after \
the other.
{prompts.TAIL}"""

SENTINEL: Final[Format] = Format(name="sentinel", calls=SentinelCalls(), prompt=_PROMPT)
