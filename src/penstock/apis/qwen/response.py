"""Whole answers of chat.qwen.ai, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.apis.encoding import ending_of
from penstock.apis.openai_chat.response import read_response as read_chat
from penstock.apis.openai_chat.response import write_message
from penstock.apis.qwen import tables
from penstock.apis.reading import object_at, text_at
from penstock.apis.surrogates import without_lone_surrogates
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, ErrorInfo


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole answer; one that is an error has `error` set."""
    error = tables.find_error(data)
    if error is not None:
        return AssistantMessage(stop_reason="error", error=error)
    inner = object_at(data, "data") or data
    choices = inner.get("choices")
    wrapped = [
        {"finish_reason": "stop", **choice}
        for choice in (choices if isinstance(choices, list) else [])
        if isinstance(choice, Mapping)
    ]
    return read_chat({"id": text_at(inner, "message_id"), "choices": wrapped})


def write_response(message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
    """Write a whole answer; `UsageError` for one that failed."""
    del created
    ending = ending_of(message)
    if isinstance(ending, ErrorInfo):
        raise UsageError(f"an answer that failed has no whole form: {ending.message}")
    finish = {"finish_reason": ending} if ending == "length" else {}
    data = {
        "chat_id": "chat-1",
        "parent_id": "",
        "message_id": message.id,
        "choices": [{"index": 0, "message": write_message(message), **finish}],
    }
    return without_lone_surrogates({"success": True, "request_id": "", "data": data})
