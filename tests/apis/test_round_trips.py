"""A response from any API to any other stays the same, and a second trip changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from laws import effort
from laws.checks import read
from laws.sequences import sequences
from penstock import MessageBuilder, apis
from penstock.builder import message_events
from penstock.events import Event
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall

VECTORS = Path(__file__).parents[1] / "vectors" / "providers.jsonl"
RECORDED = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]
WHOLE_CALLS = {"gemini", "ollama"}
"""APIs that say a call in one piece, and so none that was cut."""


def folded(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


def sent_through(name: str, events: list[Event]) -> list[Event]:
    api = apis.get(name)
    encoder = api.encoder(model="m", id="id-1")
    data = b"".join(map(encoder.encode, events)) + encoder.finish()
    assert api.check(data) == []
    return read(api.decoder(), [data])


def said(message: AssistantMessage) -> tuple[Any, ...]:
    """What every API can say of an answer."""
    calls = [(call.name, call.arguments) for call in message.tool_calls if call.complete]
    kind = message.error.kind in ("refusal", "filter") if message.error else None
    return message.text.strip(), message.thinking, calls, message.stop_reason, kind


@pytest.mark.parametrize("there", apis.names())
@pytest.mark.parametrize("here", apis.names())
def test_a_recorded_answer_is_the_same_in_every_pair_of_apis(here: str, there: str) -> None:
    for vector in RECORDED:
        events = read(apis.get(vector["provider"]).decoder(), [vector["sse"].encode()])
        once = sent_through(here, events)
        assert said(folded(once)) == said(folded(events)), vector["id"]
        assert said(folded(sent_through(there, once))) == said(folded(events)), vector["id"]


@pytest.mark.parametrize("name", apis.names())
def test_a_second_trip_through_an_api_changes_nothing(name: str) -> None:
    for events, _ in effort.some(sequences(seed=11, number=300)):
        once = folded(sent_through(name, events))
        twice = folded(sent_through(name, list(message_events(once))))
        assert shape(twice) == shape(once)


def shape(message: AssistantMessage) -> list[tuple[str, object]]:
    """The blocks of a message, without ids, which an API may not carry."""
    blocks: list[tuple[str, object]] = []
    for block in message.content:
        match block:
            case Text() | Thinking():
                blocks.append((block.type, block.text))
            case ToolCall():
                blocks.append((block.name, block.arguments if block.complete else None))
            case _:
                blocks.append((block.provider, block.data))
    return [*blocks, ("end", message.stop_reason)]
