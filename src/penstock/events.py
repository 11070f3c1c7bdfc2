"""The events: one vocabulary between every provider, every format and every client.

A stream is valid when it reads like this::

    [start]  ( block | part )*  [ done | error ]
    block := text_start     text_delta*      text_end
           | thinking_start thinking_delta*  thinking_end
           | toolcall_start toolcall_delta*  toolcall_end

Blocks are numbered from zero in the order in which they start; blocks of parallel calls may be
open side by side, so a delta is routed by `index` alone. A parser gives bare blocks; a decoder
gives the whole, with exactly one terminal event and every block closed before it. Nothing follows
a terminal event, and what was emitted is never taken back.

`raw` is the piece of model text that an event consumed, markup included: joined over all events it
gives the model's text back, character for character. It is empty where an event came from no text.

No event carries a copy of the message so far; `MessageBuilder` folds events into one.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from penstock import _json
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, ToolCall


class _Event(Struct, frozen=True, gc=False):
    """What all events are: values that never change and that the garbage collector may ignore."""

    @property
    def type(self) -> str:
        """The wire name, such as ``text_delta``."""
        return str(self.__struct_config__.tag)


class MessageStart(_Event, frozen=True, gc=False, tag="start"):
    """The answer begins."""

    id: str = ""
    model: str = ""
    raw: str = ""


class TextStart(_Event, frozen=True, gc=False, tag="text_start"):
    """A text block opens."""

    index: int
    raw: str = ""


class TextDelta(_Event, frozen=True, gc=False, tag="text_delta"):
    """More text for the open text block."""

    index: int
    text: str
    raw: str = ""


class TextEnd(_Event, frozen=True, gc=False, tag="text_end"):
    """A text block closes; `text` is all of it."""

    index: int
    text: str
    signature: str = ""
    raw: str = ""


class ThinkingStart(_Event, frozen=True, gc=False, tag="thinking_start"):
    """A block of reasoning opens."""

    index: int
    raw: str = ""


class ThinkingDelta(_Event, frozen=True, gc=False, tag="thinking_delta"):
    """More reasoning for the open thinking block."""

    index: int
    text: str
    raw: str = ""


class ThinkingEnd(_Event, frozen=True, gc=False, tag="thinking_end"):
    """A block of reasoning closes; `text` is all of it."""

    index: int
    text: str
    signature: str = ""
    raw: str = ""


class ToolCallStart(_Event, frozen=True, gc=False, tag="toolcall_start"):
    """A call opens: who is called is known, with what is not."""

    index: int
    id: str
    name: str
    raw: str = ""


class ToolCallDelta(_Event, frozen=True, gc=False, tag="toolcall_delta"):
    """More of the call's arguments, as a piece of JSON text."""

    index: int
    arguments: str
    raw: str = ""


class ToolCallEnd(_Event, frozen=True, gc=False, tag="toolcall_end"):
    """A call closes; only ``call.complete`` makes it one that may be executed."""

    index: int
    call: ToolCall
    raw: str = ""


class Part(_Event, frozen=True, gc=False, tag="part"):
    """A block that only its provider understands, whole."""

    index: int
    part: Opaque
    raw: str = ""


class Done(_Event, frozen=True, gc=False, tag="done"):
    """The answer ended as its model meant it to, or at its length limit."""

    reason: Literal["stop", "length", "tool_use"]
    message: AssistantMessage
    raw: str = ""


class Failed(_Event, frozen=True, gc=False, tag="error"):
    """The answer did not end as it should; `message` is what had arrived."""

    reason: Literal["aborted", "error"]
    error: ErrorInfo
    message: AssistantMessage
    raw: str = ""


Delta = TextDelta | ThinkingDelta | ToolCallDelta
"""The events that neighbours of the same type and index may be merged with."""

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
    """Write *event* as one line of JSON that `from_json` reads back equal."""
    return _json.encode(event)


def from_json(data: bytes | str) -> Event:
    """Read an event that `to_json` wrote; raise `JSONParseError` for anything else."""
    event: Event = _json.decode_as(data, Event)
    return event
