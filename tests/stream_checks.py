"""What tests of streams run on: a loop whose time is virtual, and sources that tell what they saw.

Nothing sleeps here. When nothing is left to do but wait for a timer, the clock jumps to it; when
there is not even a timer, the test has hung, and fails at once. Every run counts its tasks.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, TypeVar

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

T = TypeVar("T")

Step = Event | float | BaseException
"""What a scripted source does next: give an event, wait so many seconds, raise."""


class VirtualSelector(selectors.SelectSelector):
    """Lets no time pass: waiting moves the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("nothing will ever happen again: the test hangs")
        self.now += max(timeout, 0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that lives by the clock of its selector, and keeps what it is asked to report."""

    def __init__(self) -> None:
        self.clock = VirtualSelector()
        self.reports: list[dict[str, Any]] = []
        super().__init__(self.clock)
        self.set_exception_handler(lambda _loop, report: self.reports.append(report))

    def time(self) -> float:
        return self.clock.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run *main* in virtual time; fail if it leaves a task, or something that nobody caught."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(_counted(main))
    assert not loop.reports, loop.reports
    return result


async def _counted(main: Coroutine[Any, Any, T]) -> T:
    result = await main
    await turn()  # What was closed without waiting has one turn to go.
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"a task was left behind: {left}"
    return result


async def turn(times: int = 1) -> None:
    """Let the loop turn."""
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
    """Give a whole block of text."""
    deltas = [TextDelta(index, piece, piece) for piece in pieces]
    return [TextStart(index), *deltas, TextEnd(index, "".join(pieces))]


def answer(*pieces: str) -> list[Event]:
    """Give a whole answer of one block of text."""
    return [MessageStart("id", "model"), *text(*pieces), DONE]


def cut_call(index: int = 0) -> list[Event]:
    """Give a call whose arguments never end."""
    return [ToolCallStart(index, "c1", "read"), ToolCallDelta(index, '{"path": "/et')]


def shown(events: Iterable[Event]) -> str:
    """Join the text of *events*, with a bar between two deltas."""
    return "|".join(event.text for event in events if isinstance(event, TextDelta))


DONE = Done("stop", AssistantMessage())
