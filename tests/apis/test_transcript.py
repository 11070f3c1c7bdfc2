"""The transcript: lawful events out of what a provider says, whatever it leaves out."""

from __future__ import annotations

import pytest

from penstock import MessageBuilder
from penstock.apis.transcript import Transcript, split_half
from penstock.events import Event, ToolCallEnd
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, Thinking, ToolCall

CUT = ErrorInfo("cut", "truncated")


def folded(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


def call_of(transcript: Transcript) -> ToolCall:
    (call,) = folded(transcript.take()).tool_calls
    return call


def test_blocks_are_numbered_and_closed_before_the_end() -> None:
    transcript = Transcript()
    transcript.begin("id", "model")
    transcript.thinking().add("Hm")
    transcript.text().add("Hi")
    transcript.part("p", {"x": 1})
    transcript.done("stop", "end_turn")
    message = folded(transcript.take())
    assert message.content == [Thinking("Hm"), Text("Hi"), Opaque("p", {"x": 1})]
    assert (message.id, message.model, message.raw_stop_reason) == ("id", "model", "end_turn")


def test_what_comes_after_the_end_or_for_a_closed_block_is_dropped() -> None:
    transcript = Transcript()
    passage = transcript.text()
    passage.add("a")
    passage.close("sig")
    passage.add("b")
    passage.close()
    transcript.done("stop")
    transcript.done("length")
    transcript.fail(CUT)
    message = folded(transcript.take())
    assert (message.content, message.stop_reason) == ([Text("a", "sig")], "stop")


@pytest.mark.parametrize(
    ("text", "arguments", "complete"),
    [
        ('{"a": 1}', {"a": 1}, True),
        ("", {}, True),
        ("null", {}, True),
        ('{"a": 1,}', {"a": 1}, True),
        ('{"a": "x', {"a": "x"}, False),
        ('{"a": [1, {', {"a": [1, {}]}, False),
        ('{"a": tru', {}, False),
        ("[1]", {}, False),
        ("prose", {}, False),
        ('{"a": NaN}', {"a": "NaN"}, True),
    ],
)
def test_a_call_is_complete_only_if_its_text_ends_by_itself(
    text: str, arguments: dict[str, object], *, complete: bool
) -> None:
    transcript = Transcript()
    transcript.call("f", "x").add(text)
    transcript.done("stop")
    call = call_of(transcript)
    assert (call.arguments, call.complete) == (arguments, complete)


@pytest.mark.parametrize("text", ["", '{"a": 1,}', '{"a": "x'])
def test_what_is_in_doubt_at_the_limit_was_cut_by_it(text: str) -> None:
    transcript = Transcript()
    transcript.call("f", "x").add(text)
    transcript.done("length")
    assert not call_of(transcript).complete


def test_an_object_that_closed_before_the_limit_is_whole() -> None:
    transcript = Transcript()
    transcript.call("f", "x").add('{"a": 1}')
    transcript.done("length")
    assert call_of(transcript).complete


def test_a_call_in_doubt_is_settled_when_the_answer_goes_on() -> None:
    transcript = Transcript()
    call = transcript.call("f", "x")
    call.close()
    assert not any(isinstance(event, ToolCallEnd) for event in transcript.take())
    transcript.text()
    assert isinstance(transcript.take()[0], ToolCallEnd)


def test_a_nameless_call_that_is_cut_is_seen() -> None:
    transcript = Transcript()
    transcript.call(id="x").add('{"a"')
    transcript.fail(CUT)
    call = call_of(transcript)
    assert (call.name, call.complete) == ("unknown", False)


def test_a_call_of_which_nothing_is_known_leaves_no_trace() -> None:
    transcript = Transcript()
    transcript.call(id="x")
    transcript.fail(CUT)
    assert not folded(transcript.take()).tool_calls


def test_a_nameless_call_does_not_make_a_cut_one_before_it_whole() -> None:
    transcript = Transcript()
    transcript.call("f", "x").add('{"a": 1,}')
    transcript.call(id="y").add("{")
    transcript.done("length")
    assert [call.complete for call in folded(transcript.take()).tool_calls] == [False, False]


def test_final_arguments_add_what_the_deltas_lack() -> None:
    transcript = Transcript()
    call = transcript.call("f", "x")
    call.add('{"a"')
    call.close('{"a": 1}')
    transcript.done("stop")
    assert call_of(transcript) == ToolCall("x", "f", {"a": 1})


def test_final_arguments_have_the_last_word_and_the_call_says_so() -> None:
    transcript = Transcript()
    call = transcript.call("f", "x")
    call.add('{"a": 2}')
    call.close('{"a": 1}')
    transcript.done("stop")
    found = call_of(transcript)
    assert (found.arguments, found.complete) == ({"a": 1}, True)
    assert found.repairs == ["the final arguments differ from what was streamed"]


def test_damage_leaves_what_is_open_incomplete_and_what_is_closed_alone() -> None:
    transcript = Transcript()
    one = transcript.call("f", "x")
    one.add("{}")
    one.close()
    transcript.call("g", "y").add("{}")
    transcript.damage()
    transcript.done("stop")
    message = folded(transcript.take())
    assert [call.complete for call in message.tool_calls] == [True, False]
    assert message.error is not None
    assert message.error.kind == "malformed"


def test_ids_that_are_missing_or_taken_are_made() -> None:
    made = iter(["a", "b", "c"])
    transcript = Transcript(made.__next__)
    for wanted in ("", "a", "x", "x"):
        transcript.call("f", wanted).close()
    transcript.done("stop")
    assert [call.id for call in folded(transcript.take()).tool_calls] == ["a", "b", "x", "c"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", ("plain", "")),
        ("a\ud83d", ("a", "\ud83d")),
        ("\ud83d\ude00b", ("😀b", "")),
        ("\ude00", ("\ufffd", "")),
        ("\ud83dx", ("\ufffdx", "")),
        ("é\ud83d\ud83d", ("é\ufffd", "\ud83d")),
    ],
)
def test_halves_of_pairs_are_joined_held_or_lost(text: str, expected: tuple[str, str]) -> None:
    assert split_half(text) == expected
