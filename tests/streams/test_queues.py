from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws import merged
from penstock.errors import UsageError
from penstock.events import (
    Delta,
    MessageStart,
    Part,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from penstock.messages import Opaque
from penstock.streams.queues import Sized, Throttle, event_size, merge_deltas

A, B = TextDelta(0, "a", "A"), TextDelta(0, "b", "<b>")


def test_deltas_are_joined_with_what_they_consumed() -> None:
    assert merge_deltas([A, B]) == TextDelta(0, "ab", "A<b>")
    assert merge_deltas([ThinkingDelta(1, "x"), ThinkingDelta(1, "y", "y")]) == ThinkingDelta(
        1, "xy", "y"
    )
    assert merge_deltas([ToolCallDelta(2, "{", "c"), ToolCallDelta(2, "}")]) == ToolCallDelta(
        2, "{}", "c"
    )


def test_a_single_delta_stays_the_object_that_it_is() -> None:
    assert merge_deltas([A]) is A


@pytest.mark.parametrize("other", [ThinkingDelta(0, "a"), TextDelta(1, "a"), ToolCallDelta(0, "a")])
def test_deltas_of_another_type_or_index_are_not_joined(other: Delta) -> None:
    with pytest.raises(UsageError, match="one type and one index"):
        merge_deltas([A, other])


def test_an_event_counts_for_its_characters_or_its_raw_and_at_least_for_one() -> None:
    assert event_size(TextDelta(0, "four", "")) == 4
    assert event_size(TextDelta(0, "four", "<b>four</b>")) == 11
    assert event_size(ToolCallDelta(0, "{}")) == event_size(TextEnd(0, "12")) == 2
    assert event_size(MessageStart()) == event_size(TextDelta(0, "")) == 1
    assert event_size(ToolCallStart(0, "id", "name", raw="<call>")) == 6
    assert event_size(Part(0, Opaque("p", {"image": "x" * 90}))) > 90


def test_what_is_no_event_has_no_size() -> None:
    with pytest.raises(UsageError, match="events, not 'str'"):
        event_size("text")  # type: ignore[arg-type]


def test_the_first_delta_leaves_at_once_and_those_behind_it_wait() -> None:
    throttle = Throttle(0.05)
    assert throttle.passes(A, 1, 7.0)
    assert not throttle.passes(A, 1, 7.01)
    assert not throttle.passes(B, 3, 7.02)
    assert throttle.due == pytest.approx(7.05)
    assert throttle.size == 4
    assert throttle.flush(7.05) == [(TextDelta(0, "ab", "A<b>"), 4)]
    assert (throttle.due, throttle.size, throttle.flush(8.0)) == (None, 0, [])


def test_a_delta_after_a_pause_leaves_at_once() -> None:
    throttle = Throttle(0.05)
    assert throttle.passes(A, 1, 0.0)
    assert throttle.passes(B, 1, 0.05)


def test_a_flush_counts_as_leaving() -> None:
    throttle = Throttle(1.0)
    assert throttle.passes(A, 1, 0.0)
    assert not throttle.passes(A, 1, 0.5)
    throttle.flush(0.6)
    assert not throttle.passes(A, 1, 1.5)
    assert throttle.due == pytest.approx(1.6)


def test_only_neighbours_are_joined_and_the_order_stays() -> None:
    throttle = Throttle(inf)
    call = ToolCallDelta(1, "{")
    deltas: list[Delta] = [A, A, call, A, ThinkingDelta(0, "t"), A, TextDelta(2, "c"), A]
    assert throttle.passes(deltas[0], 1, 0.0)
    for delta in deltas:
        throttle.passes(delta, 1, 0.0)
    expected = [merge_deltas([A, A]), call, A, ThinkingDelta(0, "t"), A, TextDelta(2, "c"), A]
    assert [delta for delta, _ in throttle.flush(0.0)] == expected


DELTAS = st.builds(
    lambda kind, index, text: kind(index, text, text),
    st.sampled_from([TextDelta, ThinkingDelta, ToolCallDelta]),
    st.integers(0, 2),
    st.text(max_size=3),
)


@given(steps=st.lists(st.tuples(DELTAS, st.floats(0, 2), st.booleans())), interval=st.floats(0, 3))
def test_nothing_is_lost_or_moved_and_nothing_leaves_too_soon(
    steps: list[tuple[Delta, float, bool]], interval: float
) -> None:
    throttle, now, left, out = Throttle(interval), 0.0, -inf, list[Delta]()
    for delta, pause, may_flush in steps:
        now += pause
        if throttle.passes(delta, event_size(delta), now):
            assert now - left >= interval
            out, left = [*out, delta], now
        elif may_flush:
            out, left = [*out, *_deltas(throttle.flush(now))], now
    out += _deltas(throttle.flush(now))
    assert merged(out) == merged(delta for delta, *_ in steps)
    assert "".join(d.raw for d in out) == "".join(delta.raw for delta, *_ in steps)


def _deltas(leaving: list[Sized]) -> list[Delta]:
    return [delta for delta, _ in leaving if isinstance(delta, Delta)]
