"""The grammar of an Ollama stream."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.conformance import CheckReport, is_count, is_one_of, is_text, read_objects
from penstock.framing import ndjson

_COUNTS: Final = ("prompt_eval_count", "eval_count", "total_duration", "eval_duration")
_REASONS: Final = {"stop", "length", "load", "unload", "refusal", "content_filter"}
# A time in RFC 3339, which clients parse.
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* violates the grammar."""
    return _Checker().check(data)


class _Checker:
    def __init__(self) -> None:
        self.report = CheckReport()
        self.model: object = None
        self.ids: set[str] = set()

    def check(self, data: bytes) -> list[str]:
        report, is_done = self.report, False
        for _, value in read_objects(data, report, ndjson.Decoder()):
            report.require(not is_done, "something follows the last line")
            if "error" in value:
                report.require(isinstance(value["error"], str), "an error is not text")
                is_done = True
            else:
                self.read_line(value)
                is_done = value.get("done") is True
                if is_done:
                    self.read_last(value)
        report.require(is_done, "there is no last line")
        return report.found

    def read_line(self, value: dict[str, Any]) -> None:
        report, model = self.report, value.get("model")
        report.require(isinstance(model, str), "a line has no model")
        self.model = model if self.model is None else self.model
        report.require(model == self.model, "the model changes")
        is_time = _TIME.fullmatch(str(value.get("created_at"))) is not None
        report.require(is_time, "a line has no created_at")
        has_done = isinstance(value.get("done"), bool)
        report.require(has_done, "a line has no done")
        message = value.get("message")
        if not isinstance(message, dict):
            report.add("a line has no message")
            return
        report.require(message.get("role") == "assistant", "a message of another role")
        report.require(isinstance(message.get("content"), str), "content is not text")
        report.require(isinstance(message.get("thinking", ""), str), "thinking is not text")
        calls = message.get("tool_calls", [])
        report.require(isinstance(calls, list), "tool_calls is not a list")
        for call in calls if isinstance(calls, list) else ():
            self.read_call(call if isinstance(call, dict) else {})

    def read_call(self, call: dict[str, Any]) -> None:
        report, function = self.report, call.get("function")
        fields = function if isinstance(function, dict) else {}
        # Arguments are an object here; OpenAI's API has them as JSON in a string.
        is_good = is_text(fields.get("name")) and isinstance(fields.get("arguments"), dict)
        report.require(is_good, "a call has no name, or arguments that are not an object")
        # Ollama's older versions send calls without ids.
        if "id" in call:
            id_ = call["id"]
            report.require(is_text(id_), "the id of a call is not text")
            report.require(str(id_) not in self.ids, "two calls have one id")
            self.ids.add(str(id_))

    def read_last(self, value: dict[str, Any]) -> None:
        report, reason = self.report, value.get("done_reason")
        report.require(is_one_of(reason, _REASONS), f"done_reason is {reason!r}")
        # Only the last line has counts; the durations are nanoseconds.
        for key in _COUNTS:
            report.require(is_count(value.get(key)), f"the last line has no {key}")
