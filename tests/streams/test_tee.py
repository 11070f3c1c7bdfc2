from __future__ import annotations

import asyncio

import pytest

from laws import merged
from penstock import EventStream
from penstock.errors import UsageError
from penstock.events import Event, Failed, MessageStart, TextDelta, TextStart
from stream_checks import Script, answer, turn

pytestmark = pytest.mark.virtual_time

LONG = answer(*["four"] * 100)


async def collect(stream: EventStream) -> list[Event]:
    return [event async for event in stream]


async def test_every_branch_gets_every_event() -> None:
    branches = EventStream(Script(*answer("a", "b", "c"))).tee(3)
    one, two, three = await asyncio.gather(*map(collect, branches))
    assert one == two == three
    assert merged(one) == merged(answer("abc"))


async def test_a_branch_begins_with_what_was_not_taken_yet() -> None:
    stream = EventStream(Script(*answer("a", "b")), interval=0)
    assert await anext(stream) == answer()[0]
    await turn()
    one, two = stream.tee()
    assert await collect(one) == await collect(two) == answer("a", "b")[1:]


async def test_branches_go_at_their_own_pace_and_the_slowest_holds_the_source() -> None:
    source = Script(*LONG)
    fast, slow = EventStream(source, limit=20, interval=0).tee()
    consumer = asyncio.create_task(collect(fast))
    await turn(50)
    assert source.given == 7
    assert slow.pending == 18
    events: list[Event] = []
    async for event in slow:
        assert slow.pending <= 20 or len(events) > 100
        events.append(event)
    assert events == await consumer == LONG


@pytest.mark.parametrize("way", ["closed", "dropped", "cancelled"])
async def test_a_branch_that_stops_no_longer_holds_the_others_up(way: str) -> None:
    source = Script(*LONG)
    reading, stopped = EventStream(source, limit=20, interval=0).tee()
    consumer = asyncio.create_task(collect(reading))
    await turn(50)
    if way == "closed":
        await stopped.aclose()
    elif way == "dropped":
        del stopped
    else:
        other = asyncio.create_task(collect(stopped))
        del stopped
        await turn(200)
        other.cancel()
    assert await consumer == LONG
    assert (reading.message.stop_reason, source.closed) == ("stop", 1)


async def test_the_last_branch_that_is_closed_closes_the_source() -> None:
    source = Script(MessageStart(), endless=True)
    one, two = EventStream(source).tee()
    await anext(one)
    await one.aclose()
    assert source.closed == 0
    await two.aclose()
    assert (source.cancelled, source.closed) == (1, 1)
    assert two.message.stop_reason == "aborted"


async def test_closing_the_stream_itself_closes_all_its_branches() -> None:
    source = Script(MessageStart(), endless=True)
    async with EventStream(source) as stream:
        one, two = stream.tee()
        three, four = two.tee()
        await anext(four)
    assert source.closed == 1
    assert [await collect(branch) for branch in (one, three, four)] == [[], [], []]


async def test_an_abort_ends_all_branches() -> None:
    stream = EventStream(Script(MessageStart(), TextStart(0), endless=True))
    one, two = stream.tee()
    await anext(one)
    two.abort()
    for branch in (one, two):
        assert isinstance((await collect(branch))[-1], Failed)
    assert (await stream.result()).stop_reason == "aborted"


async def test_the_result_of_any_branch_needs_nobody_who_iterates() -> None:
    one, two = EventStream(Script(*LONG), limit=20).tee()
    assert (await one.result()).text == "four" * 100
    assert await two.result() is one.message
    assert merged(await collect(one)) == merged(await collect(two)) == merged(LONG)


async def test_a_branch_of_an_answer_that_has_ended_is_whole() -> None:
    stream = EventStream(Script(*answer("a")), interval=0)
    await stream.result()
    one, two = stream.tee()
    assert await collect(one) == await collect(two) == answer("a")


async def test_a_stream_that_was_teed_gives_no_events_itself() -> None:
    stream = EventStream(answer("a"))
    branches = stream.tee(1)
    with pytest.raises(UsageError, match="read its branches"):
        await anext(stream)
    with pytest.raises(UsageError, match="teed once"):
        stream.tee()
    with pytest.raises(UsageError, match="at least 1"):
        branches[0].tee(0)
    assert TextDelta(0, "a", "a") in await collect(branches[0])
