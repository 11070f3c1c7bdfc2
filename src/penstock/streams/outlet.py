"""One consumer's share: the events that may leave and that it has not taken yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from penstock.events import Event
from penstock.streams.merging import Sized


class Outlet:
    """A queue with one end: whoever reads it, at a pace of its own."""

    __slots__ = ("_arrived", "_has_waiters", "ended", "events", "size")

    def __init__(self, events: Iterable[Sized] = (), *, ended: bool = False) -> None:
        self.events = deque(events)
        self._arrived = asyncio.Event()
        self._has_waiters = False
        self.size = sum(size for _, size in self.events)
        self.ended = ended  # nothing more will come

    def copy(self) -> Outlet:
        """Make another outlet for the same events."""
        return Outlet(self.events, ended=self.ended)

    def put(self, event: Event, size: int) -> None:
        """Add *event*, which counts for *size*."""
        self.events.append((event, size))
        self.size += size
        if self._has_waiters:
            self._wake()

    def take(self) -> Event:
        """Take the next event; there has to be one."""
        event, size = self.events.popleft()
        self.size -= size
        return event

    def end(self) -> None:
        """Let whoever waits know that nothing more will come."""
        self.ended = True
        self._wake()

    def clear(self) -> None:
        """Forget what nobody will take."""
        self.events.clear()
        self.size = 0

    def forget_waiters(self) -> None:
        """Wake nobody any more who waits now."""
        self._arrived = asyncio.Event()

    async def wait(self) -> bool:
        """Wait for an event; tell whether one is there, or the end has come."""
        while not self.events and not self.ended:
            self._has_waiters = True
            self._arrived.clear()
            await self._arrived.wait()
        return bool(self.events)

    def _wake(self) -> None:
        self._has_waiters = False
        self._arrived.set()
