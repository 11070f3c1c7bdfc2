"""The grammar of an Ollama stream, checked from the outside."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.conformance.base import Complaints, is_count, is_text, is_word_of, objects_of
from penstock.framing import ndjson

_COUNTS: Final = ("prompt_eval_count", "eval_count", "total_duration", "eval_duration")
_REASONS: Final = {"stop", "length", "load", "unload", "refusal", "content_filter"}
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
"""A moment as clients read it."""


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* breaks the grammar."""
    return _Checker().check(data)


class _Checker:
    def __init__(self) -> None:
        self.complain = Complaints()
        self.model: object = None
        self.ids: set[str] = set()

    def check(self, data: bytes) -> list[str]:
        complain, is_done = self.complain, False
        for _, value in objects_of(data, complain, ndjson.Decoder()):
            complain.unless(not is_done, "something follows the last line")
            if "error" in value:
                complain.unless(isinstance(value["error"], str), "an error is no text")
                is_done = True
            else:
                self.read_line(value)
                is_done = value.get("done") is True
                if is_done:
                    self.read_last(value)
        complain.unless(is_done, "there is no last line")
        return complain.found

    def read_line(self, value: dict[str, Any]) -> None:
        complain, model = self.complain, value.get("model")
        complain.unless(isinstance(model, str), "a line has no model")
        self.model = model if self.model is None else self.model
        complain.unless(model == self.model, "the model changes")
        is_time = _TIME.fullmatch(str(value.get("created_at"))) is not None
        complain.unless(is_time, "a line has no created_at")
        is_said = isinstance(value.get("done"), bool)
        complain.unless(is_said, "a line does not say whether it is done")
        message = value.get("message")
        if not isinstance(message, dict):
            complain("a line has no message")
            return
        complain.unless(message.get("role") == "assistant", "a message of another role")
        complain.unless(isinstance(message.get("content"), str), "content is no text")
        complain.unless(isinstance(message.get("thinking", ""), str), "thinking is no text")
        calls = message.get("tool_calls", [])
        complain.unless(isinstance(calls, list), "tool_calls is no list")
        for call in calls if isinstance(calls, list) else ():
            self.read_call(call if isinstance(call, dict) else {})

    def read_call(self, call: dict[str, Any]) -> None:
        complain, function = self.complain, call.get("function")
        fields = function if isinstance(function, dict) else {}
        is_good = is_text(fields.get("name")) and isinstance(fields.get("arguments"), dict)
        complain.unless(is_good, "a call has no name, or arguments that are no object")
        if "id" in call:
            id_ = call["id"]
            complain.unless(is_text(id_), "the id of a call is no text")
            complain.unless(str(id_) not in self.ids, "two calls have one id")
            self.ids.add(str(id_))

    def read_last(self, value: dict[str, Any]) -> None:
        complain, reason = self.complain, value.get("done_reason")
        complain.unless(is_word_of(reason, _REASONS), f"done_reason is {reason!r}")
        for key in _COUNTS:
            complain.unless(is_count(value.get(key)), f"the last line has no {key}")
