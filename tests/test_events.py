"""The events: what they say, and that they survive as JSON."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from hypothesis import given

from laws.strategies import event_sequences
from penstock import events
from penstock.errors import JSONParseError
from penstock.events import Done, Event, MessageStart, Part, TextDelta, ToolCallDelta, ToolCallEnd
from penstock.messages import AssistantMessage, Opaque, Text, ToolCall

WIRE_NAMES = {
    "start",
    "text_start",
    "text_delta",
    "text_end",
    "thinking_start",
    "thinking_delta",
    "thinking_end",
    "toolcall_start",
    "toolcall_delta",
    "toolcall_end",
    "part",
    "done",
    "error",
}


def test_the_wire_names_are_the_contract() -> None:
    kinds = get_args(Event)
    assert {kind.__struct_config__.tag for kind in kinds} == WIRE_NAMES
    assert all("raw" in kind.__struct_fields__ for kind in kinds)
    assert all(kind.type == kind.__struct_config__.tag for kind in kinds)
    assert TextDelta(0, "x").type == "text_delta"


def test_the_type_narrows_an_event() -> None:
    """That this file passes mypy in strict mode is the test."""
    event: Event = events.from_json('{"type":"text_delta","index":0,"text":"x"}')
    assert event.type == "text_delta"
    assert event.text == "x"


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_event_is_frozen_and_cheap(kind: type[Event]) -> None:
    config = kind.__struct_config__
    assert config.frozen
    assert not config.gc


def test_an_event_reads_well_as_json() -> None:
    event = TextDelta(1, "hi", "hi")
    assert events.to_json(event) == b'{"type":"text_delta","index":1,"text":"hi","raw":"hi"}'
    assert events.from_json('{"type":"start"}') == MessageStart()


@given(event_sequences())
def test_any_event_survives_json(case: tuple[list[Event], AssistantMessage]) -> None:
    for event in case[0]:
        assert events.from_json(events.to_json(event)) == event


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(TextDelta(0, "\ud83d", "\ud83d"), id="half an emoji"),
        pytest.param(ToolCallDelta(0, '"\udc00'), id="the other half"),
        pytest.param(Part(0, Opaque("x", {"\ud83d": [None]})), id="half an emoji in a key"),
        pytest.param(
            Done(
                "stop", AssistantMessage(content=[Text("\ud83d"), ToolCall("c", "f", {"n": 2**70})])
            ),
            id="deep inside a message, with a big integer",
        ),
    ],
)
def test_what_msgspec_refuses_survives_json_too(event: Event) -> None:
    assert events.from_json(events.to_json(event)) == event


def test_nan_and_infinity_survive_json() -> None:
    event = ToolCallEnd(0, ToolCall("c", "f", {"x": [math.nan, math.inf, None]}))
    back = events.from_json(events.to_json(event))
    assert isinstance(back, ToolCallEnd)
    nan, infinity, nothing = back.call.arguments["x"]
    assert math.isnan(nan)
    assert infinity == math.inf
    assert nothing is None


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"type":"nonsense"}', '{"type":"text_delta"}', '{"type":"text_delta","index":"1"}'],
)
def test_json_of_another_shape_is_a_typed_error(text: str) -> None:
    with pytest.raises(JSONParseError):
        events.from_json(text)


HALF = "\\ud800"


@pytest.mark.parametrize(
    "text",
    [
        f'{{"type":"{HALF}"}}',
        '{"type":"\ud800"}',
        f'{{"type":"done","reason":"{HALF}","message":{{"role":"assistant"}}}}',
        f'{{"type":"error","reason":"error","error":{{"message":"","kind":"{HALF}"}}}}',
        f'{{"type":"part","index":0,"part":{{"type":"{HALF}","provider":"p"}}}}',
        '{"type":"text_delta","index":0,"text":"' + "[" * 100_000,
    ],
)
def test_half_a_surrogate_pair_where_a_word_is_expected_is_a_typed_error(text: str) -> None:
    for data in (text, text.encode("utf-8", "surrogatepass")):
        with pytest.raises(JSONParseError):
            events.from_json(data)
