"""Rewrite the responses of a framework's own model objects, for integrations without HTTP.

A framework has text and calls in objects of its own. Its text is written as a response of the Chat
API, rewritten by an `Exchange`, and read again: so all integrations treat printed calls alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock.framing import sse
from penstock.integrations import Exchange, RewriteOptions, prepare

API: Final = "openai-chat"


def prepare_chat(
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    options: RewriteOptions,
    **fields: Any,
) -> tuple[list[dict[str, Any]], Exchange | None]:
    """Return the messages to send, and the exchange that rewrites the response.

    There is no exchange if the request has no tools.
    """
    if not tools:
        return messages, None
    body = {"model": "model", "messages": messages, "tools": tools, **fields}
    exchange = prepare(API, _json.encode_wire(body), options)
    if exchange is None or options.tools != "prompt":
        return messages, exchange
    sent = _json.decode(exchange.body)
    return (sent["messages"] if isinstance(sent, dict) else messages), exchange


def rewrite_message(exchange: Exchange, message: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """Return a whole Chat *message* with its printed calls as calls; *reason* ended it."""
    choice = {"index": 0, "message": message, "finish_reason": reason}
    body = {"id": "r", "object": "chat.completion", "model": "model", "choices": [choice]}
    found: Any = _json.decode(exchange.rewrite(_json.encode_wire(body)))
    rewritten: dict[str, Any] = found["choices"][0]["message"]
    return rewritten


class DeltaRewriter:
    """Rewrites the text of one stream: text in, Chat deltas out."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._frames = sse.Decoder()

    def feed(self, text: str) -> list[dict[str, Any]]:
        """Return the deltas for more text."""
        return self._read(self._exchange.feed(_write_chunk({"content": text})))

    def finish(self, reason: str = "stop") -> list[dict[str, Any]]:
        """Return the deltas at the end of the response; *reason* ended it."""
        end = _write_chunk({}, reason) + b"data: [DONE]\n\n"
        return self._read(self._exchange.feed(end) + self._exchange.finish())

    def _read(self, data: bytes) -> list[dict[str, Any]]:
        deltas = []
        for frame in self._frames.feed(data):
            if frame.data != "[DONE]":
                found: Any = _json.decode(frame.data)
                deltas += [choice["delta"] for choice in found.get("choices", ())]
        return deltas


def _write_chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {"id": "r", "object": "chat.completion.chunk", "model": "model", "choices": [choice]}
    return b"data: " + _json.encode_wire(chunk) + b"\n\n"
