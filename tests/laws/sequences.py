"""Lawful event sequences by the thousand: like `strategies.event_sequences`, but quick.

Hypothesis shrinks what it finds and takes milliseconds to draw; this draws in microseconds from a
seed, for runs in which number counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

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
from penstock.messages import (
    AssistantMessage,
    Content,
    ErrorInfo,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
)

_TEXTS = [
    "", " ", "\n\n", "a", "Hello, world. ", "é日本😀", '"quoted" \\ and\n', "\0\x1f\x7f", "</tool>",
    "[DONE]", "data: {}\n\n", "\u2028\u2029", "{", "null", "x" * 300, "\ufeff", "\r\n",
]  # fmt: skip
_IDS = ["", "call_1", "call_1", "toolu_01A", "call_a|fc_b", "a b", "é", "x" * 80, "|", "fc|"]
_VALUES: list[Any] = [None, True, 0, -1.5, 2**70, "", "é😀\n", [], {}, [1, ["a"]], {"k": {"": 0}}]
_KINDS = ["provider", "transport", "truncated", "malformed", "refusal", "filter"]


def sequences(seed: int, number: int) -> Iterator[tuple[list[Event], AssistantMessage]]:
    """Yield *number* valid sequences, each with the message that it folds into."""
    random = Random(seed)
    for _ in range(number):
        message = _message(random)
        yield _events(random, message), message


def _message(random: Random) -> AssistantMessage:
    content = [_block(random) for _ in range(random.randrange(6))]
    has_cut_call = any(isinstance(block, ToolCall) and not block.complete for block in content)
    reasons = ["stop", "length", "error", "aborted"] + ["tool_use"] * (not has_cut_call)
    reason: Any = random.choice(reasons)
    new, out, hit, kept, thought, total = random.choices([0, 1, 7_000], k=6)
    usage = Usage(new, out, hit, kept, thought, total)
    message = AssistantMessage("id", "model", content, reason, "", usage)
    if reason == "aborted":
        message.error = ErrorInfo("stopped", "aborted")
    elif reason == "error":
        kind: Any = random.choice(_KINDS)
        message.error = ErrorInfo(random.choice(["", "it broke", "é\n"]), kind)
    return message


def _block(random: Random) -> Content:
    match random.randrange(7):
        case 0 | 1:
            return Text(_text(random), random.choice(["", "sig"]))
        case 2:
            return Thinking(_text(random), random.choice(["", "sig"]))
        case 3:
            return Opaque(random.choice(["", "nobody"]), {"type": "x"})
    size = random.randrange(4)
    arguments = {random.choice(_TEXTS): random.choice(_VALUES) for _ in range(size)}
    name = random.choice(["f", "get_weather", "a.b-c"])
    return ToolCall(random.choice(_IDS), name, arguments, complete=random.random() > 0.1)


def _text(random: Random) -> str:
    return "".join(random.choices(_TEXTS, k=random.randrange(4)))


def _events(random: Random, message: AssistantMessage) -> list[Event]:
    events: list[Event] = [MessageStart(message.id, message.model)]
    waiting: list[list[Event]] = []
    for index, block in enumerate(message.content):
        start, *rest = _block_events(random, index, block)
        events.append(start)
        waiting.append(rest)
        while waiting and random.random() < 0.8:
            _go_on(random, waiting, events)
    while waiting:
        _go_on(random, waiting, events)
    reason: Any = message.stop_reason
    if message.error is not None:
        return [*events, Failed(reason, message.error, message)]
    return [*events, Done(reason, message)]


def _go_on(random: Random, waiting: list[list[Event]], events: list[Event]) -> None:
    """Continue one of the open blocks."""
    block = random.choice(waiting)
    steps = random.randrange(1, 6)
    events += block[:steps]
    del block[:steps]
    if not block:
        waiting.remove(block)


def _block_events(random: Random, index: int, block: Content) -> list[Event]:
    match block:
        case Text():
            texts = [TextDelta(index, piece) for piece in _pieces(random, block.text)]
            return [TextStart(index), *texts, TextEnd(index, block.text, block.signature)]
        case Thinking():
            thoughts = [ThinkingDelta(index, piece) for piece in _pieces(random, block.text)]
            end = ThinkingEnd(index, block.text, block.signature)
            return [ThinkingStart(index), *thoughts, end]
        case ToolCall():
            text = json.dumps(block.arguments, ensure_ascii=random.random() < 0.5)
            if not block.complete:
                text = text[: random.randrange(len(text))]
            deltas = [ToolCallDelta(index, piece) for piece in _pieces(random, text)]
            return [ToolCallStart(index, block.id, block.name), *deltas, ToolCallEnd(index, block)]
    return [Part(index, block)]


def _pieces(random: Random, text: str) -> list[str]:
    size = random.choice([1, 3, 10, 1_000])
    return [text[at : at + size] for at in range(0, len(text), size)]
