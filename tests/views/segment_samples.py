"""What the tests of the view share: segments folded out of events, and tools to call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from penstock.events import Event
from penstock.tools import Tool
from penstock.views.segments import (
    Chunk,
    Handler,
    SegmentContent,
    SegmentEnd,
    SegmentEvent,
    SegmentStart,
)


class Shown(Struct):
    """A segment as a user has seen it."""

    id: str
    type: str
    start: dict[str, Any]
    content: str = ""
    end: dict[str, Any] | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        return self.start | (self.end or {})


def fold(events: Iterable[SegmentEvent]) -> list[Shown]:
    """Fold *events* into segments, in the order of their starts; refuse an unlawful sequence."""
    segments: dict[str, Shown] = {}
    for event in events:
        match event:
            case SegmentStart():
                assert event.segment_id not in segments, "an id was used twice"
                segments[event.segment_id] = Shown(
                    event.segment_id, event.segment_type, dict(event.metadata)
                )
            case SegmentContent():
                assert event.delta, "a piece without any content"
                assert segments[event.segment_id].end is None, "content behind the end"
                segments[event.segment_id].content += event.delta
            case SegmentEnd():
                assert segments[event.segment_id].end is None, "ended twice"
                segments[event.segment_id].end = dict(event.metadata)
    return list(segments.values())


def run(handler: Handler, pieces: Iterable[str | Chunk | Event]) -> Handler:
    """Let *handler* read *pieces* to the end."""
    events = [event for piece in pieces for event in handler.feed(piece)] + handler.finish()
    assert events == handler.events
    return handler


def view(handler: Handler, *pieces: str | Chunk | Event) -> list[tuple[str, str]]:
    """Give the types and contents of the segments that *pieces* make."""
    return [(shown.type, shown.content) for shown in fold(run(handler, pieces).events)]


TYPED = Tool(
    "book",
    parameters={
        "type": "object",
        "properties": {
            "seats": {"type": "integer"},
            "note": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["seats"],
    },
)
TOOLS: list[str | Tool] = ["write_file", "edit_file", "run_bash", "add", "Zap", TYPED]
