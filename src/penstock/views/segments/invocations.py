"""From segments to the calls that a tool can be run with.

The adapter follows the segments of an answer and, when one ends that holds a call, says what is to
be run: one invocation for every call, under the segment's id. It takes the calls as they were read
where it is given them; from segments alone, such as stored ones, it reads them itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, assert_never

from msgspec import Struct, field

from penstock import _json
from penstock.errors import UsageError
from penstock.formats.json_calls import json_tool
from penstock.formats.sentinel import SENTINEL
from penstock.formats.tool_tag import TOOL_TAG
from penstock.messages import ToolCall
from penstock.parsing.readers.tagged.tags import known_name
from penstock.parsing.readers.tagged.tool_tag_values import PipedTool
from penstock.tools import Tool
from penstock.values.coercion import coerce
from penstock.values.rxml.writer import quote_attribute
from penstock.values.schema import Schema
from penstock.views.segments.events import (
    EDIT_FILE,
    INCOMPLETE,
    REASONING,
    RUN_BASH,
    SEGMENT_TYPES,
    TEXT,
    WRITE_FILE,
    SegmentContent,
    SegmentEnd,
    SegmentEvent,
    SegmentStart,
)

# Which tool a type of segment stands for, and where its arguments come from.
#
# A segment of type ``write_file`` names no tool and has no arguments: it has a path in its
# metadata and a file as its content. The syntax of its type says what call that is. How a
# tool's calls are read, and as which type they are shown, is said by
# `penstock.formats.register_tool`.


class ToolSyntax(Struct, frozen=True):
    """A type of segment as a call of *tool_name*.

    *content* is the argument that the segment shows, *metadata* are those that its metadata gives,
    and without one of *required* there is not a call.
    """

    segment_type: str
    tool_name: str
    content: str
    metadata: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


BUILT_IN: Final = (
    ToolSyntax(WRITE_FILE, "write_file", "content", ("path",), ("path",)),
    ToolSyntax(EDIT_FILE, "edit_file", "patch", ("path",), ("path",)),
    ToolSyntax(RUN_BASH, "run_bash", "command", ("background", "timeout_seconds"), ("command",)),
)
"""The syntaxes that penstock brings."""

_syntaxes: dict[str, ToolSyntax] = {syntax.segment_type: syntax for syntax in BUILT_IN}


def find_syntax(segment_type: str) -> ToolSyntax | None:
    """Return the syntax of a type; None for one whose content says by itself what is called."""
    return _syntaxes.get(segment_type)


def register_syntax(syntax: ToolSyntax) -> None:
    """Add the syntax of a type of one's own; raise `UsageError` for one that penstock uses."""
    if syntax.segment_type in SEGMENT_TYPES:
        raise UsageError(f"{syntax.segment_type!r} is a type of penstock's own: choose another")
    if not syntax.segment_type or not syntax.tool_name:
        raise UsageError("a syntax needs a type of segment and the name of a tool")
    _syntaxes[syntax.segment_type] = syntax


def unregister_syntax(segment_type: str) -> None:
    """Take out a syntax of one's own; nothing happens if there is not one."""
    if segment_type not in SEGMENT_TYPES:
        _syntaxes.pop(segment_type, None)


# Calls read out of segments alone: out of their type, their metadata and their content.
#
# Where an answer is parsed here its calls are known. Segments from elsewhere, such as a store
# or a wire, say the same: what a call was written as is their content.


def read_calls(
    segment_type: str,
    metadata: Mapping[str, Any],
    content: str,
    tools: Sequence[Tool],
    provider: str | None = None,
) -> list[ToolCall]:
    """Return the calls of a segment; none where it names no tool.

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
    """Return the arguments that *syntax* finds; a command may are in the metadata."""
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


class ToolInvocation(Struct, frozen=True):
    """A tool to run: its *id* is that of the segment that asked for it.

    Raises `UsageError` without an id, a name or arguments.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    turn_id: str | None = None

    def __post_init__(self) -> None:
        if not self.id or not self.name:
            raise UsageError("an invocation needs an id and the name of a tool")
        arguments: object = self.arguments
        if not isinstance(arguments, dict):
            raise UsageError("the arguments of an invocation are an object")


class _Segment(Struct):
    """A segment that is open."""

    type: str
    metadata: dict[str, Any]
    pieces: list[str] = field(default_factory=list)


class Adapter:
    """Makes invocations of segments; *tools* say how arguments are to be.

    *provider* says in which shapes calls in JSON are. With *incomplete*, calls that were cut are
    invoked with what had arrived.
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        provider: str | None = None,
        turn_id: str | None = None,
        incomplete: bool = False,
    ) -> None:
        self._tools = tuple(tools)
        self._schemas = {
            tool.name: Schema(tool.parameters) for tool in self._tools if tool.parameters
        }
        self._provider = provider
        self._turn_id = turn_id
        self._incomplete = incomplete
        self._open: dict[str, _Segment] = {}

    def add(
        self, event: SegmentEvent, calls: Sequence[ToolCall] | None = None
    ) -> list[ToolInvocation]:
        """Take one event, with an END the *calls* that were read in the segment, if they were.

        Gives what is to be run. Events of segments that nobody has started mean nothing.
        """
        segment = self._open.get(event.segment_id)
        match event:
            case SegmentStart():
                if event.segment_type not in (TEXT, REASONING):
                    opened = _Segment(event.segment_type, dict(event.metadata))
                    self._open[event.segment_id] = opened
            case SegmentContent():
                if segment is not None:
                    segment.pieces.append(event.delta)
            case SegmentEnd():
                if segment is not None:
                    del self._open[event.segment_id]
                    return self._end(event, segment, calls)
            case _:
                assert_never(event)
        return []

    def reset(self) -> None:
        """Forget the segments that are open."""
        self._open.clear()

    def _end(
        self, event: SegmentEnd, segment: _Segment, calls: Sequence[ToolCall] | None
    ) -> list[ToolInvocation]:
        is_cut = bool(event.metadata.get(INCOMPLETE))
        if is_cut and not self._incomplete:
            return []
        content = "".join(segment.pieces)
        if calls is None:
            # What START says of the arguments is not corrected.
            kept = {key: segment.metadata[key] for key in ("arguments",) if key in segment.metadata}
            metadata = {**segment.metadata, **event.metadata, **kept}
            calls = read_calls(segment.type, metadata, content, self._tools, self._provider)
        invocations: list[ToolInvocation] = []
        for call in calls:
            arguments = self._arguments(call, find_syntax(segment.type), content)
            if call.name and arguments is not None:
                id_ = event.segment_id + (f":{len(invocations)}" if invocations else "")
                made = ToolInvocation(id_, call.name, arguments, self._turn_id)
                invocations.append(made)
        return invocations

    def _arguments(
        self, call: ToolCall, syntax: ToolSyntax | None, content: str
    ) -> dict[str, Any] | None:
        """Return the arguments of *call*; None where one is missing without which it says nothing.

        A call that was cut may lack its content, of which the segment shows what had arrived.
        """
        arguments = dict(call.arguments)
        if syntax is not None:
            arguments.setdefault(syntax.content, content)
            if not all(arguments.get(name) for name in syntax.required):
                return None
        schema = self._schemas.get(call.name)
        fitting = arguments if schema is None else coerce(arguments, schema)
        return fitting if isinstance(fitting, dict) else arguments
