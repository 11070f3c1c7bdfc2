"""Events on their way to those who look on, none of whom can hold the run up.

Everybody has an outlet of their own. The run puts events in and never waits. Where more than
`MAX_WAITING` events wait, neighbouring deltas of one block are joined, and of neighbouring updates
of one tool only the newest is kept, so what waits is bounded by what the models and tools said.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from penstock.agent.events import AgentEvent, MessageUpdated, ToolUpdated
from penstock.events import Delta
from penstock.messages import AssistantMessage
from penstock.streams.merging import DELTAS, joined

MAX_WAITING: Final = 256
"""How many events wait before neighbours are joined: a second of a quick model's deltas."""


class _Joined:
    """Deltas of one block that leave as one."""

    __slots__ = ("deltas", "message")

    def __init__(self, message: AssistantMessage, delta: Delta) -> None:
        self.message = message
        self.deltas = [delta]

    def takes(self, message: AssistantMessage, delta: Delta) -> bool:
        """Tell whether *delta* goes on where these end."""
        last = self.deltas[-1]
        is_next = type(last) is type(delta) and last.index == delta.index
        return is_next and message is self.message


class Outlet:
    """What one of those who look on has not taken yet."""

    def __init__(self) -> None:
        self._waiting: deque[AgentEvent | _Joined] = deque()
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
        """Wait until an event is there; tell whether one is, or nothing follows."""
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
            return MessageUpdated(event.message, joined(event.deltas))
        return event

    def _join(self, event: AgentEvent) -> bool:
        last = self._waiting[-1]
        if isinstance(event, ToolUpdated) and isinstance(last, ToolUpdated):
            if last.id != event.id:
                return False
            self._waiting[-1] = event
            return True
        if not isinstance(event, MessageUpdated) or not isinstance(event.event, DELTAS):
            return False
        if isinstance(last, _Joined) and last.takes(event.message, event.event):
            last.deltas.append(event.event)
        else:
            self._waiting.append(_Joined(event.message, event.event))
        return True
