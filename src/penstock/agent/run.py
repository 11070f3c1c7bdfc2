"""`AgentRun`: what whoever gave an agent a prompt holds in their hands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

from msgspec import Struct

from penstock.agent.cancellation import shielded
from penstock.agent.events import AgentEvent
from penstock.agent.subscribers import EventQueue
from penstock.errors import PenstockError
from penstock.messages import ErrorInfo
from penstock.request import Message

T = TypeVar("T")


class Outcome(Struct, frozen=True):
    """How a run ended: the messages that are new, and why it did not end by itself."""

    messages: list[Message]
    error: ErrorInfo | None = None


class AgentRunError(PenstockError):
    """A run ended by an error, by an abort or by `max_turns`.

    *info* says why, *messages* are those that the run added all the same.
    """

    def __init__(self, info: ErrorInfo, messages: list[Message]) -> None:
        super().__init__(info.message)
        self.info = info
        self.messages = messages

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), (self.info, self.messages)


class AgentRun:
    """A run that continues, whether or not anybody looks.

    ``async for`` gives its events, `result` the messages that are new, `error` why it did not end
    by itself. A task that is cancelled while it waits here aborts the run, as does leaving an
    ``async with``; merely looking away does not.
    """

    def __init__(
        self,
        task: asyncio.Task[Outcome],
        outlet: EventQueue,
        abort: Callable[[], Awaitable[None]],
    ) -> None:
        self._task = task
        self._outlet = outlet
        self._abort = abort

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self._task.done()

    @property
    def error(self) -> ErrorInfo | None:
        """Why the run ended: an error, an abort (`kind` ``aborted``) or `max_turns` (its `type`).

        None where it ended by itself, waits for decisions, or has not ended yet.
        """
        if not self._task.done():
            return None
        if self._task.cancelled():
            return ErrorInfo("the run was cancelled", "aborted")
        return self._task.result().error

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentEvent:
        if not await self._until(self._outlet.wait()):
            raise StopAsyncIteration
        return self._outlet.take()

    async def result(self, *, check: bool = False) -> list[Message]:
        """Wait for the end; return the new messages, the last of which may have failed.

        With *check*, raises `AgentRunError` for a run that did not end by itself: see `error`.
        """
        outcome = await self._until(asyncio.shield(self._task))
        if check and outcome.error is not None:
            raise AgentRunError(outcome.error, outcome.messages)
        return outcome.messages

    async def abort(self) -> None:
        """End the run: when this returns, nothing of it runs any more."""
        if not self.ended:
            await self._abort()

    async def _until(self, waiting: Awaitable[T]) -> T:
        """Wait; a cancellation aborts the run, and continues its way when nothing of it is left."""
        try:
            return await waiting
        except asyncio.CancelledError:
            await shielded(self.abort())
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
