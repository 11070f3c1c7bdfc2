"""What the view puts out: segments of an answer, each opened, filled and ended under one id.

A segment is a stretch of the answer of one type. Its START says what is known of it, CONTENT brings
what it shows, and END closes it; metadata that became known in between comes with END, as an
update. No event carries arguments that were read out of a segment: those are in its invocation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

from msgspec import Struct, field

from penstock import _json
from penstock.errors import UsageError
from penstock.messages import Usage

# What a provider's stream brings at a time: text, reasoning, and pieces of native calls.


class CallPiece(Struct, frozen=True):
    """A piece of a native call: *index* tells whose, *arguments* is a piece of JSON text."""

    index: int = 0
    id: str = ""
    name: str = ""
    arguments: str = ""

    @classmethod
    def read(cls, data: CallPiece | Mapping[str, Any]) -> CallPiece:
        """Read a piece as providers write it, flat or with a ``function`` inside.

        The id may be called ``call_id`` and the arguments ``arguments_delta``; arguments that come
        whole, as an object, become text. Raises `UsageError` for what is no JSON object.
        """
        if isinstance(data, CallPiece):
            return data
        if not isinstance(data, Mapping):
            raise UsageError(f"a piece of a call is a JSON object, not {type(data).__name__}")
        inner = data.get("function")
        fields = {**data, **inner} if isinstance(inner, Mapping) else data
        arguments = _first(fields, "arguments", "arguments_delta")
        if not isinstance(arguments, str):
            arguments = _json.encode_strict(arguments).decode()
        id_, name = str(_first(fields, "id", "call_id")), str(_first(fields, "name"))
        return cls(int(fields.get("index") or 0), id_, name, arguments)


def _first(fields: Mapping[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), "")


class Chunk(Struct, frozen=True):
    """One chunk of a provider's stream; every field may be empty.

    *complete* says that the answer ended here by itself.
    """

    content: str = ""
    reasoning: str = ""
    tool_calls: Sequence[CallPiece | Mapping[str, Any]] = ()
    usage: Usage | Mapping[str, Any] | None = None
    complete: bool = False


TEXT: Final = "text"
TOOL_CALL: Final = "tool_call"
WRITE_FILE: Final = "write_file"
EDIT_FILE: Final = "edit_file"
RUN_BASH: Final = "run_bash"
REASONING: Final = "reasoning"

SEGMENT_TYPES: Final = (TEXT, TOOL_CALL, WRITE_FILE, EDIT_FILE, RUN_BASH, REASONING)
"""The types that penstock knows; a tool that was registered may bring one of its own."""

INCOMPLETE: Final = "incomplete"
"""The word in END's metadata that says: this call was cut, or broke, and is not to be run."""


class _Event(Struct, frozen=True):
    @property
    def type(self) -> str:
        """The wire name, such as ``SEGMENT_START``."""
        return _NAMES[type(self)]

    def as_dict(self) -> dict[str, Any]:
        """Return the event as it goes over the wire; `raw` stays after."""
        event: Any = self
        return _as_dict(event)


class SegmentStart(_Event, frozen=True):
    """A segment opens; *metadata* is what is known of it by now."""

    segment_id: str
    segment_type: str
    metadata: dict[str, Any] = field(default_factory=dict)
    raw: str = ""


class SegmentContent(_Event, frozen=True):
    """More of what an open segment shows."""

    segment_id: str
    delta: str
    raw: str = ""


class SegmentEnd(_Event, frozen=True):
    """A segment closes; *metadata* adds to what its start said, or corrects it."""

    segment_id: str
    metadata: dict[str, Any] = field(default_factory=dict)
    raw: str = ""


SegmentEvent = SegmentStart | SegmentContent | SegmentEnd
"""Any event of the view. *raw* is the piece of the answer's text that it stands for."""

_NAMES: Final[dict[type, str]] = {
    SegmentStart: "SEGMENT_START",
    SegmentContent: "SEGMENT_CONTENT",
    SegmentEnd: "SEGMENT_END",
}


def _as_dict(event: SegmentEvent) -> dict[str, Any]:
    data: dict[str, Any] = {"type": event.type, "segment_id": event.segment_id}
    match event:
        case SegmentStart():
            data["segment_type"] = event.segment_type
            data["payload"] = _payload(event.metadata)
        case SegmentContent():
            data["payload"] = {"delta": event.delta}
        case SegmentEnd():
            data["payload"] = _payload(event.metadata)
        case _:
            assert_never(event)
    return data


def _payload(metadata: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": dict(metadata)} if metadata else {}


def from_dict(data: Mapping[str, Any]) -> SegmentEvent:
    """Read an event that `as_dict` wrote; its name may also stand under ``event_type``.

    Raises `UsageError` where the name or the segment's id is missing, and for a name that no event
    has.
    """
    name, segment_id = data.get("event_type", data.get("type")), data.get("segment_id")
    if not isinstance(segment_id, str) or not segment_id:
        raise UsageError("an event of a segment needs the segment's id")
    payload = data.get("payload") or {}
    metadata = dict(payload.get("metadata") or {})
    match name:
        case "SEGMENT_START":
            return SegmentStart(segment_id, data.get("segment_type", TEXT), metadata)
        case "SEGMENT_CONTENT":
            return SegmentContent(segment_id, payload.get("delta", ""))
        case "SEGMENT_END":
            return SegmentEnd(segment_id, metadata)
        case _:
            raise UsageError(f"no event of a segment is called {name!r}")
