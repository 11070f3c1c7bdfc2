"""Messages, as the fake upstream says them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gateway.dialects.frames import JSON, PROMPT_TOKENS, calls_of, frame, text_of
from gateway.scenarios import TOOL, Piece, Scenario, calls_natively, pieces_of


def stream(model: str, scenario: Scenario) -> Iterator[bytes]:
    """Yield *scenario* as message events."""

    def event(kind: str, **fields: Any) -> bytes:
        return frame({"type": kind, **fields}, kind)

    start: JSON = {
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": PROMPT_TOKENS, "output_tokens": 1},
    }
    yield event("message_start", message=start)
    block, opened = -1, ("", 0)
    for piece in pieces_of(scenario):
        kind = "call" if piece.kind == "arguments" else piece.kind
        if (kind, piece.call) != opened:
            if opened[0]:
                yield event("content_block_stop", index=block)
            block, opened = block + 1, (kind, piece.call)
            yield event("content_block_start", index=block, content_block=_block(kind, piece.call))
        if piece.kind != "call":
            yield event("content_block_delta", index=block, delta=_delta(piece))
    yield event("content_block_stop", index=block)
    if scenario.fault != "nofinish":
        reason = "tool_use" if calls_natively(scenario) else "end_turn"
        delta = {"stop_reason": reason, "stop_sequence": None}
        yield event("message_delta", delta=delta, usage={"output_tokens": scenario.pieces})
    if scenario.fault != "nodone":
        yield event("message_stop")


def _block(kind: str, call: int) -> JSON:
    match kind:
        case "text":
            return {"type": "text", "text": ""}
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case _:
            return {"type": "tool_use", "id": f"toolu_{call:04}", "name": TOOL, "input": {}}


def _delta(piece: Piece) -> JSON:
    match piece.kind:
        case "text":
            return {"type": "text_delta", "text": piece.text}
        case "thinking":
            return {"type": "thinking_delta", "thinking": piece.text}
        case _:
            return {"type": "input_json_delta", "partial_json": piece.text}


def whole(model: str, scenario: Scenario, said: list[Piece]) -> JSON:
    """Make a message of what was *said*."""
    content: list[JSON] = []
    if thinking := text_of(said, "thinking"):
        content.append({"type": "thinking", "thinking": thinking, "signature": ""})
    if text := text_of(said, "text"):
        content.append({"type": "text", "text": text})
    calls = calls_of(said)
    content += [{**_block("call", call), "input": json.loads(calls[call])} for call in calls]
    return {
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": PROMPT_TOKENS, "output_tokens": scenario.pieces},
    }
