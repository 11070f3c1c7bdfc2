"""Delivery of events to consumers, none of which can slow the run down.

Each consumer has a queue of its own. The run adds events and never waits. If more than
`MAX_WAITING` events wait, neighbouring deltas of one block are joined, and only the newest update
of each tool is kept. So the memory is bounded by what the models and tools have sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from inspect import isawaitable, iscoroutinefunction
from logging import getLogger
from typing import Final

from msgspec import Struct

from penstock.agent.cancellation import is_cancelled
from penstock.agent.events import (
    AgentEvent,
    LiveMessage,
    LiveOutput,
    MessageUpdated,
    OutputUpdated,
    ToolUpdated,
)
from penstock.events import DELTAS, Delta
from penstock.streams.queues import WaitQueue, merge_deltas
from penstock.values import Change

MAX_WAITING: Final = 256
"""How many events wait before neighbours are joined: a second of a fast model's deltas."""

Subscriber = Callable[[AgentEvent], Awaitable[object] | object]
"""Receives each event; a function that is not a coroutine function is called in a thread."""

_LOG: Final = getLogger("penstock.agent")


class _JoinedDeltas(Struct):
    """Neighbouring deltas of one block, which are delivered as one."""

    live: LiveMessage | None
    deltas: list[Delta]

    def continues(self, live: LiveMessage | None, delta: Delta) -> bool:
        """Return whether *delta* continues these."""
        last = self.deltas[-1]
        return type(last) is type(delta) and last.index == delta.index and live is self.live


class _NewestUpdate(Struct):
    """The newest update of a tool, in the position of the oldest that waits."""

    event: ToolUpdated


class _JoinedOutput(Struct):
    """The changes of one output, which are delivered as one event."""

    live: LiveOutput | None
    changes: list[Change]


_Waiting = AgentEvent | _JoinedDeltas | _NewestUpdate | _JoinedOutput


class EventQueue(WaitQueue[_Waiting]):
    """The events that one consumer has not taken yet."""

    def __init__(self) -> None:
        super().__init__()
        self._updates: dict[str, _NewestUpdate] = {}  # those that wait, by call id
        self._output: _JoinedOutput | None = None  # the last one that waits

    def put(self, event: AgentEvent) -> None:
        """Add *event*; join it to its neighbour if too many wait."""
        # Below the limit events are queued as they are: joining costs time and delays nothing.
        if len(self.items) < MAX_WAITING:
            self.items.append(event)
        elif isinstance(event, ToolUpdated):
            update = self._updates.get(event.id)
            if update is not None:
                update.event = event
            else:
                self._updates[event.id] = update = _NewestUpdate(event)
                self.items.append(update)
        elif isinstance(event, MessageUpdated) and isinstance(event.event, DELTAS):
            last = self._last_item()
            if isinstance(last, _JoinedDeltas) and last.continues(event.live, event.event):
                last.deltas.append(event.event)
            else:
                self.items.append(_JoinedDeltas(event.live, [event.event]))
        elif isinstance(event, OutputUpdated):
            output = self._output
            if output is not None and output.live is event.live:
                output.changes += event.changes
            else:
                self._output = _JoinedOutput(event.live, list(event.changes))
                self.items.append(self._output)
        else:
            self.items.append(event)
        self._wake()

    def take(self) -> AgentEvent:
        """Remove and return the oldest event."""
        event = self.items.popleft()
        if isinstance(event, _JoinedDeltas):
            return MessageUpdated(merge_deltas(event.deltas), event.live)
        if isinstance(event, _NewestUpdate):
            del self._updates[event.event.id]
            return event.event
        if isinstance(event, _JoinedOutput):
            self._output = None if self._output is event else self._output
            return OutputUpdated(event.changes, event.live)
        return event

    def clear(self) -> None:
        """Drop all events that wait."""
        super().clear()
        self._updates.clear()
        self._output = None

    def _last_item(self) -> _Waiting:
        """Return the last item; changes of an output do not separate neighbours."""
        last = self.items[-1]
        return self.items[-2] if last is self._output and len(self.items) > 1 else last


class Subscription:
    """A subscriber, and the events that it has not received yet."""

    def __init__(self, receive: Subscriber) -> None:
        self._receive = receive
        self._is_async = iscoroutinefunction(receive) or iscoroutinefunction(
            type(receive).__call__  # an object with an async `__call__`
        )
        self._queue = EventQueue()
        self._task: asyncio.Task[None] | None = None
        # Not the context of a run: a subscriber that calls `Agent.abort` is not part of the run.
        self._context = copy_context()

    def put(self, event: AgentEvent) -> None:
        """Deliver *event* after those that wait."""
        self._queue.put(event)
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._deliver(), context=self._context)

    def end(self) -> None:
        """Drop the events that wait."""
        self._queue.clear()

    async def drain(self) -> None:
        """Wait until all events are delivered."""
        while self._task is not None:
            await asyncio.wait({self._task})

    async def _deliver(self) -> None:
        try:
            while self._queue:
                events = [self._queue.take() for _ in range(len(self._queue))]
                if self._is_async:
                    for event in events:
                        await self._send(event)
                    continue
                # A pool of its own: tools that are not coroutines wait in the common one.
                pool = ThreadPoolExecutor(1, "subscriber")
                try:
                    loop = asyncio.get_running_loop()
                    await loop.run_in_executor(pool, self._send_all, events)
                finally:
                    pool.shutdown(wait=False)
        finally:
            self._task = None

    async def _send(self, event: AgentEvent) -> None:
        try:
            result = self._receive(event)
            if isawaitable(result):
                await result
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            _LOG.warning("a subscriber was cancelled at %s", event.type)
        except Exception:  # noqa: BLE001 - a subscriber may raise anything
            _LOG.exception("a subscriber failed at %s", event.type)

    def _send_all(self, events: list[AgentEvent]) -> None:
        for event in events:
            try:
                self._receive(event)
            except Exception:  # noqa: BLE001 - a subscriber may raise anything
                _LOG.exception("a subscriber failed at %s", event.type)
