"""The same stream for scripts: no ``async``, no loop to run.

The loop is its own and runs only while the script waits for events; in between the source rests,
and so does whatever it reads from.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from penstock.errors import UsageError
from penstock.events import Event
from penstock.messages import AssistantMessage

T = TypeVar("T")


class Stream(Protocol):
    """What is needed of an `EventStream`."""

    @property
    def message(self) -> AssistantMessage:
        """The live message."""

    async def result(self) -> AssistantMessage:
        """Wait for the end."""

    async def batch(self) -> list[Event]:
        """Take what is there."""

    async def aclose(self) -> None:
        """Close the source."""

    def abort(self) -> None:
        """End the answer."""


class SyncStream:
    """Gives the events of *stream* to a ``for`` loop.

    The end of the loop, `result` and `close` end the loop's event loop too; use ``with`` where you
    may leave earlier. Raises `UsageError` where an event loop runs already: there, ``async for``
    reads the stream itself.
    """

    def __init__(self, stream: Stream) -> None:
        _refuse_running_loop()
        self._stream = stream
        self._taken: deque[Event] = deque()
        self._runner: asyncio.Runner | None = None

    @property
    def message(self) -> AssistantMessage:
        """The one live message."""
        return self._stream.message

    def result(self) -> AssistantMessage:
        """Wait for the end and return the message; events that were not taken stay."""
        message = self._run(self._stream.result())
        while batch := self._run(self._stream.batch()):
            self._taken.extend(batch)
        self.close()
        return message

    def abort(self) -> None:
        """End the answer here, as `EventStream.abort` does."""
        self._stream.abort()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if not self._taken:
            self._taken.extend(self._run(self._stream.batch()))
        if not self._taken:
            self.close()
            raise StopIteration
        return self._taken.popleft()

    def close(self) -> None:
        """Close the source and end the loop; again does nothing."""
        if self._runner is not None:
            self._run(self._stream.aclose())
            self._runner.close()
            self._runner = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(UsageError, AttributeError):  # a loop runs here, or making one was refused
            self.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            _refuse_running_loop()
            if self._runner is None:
                self._runner = asyncio.Runner()
            return self._runner.run(coroutine)
        finally:
            coroutine.close()  # where it was refused; one that ran is closed already


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("an event loop is running here: read the stream with `async for`")
