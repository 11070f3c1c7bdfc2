"""Events in progress to those who look on, none of whom can hold the run up.

Everybody has an outlet of their own. The run puts events in and never waits. Where more than
`MAX_WAITING` events wait, neighbouring deltas of one block are joined, and of a tool's updates only
the newest is kept, so what waits is bounded by what the models and tools said.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from inspect import isawaitable, iscoroutinefunction
from logging import getLogger
from typing import Any, Final

from penstock.agent.cancellation import is_cancelled
from penstock.agent.events import AgentEvent, MessageUpdated, ToolUpdated
from penstock.events import Delta
from penstock.streams.merging import DELTAS, joined

MAX_WAITING: Final = 256
"""How many events wait before neighbours are joined: a second of a quick model's deltas."""


class _Joined:
    """Deltas of one block that leave as one."""

    __slots__ = ("deltas", "live")

    def __init__(self, live: Any, delta: Delta) -> None:
        self.live = live
        self.deltas = [delta]

    def takes(self, live: Any, delta: Delta) -> bool:
        """Return whether *delta* continues where these end."""
        last = self.deltas[-1]
        return type(last) is type(delta) and last.index == delta.index and live is self.live


class _Newest:
    """The newest update of a tool, in the place of the first that waits."""

    __slots__ = ("event",)

    def __init__(self, event: ToolUpdated) -> None:
        self.event = event


class EventQueue:
    """What one of those who look on has not taken yet."""

    def __init__(self) -> None:
        self._waiting: deque[AgentEvent | _Joined | _Newest] = deque()
        self._newest: dict[str, _Newest] = {}  # of those that wait, by the id of the call
        self._arrived = asyncio.Event()
        self._ended = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, event: AgentEvent) -> None:
        """Add *event*, joined to its neighbour where too many wait."""
        if len(self._waiting) < MAX_WAITING or not self._join(event):
            self._waiting.append(event)
        self._arrived.set()

    def end(self) -> None:
        """Say that nothing follows."""
        self._ended = True
        self._arrived.set()

    async def wait(self) -> bool:
        """Wait until an event is there; return whether one is, or nothing follows."""
        while not self._waiting:
            if self._ended:
                return False
            self._arrived.clear()
            await self._arrived.wait()
        return True

    def take(self) -> AgentEvent:
        """Take the event that waits longest."""
        event = self._waiting.popleft()
        if isinstance(event, _Joined):
            return MessageUpdated(joined(event.deltas), event.live)
        if isinstance(event, _Newest):
            del self._newest[event.event.id]
            return event.event
        return event

    def clear(self) -> None:
        """Drop what waits."""
        self._waiting.clear()
        self._newest.clear()

    def _join(self, event: AgentEvent) -> bool:
        """Add *event* to what waits of its kind; return whether it is of one that can be joined."""
        if isinstance(event, ToolUpdated):
            self._keep_newest(event)
            return True
        if not isinstance(event, MessageUpdated) or not isinstance(event.event, DELTAS):
            return False
        last = self._waiting[-1]
        if isinstance(last, _Joined) and last.takes(event.live, event.event):
            last.deltas.append(event.event)
        else:
            self._waiting.append(_Joined(event.live, event.event))
        return True

    def _keep_newest(self, event: ToolUpdated) -> None:
        newest = self._newest.get(event.id)
        if newest is not None:
            newest.event = event
        else:
            self._newest[event.id] = newest = _Newest(event)
            self._waiting.append(newest)


Subscriber = Callable[[AgentEvent], Awaitable[object] | object]
"""Is told of an event."""

_LOG: Final = getLogger("penstock.agent")


class Subscription:
    """One subscriber, and what it has not been told yet."""

    def __init__(self, tell: Subscriber) -> None:
        self._tell = tell
        self._waits = iscoroutinefunction(tell) or iscoroutinefunction(
            getattr(tell, "__call__", None)  # noqa: B004 - an object may have one that waits
        )
        self._outlet = EventQueue()
        self._task: asyncio.Task[None] | None = None
        self._context = copy_context()  # not that of a run, which a subscriber is not a part of

    def put(self, event: AgentEvent) -> None:
        """Tell of *event*, in its turn."""
        self._outlet.put(event)
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._tell_all(), context=self._context)

    def end(self) -> None:
        """Tell no more, not even what waits."""
        self._outlet.clear()

    async def drained(self) -> None:
        """Wait until all has been told."""
        while self._task is not None:
            await asyncio.wait({self._task})

    async def _tell_all(self) -> None:
        try:
            while self._outlet:
                events = [self._outlet.take() for _ in range(len(self._outlet))]
                if self._waits:
                    for event in events:
                        await self._tell_one(event)
                else:
                    await self._in_thread(events)
        finally:
            self._task = None

    async def _in_thread(self, events: list[AgentEvent]) -> None:
        # Not in a thread of the common pool: tools that are not coroutines wait for those.
        pool = ThreadPoolExecutor(1, "subscriber")
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(pool, self._tell_each, events)
        finally:
            pool.shutdown(wait=False)

    async def _tell_one(self, event: AgentEvent) -> None:
        try:
            told = self._tell(event)
            if isawaitable(told):
                await told
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            _LOG.warning("a subscriber was cancelled at %s", event.type)
        except Exception:  # noqa: BLE001 - it is the subscriber's own, and may be anything
            _LOG.exception("a subscriber failed at %s", event.type)

    def _tell_each(self, events: list[AgentEvent]) -> None:
        for event in events:
            try:
                self._tell(event)
            except Exception:  # noqa: BLE001 - the same
                _LOG.exception("a subscriber failed at %s", event.type)
