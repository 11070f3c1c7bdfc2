"""The text inside events: what it becomes, how blocks are numbered, how the answer ends."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_monotone
from laws.merging import merged
from laws.strategies import event_sequences
from penstock import EventParser, MessageBuilder, parse, parse_events
from penstock.errors import UsageError
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
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, Thinking, ToolCall, Usage

CALL = '<tool_call>{"name": "f", "arguments": {"a": "b"}}</tool_call>'
OPEN_CALL = CALL.split('"}', maxsplit=1)[0]
F: Any = [{"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}]


def text_block(index: int, *pieces: str, signature: str = "") -> list[Event]:
    deltas = [TextDelta(index, piece) for piece in pieces]
    return [TextStart(index), *deltas, TextEnd(index, "".join(pieces), signature)]


def native_call(index: int, id_: str) -> list[Event]:
    call = ToolCall(id_, "g", {})
    return [ToolCallStart(index, id_, "g"), ToolCallDelta(index, "{}"), ToolCallEnd(index, call)]


def done(reason: Any = "stop", **fields: Any) -> Done:
    return Done(reason, AssistantMessage("m", "x", stop_reason=reason, **fields))


def answer(*events: Event, **options: Any) -> tuple[list[Event], AssistantMessage]:
    given = [MessageStart("m", "x"), *events]
    out = list(parse_events(given, "hermes", **options))
    check_monotone(out)
    builder = MessageBuilder()
    for event in out:
        builder.add(event)
    return out, builder.message


@pytest.mark.parametrize("heard", ["", "a ", "a " + CALL[:20], "a " + CALL + " b"])
def test_text_that_only_the_end_of_its_block_says_is_read(heard: str) -> None:
    text = f"a {CALL} b"
    deltas = [TextDelta(0, heard)] if heard else []
    _, message = answer(TextStart(0), *deltas, TextEnd(0, text), done())
    assert message.text == "a  b"
    assert [call.arguments for call in message.tool_calls] == [{"a": "b"}]


def test_every_block_of_text_is_counted_by_itself() -> None:
    _, message = answer(*text_block(0, "aa"), TextStart(1), TextEnd(1, "bb"), done())
    assert message.text == "aabb"


def test_text_becomes_text_and_calls_and_the_answer_ends_for_them() -> None:
    out, message = answer(*text_block(0, "hi ", CALL), done())
    assert message.content == [Text("hi "), ToolCall("call_1", "f", {"a": "b"})]
    assert isinstance(out[-1], Done)
    assert out[-1].reason == message.stop_reason == "tool_use"


def test_an_answer_without_calls_ends_as_it_did() -> None:
    _, message = answer(*text_block(0, "hi"), done())
    assert message.stop_reason == "stop"


def test_the_token_limit_stays_what_it_was() -> None:
    _, message = answer(*text_block(0, CALL), done("length"))
    assert message.stop_reason == "length"
    assert message.tool_calls[0].complete


def test_a_border_between_blocks_of_text_means_nothing() -> None:
    _, message = answer(*text_block(0, "a", CALL[:9]), *text_block(1, CALL[9:], "b"), done())
    assert [block.type for block in message.content] == ["text", "tool_call", "text"]


def test_other_blocks_pass_under_numbers_of_their_own() -> None:
    thought: list[Event] = [ThinkingStart(0), ThinkingDelta(0, "t"), ThinkingEnd(0, "t", "sig")]
    part = Part(3, Opaque("p", {"k": 1}))
    out, message = answer(
        *thought, *text_block(1, "a " + CALL), *native_call(2, "n1"), part, done("tool_use")
    )
    kinds = [block.type for block in message.content]
    assert kinds == ["thinking", "text", "tool_call", "tool_call", "opaque"]
    assert message.content[0] == Thinking("t", "sig")
    assert [event.index for event in out if isinstance(event, ToolCallStart | Part)] == [2, 3, 4]


def test_another_block_finishes_the_text_before_it() -> None:
    _, message = answer(*text_block(0, "a <tool_"), *native_call(1, "n1"), done("tool_use"))
    assert message.text == "a <tool_"
    assert message.stop_reason == "tool_use"


def test_calls_of_one_answer_have_ids_of_their_own() -> None:
    _, message = answer(
        *text_block(0, CALL), *native_call(1, "n1"), *text_block(2, CALL), done("tool_use")
    )
    assert [call.id for call in message.tool_calls] == ["call_1", "n1", "call_2"]


def test_a_cut_call_is_never_a_reason_to_run_it() -> None:
    cut = CALL[:-20]
    _, message = answer(*text_block(0, cut), done("tool_use"), arguments="live")
    assert not message.tool_calls[0].complete
    assert message.stop_reason == "stop"


def test_a_call_that_the_model_left_open_is_mended_and_one_that_was_cut_is_not() -> None:
    left_open = text_block(0, OPEN_CALL)
    _, ended = answer(*left_open, done(), tools=F, repair=True)
    _, cut = answer(*left_open, done("length"), tools=F, repair=True)
    assert ended.tool_calls[0].arguments == {"a": "b"}
    assert ended.tool_calls[0].repairs
    assert not cut.tool_calls


def test_a_failed_answer_keeps_what_had_arrived() -> None:
    error = ErrorInfo("gone", "transport")
    failed = Failed("error", error, AssistantMessage("m", "x", stop_reason="error", error=error))
    out, message = answer(*text_block(0, "a" + CALL, "b <tool"), failed)
    assert message.text == "ab <tool"
    assert message.tool_calls
    assert isinstance(out[-1], Failed)
    assert out[-1].message.content == message.content


def test_what_no_event_claimed_rides_on_the_next_one() -> None:
    out, _ = answer(*text_block(0, CALL), *native_call(1, "n1"), done("tool_use"))
    starts = [event for event in out if isinstance(event, ToolCallStart)]
    assert starts[1].raw == "</tool_call>"
    out, _ = answer(*text_block(0, CALL), done())
    assert out[-1].raw == "</tool_call>"


def test_a_signature_goes_with_the_last_block_of_its_text() -> None:
    _, message = answer(*text_block(0, "a", signature="s"), *text_block(1, "b"), done())
    assert message.content == [Text("a", "s"), Text("b")]
    _, message = answer(*text_block(0, CALL, signature="s"), done())
    assert message.content[1] == Text("", "s"), "the call had gone out already"


@pytest.mark.parametrize("text", [CALL, CALL[:-20], "<think>t</think>", "<think>t"])
def test_a_signature_of_text_never_becomes_one_of_a_call_or_a_thought(text: str) -> None:
    """The encoder of another API would show it as its own: an item's id is no thought of Gemini."""
    _, message = answer(*text_block(0, text, signature="s"), done(), arguments="live")
    assert [block for block in message.content if getattr(block, "signature", "")] == [
        Text("", "s")
    ]
    assert len(message.content) == 2


