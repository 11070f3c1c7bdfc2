"""Whole answers of chat.qwen.ai, both ways.

The server names no end of a whole answer: it ends with its body.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock._json import without_lone_surrogates
from penstock.apis.encoder import whole_ending_of, writable
from penstock.apis.fields import object_at, text_at
from penstock.apis.openai_chat.decode import Decoder
from penstock.apis.openai_chat.response import reason_of, write_message
from penstock.apis.qwen import tables
from penstock.messages import AssistantMessage


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole answer; one that is an error has `error` set."""
    error = tables.find_error(data)
    if error is not None:
        return AssistantMessage(stop_reason="error", error=error)
    inner = object_at(data, "data") or data
    choices = inner.get("choices")
    return _Body().read_whole({"id": text_at(inner, "message_id"), "choices": choices})


class _Body(Decoder):
    """Reads a body that holds a message: what a stream would be cut off at is its end."""

    _has_message = False

    def _read_choice(self, choice: Mapping[str, Any]) -> None:
        self._has_message |= isinstance(choice.get("message"), Mapping)
        super()._read_choice(choice)

    def _read_end(self) -> None:
        if self._has_message:
            self._conclude(self._finish)
        else:
            super()._read_end()


def write_response(message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
    """Write a whole answer; `UsageError` for one that failed."""
    del created
    ending, _ = whole_ending_of(message)
    message = writable(message)
    choice = {"index": 0, "message": {**write_message(message), **reason_of(message, ending)}}
    if ending in tables.FINISH_REASONS:
        choice["finish_reason"] = tables.FINISH_REASONS[ending]
    data = {
        "chat_id": "chat-1",
        "parent_id": "",
        "message_id": message.id,
        "choices": [choice],
    }
    return without_lone_surrogates({"success": True, "request_id": "", "data": data})
