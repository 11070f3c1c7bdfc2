from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws import check_honest_end, check_monotone
from laws.strategies import event_sequences
from penstock import MessageBuilder
from penstock.errors import UsageError
from penstock.events import (
    Delta,
    Done,
    Event,
    Failed,
    MessageStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallEnd,
)
from penstock.messages import AssistantMessage, ErrorInfo, Text, ToolCall
from penstock.streams.pump import Record
from stream_checks import answer, cut_call

ERROR = ErrorInfo("it broke", "transport")


def recorded(*events: Event) -> Record:
    record = Record()
    for event in events:
        if isinstance(event, Delta):
            record.add_delta(event)
        else:
            record.add(event)
    return record


def test_what_passes_is_folded_into_one_live_message() -> None:
    record = recorded(*answer("a", "b")[:-1])
    message = record.message
    assert (message.text, record.ended) == ("ab", False)
    record.add(answer()[-1])
    assert record.message is message
    assert (message.stop_reason, record.ended) == ("stop", True)


def test_a_failure_closes_every_open_block_in_order_with_what_had_arrived() -> None:
    record = recorded(
        TextStart(0), TextDelta(0, "so fa"), ThinkingStart(1), ThinkingDelta(1, "hm"), *cut_call(2)
    )
    text_end, thinking_end, call_end, failed = record.fail(ERROR)
    assert text_end == TextEnd(0, "so fa")
    assert thinking_end == ThinkingEnd(1, "hm")
    assert isinstance(call_end, ToolCallEnd)
    assert call_end.call == ToolCall("c1", "read", {"path": "/et"}, complete=False)
    assert failed == Failed("error", ERROR, record.message)
    assert (record.message.stop_reason, record.message.error) == ("error", ERROR)


def test_a_failure_of_the_source_passes_behind_the_ends_that_it_left_out() -> None:
    failed = Failed("error", ERROR, AssistantMessage(raw_stop_reason="overloaded"))
    record = recorded(TextStart(0))
    assert record.add(failed) == [TextEnd(0, ""), failed]
    assert record.message.raw_stop_reason == "overloaded"


def test_an_abort_is_named_as_such() -> None:
    (failed,) = recorded(MessageStart()).fail(ErrorInfo("no more", "aborted"))
    assert isinstance(failed, Failed)
    assert (failed.reason, failed.message.stop_reason) == ("aborted", "aborted")


def test_done_with_an_open_block_is_refused_and_may_still_fail() -> None:
    record = recorded(TextStart(0), TextDelta(0, "a"))
    with pytest.raises(UsageError, match="block 0 was open"):
        record.add(Done("stop", AssistantMessage()))
    assert record.fail(ERROR)[0] == TextEnd(0, "a")
    assert record.message.content == [Text("a")]


@given(sequence=event_sequences(), cut=st.integers(0, 30))
def test_from_wherever_it_fails_the_whole_is_lawful(
    sequence: tuple[list[Event], AssistantMessage], cut: int
) -> None:
    events = sequence[0][:-1][:cut]
    whole = [*events, *recorded(*events).fail(ERROR)]
    check_monotone(whole)
    check_honest_end(whole, cut=True)
    builder = MessageBuilder()
    for event in whole:
        builder.add(event)
    assert builder.message == recorded(*whole).message
