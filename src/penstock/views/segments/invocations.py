"""From segments to the calls that a tool can be run with.

The adapter follows the segments of an answer and, when one ends that holds a call, says what is to
be run: one invocation for every call, under the segment's id. It takes the calls as they were read
where it is given them; from segments alone, such as stored ones, it reads them itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from msgspec import Struct, field

from penstock.errors import UsageError
from penstock.messages import ToolCall
from penstock.tools import Tool
from penstock.values.coercion import coerce
from penstock.values.schema import Schema
from penstock.views.segments.events import (
    INCOMPLETE,
    REASONING,
    TEXT,
    SegmentContent,
    SegmentEnd,
    SegmentEvent,
    SegmentStart,
)
from penstock.views.segments.reading import read_calls
from penstock.views.segments.syntaxes import ToolSyntax, find_syntax


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
        """Give the arguments of *call*; None where one is missing without which it says nothing.

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
