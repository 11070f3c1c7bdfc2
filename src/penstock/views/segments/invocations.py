"""Convert segments to invocations of tools.

The adapter follows the segments of a response. When a segment with calls ends, it returns one
invocation per call, with the segment's id. It uses the calls that were parsed in the segment; for a
segment that was not parsed here, such as a stored one, it parses the content.
from segments alone, such as stored ones, it parses them.
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
from penstock.parsing.call_shape import find_name
from penstock.readers.tagged.piped_tools import PipedTool
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


class ToolSyntax(Struct, frozen=True):
    """How a segment of *segment_type* is a call of *tool_name*.

    A segment of type ``write_file`` has neither a tool name nor arguments: it has a path in its
    metadata and a file as its content. *content* is the argument that is the content, *metadata*
    are those in the metadata, and a call needs all of *required*.
    `penstock.formats.register_tool` determines how the calls of a tool are parsed and as which type
    they are emitted.
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
"""The built-in syntaxes."""

_syntaxes: dict[str, ToolSyntax] = {syntax.segment_type: syntax for syntax in BUILT_IN}


def find_syntax(segment_type: str) -> ToolSyntax | None:
    """Return the syntax of a type; None if its content has the name and the arguments."""
    return _syntaxes.get(segment_type)


def register_syntax(syntax: ToolSyntax) -> None:
    """Register the syntax of another type; raise `UsageError` for a built-in one."""
    if syntax.segment_type in SEGMENT_TYPES:
        raise UsageError(f"{syntax.segment_type!r} is a built-in segment type: choose another name")
    if not syntax.segment_type or not syntax.tool_name:
        raise UsageError("a syntax needs a segment type and a tool name")
    _syntaxes[syntax.segment_type] = syntax


def unregister_syntax(segment_type: str) -> None:
    """Remove a registered syntax, if there is one."""
    if segment_type not in SEGMENT_TYPES:
        _syntaxes.pop(segment_type, None)


def read_calls(
    segment_type: str,
    metadata: Mapping[str, Any],
    content: str,
    tools: Sequence[Tool],
    provider: str | None = None,
) -> list[ToolCall]:
    """Parse the calls of a segment that was not parsed here, such as a stored one.

    The arguments are in the metadata, or else in the content: by the syntax of the type, as JSON or
    between tags. A name in the metadata takes precedence over one in the content.
    """
    given = str(metadata.get("tool_name") or "")
    name = find_name(given, [tool.name for tool in tools]) or given
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
    """Parse JSON that is arguments or calls as the body of a sentinel."""
    written = f"[[SEG_START {_json.encode(header).decode()}]]{content}[[SEG_END]]"
    return SENTINEL.parse(written, tools).tool_calls


def _arguments(syntax: ToolSyntax, metadata: Mapping[str, Any], content: str) -> dict[str, Any]:
    """Return the arguments by *syntax*; a command may be in the metadata."""
    others = {key: value for key, value in metadata.items() if not isinstance(value, str)}
    written = {key: value for key, value in metadata.items() if isinstance(value, str)}
    piped = PipedTool(metadata=syntax.metadata)
    found: dict[str, Any] = piped.read_attributes(written)
    for key, value in others.items():
        name = piped.find_metadata(key)
        if name is not None:
            found[name] = value
    if syntax.content == "command":
        content = content or written.get("command", "") or written.get("cmd", "")
    return {**found, syntax.content: content}


class ToolInvocation(Struct, frozen=True):
    """A tool to run; *id* is that of the segment with the call.

    Raises `UsageError` without an id, a name or arguments.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    turn_id: str | None = None

    def __post_init__(self) -> None:
        if not self.id or not self.name:
            raise UsageError("an invocation needs an `id` and a `name`")
        arguments: object = self.arguments
        if not isinstance(arguments, dict):
            raise UsageError("the `arguments` of an invocation must be a dict")


class _Segment(Struct):
    """An open segment."""

    type: str
    metadata: dict[str, Any]
    pieces: list[str] = field(default_factory=list)


class Adapter:
    """Makes invocations from segments; arguments are coerced to the schemas of *tools*.

    *provider* decides the shapes of calls in JSON. With *incomplete*, calls that were cut are
    invoked with what has arrived.
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
        """Add an event, with an END the *calls* that were parsed in the segment, if they were.

        Return the invocations. Events of segments that have not started are ignored.
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
        """Forget the open segments."""
        self._open.clear()

    def _end(
        self, event: SegmentEnd, segment: _Segment, calls: Sequence[ToolCall] | None
    ) -> list[ToolInvocation]:
        is_cut = bool(event.metadata.get(INCOMPLETE))
        if is_cut and not self._incomplete:
            return []
        content = "".join(segment.pieces)
        if calls is None:
            # END does not correct the arguments of START.
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
        """Return the arguments of *call*; None if a required one is missing.

        A call that was cut may lack its content; the segment has what has arrived of it.
        """
        arguments = dict(call.arguments)
        if syntax is not None:
            arguments.setdefault(syntax.content, content)
            if not all(arguments.get(name) for name in syntax.required):
                return None
        schema = self._schemas.get(call.name)
        fitting = arguments if schema is None else coerce(arguments, schema)
        return fitting if isinstance(fitting, dict) else arguments
