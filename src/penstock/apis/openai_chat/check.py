"""The grammar of a chat completion stream, checked from the outside.

Knows nothing of the encoder: it reads bytes as a strict client does and lists what one of them
would stumble over.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.apis.checking import Complaints, objects_of

_FINISH: Final = {"stop", "length", "tool_calls", "content_filter", "function_call"}
_CONSTANT: Final = ("id", "object", "created", "model")


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* breaks the grammar."""
    return _Checker().check(data)


class _Checker:
    def __init__(self) -> None:
        self.complain = Complaints()
        self.first: dict[str, Any] = {}
        self.calls: list[str] = []  # the arguments of each call, by index
        self.ids: set[str] = set()
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
        complain.unless(isinstance(value.get("id"), str) and value["id"] != "", "a chunk has no id")
        for key in _CONSTANT:
            same = self.first.setdefault(key, value.get(key)) == value.get(key)
            complain.unless(same, f"{key} changes")
        choices = value.get("choices")
        if not isinstance(choices, list):
            complain("choices is no list")
        elif not choices:
            self.read_usage(value)
        else:
            complain.unless(value.get("usage") is None, "usage beside choices")
            complain.unless(not self.has_usage, "a choice follows the usage")
            for choice in choices:
                self.read_choice(choice)

    def read_usage(self, value: dict[str, Any]) -> None:
        usage = value.get("usage")
        self.complain.unless(not self.has_usage, "there are two usage chunks")
        self.complain.unless(bool(self.finish), "the usage precedes the finish")
        self.has_usage = True
        keys = ("prompt_tokens", "completion_tokens", "total_tokens")
        is_good = isinstance(usage, dict) and all(isinstance(usage.get(k), int) for k in keys)
        self.complain.unless(is_good, "a chunk without choices has no usage")

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
            complain.unless(finish in _FINISH, f"finish_reason is {finish!r}")
            self.finish = str(finish)

    def read_delta(self, delta: dict[str, Any]) -> None:
        complain = self.complain
        if not self.has_role:
            complain.unless(delta.get("role") == "assistant", "the first delta has no role")
            self.has_role = True
        for key in ("content", "reasoning_content", "refusal"):
            complain.unless(isinstance(delta.get(key, ""), str | None), f"{key} is no text")
        calls = delta.get("tool_calls", [])
        if not isinstance(calls, list):
            complain("tool_calls is no list")
            return
        for call in calls:
            self.read_call(call)

    def read_call(self, call: Any) -> None:
        complain = self.complain
        index = call.get("index") if isinstance(call, dict) else None
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(index, int) or not isinstance(function, dict):
            complain("a call has no index or no function")
            return
        arguments = function.get("arguments")
        complain.unless(isinstance(arguments, str), "arguments are no text")
        if index == len(self.calls):
            self.read_call_start(call, function)
            self.calls.append(str(arguments))
        elif 0 <= index < len(self.calls):
            complain.unless("name" not in function and "id" not in call, "a call is named again")
            self.calls[index] += str(arguments)
        else:
            complain(f"call {index} follows {len(self.calls)} others")

    def read_call_start(self, call: dict[str, Any], function: dict[str, Any]) -> None:
        complain = self.complain
        complain.unless(bool(function.get("name")), "the first delta of a call has no name")
        complain.unless(call.get("type") == "function", "a call is no function")
        id_ = call.get("id")
        complain.unless(isinstance(id_, str) and id_ != "", "a call has no id")
        complain.unless(id_ not in self.ids, "two calls have one id")
        self.ids.add(str(id_))

    def check_end(self) -> None:
        if self.finish == "tool_calls":
            self.complain.unless(bool(self.calls), "tool_calls without calls")
            for arguments in self.calls:
                self.complain.unless_object(arguments)
        elif self.finish == "stop":
            self.complain.unless(not self.calls, "calls end in stop")