@pytest.mark.parametrize("between", [[], [TextStart(1)], [TextStart(1), TextEnd(1, "")]])
def test_a_call_that_a_signed_text_left_open_is_mended_at_a_good_end(between: list[Event]) -> None:
    signed = text_block(0, OPEN_CALL, signature="s")
    _, message = answer(*signed, *between, done(), tools=F, repair=True)
    assert [call.arguments for call in message.tool_calls] == [{"a": "b"}]
    assert message.tool_calls[0].repairs
    assert message.stop_reason == "tool_use"


CUTS: dict[str, list[Event]] = {
    "by the token limit": [done("length")],
    "by a failure": [
        Failed("error", ErrorInfo("gone", "transport"), AssistantMessage("m", "x", [], "error"))
    ],
    "by a call of the provider's own": [*native_call(1, "n1"), done("tool_use")],
    "by other text": [*text_block(1, "and then"), done()],
    "by nothing that says so": [],
}


@pytest.mark.parametrize("rest", CUTS.values(), ids=CUTS)
def test_a_call_of_a_signed_text_that_was_cut_is_not_mended(rest: list[Event]) -> None:
    signed = text_block(0, OPEN_CALL, signature="s")
    out, message = answer(*signed, *rest, tools=F, repair=True)
    assert [call.name for call in message.tool_calls if call.name == "f"] == []
    signatures = [e.signature for e in out if isinstance(e, TextEnd) and e.signature]
    assert signatures == ["s"], "it stays with the text, and comes once"
    assert message.content[0] == Text(OPEN_CALL, "s")


