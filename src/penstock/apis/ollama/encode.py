"""Events to lines of Ollama's chat.

A call goes out whole when it ends, since a line has no room for a piece of one; a call that was
cut has no line at all.
"""

from __future__ import annotations

from typing import Any, Final

from penstock import _json
from penstock.apis.encoding import BlockEvent, Ending, OneByOne, StreamEncoder
from penstock.apis.ids import Ids
from penstock.apis.ollama import tables
from penstock.apis.ollama.response import created_at, write_call
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
)
from penstock.messages import ErrorInfo

_TAIL: Final = b'},"done":false}\n'


class Encoder(StreamEncoder):
    """Events in, the bytes of an Ollama stream out."""

    streams_arguments = False

    def __init__(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
    ) -> None:
        del id, usage  # Lines have no id, and the last always has the counts.
        super().__init__()
        self._model, self._created = model, created
        self._speech = OneByOne()
        self._ids = Ids()
        self._head = self._text_head = self._thinking_head = b""

    def encode(self, event: Event) -> bytes:
        """Write what *event* means to a client; nothing is written after the terminal event."""
        if type(event) is TextDelta and event.index == self._speech.current and event.text:
            return self._text_head + _json.encode_text(event.text) + _TAIL
        return super().encode(event)

    def keep_alive(self) -> bytes:
        """Write an empty line of text: lines have no comments."""
        return self._text_head + b'""' + _TAIL if self._text_head else b""

    def _write_start(self, event: MessageStart) -> bytes:
        head = {"model": self._model or event.model, "created_at": created_at(self._created)}
        self._head = _json.encode_wire(head)[:-1]
        message = self._head + b',"message":{"role":"assistant",'
        self._text_head = message + b'"content":'
        self._thinking_head = message + b'"content":"","thinking":'
        return b""

    def _write(self, event: BlockEvent) -> bytes:
        return b"".join(map(self._write_in_turn, self._speech.put(event)))

    def _write_in_turn(self, event: BlockEvent) -> bytes:
        match event:
            case TextDelta(text=text) if text:
                return self._text_head + _json.encode_text(text) + _TAIL
            case ThinkingDelta(text=text) if text:
                return self._thinking_head + _json.encode_text(text) + _TAIL
            case ToolCallEnd(call=call) if call.complete:
                calls = {"tool_calls": [write_call(call, self._ids)]}
                return self._text_head + b'"",' + _json.encode_wire(calls)[1:-1] + _TAIL
        return b""

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        if isinstance(ending, ErrorInfo):
            return _json.encode_wire({"error": ending.message or "the answer failed"}) + b"\n"
        last: dict[str, Any] = {
            "message": {"role": "assistant", "content": ""},
            "done_reason": tables.DONE_REASONS[ending],
            "done": True,
            **tables.write_usage(event.message.usage),
        }
        return self._head + b"," + _json.encode_wire(last)[1:] + b"\n"
