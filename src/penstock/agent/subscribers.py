"""Those who are told of everything, and on whom nothing depends.

A subscriber is called behind the run's back: an async one in a task of its own, any other in a
thread of its own, one event after the other. A slow one is told later, a failing one is told the
next event; neither delays nor breaks the run. The task lives while there is something to tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from inspect import isawaitable, iscoroutinefunction
from logging import getLogger
from typing import Final

from penstock.agent.events import AgentEvent
from penstock.agent.interrupting import is_cancelled
from penstock.agent.outlets import Outlet

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
        self._outlet = Outlet()
        self._task: asyncio.Task[None] | None = None
        self._context = copy_context()  # not that of a run, which a subscriber is no part of

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
        # Not in a thread of the common pool: tools that are no coroutines wait for those.
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
