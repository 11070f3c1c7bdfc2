"""Arguments that Gemini streams leaf by leaf: JSON text that only grows, and means the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws import cut_at
from laws.checks import read
from laws.strategies import CUTS, TEXT
from penstock import MessageBuilder, apis
from penstock.apis.gemini.partial_arguments import MAX_DEPTH, MAX_GAP, read_path
from penstock.events import Event, ToolCallDelta
from penstock.messages import AssistantMessage, ToolCall

API = apis.get("gemini")
STOP: dict[str, Any] = {"candidates": [{"finishReason": "STOP"}]}


def chunk(**call: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [{"functionCall": call}]}}]}


def entry(path: str, **value: Any) -> dict[str, Any]:
    return chunk(partialArgs=[{"jsonPath": path, **value}], willContinue=True)


def text(path: str, piece: str, *, more: bool = False) -> dict[str, Any]:
    return entry(path, stringValue=piece, willContinue=more)


BEGIN = chunk(name="f", id="c1", willContinue=True)
END = chunk()


def events_of(*chunks: dict[str, Any]) -> list[Event]:
    data = "".join(f"data: {json.dumps(item)}\r\n\r\n" for item in chunks)
    return read(API.decoder(), [data.encode()])


def message_of(*chunks: dict[str, Any]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events_of(*chunks):
        builder.add(event)
    return builder.message


def call_of(*entries: dict[str, Any]) -> ToolCall:
    (call,) = message_of(BEGIN, *entries, END, STOP).tool_calls
    return call


def deltas(*chunks: dict[str, Any]) -> list[str]:
    return [event.arguments for event in events_of(*chunks) if isinstance(event, ToolCallDelta)]


def test_leaves_leave_as_they_come() -> None:
    said = deltas(
        BEGIN,
        entry("$.n", numberValue=50),
        text("$.s", "wa", more=True),
        text("$.s", "rm", more=True),
        text("$.s", ""),
        entry("$.o.b", boolValue=True),
        entry("$.o.l[0]", nullValue="NULL_VALUE"),
        entry("$.o.l[1]", numberValue=1.5),
        entry("$.z", nullValue=None),
        END,
        STOP,
    )
    assert said == [
        '{"n":50', ',"s":"wa', "rm", '"', ',"o":{"b":true', ',"l":[null', ",1.5", ']},"z":null',
        "}",
    ]  # fmt: skip
    assert json.loads("".join(said)) == {
        "n": 50,
        "s": "warm",
        "o": {"b": True, "l": [None, 1.5]},
        "z": None,
    }


def test_the_call_is_complete_and_ends_in_tool_use() -> None:
    message = message_of(BEGIN, text("$.a", "x"), END, STOP)
    assert message.tool_calls == [ToolCall("c1", "f", {"a": "x"})]
    assert (message.stop_reason, message.raw_stop_reason) == ("tool_use", "STOP")


def test_a_call_that_streams_nothing_has_no_arguments() -> None:
    assert call_of() == ToolCall("c1", "f", {})


def test_several_leaves_come_in_one_part_which_may_be_the_last() -> None:
    leaves = [{"jsonPath": "$.a", "numberValue": 1}, {"jsonPath": "$.b", "boolValue": False}]
    message = message_of(chunk(name="f", partialArgs=leaves), STOP)
    (call,) = message.tool_calls
    assert (call.arguments, call.complete) == ({"a": 1, "b": False}, True)


def test_text_and_signatures_may_come_between_the_parts_of_a_call() -> None:
    said = {"candidates": [{"content": {"parts": [{"text": "Hm"}]}}]}
    signed = entry("$.b", numberValue=2)
    signed["candidates"][0]["content"]["parts"][0]["thoughtSignature"] = "c2ln"
    message = message_of(BEGIN, entry("$.a", numberValue=1), said, signed, END, STOP)
    assert message.tool_calls == [ToolCall("c1", "f", {"a": 1, "b": 2}, signature="c2ln")]
    assert message.text == "Hm"


def test_another_name_begins_another_call() -> None:
    message = message_of(
        BEGIN, entry("$.a", numberValue=1), chunk(name="g", willContinue=True),
        entry("$.a", numberValue=2), END, chunk(name="h", args={"a": 3}), STOP,
    )  # fmt: skip
    assert [(call.name, call.arguments) for call in message.tool_calls] == [
        ("f", {"a": 1}),
        ("g", {"a": 2}),
        ("h", {"a": 3}),
    ]


def test_a_name_that_repeats_with_its_id_is_the_same_call() -> None:
    again = entry("$.a", numberValue=1)
    again["candidates"][0]["content"]["parts"][0]["functionCall"] |= {"name": "f", "id": "c1"}
    assert call_of(again).arguments == {"a": 1}


def test_arguments_that_come_whole_at_last_have_the_last_word() -> None:
    last = chunk(args={"a": "xy"})
    message = message_of(BEGIN, text("$.a", "x", more=True), last, STOP)
    assert [(call.arguments, call.complete) for call in message.tool_calls] == [({"a": "xy"}, True)]


def test_a_path_that_leads_back_is_in_the_call_and_no_key_is_streamed_twice() -> None:
    entries = [
        entry("$.a.b", numberValue=1),
        entry("$.c", numberValue=2),
        entry("$.a.d", numberValue=3),
        text("$.e", "x"),
    ]
    said = deltas(BEGIN, *entries, END, STOP)
    assert "".join(said) == '{"a":{"b":1},"c":2,"e":"x"'
    call = call_of(*entries)
    assert (call.arguments, call.complete) == ({"a": {"b": 1, "d": 3}, "c": 2, "e": "x"}, True)
    assert call.repairs == ["the final arguments differ from what was streamed"]


def test_a_string_that_another_path_interrupts_goes_on() -> None:
    pieces = [
        text("$.a", "one ", more=True),
        text("$.b", "three ", more=True),
        text("$.a", "two", more=False),
        text("$.b", "four"),
    ]
    assert call_of(*pieces).arguments == {"a": "one two", "b": "three four"}


def test_a_leaf_that_is_said_anew_counts_as_said_last() -> None:
    assert call_of(text("$.a", "x"), text("$.b", "y"), text("$.a", "z")).arguments["a"] == "z"
    assert call_of(text("$.a", "x"), entry("$.a", numberValue=1)).arguments == {"a": 1}
    assert call_of(entry("$.a", numberValue=1), text("$.a.b", "x")).arguments == {"a": {"b": "x"}}


def test_a_leaf_may_be_a_whole_value() -> None:
    call = call_of(entry("$.a", structValue={"b": [1]}), entry("$.c", listValue=[]))
    assert call.arguments == {"a": {"b": [1]}, "c": []}


def test_an_element_that_was_passed_over_is_empty() -> None:
    call = call_of(entry("$.l[1].a", numberValue=1), entry("$.m[1]", numberValue=2))
    assert call.arguments == {"l": [{}, {"a": 1}], "m": [None, 2]}


def test_half_an_emoji_waits_for_the_other_half() -> None:
    said = deltas(BEGIN, text("$.a", "x\ud83d", more=True), text("$.a", "\ude00"), END, STOP)
    assert json.loads("".join(said)) == {"a": "x😀"}
    assert call_of(text("$.a", "x\ud83d")).arguments == {"a": "x\ufffd"}


@pytest.mark.parametrize("end", [STOP, {"candidates": [{"finishReason": "MAX_TOKENS"}]}])
def test_a_call_that_ends_inside_a_string_is_never_run(end: dict[str, Any]) -> None:
    message = message_of(BEGIN, text("$.a", "x", more=True), end)
    (call,) = message.tool_calls
    assert (call.complete, call.arguments) == (False, {"a": "x"})
    assert message.stop_reason == ("error" if end is STOP else "length")


def test_a_call_without_its_end_is_whole_only_if_the_model_stopped() -> None:
    begun = [BEGIN, entry("$.a", numberValue=1)]
    assert message_of(*begun, STOP).tool_calls[0].complete
    assert message_of(*begun, STOP).stop_reason == "tool_use"
    assert not message_of(*begun).tool_calls[0].complete
    cut = message_of(*begun, {"candidates": [{"finishReason": "MAX_TOKENS"}]})
    assert (cut.tool_calls[0].complete, cut.stop_reason) == (False, "length")


@pytest.mark.parametrize(
    "bad",
    [
        entry("a b c", numberValue=1),
        entry("$", numberValue=1),
        entry("$[0]", numberValue=1),
        entry("$.a[", numberValue=1),
        entry("$.a[0]b", numberValue=1),
        entry(f"$.l[{MAX_GAP + 1}]", numberValue=1),
        entry("$.l[0]" + f"[{MAX_GAP + 1}]", numberValue=1),
        entry("$" + ".a" * (MAX_DEPTH + 1), numberValue=1),
        entry("$.a", numberValue="NaN"),
        entry("$.a", boolValue=1),
        entry("$.a", numberValue=True),
        entry("$.ok[0].b", numberValue=1) | {"x": 1},
        chunk(partialArgs=[1], willContinue=True),
    ],
)
def test_what_cannot_be_read_leaves_the_call_incomplete(bad: dict[str, Any]) -> None:
    entries = [entry("$.ok.a", numberValue=1), bad, entry("$.last", numberValue=1)]
    message = message_of(BEGIN, *entries, END, STOP)
    assert not message.tool_calls[0].complete
    assert message.stop_reason == "error"


def test_names_may_be_quoted() -> None:
    assert read_path("$['a b'].c[\"d.e\"][3]") == ("a b", "c", "d.e", 3)
    assert read_path("a.b") == ()
    assert read_path(".a.b") == ("a", "b")


LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | TEXT
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.text("ab c", min_size=1, max_size=3), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text("abcd", min_size=1, max_size=2), VALUES, max_size=4)


def entries_of(value: Any, path: str, cuts: list[int]) -> list[dict[str, Any]]:
    """Say *value* as the API would, leaf by leaf, with its strings cut."""
    if isinstance(value, dict):
        below = [entries_of(inner, f"{path}['{key}']", cuts) for key, inner in value.items()]
        return [item for items in below for item in items]
    if isinstance(value, list):
        inside = [entries_of(inner, f"{path}[{at}]", cuts) for at, inner in enumerate(value)]
        return [item for items in inside for item in items]
    if isinstance(value, str):
        pieces = cut_at(value, cuts) or [""]
        return [text(path, piece, more=at < len(pieces)) for at, piece in enumerate(pieces, 1)]
    key = "nullValue" if value is None else "boolValue"
    key = key if value is None or isinstance(value, bool) else "numberValue"
    return [entry(path, **{key: value})]


@given(arguments=ARGUMENTS, cuts=CUTS)
def test_arguments_come_out_as_the_model_meant_them(
    arguments: dict[str, Any], cuts: list[int]
) -> None:
    said = entries_of(arguments, "$", cuts)
    call = call_of(*said)
    assert (call.arguments, call.complete) == (arguments, True)
    once = json.loads("".join(deltas(BEGIN, *said, END, STOP)), object_pairs_hook=dict_of)
    assert once == arguments


@given(arguments=ARGUMENTS, cuts=CUTS, random=st.randoms(use_true_random=False))
def test_leaves_may_come_in_any_order(
    arguments: dict[str, Any], cuts: list[int], random: Any
) -> None:
    runs = [entries_of(value, f"$['{key}']", cuts) for key, value in arguments.items()]
    leaves: dict[str, list[Any]] = {}
    for item in (item for run in runs for item in run):
        part = item["candidates"][0]["content"]["parts"][0]["functionCall"]["partialArgs"][0]
        leaves.setdefault(part["jsonPath"], []).append(item)
    said: list[dict[str, Any]] = []
    while any(leaves.values()):
        said.append(random.choice([queue for queue in leaves.values() if queue]).pop(0))
    call = call_of(*said)
    assert (call.arguments, call.complete) == (arguments, True)
    if not call.repairs:
        streamed = "".join(deltas(BEGIN, *said, END, STOP))
        assert json.loads(streamed, object_pairs_hook=dict_of) == arguments


def dict_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({key for key, _ in pairs}) == len(pairs), "a name comes twice"
    return dict(pairs)
