"""The grammar of a chat completion stream, checked from the outside.

Knows nothing of the encoder: it reads bytes as a strict client does and lists what one of them
would stumble over.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.conformance.base import (
    CallPieces,
    Complaints,
    is_count,
    is_text,
    is_word_of,
    objects_of,
)

_FINISH: Final = {"stop", "length", "tool_calls", "content_filter", "function_call"}
_CONSTANT: Final = ("id", "object", "created", "model")


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* breaks the grammar."""
    return _Checker().check(data)


class _Checker:
    def __init__(self) -> None:
        self.complain = Complaints()
        self.first: dict[str, Any] = {}
        self.calls = CallPieces(self.complain)
        self.finish = ""
        self.failed = False
        self.has_usage = False
        self.has_role = False

    def check(self, data: bytes) -> list[str]:
        complain = self.complain
        is_done = False
        for frame, value in objects_of(data, complain):
            complain.unless(not is_done, "something follows [DONE]")
            complain.unless(not frame.event, "a frame has an event name")
            if frame.data == "[DONE]":
                is_done = True
            elif "error" in value:
                self.read_error(value)
            else:
                self.read_chunk(value)
        complain.unless(is_done, "[DONE] is missing")
        complain.unless(bool(self.finish) or self.failed, "there is no finish_reason")
        self.check_end()
        return complain.found

    def read_error(self, value: dict[str, Any]) -> None:
        self.complain.unless(not self.failed, "there are two errors")
        self.complain.unless(not self.finish, "an error follows the finish")
        self.failed = True
        error = value["error"]
        is_good = isinstance(error, dict) and isinstance(error.get("message"), str)
        self.complain.unless(is_good, "an error has no message")

    def read_chunk(self, value: dict[str, Any]) -> None:
        complain = self.complain
        complain.unless(not self.failed, "a chunk follows the error")
        complain.unless(value.get("object") == "chat.completion.chunk", "a chunk of another object")
        complain.unless(is_text(value.get("id")), "a chunk has no id")
        complain.unless(is_count(value.get("created")), "a chunk has no time")
        complain.unless(isinstance(value.get("model"), str), "a chunk has no model")
        for key in _CONSTANT:
            same = self.first.setdefault(key, value.get(key)) == value.get(key)
            complain.unless(same, f"{key} changes")
        choices = value.get("choices")
        if not isinstance(choices, list):
            complain("choices is no list")
        elif not choices:
            self.read_usage(value.get("usage"))
        else:
            complain.unless(value.get("usage") is None, "usage beside choices")
            complain.unless(not self.has_usage, "a choice follows the usage")
            for choice in choices:
                self.read_choice(choice)

    def read_usage(self, usage: Any) -> None:
        """Read the tokens; a chunk with neither is one that clients pass over."""
        if usage is None:
            return
        self.complain.unless(not self.has_usage, "there are two usage chunks")
        self.complain.unless(bool(self.finish), "the usage precedes the finish")
        self.has_usage = True
        keys = ("prompt_tokens", "completion_tokens", "total_tokens")
        is_good = isinstance(usage, dict) and all(is_count(usage.get(k)) for k in keys)
        self.complain.unless(is_good, "usage has no counts")

    def read_choice(self, choice: Any) -> None:
        complain = self.complain
        if not isinstance(choice, dict) or choice.get("index") != 0:
            complain("a choice has no index 0")
            return
        complain.unless(not self.finish, "a choice follows the finish")
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self.read_delta(delta)
        else:
            complain("a choice has no delta")
        finish = choice.get("finish_reason")
        if finish is not None:
            complain.unless(is_word_of(finish, _FINISH), f"finish_reason is {finish!r}")
            self.finish = str(finish)

    def read_delta(self, delta: dict[str, Any]) -> None:
        complain = self.complain
        if not self.has_role:
            complain.unless(delta.get("role") == "assistant", "the first delta has no role")
            self.has_role = True
        else:  # A client that adds up deltas adds up roles too.
            complain.unless(not delta.get("role"), "the role comes twice")
        for key in ("content", "reasoning_content", "refusal"):
            complain.unless(isinstance(delta.get(key, ""), str | None), f"{key} is no text")
        self.calls.read(delta.get("tool_calls"))

    def check_end(self) -> None:
        if self.finish == "tool_calls":
            self.complain.unless(bool(self.calls.arguments), "tool_calls without calls")
            for arguments in self.calls.arguments:
                self.complain.unless_object(arguments)
        elif self.finish == "stop":
            self.complain.unless(not self.calls.arguments, "calls end in stop")
