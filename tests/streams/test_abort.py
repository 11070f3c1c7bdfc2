from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from async_runner import run_in_virtual_time
from penstock import EventStream
from penstock.events import Event, Failed, MessageStart, TextDelta, TextEnd, TextStart, ToolCallEnd
from stream_checks import DONE, Script, answer, cut_call, shown, turn

pytestmark = pytest.mark.virtual_time


async def collect(stream: EventStream) -> list[Event]:
    return [event async for event in stream]


def check_aborted(events: list[Event]) -> Failed:
    last = events[-1]
    assert isinstance(last, Failed)
    assert (last.reason, last.error.kind) == ("aborted", "aborted")
    assert last.message.stop_reason == "aborted"
    return last


async def test_an_abort_gives_what_had_arrived_and_then_fails() -> None:
    source = Script(*answer("a", "b", "c")[:-2], endless=True)
    stream = EventStream(source, interval=9)
    await anext(stream)
    stream.abort()
    events = await collect(stream)
    assert shown(events) == "a|bc"
    assert events[-2] == TextEnd(0, "abc")
    assert check_aborted(events).message.text == "abc"


async def test_an_abort_cancels_the_source_within_one_turn_of_the_loop() -> None:
    source = Script(MessageStart(), endless=True)
    stream = EventStream(source)
    await anext(stream)
    await turn(2)
    stream.abort()
    assert stream.message.stop_reason == "aborted"
    await turn()
    assert (source.cancelled, source.closed) == (1, 1)
    check_aborted(await collect(stream))


async def test_a_source_that_waits_for_room_is_closed_by_an_abort() -> None:
    source = Script(TextStart(0), *[TextDelta(0, "four")] * 9, endless=True)
    stream = EventStream(source, limit=9, interval=0)
    await anext(stream)
    await turn(3)
    stream.abort()
    events = await collect(stream)
    assert shown(events) == "four|four"
    check_aborted(events)
    assert source.closed == 1


async def test_a_call_that_an_abort_cut_is_closed_and_not_complete() -> None:
    stream = EventStream(Script(*cut_call(), endless=True))
    await anext(stream)
    stream.abort()
    events = await collect(stream)
    assert isinstance(events[-2], ToolCallEnd)
    assert not events[-2].call.complete
    check_aborted(events)


async def test_an_abort_before_the_first_event_reads_nothing_and_closes_the_source() -> None:
    source = Script(*answer("a"))
    stream = EventStream(source)
    stream.abort()
    (last,) = await collect(stream)
    check_aborted([last])
    assert (source.given, source.closed) == (0, 1)


async def test_an_abort_before_there_is_a_loop_holds_when_there_is_one() -> None:
    source = Script(*answer("a"))
    stream = EventStream(source)
    stream.abort()
    check_aborted(await collect(stream))
    assert (source.given, source.closed) == (0, 1)


async def test_an_abort_before_the_task_has_run_closes_the_source_too() -> None:
    source = Script(*answer("a"))
    stream = EventStream(source)
    consumer = asyncio.create_task(collect(stream))
    asyncio.get_running_loop().call_soon(stream.abort)  # behind the consumer's first step
    check_aborted(await consumer)
    assert (source.given, source.closed) == (0, 1)


async def test_an_abort_after_the_end_changes_nothing() -> None:
    stream = EventStream(answer("a"), interval=0)
    assert await collect(stream) == answer("a")
    stream.abort()
    assert (await stream.result()).stop_reason == "stop"


async def test_an_abort_between_the_end_and_its_delivery_changes_nothing() -> None:
    stream = EventStream(Script(*answer("a")), interval=0)
    await anext(stream)
    stream.abort()
    assert [MessageStart("id", "model"), *await collect(stream)] == answer("a")


async def test_aborting_twice_is_aborting_once() -> None:
    source = Script(MessageStart(), endless=True)
    stream = EventStream(source)
    await anext(stream)
    stream.abort()
    stream.abort()
    await turn()
    stream.abort()
    assert len(await collect(stream)) == 1
    assert (source.cancelled, source.closed) == (1, 1)


async def test_another_task_may_abort_while_a_consumer_waits() -> None:
    stream = EventStream(Script(MessageStart(), endless=True))
    asyncio.get_running_loop().call_later(3, stream.abort)
    events, message = await asyncio.gather(collect(stream), stream.result())
    check_aborted(events)
    assert message.stop_reason == "aborted"
    assert asyncio.get_running_loop().time() == 3


async def test_a_source_may_abort_its_own_stream() -> None:
    streams: list[EventStream] = []

    async def source() -> AsyncIterator[Event]:
        yield MessageStart()
        streams[0].abort()
        yield TextStart(0)

    streams.append(EventStream(source()))
    events = await collect(streams[0])
    assert len(events) == 2
    check_aborted(events)


async def test_a_source_that_takes_no_notice_is_left_at_its_next_event() -> None:
    async def source() -> AsyncIterator[Event]:
        yield MessageStart()
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            yield TextStart(0)
        yield TextDelta(0, "a")

    stream = EventStream(source())
    await anext(stream)
    await turn()
    stream.abort()
    assert len(await collect(stream)) == 1


async def test_a_source_that_cleans_up_slowly_keeps_nobody_from_the_end() -> None:
    async def source() -> AsyncIterator[Event]:
        try:
            yield MessageStart()
            await asyncio.sleep(1e9)
        finally:
            await asyncio.sleep(0.5)

    stream = EventStream(source())
    await anext(stream)
    await turn()
    stream.abort()
    check_aborted([await anext(stream)])
    assert asyncio.get_running_loop().time() == 0
    await stream.aclose()
    assert asyncio.get_running_loop().time() == 0.5


def test_a_task_that_somebody_else_kills_leaves_nobody_waiting() -> None:
    def kill(stream: EventStream) -> None:
        assert stream._pump._task is not None
        stream._pump._task.cancel()

    async def main(*, turns: int) -> None:
        stream = EventStream(Script(MessageStart(), endless=True))
        consumer = asyncio.create_task(collect(stream))
        await turn(turns)
        kill(stream)
        check_aborted(await consumer)

    for turns in (1, 2, 3, 4):  # before the task has run, and after
        run_in_virtual_time(main(turns=turns))


@pytest.mark.parametrize("act", [EventStream.abort, EventStream.__del__])
async def test_another_thread_may_abort(act: Callable[[EventStream], None]) -> None:
    source = Script(MessageStart(), TextStart(0), endless=True)
    stream = EventStream(source)
    await anext(stream)
    thread = threading.Thread(target=act, args=(stream,))
    thread.start()
    message = await asyncio.wait_for(stream.result(), 60)
    thread.join()
    assert message.stop_reason == "aborted"
    assert len(asyncio.all_tasks()) <= 2
    assert source.closed == 1


async def test_a_thread_may_abort_a_stream_whose_loop_has_ended() -> None:
    stream = EventStream(Script(MessageStart(), endless=True))
    await anext(stream)
    stream.abort()
    assert stream.message.stop_reason == "aborted"


async def test_done_wins_over_an_abort_that_comes_later_in_the_same_turn() -> None:
    stream = EventStream(Script(MessageStart(), 1.0, DONE))
    await anext(stream)
    asyncio.get_running_loop().call_later(1.0, stream.abort)
    last = (await collect(stream))[-1]
    assert last.type in {"done", "error"}
    assert stream.message.stop_reason == ("stop" if last is DONE else "aborted")
