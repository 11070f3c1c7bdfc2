"""The events: one vocabulary for every provider, format and client.

A valid stream has this grammar::

    [start]  ( block | part )*  [ done | error ]
    block := text_start     text_delta*      text_end
           | thinking_start thinking_delta*  thinking_end
           | toolcall_start toolcall_delta*  toolcall_end

Blocks are numbered from zero in the order in which they start. Blocks of parallel calls may be open
at the same time, so a delta is routed by `index` alone. A parser emits bare blocks. A decoder emits
the whole sequence, with exactly one terminal event after all blocks have ended. Nothing follows a
terminal event, and an emitted event is never retracted.

`raw` is the piece of model text that an event consumed, markup included. Joined over all events it
is the model's text, character for character. It is empty if the event came from no text.

No event carries a copy of the message so far: a copy per delta makes a stream quadratic.
`MessageBuilder` folds events into a message.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import Struct

from penstock import _json
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, ToolCall


# Events never form cycles; without tracking, thousands of them do not trigger the collector.
class _Event(Struct, frozen=True, gc=False):
    """The base of all events: immutable, and not tracked by the garbage collector.

    `type` is the wire name. It is a `Literal` in each class, so a type checker narrows an event by
    ``if event.type == "toolcall_end"``.
    """

    type: ClassVar[str]


class MessageStart(_Event, frozen=True, gc=False, tag="start"):
    """The response starts."""

    type: ClassVar[Literal["start"]] = "start"
    id: str = ""
    model: str = ""
    raw: str = ""


class TextStart(_Event, frozen=True, gc=False, tag="text_start"):
    """A text block starts."""

    type: ClassVar[Literal["text_start"]] = "text_start"
    index: int
    raw: str = ""


class TextDelta(_Event, frozen=True, gc=False, tag="text_delta"):
    """More text for the open text block."""

    type: ClassVar[Literal["text_delta"]] = "text_delta"
    index: int
    text: str
    raw: str = ""


class TextEnd(_Event, frozen=True, gc=False, tag="text_end"):
    """A text block ends; `text` is all of it."""

    type: ClassVar[Literal["text_end"]] = "text_end"
    index: int
    text: str
    signature: str = ""
    raw: str = ""


class ThinkingStart(_Event, frozen=True, gc=False, tag="thinking_start"):
    """A reasoning block starts."""

    type: ClassVar[Literal["thinking_start"]] = "thinking_start"
    index: int
    raw: str = ""


class ThinkingDelta(_Event, frozen=True, gc=False, tag="thinking_delta"):
    """More text for the open reasoning block."""

    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    index: int
    text: str
    raw: str = ""


class ThinkingEnd(_Event, frozen=True, gc=False, tag="thinking_end"):
    """A reasoning block ends; `text` is all of it."""

    type: ClassVar[Literal["thinking_end"]] = "thinking_end"
    index: int
    text: str
    signature: str = ""
    raw: str = ""


class ToolCallStart(_Event, frozen=True, gc=False, tag="toolcall_start"):
    """A call starts: its name is known, its arguments are not."""

    type: ClassVar[Literal["toolcall_start"]] = "toolcall_start"
    index: int
    id: str
    name: str
    raw: str = ""


class ToolCallDelta(_Event, frozen=True, gc=False, tag="toolcall_delta"):
    """More of the call's arguments, as a piece of JSON text."""

    type: ClassVar[Literal["toolcall_delta"]] = "toolcall_delta"
    index: int
    arguments: str
    raw: str = ""


class ToolCallEnd(_Event, frozen=True, gc=False, tag="toolcall_end"):
    """A call ends; it may be executed only if ``call.complete``."""

    type: ClassVar[Literal["toolcall_end"]] = "toolcall_end"
    index: int
    call: ToolCall
    raw: str = ""


class Part(_Event, frozen=True, gc=False, tag="part"):
    """A whole block that only its provider understands."""

    type: ClassVar[Literal["part"]] = "part"
    index: int
    part: Opaque
    raw: str = ""


class Done(_Event, frozen=True, gc=False, tag="done"):
    """The response ended as the model intended, or at its length limit."""

    type: ClassVar[Literal["done"]] = "done"
    reason: Literal["stop", "length", "tool_use"]
    message: AssistantMessage
    raw: str = ""


class Failed(_Event, frozen=True, gc=False, tag="error"):
    """The response failed or was cut; `message` is what had arrived."""

    type: ClassVar[Literal["error"]] = "error"
    reason: Literal["aborted", "error"]
    error: ErrorInfo
    message: AssistantMessage
    raw: str = ""


Delta = TextDelta | ThinkingDelta | ToolCallDelta
"""An event that adds to an open block; neighbours of one type and index may be merged."""

# Tuples for `isinstance`: on the paths that run once per delta, a union would be built each time.

DELTAS: Final = (TextDelta, ThinkingDelta, ToolCallDelta)
"""The classes of `Delta`."""

CALL_EVENTS: Final = (ToolCallStart, ToolCallDelta, ToolCallEnd)
"""The events of a tool call."""

BLOCK_ENDS: Final = (TextEnd, ThinkingEnd, ToolCallEnd)
"""The events that end a block."""

ENDS: Final = (Done, Failed)
"""The terminal events."""

Event = (
    MessageStart
    | TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | Part
    | Done
    | Failed
)
"""Any event."""


def to_json(event: Event) -> bytes:
    """Return *event* as one line of JSON that `from_json` reads back equal."""
    return _json.encode(event)


def from_json(data: bytes | str) -> Event:
    """Parse an event that `to_json` wrote; raise `JSONParseError` for anything else."""
    event: Event = _json.decode_as(data, Event)
    return event