def test_texts_that_end_side_by_side_keep_their_own_signatures() -> None:
    deltas: list[Event] = [TextStart(0), TextStart(1), TextDelta(0, "a"), TextDelta(1, "b")]
    _, message = answer(*deltas, TextEnd(0, "a", "s"), TextEnd(1, "b", "t"), done())
    assert message.content == [Text("ab", "s"), Text("", "t")]


def test_a_signature_waits_for_no_other_block_that_is_open() -> None:
    """A piece of a call that began before the text says nothing of the text's end."""
    start, piece, end = native_call(0, "n1")
    signed = text_block(1, OPEN_CALL, signature="s")
    _, message = answer(start, *signed, piece, end, done("tool_use"), tools=F, repair=True)
    assert [call.name for call in message.tool_calls] == ["g", "f"]


def test_what_no_event_claimed_comes_before_an_empty_block_that_is_signed() -> None:
    out, _ = answer(*text_block(0, CALL, signature="s"), done())
    assert [event.raw for event in out[-3:]] == ["</tool_call>", "", ""]


def test_the_message_keeps_its_id_its_model_and_its_usage() -> None:
    usage = Usage(1, 2)
    out, _ = answer(*text_block(0, "a"), done(usage=usage, raw_stop_reason="end"))
    assert isinstance(out[-1], Done)
    message = out[-1].message
    assert (message.id, message.model, message.usage, message.raw_stop_reason) == (
        "m",
        "x",
        usage,
        "end",
    )


def test_bare_blocks_are_taken_too() -> None:
    parser = EventParser("hermes")
    events = [event for given in text_block(0, "a <tool") for event in parser.add(given)]
    events += parser.finish()
    assert events[-1] == TextEnd(0, "a <tool")


def test_the_prompt_opened_a_thought_for_the_first_text_only() -> None:
    _, message = answer(
        *text_block(0, "hm</think>a"),
        *native_call(1, "n"),
        *text_block(2, "b</think>"),
        done("tool_use"),
        prompt_suffix="<think>",
    )
    assert (message.thinking, message.text) == ("hm", "ab</think>")


@settings(max_examples=150)
@given(sequence=event_sequences(), live=st.booleans())
def test_any_lawful_sequence_stays_lawful_and_keeps_every_other_block(
    sequence: tuple[list[Event], AssistantMessage],
    live: bool,  # noqa: FBT001
) -> None:
    events, source = sequence
    out = list(
        parse_events(events, "none", reasoning="none", arguments="live" if live else "whole")
    )
    check_monotone(out)
    builder = MessageBuilder()
    for event in out:
        builder.add(event)
    message = builder.message
    assert sorted(message.text) == sorted(source.text), "open side by side, they mix as they came"
    assert message.thinking == source.thinking
    assert message.tool_calls == source.tool_calls


@given(cuts=st.lists(st.integers(0, 70), max_size=6))
def test_cuts_between_deltas_and_blocks_do_not_matter(cuts: list[int]) -> None:
    text = f"<think>t</think>a {CALL} b"
    edges = [0, *sorted(cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(edges)]
    whole, _ = answer(*text_block(0, text), done())
    cut, message = answer(
        *(event for index, piece in enumerate(pieces) for event in text_block(index, piece)), done()
    )
    assert merged(cut) == merged(whole)
    assert message.content == parse(text).content


@pytest.mark.parametrize("reason", ["stop", "tool_use"])
def test_an_empty_answer_ends_as_stop(reason: Any) -> None:
    _, message = answer(done(reason))
    assert message.stop_reason == "stop"


def test_an_id_that_the_provider_has_given_is_not_given_again() -> None:
    _, message = answer(*native_call(0, "call_1"), *text_block(1, CALL), done("tool_use"))
    assert [call.id for call in message.tool_calls] == ["call_1", "call_2"]


def test_a_piece_of_a_block_that_was_not_started_is_the_callers_fault() -> None:
    with pytest.raises(UsageError, match="block 5"):
        EventParser("hermes").add(ToolCallDelta(5, "{}"))
