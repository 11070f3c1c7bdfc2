"""The grammar of a stream of chat completion chunks.

It is independent of the encoder: it reads bytes as a strict client does and lists what such a
client would reject.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.conformance import (
    CallPieces,
    CheckReport,
    is_count,
    is_one_of,
    is_text,
    read_objects,
)

_FINISH: Final = {"stop", "length", "tool_calls", "content_filter", "function_call"}
_CONSTANT: Final = ("id", "object", "created", "model")


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* violates the grammar."""
    return _Checker().check(data)


class _Checker:
    def __init__(self) -> None:
        self.report = CheckReport()
        self.first: dict[str, Any] = {}
        self.calls = CallPieces(self.report)
        self.finish = ""
        self.failed = False
        self.has_usage = False
        self.has_role = False

    def check(self, data: bytes) -> list[str]:
        report = self.report
        is_done = False
        for frame, value in read_objects(data, report):
            report.require(not is_done, "something follows [DONE]")
            report.require(not frame.event, "a frame has an event name")
            if frame.data == "[DONE]":
                is_done = True
            elif "error" in value:
                self.read_error(value)
            else:
                self.read_chunk(value)
        report.require(is_done, "[DONE] is missing")
        report.require(bool(self.finish) or self.failed, "there is no finish_reason")
        self.check_end()
        return report.found

    def read_error(self, value: dict[str, Any]) -> None:
        self.report.require(not self.failed, "there are two errors")
        self.report.require(not self.finish, "an error follows the finish")
        self.failed = True
        error = value["error"]
        is_good = isinstance(error, dict) and isinstance(error.get("message"), str)
        self.report.require(is_good, "an error has no message")

    def read_chunk(self, value: dict[str, Any]) -> None:
        report = self.report
        report.require(not self.failed, "a chunk follows the error")
        report.require(value.get("object") == "chat.completion.chunk", "a chunk of another object")
        report.require(is_text(value.get("id")), "a chunk has no id")
        report.require(is_count(value.get("created")), "a chunk has no time")
        report.require(isinstance(value.get("model"), str), "a chunk has no model")
        for key in _CONSTANT:
            same = self.first.setdefault(key, value.get(key)) == value.get(key)
            report.require(same, f"{key} changes")
        choices = value.get("choices")
        if not isinstance(choices, list):
            report.add("choices is not a list")
        elif not choices:
            self.read_usage(value.get("usage"))
        else:
            report.require(value.get("usage") is None, "usage beside choices")
            report.require(not self.has_usage, "a choice follows the usage")
            for choice in choices:
                self.read_choice(choice)

    def read_usage(self, usage: Any) -> None:
        """Read the usage; a chunk with neither choices nor usage is ignored by clients."""
        if usage is None:
            return
        self.report.require(not self.has_usage, "there are two usage chunks")
        self.report.require(bool(self.finish), "the usage precedes the finish")
        self.has_usage = True
        keys = ("prompt_tokens", "completion_tokens", "total_tokens")
        is_good = isinstance(usage, dict) and all(is_count(usage.get(k)) for k in keys)
        self.report.require(is_good, "usage has no counts")

    def read_choice(self, choice: Any) -> None:
        report = self.report
        if not isinstance(choice, dict) or choice.get("index") != 0:
            report.add("a choice has no index 0")
            return
        report.require(not self.finish, "a choice follows the finish")
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self.read_delta(delta)
        else:
            report.add("a choice has no delta")
        finish = choice.get("finish_reason")
        if finish is not None:
            report.require(is_one_of(finish, _FINISH), f"finish_reason is {finish!r}")
            self.finish = str(finish)

    def read_delta(self, delta: dict[str, Any]) -> None:
        report = self.report
        if not self.has_role:
            report.require(delta.get("role") == "assistant", "the first delta has no role")
            self.has_role = True
        else:  # A client that adds up deltas adds up roles too.
            report.require(not delta.get("role"), "the role comes twice")
        for key in ("content", "reasoning_content", "refusal"):
            report.require(isinstance(delta.get(key, ""), str | None), f"{key} is not text")
        self.calls.read(delta.get("tool_calls"))

    def check_end(self) -> None:
        if self.finish == "tool_calls":
            self.report.require(bool(self.calls.arguments), "tool_calls without calls")
            for arguments in self.calls.arguments:
                self.report.require_object(arguments)
        elif self.finish == "stop":
            self.report.require(not self.calls.arguments, "calls end in stop")
