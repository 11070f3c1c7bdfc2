"""What the chat is at: one thing at a time, and what comes up beside it, each a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

Doing = Coroutine[None, None, None]
"""Something to do."""


class Work:
    """Does things; *on_end* is told when one is done. A fault of ours is kept, to be raised."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._current: asyncio.Task[None] | None = None
        self._may_stop = False
        self._beside: set[asyncio.Task[None]] = set()
        self.fault: BaseException | None = None

    @property
    def is_busy(self) -> bool:
        """Whether something is being done."""
        return self._current is not None and not self._current.done()

    def start(self, doing: Doing, *, may_stop: bool = False) -> None:
        """Do this now; nothing else is being done."""
        self._current = asyncio.create_task(doing)
        self._may_stop = may_stop
        self._current.add_done_callback(self._ended)

    def do_beside(self, doing: Doing) -> None:
        """Do this besides."""
        task = asyncio.create_task(doing)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
        task.add_done_callback(self._ended)

    def stop(self) -> None:
        """Stop what is being done, if it may be."""
        if self._current is not None and self._may_stop:
            self._current.cancel()

    async def over(self) -> None:
        """Wait until what is being done now is over."""
        if self._current is not None:
            await asyncio.wait([self._current])

    async def finish(self) -> None:
        """Wait for everything."""
        self.stop()
        while left := [task for task in (self._current, *self._beside) if task and not task.done()]:
            await asyncio.wait(left)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.fault = self.fault or task.exception()
        self._on_end()
