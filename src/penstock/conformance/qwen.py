"""The grammar of a stream of chat.qwen.ai.

Most of its streams end without ``[DONE]``, and some have no total count.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.conformance import CallPieces, CheckReport, is_count, is_text, read_objects

_COUNTS: Final = ("input_tokens", "output_tokens")


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* violates the grammar."""
    return _Checker().check(data)


class _Checker:
    def __init__(self) -> None:
        self.report = CheckReport()
        self.calls = CallPieces(self.report)
        self.begun = self.ended = self.is_done = False

    def check(self, data: bytes) -> list[str]:
        report = self.report
        for frame, value in read_objects(data, report):
            report.require(not self.is_done, "something follows [DONE]")
            if frame.data == "[DONE]":
                self.is_done = True
            elif "error" in value:
                self.read_error(value["error"])
            # The first frame: the ids that the next request of the chat must name.
            elif "response.created" in value:
                report.require(not self.begun, "there are two beginnings")
                self.begun = True
                self.read_created(value["response.created"])
            else:
                self.read_chunk(value)
        report.require(self.ended, "there is no end")
        return report.found

    def read_error(self, error: Any) -> None:
        self.report.require(not self.ended, "an error follows the end")
        self.report.require(isinstance(error, dict | str), "an error is neither an object nor text")
        self.ended = True

    def read_created(self, created: Any) -> None:
        for key in ("chat_id", "parent_id", "response_id"):
            is_good = isinstance(created, dict) and isinstance(created.get(key), str)
            self.report.require(is_good, f"response.created has no {key}")

    def read_chunk(self, value: dict[str, Any]) -> None:
        report = self.report
        report.require(self.begun, "a chunk precedes response.created")
        report.require(not self.ended, "a chunk follows the end")
        self.read_usage(value.get("usage"))
        match value.get("choices"):
            case [{"delta": dict(delta), **choice}]:
                self.read_delta(delta)
                finish = choice.get("finish_reason")
                report.require(finish is None or is_text(finish), "finish_reason is not text")
                # Other phases (thinking, web search, image generation) finish, too, and the answer
                # follows them.
                is_last = delta.get("status") == "finished" and delta.get("phase") == "answer"
                self.ended |= is_last or is_text(finish)
            case _:
                report.add("a chunk has no delta")

    def read_delta(self, delta: dict[str, Any]) -> None:
        """Read a delta; one of another kind may lack content or phase."""
        is_text_delta = all(isinstance(delta.get(key), str) for key in ("content", "phase"))
        is_other = "content" not in delta or "phase" not in delta
        self.report.require(is_text_delta or is_other, "content or phase is not text")
        self.calls.read(delta.get("tool_calls"))

    def read_usage(self, usage: Any) -> None:
        if usage is not None:
            counts = usage if isinstance(usage, dict) else {}
            for key in _COUNTS:
                self.report.require(is_count(counts.get(key)), f"usage has no {key}")
            self.report.require(is_count(counts.get("total_tokens", 0)), "the total is not a count")
