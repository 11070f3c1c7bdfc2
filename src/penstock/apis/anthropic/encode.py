"""Events to message events.

One block is open at a time, and blocks are numbered as they are written, so those that are not
written leave no gap: thinking that says nothing, blocks of other providers, and text of white space
alone, which the API refuses when it comes back; it begins the next text that says something. A
block of text stops when the next thing is known, since citations for it may follow; a call that is
not complete is closed only if the answer continues.

A text delta is the hot path: two fixed pieces of bytes around the quoted text.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from penstock import _json
from penstock.apis.anthropic import tables
from penstock.apis.anthropic.opaque import (
    STREAMED,
    block_of,
    caller_of,
    citations_of,
    message_fields_of,
    stop_sequence_of,
)
from penstock.apis.encoder import (
    BlockEvent,
    BlockSequencer,
    Ending,
    GuardedArguments,
    IdMaker,
    StreamEncoder,
)
from penstock.apis.fields import told_usage
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import ErrorInfo, Opaque, Usage

MAX_WHITE: Final = 1_000
"""How much white space waits for the text that it begins."""

_TEXT: Final = {"type": "text", "text": ""}
_THINKING: Final = {"type": "thinking", "thinking": "", "signature": ""}
_TAIL: Final = b"}}\n\n"
_PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
_STOP: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


class Encoder(StreamEncoder):
    """Events in, the bytes of a message stream out.

    *input_tokens* is what the prompt costs: the stream tells it first, when no answer has yet.
    """

    def __init__(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
        input_tokens: int = 0,
    ) -> None:
        super().__init__()
        del created, usage  # The API gives no time, and tokens to everybody.
        self._model, self._id = model, id
        self._input_tokens = input_tokens
        self._stop_sequence: str | None = None
        self._caller: dict[str, Any] | None = None  # of the call that follows
        self._of_message: dict[str, Any] = {}
        self._ids = IdMaker(tables.CALL_ID, "toolu_")
        self._order = BlockSequencer()
        self._number = -1  # of the block that was written last
        self._is_open = False
        self._speaking = -1  # the index of the event whose block is on the wire
        self._head = b""  # what goes before the text of its deltas
        self._white = ""
        self._arguments = GuardedArguments()
        self._is_call = False  # whether the block that is open is a call

    def encode(self, event: Event) -> bytes:
        """Write what *event* means to a client; nothing is written after the terminal event."""
        if type(event) is TextDelta and event.index == self._speaking and event.text:
            return self._head + _json.encode_text(event.text) + _TAIL
        return super().encode(event)

    def keep_alive(self) -> bytes:
        """Write a sign of life that means nothing to a client."""
        return _PING

    def _write_start(self, event: MessageStart) -> bytes:
        message: dict[str, Any] = {
            "id": self._id or event.id or "msg_1",
            "type": "message",
            "role": "assistant",
            "model": self._model or event.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": tables.write_usage(Usage(input=self._input_tokens)),
        }
        return _frame({"type": "message_start", "message": message})

    def _write(self, event: BlockEvent) -> bytes:
        return b"".join([self._write_in_turn(event) for event in self._order.put(event)])

    def _write_in_turn(self, event: BlockEvent) -> bytes:
        match event:
            case TextDelta():
                return self._write_text(event)
            case ThinkingDelta():
                return self._write_thinking(event.index, event.text)
            case ToolCallDelta():
                return self._write_delta(self._arguments.add(event.arguments))
            case ToolCallStart():
                return self._write_call(event)
            case ToolCallEnd():
                return self._write_call_end(event)
            case ThinkingEnd():
                return self._write_thinking_end(event)
            case Part():
                return self._write_part(event.part)
            case TextStart() | TextEnd() | ThinkingStart():
                self._speaking = -1
        return b""

    # --- blocks on the wire ---

    def _open(self, index: int, block: dict[str, Any], delta: str, key: str) -> bytes:
        """Start *block*, whose deltas are of type *delta* and say their text under *key*."""
        stop = self._stop()
        self._number += 1
        self._speaking = index
        self._is_open = True
        self._head = _delta_head(self._number) + f'"type":"{delta}","{key}":'.encode()
        start = {"type": "content_block_start", "index": self._number, "content_block": block}
        return stop + _frame(start)

    def _stop(self) -> bytes:
        """Stop the block that is open, if one is."""
        if not self._is_open:
            return b""
        self._is_open = self._is_call = False
        self._speaking = -1
        return _frame({"type": "content_block_stop", "index": self._number})

    def _write_delta(self, text: str) -> bytes:
        return self._head + _json.encode_text(text) + _TAIL if text else b""

    # --- text and thinking ---

    def _write_text(self, event: TextDelta) -> bytes:
        if event.index == self._speaking:
            return self._write_delta(event.text)
        self._white += event.text
        if not event.text.strip() and len(self._white) <= MAX_WHITE:
            return b""
        start = self._open(event.index, _TEXT, "text_delta", "text")
        said, self._white = self._white, ""
        return start + self._write_delta(said)

    def _write_thinking(self, index: int, text: str) -> bytes:
        if index == self._speaking or not text:
            return self._write_delta(text)
        start = self._open(index, _THINKING, "thinking_delta", "thinking")
        return start + self._write_delta(text)

    def _write_thinking_end(self, event: ThinkingEnd) -> bytes:
        if not event.signature:
            return self._stop() if event.index == self._speaking else b""
        start = b""
        if event.index != self._speaking:
            start = self._open(event.index, _THINKING, "thinking_delta", "thinking")
        signature = {"type": "signature_delta", "signature": event.signature}
        return start + self._write_other_delta(signature) + self._stop()

    def _write_other_delta(self, delta: dict[str, Any]) -> bytes:
        return _frame({"type": "content_block_delta", "index": self._number, "delta": delta})

    # --- calls ---

    def _write_call(self, event: ToolCallStart) -> bytes:
        """Start a call; its first delta is empty, and clients rely on there being one."""
        id_ = self._ids.give(event.id)
        block: dict[str, Any] = {"type": "tool_use", "id": id_, "name": event.name, "input": {}}
        if self._caller is not None:
            block["caller"] = self._caller
            self._caller = None
        self._arguments = GuardedArguments()
        start = self._open(event.index, block, "input_json_delta", "partial_json")
        self._is_call = True
        return start + self._head + b'""' + _TAIL

    def _write_call_end(self, event: ToolCallEnd) -> bytes:
        rest = self._write_delta(self._arguments.end(event.call))
        return rest + self._stop() if event.call.complete else rest

    # --- blocks that only this API understands ---

    def _write_part(self, part: Opaque) -> bytes:
        block = block_of(part)
        self._stop_sequence = stop_sequence_of(part) or self._stop_sequence
        self._caller = caller_of(part)
        self._of_message |= message_fields_of(part)
        if block is not None:
            return self._write_sealed(block) + self._stop()
        citations = citations_of(part) if self._is_open and not self._is_call else []
        deltas = [{"type": "citations_delta", "citation": citation} for citation in citations]
        return b"".join([self._write_other_delta(delta) for delta in deltas])

    def _write_sealed(self, block: dict[str, Any]) -> bytes:
        if block["type"] not in STREAMED:
            return self._open(-1, block, "", "")
        start = self._open(-1, {**block, "input": {}}, "input_json_delta", "partial_json")
        return start + self._write_delta(_json.encode_wire(block["input"]).decode())

    # --- the end ---

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        if isinstance(ending, ErrorInfo):
            closed = b"" if self._is_call else self._stop()
            self._speaking = -1
            return closed + _frame(tables.write_error(ending))
        error = event.error if isinstance(event, Failed) else None
        stop = tables.write_stop(ending, event.message.raw_stop_reason, error, self._stop_sequence)
        container = self._of_message.pop("container", None)
        delta = {
            "type": "message_delta",
            "delta": stop if container is None else {**stop, "container": container},
            "usage": tables.write_usage(self._usage_of(event)),
            **self._of_message,
        }
        return self._stop() + _frame(delta) + _STOP

    def _usage_of(self, event: Done | Failed) -> Usage:
        """Return the tokens; what the start has said of the prompt is not taken back.

        Where an upstream counted the prompt, its count is the true one.
        """
        usage = told_usage(event.message, self._input_tokens)
        if usage.input or usage.cache_read or usage.cache_write:
            return usage
        return structs.replace(usage, input=self._input_tokens)


def _frame(data: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (data["type"].encode(), _json.encode_wire(data))


def _delta_head(number: int) -> bytes:
    name = "content_block_delta"
    return f'event: {name}\ndata: {{"type":"{name}","index":{number},"delta":{{'.encode()
