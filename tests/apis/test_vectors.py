"""What providers really send, read whole, byte by byte, and in odd cuts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from laws import check_bytes_chunk_free, cut_at, effort, one_by_one
from laws.checks import check_honest_end, read
from laws.merging import merged
from penstock import MessageBuilder, apis
from penstock.events import Event, ToolCallEnd, ToolCallStart
from penstock.messages import AssistantMessage, Opaque, Thinking

PROVIDERS = Path(__file__).parents[1] / "vectors" / "providers.jsonl"
VECTORS = [json.loads(line) for line in PROVIDERS.read_text(encoding="utf-8").splitlines()]
ENDS = {"text_end", "thinking_end", "toolcall_end"}


def events_of(vector: dict[str, Any], chunks: list[bytes] | None = None) -> list[Event]:
    decoder = apis.get(vector["provider"]).decoder()
    return read(decoder, chunks or [vector["sse"].encode()])


def message_of(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: str(v["id"]))
def test_a_stream_gives_the_events_and_the_message_expected(vector: dict[str, Any]) -> None:
    expect, events = vector["expect"], events_of(vector)
    message = message_of(events)
    assert_types(events, expect)
    assert (message.text, message.thinking) == (expect["text"], expect["thinking"])
    complete = [call for call in message.tool_calls if call.complete]
    assert [(c.name, c.arguments) for c in complete] == [
        (c["name"], c["arguments"]) for c in expect["calls"]
    ]
    for call, expected in zip(complete, expect["calls"], strict=True):
        assert call.id == expected["id"] or (expected["id"] is None and call.id)
    assert_end(message, expect)
    assert_usage(message, expect["usage"])
    assert_partial_calls(events, message, expect.get("partial_calls", []))
    assert_signatures(message, expect)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: str(v["id"]))
def test_any_cut_of_the_bytes_gives_the_same_events(vector: dict[str, Any]) -> None:
    data = vector["sse"].encode()
    for chunks in (one_by_one(data), cut_at(data, vector.get("cuts", [])), *odd_cuts(data)):
        check_bytes_chunk_free(apis.get(vector["provider"]).decoder, chunks)


EVERY_BYTE = 1_500
"""Up to how many bytes a stream is cut behind each of them; the time grows with their square."""


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: str(v["id"]))
def test_a_stream_cut_at_any_byte_fails_with_what_had_arrived(vector: dict[str, Any]) -> None:
    data = vector["sse"].encode()
    whole, before = message_of(events_of(vector)), list[Event]()
    step = max(1 if len(data) < EVERY_BYTE else 3, effort.sample(len(data)))
    for at in range(0, len(data), step):
        events = events_of(vector, [data[:at]])
        if events != before:  # as inside of a frame they are not
            assert_begins(events, whole)
        before = events


def assert_begins(events: list[Event], whole: AssistantMessage) -> None:
    """Check that *events* end honestly and say nothing that *whole* does not say."""
    check_honest_end(events, cut=False)
    message = message_of(events)
    assert whole.text.startswith(message.text)
    assert whole.thinking.startswith(message.thinking)
    done = [call for call in message.tool_calls if call.complete]
    assert done == [call for call in whole.tool_calls if call.complete][: len(done)]
    if message.stop_reason not in ("error", "aborted"):
        assert (message.text, message.tool_calls) == (whole.text, whole.tool_calls)


def odd_cuts(data: bytes) -> list[list[bytes]]:
    return [[data[at : at + size] for at in range(0, len(data), size)] for size in (2, 7, 61, 997)]


def assert_types(events: list[Event], expect: dict[str, Any]) -> None:
    types = [event.type for event in merged(events) if event.type != "part"]
    expected = expect["events"]
    if expect.get("delta_optional"):
        types = [type_ for type_ in types if type_ != "toolcall_delta"]
    if expect.get("end_order_free"):
        types, expected = sorted(types), sorted(expected)
    if expect["error"] is not None:  # What a provider left open, we close.
        types = [type_ for type_ in types if type_ not in ENDS or type_ in expected]
    if expect.get("empty_text_block_ok") and types != expected:
        at = types.index("text_start", types.index("toolcall_end"))
        types = types[:at] + types[at + 2 :]
    assert types == expected


def assert_end(message: AssistantMessage, expect: dict[str, Any]) -> None:
    stop = expect["stop_reason"]
    accepted = stop if isinstance(stop, list) else [stop]
    assert message.stop_reason in ["tool_use" if word == "toolUse" else word for word in accepted]
    if "raw_stop_reason" in expect:
        assert message.raw_stop_reason == expect["raw_stop_reason"]
    if expect["error"] is None:
        assert message.error is None
        return
    assert message.error is not None
    assert expect["error"].lower() in message.error.message.lower()
    for key, value in (
        ("error_kind", message.error.kind),
        ("error_type", message.error.type),
        ("retryable", message.error.retryable),
    ):
        if key in expect:
            assert value == expect[key]


def assert_usage(message: AssistantMessage, expected: dict[str, int] | None) -> None:
    if expected is None:
        return
    usage = message.usage
    found = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total)
    names = ("input", "output", "cacheRead", "cacheWrite", "totalTokens")
    assert found == tuple(expected[name] for name in names)


def assert_partial_calls(
    events: list[Event], message: AssistantMessage, expected: list[dict[str, Any]]
) -> None:
    cut = [call for call in message.tool_calls if not call.complete]
    assert [(call.id, call.name) for call in cut] == [(c["id"], c["name"]) for c in expected]
    started = [event.index for event in events if isinstance(event, ToolCallStart)]
    ended = [event.index for event in events if isinstance(event, ToolCallEnd)]
    assert sorted(started) == sorted(ended)


def assert_signatures(message: AssistantMessage, expect: dict[str, Any]) -> None:
    if "thinking_signature" in expect:
        (signature,) = [b.signature for b in message.content if isinstance(b, Thinking)]
        assert signature == expect["thinking_signature"]
    if "thought_signature" in expect:
        assert expect["thought_signature"] in [call.signature for call in message.tool_calls]
    if "redacted" in expect:
        kept = [block.data for block in message.content if isinstance(block, Opaque)]
        assert [data["data"] for data in kept] == expect["redacted"]
