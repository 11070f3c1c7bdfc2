"""A response as segments: text, reasoning and calls, each with a start, content and an end."""

from penstock.views.segments.events import (
    SEGMENT_TYPES,
    CallPiece,
    Chunk,
    SegmentContent,
    SegmentEnd,
    SegmentEvent,
    SegmentStart,
    from_dict,
)
from penstock.views.segments.handler import STRATEGIES, Handler, OnInvocation, OnSegment, create
from penstock.views.segments.invocations import (
    Adapter,
    ToolInvocation,
    ToolSyntax,
    find_syntax,
    register_syntax,
    unregister_syntax,
)

__all__ = [
    "SEGMENT_TYPES",
    "STRATEGIES",
    "Adapter",
    "CallPiece",
    "Chunk",
    "Handler",
    "OnInvocation",
    "OnSegment",
    "SegmentContent",
    "SegmentEnd",
    "SegmentEvent",
    "SegmentStart",
    "ToolInvocation",
    "ToolSyntax",
    "create",
    "find_syntax",
    "from_dict",
    "register_syntax",
    "unregister_syntax",
]
