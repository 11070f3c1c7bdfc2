"""The grammar of a stream of chat.qwen.ai, checked from the outside.

Most of its streams end without a ``[DONE]``, and some count no total.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.conformance.base import CallPieces, Complaints, is_count, is_text, objects_of

_COUNTS: Final = ("input_tokens", "output_tokens")


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* breaks the grammar."""
    return _Checker().check(data)


class _Checker:
    def __init__(self) -> None:
        self.complain = Complaints()
        self.calls = CallPieces(self.complain)
        self.begun = self.ended = self.is_done = False

    def check(self, data: bytes) -> list[str]:
        complain = self.complain
        for frame, value in objects_of(data, complain):
            complain.unless(not self.is_done, "something follows [DONE]")
            if frame.data == "[DONE]":
                self.is_done = True
            elif "error" in value:
                self.read_error(value["error"])
            elif "response.created" in value:
                complain.unless(not self.begun, "there are two beginnings")
                self.begun = True
                self.read_created(value["response.created"])
            else:
                self.read_chunk(value)
        complain.unless(self.ended, "there is no end")
        return complain.found

    def read_error(self, error: Any) -> None:
        self.complain.unless(not self.ended, "an error follows the end")
        self.complain.unless(isinstance(error, dict | str), "an error says nothing")
        self.ended = True

    def read_created(self, created: Any) -> None:
        for key in ("chat_id", "parent_id", "response_id"):
            is_good = isinstance(created, dict) and isinstance(created.get(key), str)
            self.complain.unless(is_good, f"response.created has no {key}")

    def read_chunk(self, value: dict[str, Any]) -> None:
        complain = self.complain
        complain.unless(self.begun, "a chunk precedes response.created")
        complain.unless(not self.ended, "a chunk follows the end")
        self.read_usage(value.get("usage"))
        match value.get("choices"):
            case [{"delta": dict(delta), **choice}]:
                self.read_delta(delta)
                finish = choice.get("finish_reason")
                complain.unless(finish is None or is_text(finish), "finish_reason is no text")
                is_last = delta.get("status") == "finished" and delta.get("phase") == "answer"
                self.ended |= is_last or is_text(finish)
            case _:
                complain("a chunk has no delta")

    def read_delta(self, delta: dict[str, Any]) -> None:
        """Read what is said; only a delta of another kind may leave out both words."""
        is_said = all(isinstance(delta.get(key), str) for key in ("content", "phase"))
        is_other = "content" not in delta or "phase" not in delta
        self.complain.unless(is_said or is_other, "content or phase are no text")
        self.calls.read(delta.get("tool_calls"))

    def read_usage(self, usage: Any) -> None:
        if usage is not None:
            counts = usage if isinstance(usage, dict) else {}
            for key in _COUNTS:
                self.complain.unless(is_count(counts.get(key)), f"usage has no {key}")
            self.complain.unless(is_count(counts.get("total_tokens", 0)), "the total is no count")
