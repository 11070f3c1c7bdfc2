"""Chat completions, as the fake upstream says them."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.dialects.frames import CREATED, JSON, PROMPT_TOKENS, call_id, calls_of, frame, text_of
from gateway.scenarios import TOOL, Piece, Scenario, calls_natively, pieces_of


def stream(model: str, scenario: Scenario) -> Iterator[bytes]:
    """Yield *scenario* as chat completion chunks."""
    base = {
        "id": "chatcmpl-fake",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": model,
    }

    def chunk(delta: JSON, finish: str | None = None) -> bytes:
        return frame({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces_of(scenario):
        yield chunk(_delta(piece))
    if scenario.fault != "nofinish":
        yield chunk({}, "tool_calls" if calls_natively(scenario) else "stop")
    if scenario.usage:
        yield frame({**base, "choices": [], "usage": _usage(scenario)})
    if scenario.fault != "nodone":
        yield b"data: [DONE]\n\n"


def _delta(piece: Piece) -> JSON:
    match piece.kind:
        case "text":
            return {"content": piece.text}
        case "thinking":
            return {"reasoning_content": piece.text}
        case "call":
            start = {"index": piece.call, "id": call_id(piece.call), "type": "function"}
            return {"tool_calls": [{**start, "function": {"name": TOOL, "arguments": ""}}]}
        case _:
            return {"tool_calls": [{"index": piece.call, "function": {"arguments": piece.text}}]}


def _usage(scenario: Scenario) -> JSON:
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": scenario.pieces,
        "total_tokens": PROMPT_TOKENS + scenario.pieces,
    }


def whole(model: str, scenario: Scenario, said: list[Piece]) -> JSON:
    """Make a chat completion of what was *said*."""
    message: JSON = {"role": "assistant", "content": text_of(said, "text") or None}
    if thinking := text_of(said, "thinking"):
        message["reasoning_content"] = thinking
    calls = [
        {"id": call_id(call), "type": "function", "function": {"name": TOOL, "arguments": text}}
        for call, text in calls_of(said).items()
    ]
    if calls:
        message["tool_calls"] = calls
    finish = "tool_calls" if calls else "stop"
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": _usage(scenario),
    }
