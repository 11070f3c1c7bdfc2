"""Requests with one tool, and an upstream that prints a call of it as text."""

from __future__ import annotations

import json
from typing import Any

from penstock import apis
from penstock.builder import message_events
from penstock.messages import AssistantMessage, Usage

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PRINTED = '<tool_call>{"name": "weather", "arguments": {"city": "Os<lo"}}</tool_call>'


def make_body(api: str, **fields: Any) -> bytes:
    """Return a request with one tool."""
    if api == "openai-chat":
        function = {"name": "weather", "parameters": SCHEMA}
        body: dict[str, Any] = {
            "messages": [{"role": "user", "content": "Weather?"}],
            "tools": [{"type": "function", "function": function}],
        }
    elif api == "openai-responses":
        tool = {"type": "function", "name": "weather", "parameters": SCHEMA}
        body = {"input": "Weather?", "tools": [tool]}
    else:
        body = {
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": "Weather?"}],
            "tools": [{"name": "weather", "input_schema": SCHEMA}],
        }
    return json.dumps({"model": "m", "stream": True} | body | fields).encode()


def make_message(*content: Any) -> AssistantMessage:
    return AssistantMessage(
        content=list(content), id="r1", model="m", stop_reason="stop", usage=Usage(5, 7)
    )


def encode(api: str, message: AssistantMessage, size: int = 5) -> bytes:
    """Return the stream of an upstream that sends the texts of *message* in small deltas."""
    encoder = apis.get(api).encoder()
    data = b""
    for event in message_events(message):
        if event.type in ("text_delta", "thinking_delta"):
            text = event.text
            for at in range(0, len(text), size):
                piece = type(event)(event.index, text[at : at + size])
                data += encoder.encode(piece)
        else:
            data += encoder.encode(event)
    return data + encoder.finish()
