"""How a run is stopped from outside while it waits.

A run is one task that waits for many things: its model, a hook, the time until a retry. Whoever
aborts must end such a wait at once, and nothing else: what is being written down is finished. So a
run says by `Interrupt.guard` where it may be stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Interrupted(Exception):  # noqa: N818 - it is no error: somebody wanted it
    """The run was aborted while it waited."""


def is_cancelled() -> bool:
    """Tell whether the current task was cancelled: a foreign `CancelledError` may pass through."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Interrupt:
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
        """Raise `Interrupted` if fired."""
        if self.fired:
            raise Interrupted

    @asynccontextmanager
    async def guard(self) -> AsyncIterator[None]:
        """Let what waits inside be stopped: then `Interrupted` is raised out of it."""
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
                raise Interrupted from None
            raise
