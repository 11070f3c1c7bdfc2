"""The events of segments, and the chunks of a provider's stream.

A segment is a part of the response of one type. Its START has the metadata that is known, CONTENT
has its content, and END ends it; metadata that became known in between is in END. Arguments are not
in these events but in the invocation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

from msgspec import Struct, field

from penstock import _json
from penstock.errors import UsageError
from penstock.messages import Usage


class CallPiece(Struct, frozen=True):
    """A piece of the native call *index*; *arguments* is a piece of JSON text."""

    index: int = 0
    id: str = ""
    name: str = ""
    arguments: str = ""

    @classmethod
    def read(cls, data: CallPiece | Mapping[str, Any]) -> CallPiece:
        """Read a piece as providers send it, flat or nested in ``function``.

        The id may be called ``call_id`` and the arguments ``arguments_delta``; arguments that are
        an object become text. Raises `UsageError` if *data* is not a JSON object.
        """
        if isinstance(data, CallPiece):
            return data
        if not isinstance(data, Mapping):
            raise UsageError(f"a piece of a call must be a JSON object, not {type(data).__name__}")
        inner = data.get("function")
        fields = {**data, **inner} if isinstance(inner, Mapping) else data
        arguments = _first(fields, "arguments", "arguments_delta")
        if not isinstance(arguments, str):
            arguments = _json.encode_strict(arguments).decode()
        # `call_id` is the Responses API's; the other names are those of chat completions and of
        # this view's own users.
        id_, name = str(_first(fields, "id", "call_id")), str(_first(fields, "name"))
        return cls(int(fields.get("index") or 0), id_, name, arguments)


def _first(fields: Mapping[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), "")


class Chunk(Struct, frozen=True):
    """One chunk of a provider's stream; every field may be empty.

    *complete* is whether the response ended normally.
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
"""The built-in types; a registered tool may have another."""

INCOMPLETE: Final = "incomplete"
"""The key in END's metadata of a call that was cut or is broken and must not be run."""


class _Event(Struct, frozen=True):
    @property
    def type(self) -> str:
        """The wire name, such as ``SEGMENT_START``."""
        return _NAMES[type(self)]

    def as_dict(self) -> dict[str, Any]:
        """Return the event as a JSON object, without `raw`."""
        event: Any = self
        return _as_dict(event)


class SegmentStart(_Event, frozen=True):
    """A segment starts; *metadata* is what is known so far."""

    segment_id: str
    segment_type: str
    metadata: dict[str, Any] = field(default_factory=dict)
    raw: str = ""


class SegmentContent(_Event, frozen=True):
    """More content of an open segment."""

    segment_id: str
    delta: str
    raw: str = ""


class SegmentEnd(_Event, frozen=True):
    """A segment ends; *metadata* adds to that of its start, or corrects it."""

    segment_id: str
    metadata: dict[str, Any] = field(default_factory=dict)
    raw: str = ""


SegmentEvent = SegmentStart | SegmentContent | SegmentEnd
"""Any event of a segment. *raw* is the piece of the response's text that it consumed."""

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
    """Read an event that `as_dict` wrote; its type may also be in ``event_type``.

    Raises `UsageError` if the segment's id is missing or the type is unknown.
    """
    name, segment_id = data.get("event_type", data.get("type")), data.get("segment_id")
    if not isinstance(segment_id, str) or not segment_id:
        raise UsageError("an event of a segment needs a `segment_id`")
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
            raise UsageError(f"no segment event has the type {name!r}")
