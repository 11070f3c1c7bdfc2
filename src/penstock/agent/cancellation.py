"""Cancellation of a run, and waits that a cancellation must not cut short.

A run is one task that waits for many things: its model, a hook, the time until a retry. An abort
has to end such a wait at once, but nothing else: a record that is being written is finished. So a
run marks the places where it may be stopped with `CancelToken.guard`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class RunCancelledError(Exception):
    """The run was aborted while it waited."""


def is_cancelled() -> bool:
    """Return whether the current task itself was cancelled.

    A `CancelledError` can also come from something that the task awaited.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def shielded(
    work: Coroutine[Any, Any, T], on_cancel: Callable[[], object] | None = None
) -> T:
    """Await *work* to its end, however often this task is cancelled meanwhile.

    For threads, child processes and connections, which cannot be cancelled like a task and must not
    be left running. Each cancellation calls *on_cancel*, which may make the work end sooner. After
    the end the cancellation is raised, and the result or exception of the work is dropped.
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
            task.exception()  # mark it as retrieved, so that asyncio does not log it
        raise cancellation
    return task.result()


class CancelToken:
    """Once fired, ends the wait inside `guard`, and lets no other wait begin there."""

    def __init__(self) -> None:
        self.fired = False
        self._waiting: asyncio.Timeout | None = None

    def fire(self) -> None:
        """Stop the guarded wait; called from the task itself, it stops the next wait."""
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
        """Make the waits inside stoppable: `fire` raises `RunCancelledError` out of them."""
        self.check()
        # A timeout without a deadline, unless the token fires: asyncio distinguishes the
        # cancellation by a timeout from all others.
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
