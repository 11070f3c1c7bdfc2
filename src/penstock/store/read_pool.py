"""`ReadPool`: a few threads for reads, and a deadline for each read.

A database that hangs blocks these threads and never a caller: a caller gets an error after the
deadline, or at once if too many reads are waiting. The threads are daemons, so that a process can
end while one hangs; `concurrent.futures` joins its threads at exit.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from penstock.store.errors import StoreError

MAX_WAITING: Final = 100
"""How many reads may wait for a thread: later ones would not be served in time anyway."""

CANCEL_SECONDS: Final = 0.5
"""How many seconds after the deadline of the database a caller gives up."""

Result = TypeVar("Result")
Work = Callable[[], Any]
Job = tuple["Future[Any]", Work]


class ReadPool:
    """Runs functions on *number* threads, which are started on first use."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._number = number
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._is_started = False
        self._is_closed = False

    async def run(self, work: Callable[[], Result], seconds: float) -> Result:
        """Run *work* on a thread; raise `StoreError` if it takes longer than *seconds*."""
        done: Future[Result] = Future()
        job = (done, work)
        with self._changed:
            if self._is_closed:
                raise StoreError("the store is closed")
            if len(self._jobs) >= MAX_WAITING:
                raise StoreError("too many reads are waiting for the database")
            self._start()
            self._jobs.append(job)
            self._changed.notify()
        waiting = asyncio.wrap_future(done)
        try:
            await asyncio.wait([waiting], timeout=seconds + CANCEL_SECONDS)
            if not waiting.done():
                raise StoreError(f"the database did not respond within {seconds:g} seconds")
            return waiting.result()
        finally:
            self._abandon(job)
            waiting.cancel()

    def close(self) -> None:
        """End the threads, each after the jobs that wait."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _abandon(self, job: Job) -> None:
        """Take *job* out of the queue if no thread has begun it: its result is not needed."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)

    def _start(self) -> None:
        if self._is_started:
            return
        self._is_started = True
        for index in range(self._number):
            name = f"penstock: {self._name} {index}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            done, work = job
            if not done.set_running_or_notify_cancel():
                continue
            try:
                done.set_result(work())
            except BaseException as exc:  # noqa: BLE001 - it is raised in the caller
                done.set_exception(exc)
            del job, done, work  # Free the result before the next read.

    def _next(self) -> Job | None:
        with self._changed:
            while not self._jobs:
                if self._is_closed:
                    return None
                self._changed.wait()
            return self._jobs.popleft()
