"""How a run is stopped from outside while it waits.

A run is one task that waits for many things: its model, a hook, the time until a retry. Whoever
aborts must end such a wait at once, and nothing else: what is being written down is finished. So a
run says by `Interrupt.guard` where it may be stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

# Waiting for what must not be left after: a thread, a child process, a connection.
#
# Nothing of a call may run after it was cancelled, and neither a thread nor a dying process can
# be cancelled as a task can. So the cancellation waits, not the work.


T = TypeVar("T")


async def shielded(
    work: Coroutine[Any, Any, T], on_cancel: Callable[[], object] | None = None
) -> T:
    """Await *work* until it has ended, however often this task is cancelled meanwhile.

    Each cancellation calls *on_cancel*, which may make the work end sooner. Once it has ended, the
    cancellation continues its way, and what the work gave or raised is dropped.
    """
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as exc:
            cancellation = exc
            if on_cancel is not None:
                on_cancel()
    if cancellation is not None:
        if not task.cancelled():
            task.exception()  # seen, so that nobody is told that it was not
        raise cancellation
    return task.result()


class RunCancelledError(Exception):
    """The run was aborted while it waited."""


def is_cancelled() -> bool:
    """Return whether the current task was cancelled.

    A foreign `CancelledError` may pass through.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class CancelToken:
    """Ends, once fired, what waits in its guard, and lets nothing begin there any more."""

    def __init__(self) -> None:
        self.fired = False
        self._waiting: asyncio.Timeout | None = None

    def fire(self) -> None:
        """Stop what waits; from the task itself too, which then ends at its next wait."""
        if self.fired:
            return
        self.fired = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    def check(self) -> None:
        """Raise `RunCancelledError` if fired."""
        if self.fired:
            raise RunCancelledError

    @asynccontextmanager
    async def guard(self) -> AsyncIterator[None]:
        """Let what waits inside be stopped: then `RunCancelledError` is raised out of it."""
        self.check()
        # A time limit that is never set, unless somebody aborts: it knows its own cancellation
        # from everybody else's.
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._waiting = scope
                try:
                    yield
                finally:
                    self._waiting = None
        except TimeoutError:
            if scope.expired():
                raise RunCancelledError from None
            raise
