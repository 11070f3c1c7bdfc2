"""The same stream for code without an event loop.

It has an event loop of its own, which runs only while the caller waits for events. In between, the
source is paused, and so is the connection that it reads from.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from penstock.errors import UsageError
from penstock.events import Event
from penstock.messages import AssistantMessage

T = TypeVar("T")

_ADVICE: Final = "read the stream with `async for`"


class Stream(Protocol):
    """The members of `EventStream` that `SyncStream` uses."""

    @property
    def message(self) -> AssistantMessage:
        """The live message."""

    async def result(self) -> AssistantMessage:
        """Wait for the end."""

    async def batch(self) -> list[Event]:
        """Wait for events and return all that have arrived."""

    async def aclose(self) -> None:
        """Close the source."""

    def abort(self) -> None:
        """End the response."""


class SyncStream:
    """An iterator over the events of *stream*.

    The end of the iteration, `result` and `close` also close its event loop; use ``with`` if you
    may stop earlier. Raises `UsageError` if an event loop is running: use ``async for`` there.
    """

    def __init__(self, stream: Stream) -> None:
        refuse_running_loop(_ADVICE)
        self._stream = stream
        self._taken: deque[Event] = deque()
        self._runner: asyncio.Runner | None = None

    @property
    def message(self) -> AssistantMessage:
        """The live message."""
        return self._stream.message

    def result(self) -> AssistantMessage:
        """Wait for the end and return the message; events can still be taken afterwards."""
        message = self._run(self._stream.result())
        while batch := self._run(self._stream.batch()):
            self._taken.extend(batch)
        self.close()
        return message

    def abort(self) -> None:
        """End the response, as `EventStream.abort` does."""
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
        """Close the source and the event loop; a second call has no effect."""
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
        with suppress(UsageError, AttributeError):  # A loop is running, or `__init__` raised.
            self.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            refuse_running_loop(_ADVICE)
            if self._runner is None:
                self._runner = asyncio.Runner()
            return self._runner.run(coroutine)
        finally:
            coroutine.close()  # A coroutine that did not run would warn.


def refuse_running_loop(advice: str) -> None:
    """Raise `UsageError` with *advice* if an event loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(f"an event loop is running: {advice}")
