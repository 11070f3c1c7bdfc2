"""What an event costs on its way through a stream, beside a bare async generator.

The generator gives the same events to the same ``async for``, without a task, a queue, a message or
a limit: it is the floor. *In a row* is a source that never waits, as when one read of the socket
brings many events; *one by one* is a source that waits before each, and there the loop's own turns
are in both figures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable

from penstock import EventStream
from penstock.events import Done, Event, MessageStart, TextDelta, TextEnd, TextStart
from penstock.messages import AssistantMessage

Row = tuple[str, str, str, str]
Wrap = Callable[[AsyncIterable[Event]], AsyncIterable[Event]]

COUNT = 20_000
MAX_GROWTH = 12  # for ten times the events


def answer(count: int) -> list[Event]:
    """Make an answer of *count* deltas of four characters."""
    deltas = [TextDelta(0, "word", "word") for _ in range(count)]
    text = "word" * count
    done = Done("stop", AssistantMessage())
    return [MessageStart(), TextStart(0), *deltas, TextEnd(0, text), done]


async def in_a_row(events: list[Event]) -> AsyncIterator[Event]:
    """Give *events* without waiting."""
    for event in events:
        yield event


async def one_by_one(events: list[Event]) -> AsyncIterator[Event]:
    """Give *events*, and wait for a turn of the loop before each."""
    for event in events:
        await asyncio.sleep(0)
        yield event


def bare(events: AsyncIterable[Event]) -> AsyncIterable[Event]:
    """Read the source itself."""
    return events


def streamed(interval: float, branches: int = 0) -> Wrap:
    """Read through a stream, or through the slowest of so many branches."""

    def wrap(events: AsyncIterable[Event]) -> AsyncIterable[Event]:
        stream = EventStream(events, interval=interval)
        return side_by_side(stream.tee(branches)) if branches else stream

    return wrap


async def side_by_side(streams: tuple[EventStream, ...]) -> AsyncIterator[Event]:
    """Read *streams* in step, and give the events of the first."""
    first, *others = streams
    async for event in first:
        for other in others:
            await anext(other)
        yield event


def seconds(source: Callable[[list[Event]], AsyncIterator[Event]], wrap: Wrap, count: int) -> float:
    """Return the CPU time of reading an answer of *count* deltas."""
    events = answer(count)

    async def read() -> None:
        async for _ in wrap(source(events)):
            pass

    began = time.process_time()
    asyncio.run(read())
    return time.process_time() - began


def cost_row(
    what: str, source: Callable[[list[Event]], AsyncIterator[Event]], wrap: Wrap, bar: float
) -> Row:
    """Measure *wrap* in turn with the bare source."""
    floor = best = float("inf")
    for _ in range(7):
        floor = min(floor, seconds(source, bare, COUNT))
        best = min(best, seconds(source, wrap, COUNT))
    ratio = best / floor
    measured = f"{best / COUNT * 1e6:.2f} µs, {ratio:.1f} bare"
    return what, measured, f"<= {bar:g} bare", "ok" if ratio <= bar else "MISSED"


def growth_row(what: str, interval: float) -> Row:
    """Measure what ten times the events cost: one long run in turn with ten short ones."""
    wrap = streamed(interval)
    short = long = float("inf")
    for _ in range(5):
        short = min(short, sum(seconds(in_a_row, wrap, COUNT // 10) for _ in range(10)))
        long = min(long, seconds(in_a_row, wrap, COUNT))
    times = 10 * long / short
    verdict = "ok" if times <= MAX_GROWTH else "MISSED"
    return what, f"{times:.1f} x", f"<= {MAX_GROWTH} x", verdict


def table() -> list[Row]:
    """Measure all; return rows of what, measured, bar and verdict."""
    return [
        cost_row("in a row, interval 0", in_a_row, streamed(0), 40),
        cost_row("in a row, merged every 50 ms", in_a_row, streamed(0.05), 40),
        cost_row("in a row, two branches", in_a_row, streamed(0, 2), 60),
        cost_row("one by one, interval 0", one_by_one, streamed(0), 6),
        cost_row("one by one, merged every 50 ms", one_by_one, streamed(0.05), 5),
        growth_row("ten times the events, interval 0", 0),
        growth_row("ten times the events, merged", 0.05),
    ]


if __name__ == "__main__":
    for row in table():
        print("{:36} {:>22}  {:>12}  {}".format(*row))
