"""The grammar of a stream of chat.qwen.ai, checked from the outside."""

from __future__ import annotations

from typing import Any

from penstock.apis.checking import Complaints, objects_of


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* breaks the grammar."""
    complain = Complaints()
    begun = ended = is_done = False
    for frame, value in objects_of(data, complain):
        complain.unless(not is_done, "something follows [DONE]")
        if frame.data == "[DONE]":
            is_done = True
        elif "error" in value:
            complain.unless(not ended, "an error follows the end")
            ended = True
        elif "response.created" in value:
            complain.unless(not begun, "there are two beginnings")
            _check_created(value["response.created"], complain)
            begun = True
        else:
            complain.unless(begun, "a chunk precedes response.created")
            complain.unless(not ended, "a chunk follows the end")
            ended = _check_chunk(value, complain)
    complain.unless(ended, "there is no end")
    return complain.found


def _check_created(created: Any, complain: Complaints) -> None:
    for key in ("chat_id", "parent_id", "response_id"):
        is_good = isinstance(created, dict) and isinstance(created.get(key), str)
        complain.unless(is_good, f"response.created has no {key}")


def _check_chunk(value: dict[str, Any], complain: Complaints) -> bool:
    """Check one chunk; tell whether it is the last."""
    match value.get("choices"):
        case [{"delta": {"content": str(), "phase": str(phase), **delta}, **choice}]:
            if isinstance(value.get("usage", {}), dict):
                is_last = delta.get("status") == "finished" and phase == "answer"
                return is_last or "finish_reason" in choice
        case [{"delta": dict()}]:
            return False
    complain("a chunk has no delta with content and phase")
    return False
