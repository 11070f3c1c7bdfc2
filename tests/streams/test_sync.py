from __future__ import annotations

import asyncio
import threading

import pytest

from penstock import EventStream
from penstock.errors import UsageError
from penstock.events import Failed, MessageStart
from stream_checks import Script, answer, shown


def test_a_script_reads_a_stream_without_a_loop() -> None:
    source = Script(*answer("a", "b"))
    assert list(EventStream(source, interval=0).sync()) == answer("a", "b")
    assert source.closed == 1


def test_the_result_leaves_the_events_that_were_not_taken() -> None:
    stream = EventStream(Script(*answer("a", "b")), interval=0).sync()
    assert next(iter(stream)) == answer()[0]
    assert stream.result().text == "ab"
    assert stream.message.stop_reason == "stop"
    assert list(stream) == answer("a", "b")[1:]
    assert list(stream) == []
    assert stream.result() is stream.message


def test_leaving_early_closes_the_source() -> None:
    source = Script(*answer("a")[:3], endless=True)
    with EventStream(source).sync() as stream:
        for _ in stream:
            break
    assert source.closed == 1
    assert stream.message.stop_reason == "aborted"
    stream.close()


def test_dropping_it_closes_the_source_too() -> None:
    source = Script(*answer("a")[:3], endless=True)
    for _ in EventStream(source).sync():
        break
    assert source.closed == 1


def test_an_abort_is_an_event_like_in_the_stream_itself() -> None:
    stream = EventStream(Script(*answer("a")[:3], endless=True), interval=0).sync()
    seen = []
    for event in stream:
        seen.append(event)
        stream.abort()
    assert shown(seen) == "a"
    assert isinstance(seen[-1], Failed)


def test_another_thread_may_abort_while_a_script_waits() -> None:
    stream = EventStream(Script(MessageStart(), endless=True)).sync()
    next(iter(stream))
    threading.Thread(target=stream.abort).start()
    (last,) = list(stream)
    assert isinstance(last, Failed)


def test_it_says_so_where_a_loop_runs_already() -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="async for"):
            EventStream([]).sync()
        with pytest.raises(UsageError, match="async for"):
            made_outside.result()

    made_outside = EventStream([]).sync()
    asyncio.run(main())


def test_nothing_is_read_in_another_thread() -> None:
    threads = set(threading.enumerate())
    source = Script(MessageStart(), 0.001, *answer("a")[1:])
    stream = EventStream(source).sync()
    next(iter(stream))
    assert source.given == 1
    assert set(threading.enumerate()) <= threads
    assert len(list(stream)) == 4
