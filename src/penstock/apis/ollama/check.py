"""The grammar of an Ollama stream, checked from the outside."""

from __future__ import annotations

from typing import Any, Final

from penstock import ndjson
from penstock.apis.checking import Complaints, objects_of

_COUNTS: Final = ("prompt_eval_count", "eval_count", "total_duration", "eval_duration")


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* breaks the grammar."""
    complain = Complaints()
    is_done = False
    for _, value in objects_of(data, complain, ndjson.Decoder()):
        complain.unless(not is_done, "something follows the last line")
        if "error" in value:
            complain.unless(isinstance(value["error"], str), "an error is no text")
            is_done = True
        else:
            _check_line(value, complain)
            is_done = value.get("done") is True
            if is_done:
                _check_last(value, complain)
    complain.unless(is_done, "there is no last line")
    return complain.found


def _check_line(value: dict[str, Any], complain: Complaints) -> None:
    complain.unless(isinstance(value.get("model"), str), "a line has no model")
    complain.unless(isinstance(value.get("created_at"), str), "a line has no created_at")
    complain.unless(isinstance(value.get("done"), bool), "a line does not say whether it is done")
    message = value.get("message")
    if not isinstance(message, dict):
        complain("a line has no message")
        return
    complain.unless(message.get("role") == "assistant", "a message of another role")
    complain.unless(isinstance(message.get("content"), str), "content is no text")
    complain.unless(isinstance(message.get("thinking", ""), str), "thinking is no text")
    for call in message.get("tool_calls", []):
        function = call.get("function") if isinstance(call, dict) else None
        is_good = (
            isinstance(function, dict)
            and isinstance(function.get("name"), str)
            and bool(function["name"])
            and isinstance(function.get("arguments"), dict)
        )
        complain.unless(is_good, "a call has no name, or arguments that are no object")


def _check_last(value: dict[str, Any], complain: Complaints) -> None:
    complain.unless(isinstance(value.get("done_reason"), str), "the last line has no done_reason")
    for key in _COUNTS:
        complain.unless(isinstance(value.get(key), int), f"the last line has no {key}")
