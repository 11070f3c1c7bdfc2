"""A whole message as the events that make it."""

from __future__ import annotations

from collections.abc import Iterator

from penstock import _json
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, Content, ErrorInfo, Text, Thinking, ToolCall


def events_of(message: AssistantMessage) -> Iterator[Event]:
    """Yield the events of *message*, each block in one piece, with their terminal event."""
    yield MessageStart(message.id, message.model)
    for index, block in enumerate(message.content):
        yield from _events_of_block(index, block)
    if message.stop_reason in ("stop", "length", "tool_use"):
        yield Done(message.stop_reason, message)
    else:
        error = message.error or ErrorInfo("the answer has no end", "truncated")
        yield Failed("aborted" if message.stop_reason == "aborted" else "error", error, message)


def _events_of_block(index: int, block: Content) -> Iterator[Event]:
    if isinstance(block, Text):
        yield TextStart(index)
        if block.text:
            yield TextDelta(index, block.text)
        yield TextEnd(index, block.text, block.signature)
    elif isinstance(block, Thinking):
        yield ThinkingStart(index)
        if block.text:
            yield ThinkingDelta(index, block.text)
        yield ThinkingEnd(index, block.text, block.signature)
    elif isinstance(block, ToolCall):
        yield ToolCallStart(index, block.id, block.name)
        arguments = _json.encode_wire(block.arguments).decode()
        yield ToolCallDelta(index, arguments if block.complete else arguments[:-1])
        yield ToolCallEnd(index, block)
    else:
        yield Part(index, block)
