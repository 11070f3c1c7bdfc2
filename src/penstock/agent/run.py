"""`AgentRun`: the handle that `Agent.run` returns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from msgspec import Struct

from penstock.agent.cancellation import shielded
from penstock.agent.events import AgentEvent, OutputUpdated
from penstock.agent.subscribers import EventQueue
from penstock.errors import PenstockError
from penstock.messages import AssistantMessage, ErrorInfo, Usage, sum_usage
from penstock.models.catalog import Cost
from penstock.request import Message

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar  # as Python has from 3.13 on

    OutputT = DefaultTypeVar("OutputT", default=Any)
else:
    OutputT = TypeVar("OutputT")

T = TypeVar("T")


class RunResult(Struct, Generic[OutputT], frozen=True):
    """What came of a run: its new messages, and the error that ended it, if any.

    *value* is the typed output, and *has_value* says whether there is one. *cost* is what all
    responses of the run cost, in US dollars; None if the catalog does not have a price.
    """

    messages: list[Message]
    error: ErrorInfo | None = None
    value: Any = None
    has_value: bool = False
    cost: Cost | None = None

    @property
    def output(self) -> OutputT:
        """The output: a value of the agent's output type, or the text of the last response.

        Raises `AgentRunError` if the run has an `error`, or no output because its calls wait for
        decisions.
        """
        self.raise_for_error()
        if not self.has_value:
            reason = "the run has no output: calls wait for decisions, or a hook ended it"
            raise AgentRunError(ErrorInfo(reason, "aborted", "no_output"), self.messages)
        value: OutputT = self.value
        return value

    @property
    def text(self) -> str:
        """The text of the last response; empty if there is none."""
        responses = (one for one in reversed(self.messages) if isinstance(one, AssistantMessage))
        last = next(responses, None)
        return last.text if last is not None else ""

    @property
    def usage(self) -> Usage:
        """The tokens of all responses of the run."""
        return sum_usage(one.usage for one in self.messages if isinstance(one, AssistantMessage))

    def raise_for_error(self) -> Self:
        """Raise `AgentRunError` if the run has an `error`; otherwise return this result."""
        if self.error is not None:
            raise AgentRunError(self.error, self.messages)
        return self


class AgentRunError(PenstockError):
    """A run ended with an error, an abort or at `max_turns`.

    *info* is the reason, and *messages* are those that the run added before.
    """

    def __init__(self, info: ErrorInfo, messages: list[Message]) -> None:
        super().__init__(info.message)
        self.info = info
        self.messages = messages

    # An exception is unpickled with its `args`, which is the message alone.
    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), (self.info, self.messages)


class AgentRun(Generic[OutputT]):
    """A run, which continues whether or not its events are read.

    ``await`` waits for its end and returns a `RunResult`. ``async for`` yields its events, `result`
    returns its new messages, and `error` is the reason if it did not finish normally. A task that
    is cancelled while it waits here aborts the run, and so does leaving ``async with``. Ending the
    iteration does not.
    """

    def __init__(
        self,
        task: asyncio.Task[RunResult[OutputT]],
        queue: EventQueue,
        abort: Callable[[], Awaitable[None]],
    ) -> None:
        self._task = task
        self._queue = queue
        self._abort = abort

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self._task.done()

    @property
    def error(self) -> ErrorInfo | None:
        """Why the run ended: an error, an abort (`kind` ``aborted``) or `max_turns` (its `type`).

        None if it finished normally, waits for decisions, or has not ended yet.
        """
        if not self._task.done():
            return None
        if self._task.cancelled():
            return ErrorInfo("the run was cancelled", "aborted")
        return self._task.result().error

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentEvent:
        if not await self._wait_for(self._queue.wait()):
            raise StopAsyncIteration
        return self._queue.take()

    async def partial_outputs(self) -> AsyncIterator[Any]:
        """Yield the typed output as it grows, as JSON, until the run ends.

        Of updates that arrived together only the last is yielded. If an output is sent back to the
        model, the next one starts from nothing. This reads the events of the run.
        """
        while await self._wait_for(self._queue.wait()):
            last = None
            while self._queue:
                event = self._queue.take()
                last = event if isinstance(event, OutputUpdated) else last
            if last is not None:
                yield last.partial

    def __await__(self) -> Generator[Any, None, RunResult[OutputT]]:
        # The shield keeps a cancelled caller from cancelling the task: `abort` ends it in order.
        return self._wait_for(asyncio.shield(self._task)).__await__()

    async def result(self, *, check: bool = False) -> list[Message]:
        """Wait for the end; return the new messages, the last of which may have failed.

        With *check*, raises `AgentRunError` if the run has an `error`.
        """
        result = await self
        return (result.raise_for_error() if check else result).messages

    async def abort(self) -> None:
        """End the run; nothing of it runs any more when this returns."""
        if not self.ended:
            await self._abort()

    async def _wait_for(self, work: Awaitable[T]) -> T:
        """Await *work*; a cancellation aborts the run and is then raised."""
        try:
            return await work
        except asyncio.CancelledError:
            await shielded(self.abort())
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.abort()
