"""The chunks of the AI SDK's UI message stream: plain dicts, and how they go over the wire.

A chunk is a JSON object with a `type`; each leaves as a server-sent event, and ``[DONE]`` behind
the last. What the protocol has no chunk for goes as ``data-NAME``. A *transient* one is told to
whoever listens and is no part of the message; any other stays in it and comes back with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from penstock import _json, sse
from penstock.agent.tools.contents import content_of
from penstock.messages import ErrorInfo, Usage

Chunk = dict[str, Any]
"""One chunk: a JSON object with a `type`."""

ErrorText = Callable[[ErrorInfo], str]
"""Says what people are told of a failure."""

UI_HEADERS: Final = {
    "content-type": sse.CONTENT_TYPE,
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",  # else nginx holds the stream back until it ends
}
"""The headers of a response whose body is a UI message stream."""

DONE: Final = sse.encode("[DONE]")
"""What stands behind the last chunk."""

NAMESPACE: Final = "penstock"
"""The key of `providerMetadata` under which we note what the protocol has no field for."""

# --- the data parts that stay in a message; whoever reads it back knows them ---

DROPPED: Final = "data-dropped"
"""The step that it stands in was taken back: the answer is no part of the conversation."""
SAID: Final = "data-said"
"""Something that the user said between two answers."""
REMINDER: Final = "data-reminder"
"""What a rule or a guard told the model: `source` says which; not the user's words."""
OPAQUE: Final = "data-opaque"
"""A block that only its provider understands."""
ARGUMENTS: Final = "data-arguments"
"""What a call ran with, where that is not what the model asked for."""


def encode(chunk: Chunk) -> bytes:
    """Write *chunk* as a server-sent event; raise `UsageError` for what is no JSON value."""
    return sse.encode(_json.encode_wire(chunk))


def note(kind: str, **data: object) -> Chunk:
    """Make a chunk that is told once and kept by nobody."""
    return {"type": f"data-{kind}", "data": data, "transient": True}


def noted(chunk: Chunk, **notes: object) -> Chunk:
    """Add to *chunk* what the protocol has no field for, where there is any."""
    said = {name: value for name, value in notes.items() if value}
    if said:
        chunk["providerMetadata"] = {NAMESPACE: said}
    return chunk


def shown(value: object) -> Any:
    """Give *value*, whatever a tool made of it, as JSON: blocks are objects with a `type`."""
    return msgspec.to_builtins(content_of(value))


def error_shown(error: ErrorInfo | None, words: ErrorText) -> dict[str, Any] | None:
    """Give what people are told of *error*, in the *words* for it."""
    return None if error is None else {"message": words(error), "kind": error.kind}


def usage_shown(usage: Usage) -> dict[str, int]:
    """Count as the AI SDK does: what was read from or written to the cache is input too."""
    read = usage.input + usage.cache_read + usage.cache_write
    return {
        "inputTokens": read,
        "outputTokens": usage.output,
        "totalTokens": usage.total or read + usage.output,
        "reasoningTokens": usage.reasoning,
        "cachedInputTokens": usage.cache_read,
    }
