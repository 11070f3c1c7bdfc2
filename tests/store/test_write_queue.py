"""The queue between those who serve and the one who writes."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from penstock.store.writer import MAX_BATCH, MAX_BATCH_BYTES, QueuedWrite, WakeUp, WriteQueue
from store.databases import PATIENCE, started


def entry(number: int, size: int = 10, done: Future[bool] | None = None) -> QueuedWrite:
    return QueuedWrite((started(number),), size, done)


def test_what_somebody_waits_for_overtakes() -> None:
    backlog = WriteQueue(100, 10_000)
    waited_for = entry(2, done=Future())
    for one in (entry(0), entry(1), waited_for):
        assert backlog.push(one)
    assert backlog.take(0)[0] is waited_for


def test_a_batch_is_bounded_and_keeps_the_order() -> None:
    backlog = WriteQueue(10_000, 1 << 40)
    for number in range(MAX_BATCH + 5):
        backlog.push(entry(number))
    batch = backlog.take(0)
    assert [one.records[0].id for one in batch] == [f"req-{n:06}" for n in range(MAX_BATCH)]
    assert len(backlog.take(0)) == 5
    for number in range(3):
        backlog.push(entry(number, MAX_BATCH_BYTES))
    assert len(backlog.take(0)) == 1, "one that is too large goes alone"


def test_what_is_being_written_still_takes_room() -> None:
    backlog = WriteQueue(2, 100)
    assert backlog.push(entry(0))
    assert backlog.push(entry(1))
    batch = backlog.take(0)
    assert not backlog.push(entry(2))
    assert (backlog.rows, backlog.size, backlog.rejected) == (2, 20, 1)
    for one in batch:
        backlog.settle(one, is_written=True)
    assert backlog.push(entry(3))
    assert (backlog.rows, backlog.size) == (1, 10)


def test_many_threads_lose_no_count() -> None:
    backlog = WriteQueue(1 << 30, 1 << 40)
    taken: list[QueuedWrite] = []

    def push() -> None:
        for number in range(2000):
            backlog.push(entry(number))

    threads = [threading.Thread(target=push) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(taken) < 8000:
        batch = backlog.take(10)
        assert batch
        taken += batch
        for one in batch:
            backlog.settle(one, is_written=True)
    for thread in threads:
        thread.join()
    assert (backlog.rows, backlog.size) == (0, 0)


def test_a_wake_up_for_what_was_taken_gives_no_empty_batch() -> None:
    backlog = WriteQueue(100, 10_000)
    backlog.push(entry(0))
    assert backlog.take(0)
    later = threading.Timer(0.05, backlog.push, [entry(1)])
    later.start()
    assert [one.records[0].id for one in backlog.take(10 * PATIENCE)] == ["req-000001"]
    later.join()


def test_a_wake_up_before_the_wait_is_not_missed() -> None:
    wake_up = WakeUp()
    wake_up.set()
    wake_up.set()
    thread = threading.Thread(target=wake_up.wait, args=(10 * PATIENCE,), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert not wake_up._lock.acquire(blocking=False), "two calls of `set` count as one"


def test_closing_wakes_whoever_waits() -> None:
    backlog = WriteQueue(10, 1000)
    ended = threading.Event()

    def wait() -> None:
        backlog.take(60)
        backlog.pause(60)
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    backlog.close()
    assert ended.wait(20)
    assert not backlog.push(entry(1))
