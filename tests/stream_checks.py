"""Scripted sources for tests of streams: they follow a script and count what was done to them.

The tests run in virtual time (`async_runner`), so a pause in a script costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any

from penstock.events import (
    Done,
    Event,
    MessageStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallStart,
)
from penstock.messages import AssistantMessage

Step = Event | float | BaseException
"""What a scripted source does next: give an event, wait so many seconds, raise."""


async def turn(times: int = 1) -> None:
    """Run the callbacks that are ready, *times* times."""
    for _ in range(times):
        await asyncio.sleep(0)


class Script:
    """A source that follows a script: events, pauses in seconds, exceptions; and keeps account."""

    def __init__(self, *steps: Step, endless: bool = False) -> None:
        self.steps = steps
        self.endless = endless
        self.given = 0
        self.cancelled = 0
        self.closed = 0
        self._at = iter(steps)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        for step in self._at:
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, float):
                await self._wait(asyncio.sleep(step))
            else:
                assert not isinstance(step, int)
                self.given += 1
                return step
        if self.endless:
            await self._wait(asyncio.sleep(1e9))
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed += 1

    async def _wait(self, waiting: Coroutine[Any, Any, None]) -> None:
        try:
            await waiting
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def text(*pieces: str, index: int = 0) -> list[Event]:
    """Return the events of a whole block of text."""
    deltas = [TextDelta(index, piece, piece) for piece in pieces]
    return [TextStart(index), *deltas, TextEnd(index, "".join(pieces))]


def answer(*pieces: str) -> list[Event]:
    """Return the events of a response with one block of text."""
    return [MessageStart("id", "model"), *text(*pieces), DONE]


def cut_call(index: int = 0) -> list[Event]:
    """Return the events of a call whose arguments never end."""
    return [ToolCallStart(index, "c1", "read"), ToolCallDelta(index, '{"path": "/et')]


def shown(events: Iterable[Event]) -> str:
    """Join the text of *events*, with a bar between two deltas."""
    return "|".join(event.text for event in events if isinstance(event, TextDelta))


DONE = Done("stop", AssistantMessage())
