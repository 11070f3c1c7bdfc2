"""A few threads that read, and a deadline for each who asks.

A database that hangs takes its threads with it, never a caller: who asked is told after the
deadline, and who asks when too many wait already is told at once. The threads are daemons, so that
a process can end while one hangs; those of the standard library's executor would hold it back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from penstock.store.errors import StoreError

MAX_WAITING: Final = 100
"""How many reads may wait for a thread: later ones would not be served in time anyway."""

GRACE: Final = 0.5
"""How much later than the database's own deadline a caller gives up, in seconds."""

Result = TypeVar("Result")
Work = Callable[[], Any]
Job = tuple["Future[Any]", Work]


class Readers:
    """Runs work on *number* threads, which begin with the first piece of it."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._number = number
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._is_started = False
        self._is_closed = False

    async def run(self, work: Callable[[], Result], seconds: float) -> Result:
        """Do *work* on a thread; raise `StoreError` if it is not done within *seconds*."""
        if self._is_closed:
            raise StoreError("the store is closed")
        if self._jobs.qsize() >= MAX_WAITING:
            raise StoreError("too many reads wait for the database")
        self._start()
        done: Future[Result] = Future()
        self._jobs.put((done, work))
        waiting = asyncio.wrap_future(done)
        try:
            await asyncio.wait([waiting], timeout=seconds + GRACE)
            if not waiting.done():
                raise StoreError(f"the database did not answer within {seconds:g} seconds")
            return waiting.result()
        finally:
            waiting.cancel()  # what has not begun yet is not begun any more

    def close(self) -> None:
        """End the threads, each after what it is doing."""
        self._is_closed = True
        for _ in range(self._number):
            self._jobs.put(None)

    def _start(self) -> None:
        if self._is_started:
            return
        self._is_started = True
        for index in range(self._number):
            name = f"penstock: {self._name} {index}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            done, work = job
            if not done.set_running_or_notify_cancel():
                continue
            try:
                done.set_result(work())
            except BaseException as exc:  # noqa: BLE001 - it is raised where it was asked for
                done.set_exception(exc)
            del job, done, work  # what was read is not kept until the next read
