"""Native calls that an upstream damaged: what is repaired, and what must stay as it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from laws import check_monotone
from laws.merging import merged
from laws.strategies import event_sequences
from penstock import apis, parse_events
from penstock.events import (
    Done,
    Event,
    Failed,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.formats.heal import MAX_HELD, CallHealer
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall
from penstock.parsing import Schemas
from penstock.tools import clean_name, read_tools

NATIVE = Path(__file__).parents[1] / "vectors" / "native.jsonl"
VECTORS = [json.loads(line) for line in NATIVE.read_text().splitlines()]

TOOLS: Any = [
    {
        "name": "oven",
        "parameters": {
            "type": "object",
            "properties": {
                "shelf": {"type": "integer"},
                "note": {"type": "string"},
                "trays": {"type": "array", "items": {"type": "object"}},
                "extra": {"type": "object", "properties": {"steam": {"type": "boolean"}}},
                "any": {},
            },
            "required": ["shelf"],
        },
    },
    {"name": "bell", "parameters": {"type": "object", "properties": {}}},
]


def chat_stream(vector: dict[str, Any], size: int) -> bytes:
    """Write the blocks of *vector* as a chat stream with pieces of *size* characters."""
    deltas: list[dict[str, Any]] = []
    numbers = count()
    for block in vector["blocks"]:
        if block["type"] != "call":
            key = "content" if block["type"] == "text" else "reasoning_content"
            deltas += [{key: piece} for piece in pieces(block["text"], size)]
            continue
        number = next(numbers)
        function = {"name": block["name"], "arguments": ""}
        id_ = block.get("id", f"c{number}")
        deltas.append({"tool_calls": [{"index": number, "id": id_, "function": function}]})
        for piece in pieces(block["arguments"], size):
            deltas.append({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    frames = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = {"index": 0, "delta": {}, "finish_reason": vector["stop_reason"]}
    frames.append({"choices": [end], "usage": vector["usage"]})
    written = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
    return (written + "data: [DONE]\n\n").encode()


def pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def matches(message: AssistantMessage, expected: dict[str, Any]) -> bool:
    calls = [
        {"name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
        if call.complete
    ]
    found = calls, message.stop_reason, message.text.strip() or None
    return found == (expected["calls"], expected["stop_reason"], expected["content"])


@pytest.mark.parametrize("arguments", ["whole", "live"])
@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_damaged_native_calls_are_read_as_meant(vector: Any, arguments: Any) -> None:
    for size in (1, 2, 3, 7, 1_000):
        decoder = apis.get("openai-chat").decoder()
        events = [*decoder.feed(chat_stream(vector, size)), *decoder.finish()]
        out = list(
            parse_events(
                events,
                "auto",
                vector["tools"],
                repair=True,
                arguments=arguments,
                heal=True,
                max_tokens=vector.get("max_tokens"),
            )
        )
        assert isinstance(out[-1], (Done, Failed))
        message = out[-1].message
        expected = [vector["expect"], *vector.get("also", [])]
        assert any(matches(message, one) for one in expected), (size, message)
        check_deltas(out)
        indexes = [event.index for event in out if isinstance(event, ToolCallStart)]
        assert indexes == sorted(set(indexes))


def check_deltas(events: Iterable[Event]) -> None:
    """Assert that the deltas of each complete call join to its arguments."""
    sent: dict[int, str] = {}
    for event in events:
        if isinstance(event, ToolCallDelta):
            sent[event.index] = sent.get(event.index, "") + event.arguments
        elif isinstance(event, ToolCallEnd) and event.call.complete:
            assert json.loads(sent.get(event.index) or "{}") == event.call.arguments


def heal(name: str, deltas: Sequence[str], tools: Any = TOOLS) -> list[Event]:
    """Return the events of one native call with *deltas*, healed."""
    numbers = count(1)
    healer = CallHealer(Schemas(read_tools(tools)), lambda: f"new_{next(numbers)}")
    events = healer.add(ToolCallStart(0, "n", name))
    for delta in deltas:
        events += healer.add(ToolCallDelta(0, delta))
    call = ToolCall.from_text("n", name, "".join(deltas))
    return events + healer.add(ToolCallEnd(0, call))


def calls_of(events: Iterable[Event]) -> list[ToolCall]:
    return [event.call for event in events if isinstance(event, ToolCallEnd)]


def joined(events: Iterable[Event]) -> str:
    return "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"shelf": "2"}', {"shelf": 2}),
        ('{"shelf": 2, "trays": "[{\\"a\\": 1}]"}', {"shelf": 2, "trays": [{"a": 1}]}),
        ('{"shelf": 2, "trays": ["{\\"a\\": 1}"]}', {"shelf": 2, "trays": [{"a": 1}]}),
        ('{"shelf": 2, "extra": {"steam": "true"}}', {"shelf": 2, "extra": {"steam": True}}),
        ('"{\\"shelf\\": \\"2\\"}"', {"shelf": 2}),
        ('{}{"shelf": 2}', {"shelf": 2}),
        (' {} {"shelf": 2}', {"shelf": 2}),
    ],
)
def test_a_value_is_fitted_to_its_schema(text: str, arguments: dict[str, Any]) -> None:
    for deltas in ([text], list(text)):
        events = heal("oven", deltas)
        (call,) = calls_of(events)
        assert call.complete
        assert call.arguments == arguments
        assert call.repairs
        assert json.loads(joined(events)) == arguments


@pytest.mark.parametrize(
    "text",
    [
        '{"shelf": 2, "note": "[1, 2]", "any": "{}"}',
        '{"shelf": "two"}',
        '{"other": "[1]"}',
        '{"shelf": 2, "extra": {"steam": "perhaps"}}',
        '{"note": "a \\" b \\\\", "shelf": 1}',
        '{"shelf": [1, {"x": "}"}], "note": "{"}',
    ],
)
def test_what_needs_no_repair_passes_unchanged(text: str) -> None:
    for deltas in ([text], list(text)):
        events = heal("oven", deltas)
        (call,) = calls_of(events)
        assert joined(events) == text
        assert call == ToolCall.from_text("n", "oven", text)


def test_glued_calls_are_split_and_the_first_keeps_its_id() -> None:
    text = '{"shelf": 1}{"shelf": "2", "note": "x"} \n{"shelf": 3}'
    for deltas in ([text], list(text)):
        calls = calls_of(heal("oven", deltas))
        assert [call.arguments for call in calls] == [
            {"shelf": 1},
            {"shelf": 2, "note": "x"},
            {"shelf": 3},
        ]
        assert [call.id for call in calls] == ["n", "new_1", "new_2"]
        assert all(call.complete for call in calls)


def test_of_glued_calls_the_one_that_was_cut_is_incomplete() -> None:
    first, second = calls_of(heal("oven", ['{"shelf": 1}{"shelf": ']))
    assert (first.complete, second.complete) == (True, False)


def test_a_call_that_the_provider_cut_is_never_completed() -> None:
    healer = CallHealer(Schemas(read_tools(TOOLS)), lambda: "x")
    events = healer.add(ToolCallStart(0, "n", "oven"))
    events += healer.add(ToolCallDelta(0, '{"shelf": "2"}'))
    given = ToolCall.from_text("n", "oven", '{"shelf": "2"}', complete=False)
    (call,) = calls_of([*events, *healer.add(ToolCallEnd(0, given))])
    assert not call.complete


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("oven", "oven"),
        ("functions.oven", "oven"),
        ("functions.oven:0", "oven"),
        ("functions_oven_2", "oven"),
        ("oven<|channel|>commentary", "oven"),
        ("functions.Oven<|channel|>json", "oven"),
        ("OVEN", "oven"),
        ("default_api.oven", "oven"),
        ("oven.oven", "oven"),
        ("oven:3", "oven"),
        ("browser.oven", "browser.oven"),
        ("other/oven", "other/oven"),
        ("oven_2", "oven_2"),
        ("oven2", "oven2"),
        ("microwave", "microwave"),
        ("", ""),
        ("<|channel|>", "<|channel|>"),
    ],
)
def test_a_known_name_is_found(name: str, known: str) -> None:
    assert clean_name(name, ["oven", "bell"], folds=True) == known


def test_a_name_that_could_mean_two_tools_stays() -> None:
    assert clean_name("OVEN", ["oven", "Oven"], folds=True) == "OVEN"
    assert clean_name("ns.oven", ["oven", "ns.oven"]) == "ns.oven"


def thought(text: str) -> list[Event]:
    return [ThinkingStart(0), ThinkingDelta(0, text), ThinkingEnd(0, text)]


CALL = '<tool_call>{"name": "oven", "arguments": {"shelf": 1}}</tool_call>'


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (f"Now.\n{CALL}", 1),
        (f"{CALL}\n{CALL}\n", 2),
        (f"I could write {CALL} but will not.", 0),
        (f"An example:\n```\n{CALL}\n```", 0),
        (CALL.replace("oven", "microwave"), 0),
        (CALL.replace("}}", ""), 0),
    ],
)
def test_a_call_that_ends_the_reasoning_is_taken_out_of_it(text: str, calls: int) -> None:
    end = Done("stop", AssistantMessage(stop_reason="stop"))
    out = list(parse_events([*thought(text), end], "hermes", TOOLS, heal=True))
    assert isinstance(out[-1], Done)
    assert len(out[-1].message.tool_calls) == calls
    assert out[-1].reason == ("tool_use" if calls else "stop")
    check_monotone(out)


def test_a_failure_of_another_kind_stays_one() -> None:
    error = ErrorInfo("cut", "truncated")
    message = AssistantMessage(stop_reason="error", error=error)
    events: list[Event] = [
        ToolCallStart(0, "n", "oven"),
        ToolCallDelta(0, '{"shelf": 1}{"shelf": 2}'),
        ToolCallEnd(0, ToolCall.from_text("n", "oven", '{"shelf": 1}{"shelf": 2}')),
        Failed("error", error, message),
    ]
    assert isinstance(list(parse_events(events, "auto", TOOLS, heal=True))[-1], Failed)


def test_a_string_over_the_limit_passes_unchanged() -> None:
    text = '{"trays": "' + "x" * (MAX_HELD + 1) + '"}'
    events = heal("oven", pieces(text, 100_000))
    assert joined(events) == text


def test_deep_nesting_costs_no_memory_and_passes() -> None:
    text = '{"any": ' + "[" * 10_000
    assert joined(heal("oven", pieces(text, 500))) == text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
ARGUMENTS = st.fixed_dictionaries(
    {}, optional={"shelf": VALUES, "note": VALUES, "trays": VALUES, "extra": VALUES, "any": VALUES}
)


@given(ARGUMENTS, st.lists(st.integers(1, 9), max_size=20))
@settings(max_examples=200)
def test_chunks_do_not_matter(arguments: dict[str, Any], sizes: list[int]) -> None:
    """Deltas join to the arguments, in every chunking to the same."""
    text = json.dumps(arguments)
    deltas, at = [], 0
    for size in sizes:
        deltas.append(text[at : at + size])
        at += size
    cut = heal("oven", [*deltas, text[at:]])
    whole = heal("oven", [text])
    assert calls_of(cut) == calls_of(whole)
    assert joined(cut) == joined(whole)
    check_deltas(cut)


@given(st.text('{}[]":, \\a1\u20ac', max_size=40))
@example("{1} {")
@settings(max_examples=300)
def test_any_text_passes_without_loss(text: str) -> None:
    cut, whole = heal("oven", list(text)), heal("oven", [text])
    assert merged(cut) == merged(whole)
    if not any(call.repairs for call in calls_of(whole)):
        assert joined(whole).strip() == text.strip()


@given(event_sequences())
@settings(max_examples=50)
def test_a_response_without_damage_stays_as_it_is(
    sequence: tuple[list[Event], AssistantMessage],
) -> None:
    events, _ = sequence
    plain = list(parse_events(events, "none"))
    healed = list(parse_events(events, "none", heal=True))
    assert by_block(healed) == by_block(plain)


def by_block(events: list[Event]) -> dict[int | None, list[Event]]:
    """Return the merged events of each block: the last brace of a call may come later."""
    blocks: dict[int | None, list[Event]] = {}
    for event in events:
        blocks.setdefault(getattr(event, "index", None), []).append(event)
    return {index: merged(found) for index, found in blocks.items()}
