from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator

import pytest

from async_runner import VirtualLoop, run_in_virtual_time
from laws import merged
from penstock import EventStream
from penstock.errors import ProviderError, UsageError
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, ToolCall
from penstock.streams.pump import MAX_CLEANUP, MAX_TURN
from stream_checks import DONE, Script, Step, answer, cut_call, shown, text, turn

pytestmark = pytest.mark.virtual_time


async def collect(stream: EventStream) -> list[Event]:
    return [event async for event in stream]


async def failed(*steps: Step) -> Failed:
    *_, last = await collect(EventStream(Script(*steps)))
    assert isinstance(last, Failed)
    return last


# --- what leaves, and when ---


async def test_without_an_interval_every_event_leaves_as_it_came() -> None:
    events = answer("a", "b", "c")
    assert await collect(EventStream(events, interval=0)) == events
    assert await collect(EventStream(Script(*events), interval=0)) == events


async def test_the_first_delta_leaves_at_once_and_the_others_joined() -> None:
    events = await collect(EventStream(Script(*answer("a", "b", "c", "d"))))
    assert shown(events) == "a|bcd"
    assert merged(events) == merged(answer("abcd"))


async def test_deltas_leave_once_in_an_interval() -> None:
    deltas = [step for n in range(10) for step in (TextDelta(0, str(n)), 0.4375)]
    source = Script(MessageStart(), TextStart(0), *deltas, TextEnd(0, "0123456789"), DONE)
    times: list[float] = []
    events: list[Event] = []
    async for event in EventStream(source, interval=1):
        events.append(event)
        if isinstance(event, TextDelta):
            times.append(asyncio.get_running_loop().time())
    assert times == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert shown(events) == "0|12|34|56|789"


async def test_held_deltas_leave_when_their_time_comes_though_nothing_follows() -> None:
    source = Script(TextStart(0), TextDelta(0, "a"), TextDelta(0, "b"), endless=True)
    async with EventStream(source, interval=0.05) as stream:
        events = [await anext(stream) for _ in range(3)]
    assert shown(events) == "a|b"
    assert asyncio.get_running_loop().time() == pytest.approx(0.05)


async def test_any_other_event_lets_the_held_deltas_go_first() -> None:
    call = ToolCallStart(1, "c", "read")
    source = Script(TextStart(0), *[TextDelta(0, piece) for piece in "abc"], call, endless=True)
    async with EventStream(source, interval=9) as stream:
        events = [await anext(stream) for _ in range(4)]
    assert events[1:] == [TextDelta(0, "a"), TextDelta(0, "bc"), call]
    assert asyncio.get_running_loop().time() == 0


async def test_a_flush_in_between_does_not_let_later_deltas_out_too_early() -> None:
    first: list[Step] = [*text("a", "b")[:-1], 0.75, TextEnd(0, "ab")]
    second: list[Step] = [*text("c", "d", index=1)[:-1], 2.0, TextEnd(1, "cd"), DONE]
    times = {}
    async for event in EventStream(Script(*first, *second), interval=1):
        if isinstance(event, TextDelta):
            times[event.text] = asyncio.get_running_loop().time()
    assert times == {"a": 0.0, "b": 0.75, "cd": 1.75}


async def test_no_timer_outlives_the_answer() -> None:
    await collect(EventStream(Script(*answer("a", "b")), interval=9))
    await turn(2)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    assert all(timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]


async def test_neighbours_of_another_block_are_not_joined() -> None:
    calls = [ToolCallStart(0, "a", "f"), ToolCallStart(1, "b", "g")]
    pieces = [ToolCallDelta(n, piece) for n, piece in [(0, "{"), (0, '"'), (1, "{"), (0, "k")]]
    events = await collect(EventStream([*calls, ToolCallDelta(1, " "), *pieces]))
    assert events[2:6] == [
        ToolCallDelta(1, " "), ToolCallDelta(0, '{"'), ToolCallDelta(1, "{"),
        ToolCallDelta(0, "k"),
    ]  # fmt: skip


