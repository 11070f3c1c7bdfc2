"""Whatever the source, the paces and the limits: nothing lost, nothing moved, one lawful end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import cycle
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from async_runner import run_in_virtual_time
from laws import check_honest_end, check_linear, check_monotone, merged
from laws.strategies import event_sequences
from penstock import EventStream, MessageBuilder
from penstock.events import Event, Failed, TextDelta, TextEnd, TextStart
from penstock.messages import AssistantMessage
from penstock.streams.queues import event_size
from stream_checks import DONE

pytestmark = pytest.mark.virtual_time

PAUSES = st.lists(st.sampled_from([0.0, 0.0, 0.001, 0.03, 0.2]), min_size=1, max_size=6)
INTERVALS = st.sampled_from([0, 0.05, 1.0])
LIMITS = st.integers(1, 60)


@st.composite
def sources(draw: DrawFn) -> list[Event]:
    """A whole lawful answer, whose events say what they consumed."""
    events, _ = draw(event_sequences())
    raws = cycle(draw(st.lists(st.text("<ab>", max_size=4), min_size=1, max_size=5)))
    return [msgspec.structs.replace(event, raw=next(raws)) for event in events]


class Walk:
    """A source that pauses before each event, checks the bound, and may raise at the end."""

    def __init__(self, events: list[Event], pauses: Iterable[float], limit: int) -> None:
        self.events, self.pauses, self.limit = events, cycle(pauses), limit
        self.largest = max([event_size(event) for event in events], default=0)
        self.stream: EventStream | None = None
        self.end: BaseException | None = None
        self.given: list[Event] = []
        self.most = 0

    async def __aiter__(self) -> AsyncIterator[Event]:
        for event in self.events:
            pause = next(self.pauses)
            if pause:
                await asyncio.sleep(pause)
            self.look()
            self.given.append(event)
            yield event
        if self.end is not None:
            raise self.end

    def look(self) -> None:
        if self.stream is not None and not self.stream.ended:
            self.most = max(self.most, self.stream.pending)

    def check_bounded(self) -> None:
        most = max(self.limit, self.largest)
        assert self.most <= most, f"law 9 (bounded): {self.most} characters were pending"


async def consumed(stream: EventStream, walk: Walk, pauses: Iterable[float]) -> list[Event]:
    events = []
    rests = cycle(pauses)
    async for event in stream:
        walk.look()
        events.append(event)
        pause = next(rests)
        if pause:
            await asyncio.sleep(pause)
    walk.check_bounded()
    return events


def folded(events: Iterable[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


def check_same(out: list[Event], given: list[Event]) -> None:
    assert merged(out) == merged(given), "law 3 (monotone): an event was lost or moved"
    assert [event.raw for event in without_deltas(out)] == [e.raw for e in without_deltas(given)]
    assert "".join(e.raw for e in out) == "".join(e.raw for e in given), "law 1 (lossless)"


def without_deltas(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not event.type.endswith("_delta")]


SETTINGS = settings(max_examples=60)


@SETTINGS
@given(
    events=sources(), pauses=PAUSES, rests=st.lists(PAUSES, min_size=1, max_size=3),
    interval=INTERVALS, limit=LIMITS,
)  # fmt: skip
async def test_every_consumer_gets_what_the_source_gave(
    events: list[Event], pauses: list[float], rests: list[list[float]], interval: float, limit: int
) -> None:
    walk = Walk(events, pauses, limit)
    stream = EventStream(walk, interval=interval, limit=limit)
    walk.stream = stream
    branches = stream.tee(len(rests))
    outs = await asyncio.gather(
        *[consumed(branch, walk, rest) for branch, rest in zip(branches, rests, strict=True)]
    )
    for out in outs:
        assert out == outs[0]
        check_same(out, events)
        check_monotone(out)
        check_honest_end(out, cut=False)
        assert interval or out == events
    assert await stream.result() == folded(events) == folded(outs[0])


@SETTINGS
@given(
    events=sources(), cut=st.integers(0, 12), pauses=PAUSES, rest=PAUSES,
    interval=INTERVALS, limit=LIMITS, end=st.sampled_from([None, OSError("reset"), KeyError("id")]),
)  # fmt: skip
async def test_a_source_that_dies_anywhere_ends_lawfully(
    events: list[Event],
    cut: int,
    pauses: list[float],
    rest: list[float],
    interval: float,
    limit: int,
    end: Exception | None,
) -> None:
    walk = Walk(events[:-1][:cut], pauses, limit)
    walk.end = end
    walk.stream = stream = EventStream(walk, interval=interval, limit=limit)
    check_cut(await consumed(stream, walk, rest), walk.given, stream)


@SETTINGS
@given(
    events=sources(), pauses=PAUSES, rest=PAUSES, interval=INTERVALS, limit=LIMITS,
    when=st.sampled_from([0.0, 0.001, 0.01, 0.05, 0.1, 0.5]),
)  # fmt: skip
async def test_an_abort_at_any_time_ends_lawfully(
    events: list[Event],
    pauses: list[float],
    rest: list[float],
    interval: float,
    limit: int,
    when: float,
) -> None:
    walk = Walk(events, pauses, limit)
    walk.stream = stream = EventStream(walk, interval=interval, limit=limit)
    asyncio.get_running_loop().call_later(when, stream.abort)
    out = await consumed(stream, walk, rest)
    if out[-1] is events[-1]:
        check_same(out, events)
    else:
        check_cut(out, walk.given, stream, in_hand=1)


def check_cut(out: list[Event], given: list[Event], stream: EventStream, in_hand: int = 0) -> None:
    """Check that *out* is what was *given*, but for what was *in_hand*, and then a lawful end."""
    check_monotone(out)
    check_honest_end(out, cut=True)
    assert any(is_cut(out, given[: len(given) - n]) for n in range(in_hand + 1))
    last = out[-1]
    assert isinstance(last, Failed)
    assert last.message is stream.message
    assert stream.message == folded(out)


def is_cut(out: list[Event], given: list[Event]) -> bool:
    """Tell whether *out* is what was *given*, then the ends of open blocks, then the end."""
    arrived, whole = merged(given), merged(out)
    ends = whole[len(arrived) : -1]
    return (
        whole[: len(arrived)] == arrived
        and all(event.type.endswith("_end") for event in ends)
        and "".join(event.raw for event in out) == "".join(event.raw for event in given)
    )


@pytest.mark.parametrize("interval", [0, 0.05])
def test_the_cost_of_an_event_does_not_depend_on_what_came_before(interval: float) -> None:
    async def main(count: int) -> None:
        deltas = [TextDelta(0, "word", "word") for _ in range(count)]
        events: list[Event] = [TextStart(0), *deltas, TextEnd(0, "word" * count), DONE]

        async def source() -> AsyncIterator[Event]:
            for event in events:
                yield event

        async for _ in EventStream(source(), interval=interval):
            pass

    def read(count: int) -> Any:
        return run_in_virtual_time(main(count))

    check_linear(read, 500, 10_000, at_most=3)


@pytest.mark.parametrize("make", [list, tuple, iter])
async def test_any_iterable_is_a_source(make: Callable[[list[Event]], Any]) -> None:
    events: list[Event] = [TextStart(0), TextDelta(0, "a"), TextEnd(0, "a"), DONE]
    assert ([event async for event in EventStream(make(events), interval=0)]) == events
