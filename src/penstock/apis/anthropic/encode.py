"""Encode a stream of the Messages API.

One block is open at a time. Blocks are numbered as they are written, so omitted ones leave no gap:
empty reasoning, blocks of other providers, and text of white space only, which the API refuses when
it is sent back; such text becomes the start of the next text. A text block stops when the next
event is known, since citations for it may follow. An incomplete call is stopped only if the
response continues.

A text delta is the hot path: two fixed pieces of bytes around the quoted text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import structs

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.anthropic import tables
from penstock.apis.anthropic.opaque import (
    STREAMED,
    find_block,
    find_caller,
    find_citations,
    find_message_fields,
    find_stop_sequence,
)
from penstock.apis.encoder import (
    BlockEvent,
    BlockSequencer,
    Ending,
    GuardedArguments,
    IdMaker,
    StreamEncoder,
    find_whole_ending,
    with_writable_calls,
)
from penstock.apis.fields import usage_or_estimate
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
from penstock.messages import AssistantMessage, Content, ErrorInfo, Opaque, Text, Thinking, Usage

MAX_WHITE: Final = 1_000
"""How much white space is held for the text that it starts."""

_TEXT: Final = {"type": "text", "text": ""}
_THINKING: Final = {"type": "thinking", "thinking": "", "signature": ""}
_TAIL: Final = b"}}\n\n"
# Not a comment line: Anthropic sends `ping` events, and every client of the API skips them.
_PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
_STOP: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


class Encoder(StreamEncoder):
    """Events in, the bytes of a stream of the Messages API out.

    *input_tokens* is the estimated size of the prompt: the stream starts with it.
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
        del created, usage  # The API has no time, and always sends the token counts.
        self._model, self._id = model, id
        self._input_tokens = input_tokens
        self._stop_sequence: str | None = None
        self._caller: dict[str, Any] | None = None  # of the next call
        self._of_message: dict[str, Any] = {}
        self._ids = IdMaker(tables.CALL_ID, "toolu_")
        self._order = BlockSequencer()
        self._number = -1  # of the last block on the wire
        self._is_open = False
        self._open_index = -1  # the index of the events whose block is open on the wire
        self._head = b""  # the bytes before the text of its deltas
        # white space at the start of a text block, until other text follows
        self._white = ""
        self._arguments = GuardedArguments()
        self._is_call = False  # whether the open block is a call

    def encode(self, event: Event) -> bytes:
        """Return the bytes of *event*; nothing is written after the terminal event."""
        # The hot path: most events are deltas of the open block, and only their text differs.
        if type(event) is TextDelta and event.index == self._open_index and event.text:
            return self._head + _json.encode_text(event.text) + _TAIL
        if type(event) is ToolCallDelta and event.index == self._open_index:
            self._note_arguments(event)
            return self._write_delta(self._arguments.add(event.arguments))
        return super().encode(event)

    def keep_alive(self) -> bytes:
        """Return bytes that keep the connection open and that clients ignore."""
        return _PING

    # The API has the counts of the prompt in `message_start`, before an upstream of another API has
    # counted anything. So they begin as an estimate.
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
                self._open_index = -1
        return b""

    # --- blocks on the wire ---

    def _open(self, index: int, block: dict[str, Any], delta: str, key: str) -> bytes:
        """Start *block*, whose deltas are of type *delta* and have their text under *key*."""
        stop = self._stop()
        self._number += 1
        self._open_index = index
        self._is_open = True
        self._head = _delta_head(self._number) + f'"type":"{delta}","{key}":'.encode()
        start = {"type": "content_block_start", "index": self._number, "content_block": block}
        return stop + _frame(start)

    def _stop(self) -> bytes:
        """Stop the open block, if there is one."""
        if not self._is_open:
            return b""
        self._is_open = self._is_call = False
        self._open_index = -1
        return _frame({"type": "content_block_stop", "index": self._number})

    def _write_delta(self, text: str) -> bytes:
        return self._head + _json.encode_text(text) + _TAIL if text else b""

    # --- text and thinking ---

    def _write_text(self, event: TextDelta) -> bytes:
        if event.index == self._open_index:
            return self._write_delta(event.text)
        self._white += event.text
        # The API rejects a request that has a text block of white space only with status 400 ("text
        # content blocks must contain non-whitespace text"), and clients send back what they
        # received.
        if not event.text.strip() and len(self._white) <= MAX_WHITE:
            return b""
        start = self._open(event.index, _TEXT, "text_delta", "text")
        text, self._white = self._white, ""
        return start + self._write_delta(text)

    def _write_thinking(self, index: int, text: str) -> bytes:
        if index == self._open_index or not text:
            return self._write_delta(text)
        start = self._open(index, _THINKING, "thinking_delta", "thinking")
        return start + self._write_delta(text)

    def _write_thinking_end(self, event: ThinkingEnd) -> bytes:
        if not event.signature:
            return self._stop() if event.index == self._open_index else b""
        start = b""
        if event.index != self._open_index:
            start = self._open(event.index, _THINKING, "thinking_delta", "thinking")
        signature = {"type": "signature_delta", "signature": event.signature}
        return start + self._write_other_delta(signature) + self._stop()

    def _write_other_delta(self, delta: dict[str, Any]) -> bytes:
        return _frame({"type": "content_block_delta", "index": self._number, "delta": delta})

    # --- calls ---

    def _write_call(self, event: ToolCallStart) -> bytes:
        """Start a call; its first delta is empty, as Anthropic sends it and clients expect it."""
        id_ = self._ids.make(event.id)
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
        block = find_block(part)
        self._stop_sequence = find_stop_sequence(part) or self._stop_sequence
        self._caller = find_caller(part)
        self._of_message |= find_message_fields(part)
        if block is not None:
            return self._write_opaque(block) + self._stop()
        citations = find_citations(part) if self._is_open and not self._is_call else []
        deltas = [{"type": "citations_delta", "citation": citation} for citation in citations]
        return b"".join([self._write_other_delta(delta) for delta in deltas])

    def _write_opaque(self, block: dict[str, Any]) -> bytes:
        if block["type"] not in STREAMED:
            return self._open(-1, block, "", "")
        start = self._open(-1, {**block, "input": {}}, "input_json_delta", "partial_json")
        return start + self._write_delta(_json.encode_wire(block["input"]).decode())

    # --- the end ---

    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        if isinstance(ending, ErrorInfo):
            # For clients, `content_block_stop` makes the input of a call final, and they could run
            # it.
            closed = b"" if self._is_call else self._stop()
            self._open_index = -1
            return closed + _frame(tables.write_error(ending))
        error = event.error if isinstance(event, Failed) else None
        stop = tables.write_stop(ending, event.message.raw_stop_reason, error, self._stop_sequence)
        container = self._of_message.pop("container", None)
        delta = {
            "type": "message_delta",
            "delta": stop if container is None else {**stop, "container": container},
            "usage": tables.write_usage(self._final_usage(event)),
            **self._of_message,
        }
        return self._stop() + _frame(delta) + _STOP

    def _final_usage(self, event: Done | Failed) -> Usage:
        """Return the token counts; without a count of the prompt, the estimate stays."""
        usage = usage_or_estimate(event.message, self._input_tokens)
        if usage.input or usage.cache_read or usage.cache_write:
            return usage
        return structs.replace(usage, input=self._input_tokens)