async def test_a_source_that_does_not_wait_is_read_while_its_events_are_taken() -> None:
    given: list[Event] = []

    def source() -> Iterator[Event]:
        for event in answer("a", "b", "c"):
            given.append(event)
            yield event

    async for event in EventStream(source(), interval=0):
        assert event is given[-1]


async def test_a_source_that_never_waits_leaves_others_their_turn() -> None:
    given = 0

    async def source() -> AsyncIterator[Event]:
        nonlocal given
        yield TextStart(0)
        while given < 100_000:
            given += 1
            yield TextDelta(0, "a")

    stream = EventStream(source(), interval=0)
    result = asyncio.create_task(stream.result())
    await turn(3)
    assert given <= 3 * MAX_TURN
    stream.abort()
    assert (await result).stop_reason == "aborted"


async def test_a_batch_is_all_that_is_there_and_an_empty_one_is_the_end() -> None:
    stream = EventStream(Script(*answer("a", "b"), 0.1), interval=0)
    assert await stream.batch() == answer("a", "b")
    assert await stream.batch() == []
    assert await stream.batch() == []


# --- the end ---


async def test_a_source_that_ends_early_is_truncated_with_what_had_arrived() -> None:
    events = await collect(EventStream(answer("a", "b")[:-2]))
    assert [event.type for event in events[-2:]] == ["text_end", "error"]
    assert isinstance(events[-1], Failed)
    assert events[-1].error.kind == "truncated"
    assert events[-1].message.text == "ab"


async def test_a_source_without_any_event_is_truncated() -> None:
    (event,) = await collect(EventStream([]))
    assert isinstance(event, Failed)


async def test_of_two_terminal_events_the_first_wins_and_the_source_is_closed() -> None:
    source = Script(*answer("a"), Done("length", AssistantMessage()), *answer("b"))
    stream = EventStream(source)
    assert merged(await collect(stream)) == merged(answer("a"))
    assert (await stream.result()).stop_reason == "stop"
    assert (source.given, source.closed) == (5, 1)


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (ConnectionResetError("gone"), "transport"),
        (ProviderError("busy", status=503), "provider"),
        (asyncio.CancelledError(), "aborted"),
    ],
)
async def test_what_a_source_raises_is_told_and_not_raised(exc: BaseException, kind: str) -> None:
    last = await failed(MessageStart(), TextStart(0), TextDelta(0, "a"), exc)
    assert (last.error.kind, last.message.text) == (kind, "a")


async def test_a_call_that_the_source_left_open_is_closed_and_not_complete() -> None:
    events = await collect(EventStream(Script(*cut_call(), OSError("reset"))))
    end = events[-2]
    assert isinstance(end, ToolCallEnd)
    assert end.call == ToolCall("c1", "read", {"path": "/et"}, complete=False)


@pytest.mark.parametrize(
    "unlawful",
    [
        pytest.param(TextDelta(7, "?"), id="a delta of no block"),
        pytest.param(TextStart(3), id="a block out of order"),
        pytest.param(MessageStart(), id="a second start"),
        pytest.param(DONE, id="done with an open block"),
        pytest.param("text", id="no event at all"),
    ],
)
async def test_a_source_that_breaks_the_contract_fails_as_malformed(unlawful: Event) -> None:
    source = Script(MessageStart(), TextStart(0), TextDelta(0, "a"), unlawful, endless=True)
    events = await collect(EventStream(source))
    assert isinstance(events[-1], Failed)
    assert events[-1].error.kind == "malformed"
    assert events[-2] == TextEnd(0, "a")
    assert source.closed == 1


async def test_a_source_that_cannot_even_begin_fails() -> None:
    class Broken:
        def __aiter__(self) -> AsyncIterator[Event]:
            raise OSError("no route")

    (last,) = await collect(EventStream(Broken()))
    assert isinstance(last, Failed)
    assert last.error.message == "no route"


async def test_an_error_while_closing_is_no_part_of_the_answer() -> None:
    async def source() -> AsyncIterator[Event]:
        try:
            for event in answer("a"):
                yield event
            yield MessageStart()
        finally:
            raise OSError("close failed")

    assert merged(await collect(EventStream(source()))) == merged(answer("a"))


