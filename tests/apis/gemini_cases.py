"""Chunks of a Gemini stream, and what is read from them."""

from __future__ import annotations

import json
from typing import Any

from laws.checks import read
from penstock import MessageBuilder, apis
from penstock.events import Event
from penstock.messages import AssistantMessage, ErrorInfo

API = apis.get("gemini")


def chunk(*parts: Any, finish: str = "", **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, **more}
    if parts:
        candidate["content"] = {"parts": list(parts), "role": "model"}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "r"}


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **more}}


def sse(*chunks: Any) -> bytes:
    return "".join(f"data: {json.dumps(item)}\r\n\r\n" for item in chunks).encode()


SAID = {"text": "a"}
STOP = chunk(finish="STOP")


def folded(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


def message_of(*chunks: Any) -> AssistantMessage:
    return folded(read(API.decoder(), [sse(*chunks)]))


def error_of(*chunks: Any) -> ErrorInfo:
    error = message_of(*chunks).error
    assert error is not None
    return error
