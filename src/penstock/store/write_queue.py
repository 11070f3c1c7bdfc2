"""What waits for the writer: two lanes, bounded in records and in bytes.

`push` is called where streams are served, so it never waits for the writer: callers share a lock
among themselves alone, the lanes are deques whose ends need none, and a bell is a bare lock, which
is rung without waiting. What the writer has taken counts as queued until it is written or given up,
so that the bounds hold for all that is in memory.

The express lane is for what somebody waits for; it overtakes the other.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import Final

from msgspec import Struct

from penstock.store.records import RequestEnded, RequestStarted, ResponseRow, SessionRow

Record = RequestStarted | RequestEnded | SessionRow | ResponseRow

MAX_BATCH: Final = 100
"""How many entries go into one transaction: more save nothing and hold the lock longer."""

MAX_BATCH_BYTES: Final = 1 << 20
"""How many bytes go into one transaction, if its first entry alone is not larger."""

LINGER: Final = 0.25
"""How many seconds the writer lets others join a batch that nobody waits for.

A transaction costs as much as a dozen records, and at a few requests a second each would have one
of its own.
"""

OVERHEAD: Final = 1_000
"""What a record takes in memory besides its bodies, in bytes, roughly."""


class QueuedWrite(Struct, frozen=True):
    """Records that are written together or not at all; `done` is told whether they were."""

    records: tuple[Record, ...]
    size: int
    done: Future[bool] | None = None

    def settle(self, *, is_written: bool) -> None:
        """Tell who waits, if anybody does."""
        if self.done is not None and self.done.set_running_or_notify_cancel():
            self.done.set_result(is_written)


class Bell:
    """Wakes one waiting thread; ringing twice before it wakes is ringing once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Wake the one who waits, or who waits next."""
        if self._lock.locked():
            try:
                self._lock.release()
            except RuntimeError:  # rung by another thread just now
                return

    def wait(self, seconds: float) -> None:
        """Wait for a ring, but no longer than *seconds*."""
        self._lock.acquire(timeout=max(0.0, seconds))


class Backlog:
    """The queue between those who serve and the one who writes."""

    def __init__(self, rows: int, size: int) -> None:
        self._max_rows = rows
        self._max_bytes = size
        self._lock = threading.Lock()  # callers only
        self._lane: deque[QueuedWrite] = deque()
        self._express: deque[QueuedWrite] = deque()
        self._pushed = self._pushed_bytes = 0  # by callers
        self._settled = self._settled_bytes = 0  # by the writer
        self._work = Bell()
        self._hurry = Bell()
        self._closing = threading.Event()
        self.refused = 0

    @property
    def is_closed(self) -> bool:
        """Whether nothing is taken any more."""
        return self._closing.is_set()

    @property
    def rows(self) -> int:
        """How many records wait or are being written."""
        return self._pushed - self._settled

    @property
    def size(self) -> int:
        """How many bytes wait or are being written."""
        return self._pushed_bytes - self._settled_bytes

    def push(self, entry: QueuedWrite) -> bool:
        """Take *entry*, or refuse it and count that."""
        count = len(entry.records)
        with self._lock:
            is_full = self.rows + count > self._max_rows or self.size + entry.size > self._max_bytes
            if is_full or self.is_closed:
                self.refused += count
                return False
            self._pushed += count
            self._pushed_bytes += entry.size
            (self._lane if entry.done is None else self._express).append(entry)
        self._work.ring()
        if entry.done is not None:
            self._hurry.ring()
        return True

    def refuse(self, number: int) -> None:
        """Count records that cannot be taken."""
        with self._lock:
            self.refused += number

    def close(self) -> None:
        """Take nothing more, and wake the writer, whatever it waits for."""
        with self._lock:
            self._closing.set()
        self._hurry.ring()
        self._work.ring()

    # --- for the writer ---

    def take(self, seconds: float) -> list[QueuedWrite]:
        """Take the next batch; wait for its first entry up to *seconds*."""
        if not (self._lane or self._express):
            self._work.wait(seconds)
        if not (self._express or self.is_closed) and 0 < len(self._lane) < MAX_BATCH:
            self._hurry.wait(LINGER)
        batch: list[QueuedWrite] = []
        size = 0
        while len(batch) < MAX_BATCH and size < MAX_BATCH_BYTES:
            lane = self._express or self._lane
            if not lane:
                break
            entry = lane.popleft()
            size += entry.size
            batch.append(entry)
        return batch

    def pause(self, seconds: float) -> None:
        """Wait, because the database is away; `close` cuts it short."""
        self._closing.wait(seconds)

    def settle(self, entry: QueuedWrite, *, is_written: bool) -> None:
        """Forget *entry*, which was written or given up."""
        self._settled += len(entry.records)
        self._settled_bytes += entry.size
        entry.settle(is_written=is_written)