async def test_a_source_that_does_not_finish_closing_delays_the_end_for_a_while_only() -> None:
    lock = asyncio.Event()

    async def source() -> AsyncIterator[Event]:
        try:
            for event in answer("a"):
                yield event
            yield MessageStart()
        finally:
            await lock.wait()

    stream = EventStream(source())
    times = [asyncio.get_running_loop().time() async for _ in stream]
    assert set(times) == {0.0}
    assert asyncio.get_running_loop().time() == pytest.approx(MAX_CLEANUP)
    lock.set()
    await turn(3)


# --- result and message ---


async def test_the_result_needs_nobody_who_iterates() -> None:
    events = answer(*["word "] * 1000)
    for interval in (0, 0.05):
        stream = EventStream(Script(*events), limit=10, interval=interval)
        assert (await stream.result()).text == "word " * 1000
        assert stream.ended
        later = await collect(stream)
        assert merged(later) == merged(events)
        assert len(later) < 20, "what nobody takes is joined"


async def test_the_result_comes_after_a_loop_that_was_left_early() -> None:
    stream = EventStream(Script(*answer(*["word "] * 100)), limit=10, interval=0)
    async for event in stream:
        if isinstance(event, TextDelta):
            break
    assert (await asyncio.wait_for(stream.result(), 9)).text == "word " * 100


async def test_the_result_can_be_awaited_beside_a_loop_and_again() -> None:
    stream = EventStream(Script(*answer("a", "b")))
    first, events, second = await asyncio.gather(stream.result(), collect(stream), stream.result())
    assert merged(events) == merged(answer("ab"))
    assert first is second is stream.message
    assert await stream.result() is first


async def test_a_failed_answer_has_a_result_too() -> None:
    message = await EventStream(Script(TextStart(0), OSError("reset"))).result()
    assert message.stop_reason == "error"
    assert message.error is not None


async def test_the_message_is_live_and_always_the_same() -> None:
    stream = EventStream(Script(TextStart(0), TextDelta(0, "a"), 1.0, TextDelta(0, "b")))
    message = stream.message
    assert message.content == []
    await anext(stream)
    await anext(stream)
    assert stream.message.text == "a"
    await collect(stream)
    assert stream.message is message
    assert message.text == "ab"


async def test_waiting_for_the_result_in_vain_leaves_the_stream_alone() -> None:
    stream = EventStream(Script(*answer("a")[:3], 5.0, *answer("a")[3:]), interval=0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stream.result(), 1)
    assert await collect(stream) == answer("a")


# --- bounds ---


async def test_a_source_waits_while_more_than_the_limit_is_pending() -> None:
    source = Script(TextStart(0), *[TextDelta(0, "four")] * 100, endless=True)
    async with EventStream(source, limit=20, interval=0) as stream:
        await anext(stream)
        await turn(50)
        assert (source.given, stream.pending) == (6, 16)  # and one is in the pump's hand
        await anext(stream)
        await anext(stream)
        await turn(5)
        assert source.given == 6, "half of the limit has to be free first"
        await anext(stream)
        await turn(5)
        assert (source.given, stream.pending) == (10, 20)


async def test_held_deltas_count_and_leave_before_the_source_has_to_wait() -> None:
    pieces = [TextDelta(0, "four") for _ in range(100)]
    source = Script(TextStart(0), *pieces, endless=True)
    async with EventStream(source, limit=20, interval=9) as stream:
        events = [await anext(stream) for _ in range(3)]
        assert shown(events) == "four|" + "four" * 3
        assert asyncio.get_running_loop().time() == 0


async def test_an_event_above_the_limit_goes_through_alone() -> None:
    large = "x" * 100
    stream = EventStream(Script(*answer("ab", large, "cd")), limit=10, interval=0)
    pending = []
    async for _ in stream:
        await turn(5)
        pending.append(stream.pending)
    # `start`, `text_start` and "ab" first; then the large delta and the end, both alone
    assert pending == [3, 2, 100, 2, 104, 1, 0]


