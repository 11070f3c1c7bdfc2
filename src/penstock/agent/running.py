"""`AgentRun`: what whoever gave an agent a prompt holds in their hands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

from penstock.agent.events import AgentEvent
from penstock.agent.outlets import Outlet
from penstock.agent.tools.waiting import to_the_end
from penstock.requests import Message

T = TypeVar("T")


class AgentRun:
    """A run that goes on, whether or not anybody looks.

    ``async for`` gives its events, `result` the messages that are new. A task that is cancelled
    while it waits here aborts the run, as does leaving an ``async with``; merely looking away does
    not.
    """

    def __init__(
        self,
        task: asyncio.Task[list[Message]],
        outlet: Outlet,
        abort: Callable[[], Awaitable[None]],
    ) -> None:
        self._task = task
        self._outlet = outlet
        self._abort = abort

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self._task.done()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentEvent:
        if not await self._until(self._outlet.wait()):
            raise StopAsyncIteration
        return self._outlet.take()

    async def result(self) -> list[Message]:
        """Wait for the end; give the new messages, the last of which may have failed."""
        return await self._until(asyncio.shield(self._task))

    async def abort(self) -> None:
        """End the run: when this returns, nothing of it runs any more."""
        if not self.ended:
            await self._abort()

    async def _until(self, waiting: Awaitable[T]) -> T:
        """Wait; a cancellation aborts the run, and goes on its way when nothing of it is left."""
        try:
            return await waiting
        except asyncio.CancelledError:
            await to_the_end(self.abort())
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.abort()
