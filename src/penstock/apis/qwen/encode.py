"""Events to the stream of chat.qwen.ai, for those who stand in for it.

The web API has no calls of its own: they go out as chat completions have them, whole.
"""

from __future__ import annotations

from typing import Any, Final

from penstock import _json
from penstock.apis.arguments import ArgumentsOut
from penstock.apis.encoding import BlockEvent, Ending, OneByOne, StreamEncoder
from penstock.apis.ids import Ids
from penstock.apis.qwen import tables
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import ErrorInfo, Usage

_HEAD: Final = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":'
_ANSWER: Final = b',"phase":"answer","status":"typing"}}]}\n\n'
_THOUGHT: Final = b',"phase":"think","status":"typing"}}]}\n\n'
_THOUGHT_END: Final = _HEAD + b'"","phase":"think","status":"finished"}}]}\n\n'


class Encoder(StreamEncoder):
    """Events in, the bytes of a stream of chat.qwen.ai out."""

    def __init__(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
    ) -> None:
        del model, created, usage  # Its frames have none of them but the usage, always.
        super().__init__()
        self._id = id
        self._order = OneByOne()
        self._ids = Ids()
        self._numbers: dict[int, int] = {}
        self._arguments = ArgumentsOut()

    def encode(self, event: Event) -> bytes:
        """Write what *event* means to a client; nothing is written after the terminal event."""
        if type(event) is TextDelta and event.index == self._order.current and event.text:
            return _HEAD + _json.encode_text(event.text) + _ANSWER
        return super().encode(event)

    def _write_start(self, event: MessageStart) -> bytes:
        created = {"chat_id": "chat-1", "parent_id": "", "response_id": self._id or event.id}
        return b"data: " + _json.encode_wire({"response.created": created}) + b"\n\n"

    def _write(self, event: BlockEvent) -> bytes:
        return b"".join(map(self._write_in_turn, self._order.put(event)))

    def _write_in_turn(self, event: BlockEvent) -> bytes:
        match event:
            case TextDelta(text=text) if text:
                return _HEAD + _json.encode_text(text) + _ANSWER
            case ThinkingDelta(text=text) if text:
                return _HEAD + _json.encode_text(text) + _THOUGHT
            case ThinkingEnd(text=text) if text:
                return _THOUGHT_END
            case ToolCallStart():
                return self._write_call(event)
            case ToolCallDelta():
                return self._write_arguments(event.index, self._arguments.add(event.arguments))
            case ToolCallEnd():
                return self._write_arguments(event.index, self._arguments.end(event.call))
            case Part(part=part) if part.provider == tables.NAME and isinstance(part.data, dict):
                return _frame({"choices": [{"index": 0, "delta": part.data}]})
        return b""

    def _write_call(self, event: ToolCallStart) -> bytes:
        number = self._numbers[event.index] = len(self._numbers)
        self._arguments = ArgumentsOut()
        function = {"name": event.name, "arguments": ""}
        call = {"index": number, "id": self._ids.give(event.id), "type": "function"}
        return self._write_calls({**call, "function": function})

    def _write_arguments(self, index: int, arguments: str) -> bytes:
        if not arguments:
            return b""
        function = {"arguments": arguments}
        return self._write_calls({"index": self._numbers[index], "function": function})

    def _write_calls(self, call: dict[str, Any]) -> bytes:
        delta = {"role": "assistant", "content": "", "phase": "answer", "status": "typing"}
        return _frame({"choices": [{"index": 0, "delta": {**delta, "tool_calls": [call]}}]})

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        if isinstance(ending, ErrorInfo):
            return _frame(tables.write_error(ending))
        usage = event.message.usage
        counted = b""
        if usage != Usage():
            typing = {"role": "assistant", "content": "", "phase": "answer", "status": "typing"}
            counted = _frame(
                {"choices": [{"index": 0, "delta": typing}], "usage": tables.write_usage(usage)}
            )
        last = {"role": "assistant", "content": "", "phase": "answer", "status": "finished"}
        choice: dict[str, Any] = {"index": 0, "delta": last}
        if ending in tables.FINISH_REASONS:
            del last["status"]
            choice["finish_reason"] = tables.FINISH_REASONS[ending]
        return counted + _frame({"choices": [choice]}) + b"data: [DONE]\n\n"


def _frame(data: dict[str, Any]) -> bytes:
    return b"data: " + _json.encode_wire(data) + b"\n\n"