# --- leaving ---


async def test_a_loop_that_is_left_closes_the_source_with_the_stream() -> None:
    source = Script(*answer("a")[:3], endless=True)
    async with EventStream(source) as stream:
        async for _ in stream:
            break
    assert (source.cancelled, source.closed) == (1, 1)
    assert await collect(stream) == []
    assert stream.message.stop_reason == "aborted"


async def test_dropping_a_stream_closes_its_source() -> None:
    source = Script(*answer("a")[:3], endless=True)
    async for _ in EventStream(source):
        break
    gc.collect()
    await turn(2)
    assert (source.cancelled, source.closed) == (1, 1)


async def test_a_stream_that_nobody_began_costs_nothing() -> None:
    EventStream(Script(*answer("a")))
    assert len(asyncio.all_tasks()) == 1


async def test_closing_before_the_first_event_closes_the_source() -> None:
    source = Script(*answer("a"))
    stream = EventStream(source)
    await stream.aclose()
    await stream.aclose()
    assert (source.given, source.closed) == (0, 1)
    assert await collect(stream) == []


async def test_closing_after_the_end_changes_nothing() -> None:
    source = Script(*answer("a"))
    stream = EventStream(source)
    await collect(stream)
    await stream.aclose()
    assert (stream.message.stop_reason, source.closed) == ("stop", 1)


async def test_a_cancelled_consumer_is_cancelled_and_the_source_closed() -> None:
    source = Script(*answer("a")[:3], endless=True)
    stream = EventStream(source)
    consumer = asyncio.create_task(collect(stream))
    await turn(5)
    consumer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consumer
    await turn()
    assert (source.cancelled, source.closed) == (1, 1)
    assert stream.message.stop_reason == "aborted"


# --- misuse, and loops that end ---


def test_what_cannot_be_a_stream_is_refused() -> None:
    with pytest.raises(UsageError, match="iterable of events, not 'int'"):
        EventStream(5)  # type: ignore[arg-type]
    for interval in (-1, float("nan")):
        with pytest.raises(UsageError, match="interval"):
            EventStream([], interval=interval)
    with pytest.raises(UsageError, match="limit"):
        EventStream([], limit=0)


def test_a_stream_of_a_loop_that_was_shut_down_ends_as_aborted() -> None:
    stream = EventStream(Script(*answer("a")[:3], endless=True), interval=0)

    async def begin() -> None:
        await anext(stream)

    async def go_on() -> list[Event]:
        return await collect(stream)

    asyncio.run(begin())
    last = run_in_virtual_time(go_on())[-1]
    assert isinstance(last, Failed)
    assert last.reason == "aborted"
    assert stream.message.text == "a"


def test_a_stream_of_a_loop_that_died_ends_as_aborted() -> None:
    stream = EventStream(Script(*answer("a")[:3], endless=True), interval=0)
    loop = asyncio.new_event_loop()
    consumer = loop.create_task(collect(stream))
    loop.call_later(0, loop.stop)
    loop.run_forever()
    loop.run_until_complete(turn(3))
    loop.close()

    async def result() -> AssistantMessage:
        return await stream.result()

    message = run_in_virtual_time(result())
    assert (message.text, message.stop_reason) == ("a", "aborted")
    assert "loop ended" in (message.error.message if message.error else "")
    _forget(consumer, *asyncio.all_tasks(loop))


def _forget(*tasks: asyncio.Task[object]) -> None:
    """Keep asyncio from reporting tasks that a dead loop left behind: that is the point here."""
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        coroutine = task.get_coro()
        assert coroutine is not None
        coroutine.close()


def test_a_stream_cannot_be_read_in_two_loops_at_once() -> None:
    stream = EventStream(Script(*answer("a")[:3], endless=True), interval=0)

    async def begin() -> None:
        async with stream:
            await stream.batch()
            with pytest.raises(UsageError, match="belongs to the event loop"):
                await asyncio.to_thread(lambda: asyncio.run(stream.batch()))

    asyncio.run(begin())