def _frame(data: dict[str, Any]) -> bytes:
    # The `event:` line is required: Anthropic's SDKs drop a frame without it.
    return b"event: %b\ndata: %b\n\n" % (data["type"].encode(), _json.encode_wire(data))


def _delta_head(number: int) -> bytes:
    name = "content_block_delta"
    return f'event: {name}\ndata: {{"type":"{name}","index":{number},"delta":{{'.encode()


# --- whole responses, and the blocks that requests and responses share ---


def write_response(message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
    """Write a whole response; raise `UsageError` for a failed one.

    Incomplete calls are omitted.
    """
    del created  # The API has no time.
    ending, _ = find_whole_ending(message)
    message = with_writable_calls(message)
    parts = [block for block in message.content if isinstance(block, Opaque)]
    stop_sequence = next(filter(None, map(find_stop_sequence, parts)), None)
    response: dict[str, Any] = {
        "id": message.id or "msg_1",
        "type": "message",
        "role": "assistant",
        "model": message.model,
        "content": write_blocks(message.content, IdMaker(tables.CALL_ID, "toolu_").make),
        **tables.write_stop(ending, message.raw_stop_reason, message.error, stop_sequence),
        "usage": tables.write_usage(message.usage),
    }
    for part in parts:
        response |= find_message_fields(part)
    return without_lone_surrogates(response)


def write_blocks(
    blocks: Iterable[Content],
    make_id: Callable[[str], str],
    more: Callable[[Content], Mapping[str, Any]] = lambda _: {},
) -> list[dict[str, Any]]:
    """Write the blocks of an assistant message.

    *make_id* returns an id of a call that the API accepts; *more* returns the additional fields
    that a client gave a block.

    What the API refuses or cannot express is omitted: text of white space only, reasoning without
    text and signature, incomplete calls, blocks of other providers.
    """
    written: list[dict[str, Any]] = []
    caller: dict[str, Any] | None = None
    for block in blocks:
        by, caller = caller, None
        match block:
            case Text():
                if block.text.strip():
                    written.append({**more(block), "type": "text", "text": block.text})
            case Thinking():
                if block.text or block.signature:
                    written.append(write_thinking(block))
            case Opaque():
                caller = find_caller(block)
                _add_opaque(block, written)
            case _ if block.complete:
                id_, arguments = make_id(block.id), block.arguments
                call = {"type": "tool_use", "id": id_, "name": block.name, "input": arguments}
                written.append({**more(block), **call, **({"caller": by} if by else {})})
    return written


def write_thinking(block: Thinking) -> dict[str, Any]:
    """Write a reasoning block; the API requires a signature, even an empty one."""
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _add_opaque(block: Opaque, written: list[dict[str, Any]]) -> None:
    citations, data = find_citations(block), find_block(block)
    if citations and written and written[-1]["type"] == "text":
        written[-1]["citations"] = citations
    elif data is not None:
        written.append(data)
