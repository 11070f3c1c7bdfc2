"""Frames of the messages API and events for it, in few words."""

from __future__ import annotations

import json
from typing import Any

from laws.checks import read
from penstock import MessageBuilder, apis
from penstock.events import (
    Done,
    Event,
    Failed,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall

API = apis.get("anthropic")

START: dict[str, Any] = {
    "type": "message_start",
    "message": {"id": "msg_7", "model": "claude-test", "usage": {"input_tokens": 9}},
}
STOP: dict[str, Any] = {"type": "message_stop"}


def stop(reason: str | None, **more: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": {}}


def opens(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    block = {"type": kind, **fields}
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def closes(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def says(index: int, text: str) -> dict[str, Any]:
    return delta(index, "text_delta", text=text)


def stream(*frames: dict[str, Any]) -> bytes:
    return b"".join(
        f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode() for frame in frames
    )


def events_of(*frames: dict[str, Any]) -> list[Event]:
    return read(API.decoder(), [stream(*frames)])


def message_of(*frames: dict[str, Any]) -> AssistantMessage:
    return built(events_of(*frames))


def built(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


def answer(*frames: dict[str, Any], reason: str = "end_turn") -> AssistantMessage:
    return message_of(START, *frames, stop(reason), STOP)


def written(*events: Event, **options: Any) -> bytes:
    encoder = API.encoder(**options)
    return b"".join([encoder.encode(event) for event in events]) + encoder.finish()


def frames_of(data: bytes) -> list[dict[str, Any]]:
    assert API.check(data) == []
    lines = data.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def done(reason: Any = "stop", **fields: Any) -> Done:
    return Done(reason, AssistantMessage(stop_reason=reason, **fields))


def failed(error: ErrorInfo) -> Failed:
    return Failed("error", error, AssistantMessage(stop_reason="error", error=error))


def call(index: int, name: str, *pieces: str, complete: bool = True, id: str = "") -> list[Event]:  # noqa: A002
    id_ = id or f"toolu_{index}"
    value = json.loads("".join(pieces) or "{}") if complete else {}
    deltas = [ToolCallDelta(index, piece) for piece in pieces]
    end = ToolCallEnd(index, ToolCall(id_, name, value, complete=complete))
    return [ToolCallStart(index, id_, name), *deltas, end]


def text(index: int, *pieces: str) -> list[Event]:
    deltas = [TextDelta(index, piece) for piece in pieces]
    return [TextStart(index), *deltas, TextEnd(index, "".join(pieces))]


WHOLE: dict[str, Any] = {
    "id": "msg_2",
    "type": "message",
    "role": "assistant",
    "model": "claude-test",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "text", "text": "Hello", "citations": [{"type": "page_location"}]},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": [1]}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 4,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 2,
        "output_tokens": 3,
        "output_tokens_details": {"thinking_tokens": 1},
    },
}
