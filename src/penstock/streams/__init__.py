"""Event streams for consumers: merged, paced, bounded, and always terminated.

asyncio begins here: the packages below do no IO. A consumer iterates an `EventStream`; `pump` is
the task that reads the source; `queues` has what each consumer has not taken yet. `SyncStream` is
the same stream for code without an event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any, Final, Self, TypeVar
from weakref import WeakSet

from penstock.errors import UsageError
from penstock.events import Event
from penstock.messages import AssistantMessage
from penstock.streams.pump import INTERVAL, MAX_PENDING, Events, Pump
from penstock.streams.queues import ConsumerQueue

__all__ = ["INTERVAL", "MAX_PENDING", "EventStream", "SyncStream"]


class EventStream:
    """An async iterator of events: merged, paced, bounded, with exactly one terminal event.

    *events* is an async iterable of events, or an iterable that does not wait. It is read from the
    first ``async for``, `batch` or `result` on. Neighbouring deltas of one type and one index are
    merged and leave at most every *interval* seconds (0 merges nothing); all other events leave at
    once. While more than *limit* characters wait to be taken, the source is not read.

    Errors of the source are not raised: a source that raises, or ends without a terminal event,
    ends in `Failed`, after the ends of its open blocks. Cancelling a consumer that waits closes the
    stream, as does ``async with``. Dropping the stream closes the source too.

    Raises `UsageError` if *events* is not iterable or *interval* or *limit* is out of range.
    """

    def __init__(
        self, events: Events, *, interval: float = INTERVAL, limit: int = MAX_PENDING
    ) -> None:
        if not interval >= 0:
            raise UsageError(f"`interval` must be zero or more seconds, not {interval}")
        if limit < 1:
            raise UsageError(f"`limit` must be one or more characters, not {limit}")
        self._connect(Pump(events, interval=interval, limit=limit), ConsumerQueue())

    def _connect(self, pump: Pump, queue: ConsumerQueue) -> None:
        self._pump = pump
        self._queue = queue
        self._branches: WeakSet[EventStream] | None = None  # once teed
        pump.queues.append(queue)

    # --- the response ---

    @property
    def message(self) -> AssistantMessage:
        """The live message: all that has arrived, which may be more than was taken."""
        return self._pump.message

    @property
    def ended(self) -> bool:
        """Whether the terminal event has arrived."""
        return self._pump.ended

    @property
    def pending(self) -> int:
        """How many characters have arrived and wait for the slowest consumer."""
        return self._pump.pending

    async def result(self) -> AssistantMessage:
        """Wait for the end and return the message, whether the response is done or failed.

        Events that were not taken can still be taken afterwards. The limit is suspended while a
        task waits here, so no other task needs to iterate.
        """
        await self._pump.wait_for_end()
        await self._pump.wait_for_source()
        return self._pump.message

    def abort(self) -> None:
        """End the response: what has arrived stays, `Failed` follows, the source is cancelled.

        Returns at once. Has no effect on a response that has ended. May be called from any task
        and any thread, also before the first event.
        """
        self._pump.abort()

    # --- events ---

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if not self._queue.items and not await self._wait():
            raise StopAsyncIteration
        event = self._queue.take()
        self._pump.make_room()
        return event

    async def batch(self) -> list[Event]:
        """Wait for events and return all that have arrived; an empty list is the end."""
        if not self._queue.items and not await self._wait():
            return []
        events = [self._queue.take() for _ in range(len(self._queue.items))]
        self._pump.make_room()
        return events

    async def _wait(self) -> bool:
        """Wait for an event, or, at the end, until the source is closed."""
        if self._branches is not None:
            raise UsageError("the stream was teed: read its branches")
        if not self._queue.ended:
            self._pump.start()
        try:
            if await self._queue.wait():
                return True
            await self._pump.wait_for_source()
        except asyncio.CancelledError:
            self._leave()
            raise
        return False

    # --- several consumers ---

    def tee(self, n: int = 2) -> tuple[EventStream, ...]:
        """Return *n* streams, each with every event that was not taken yet.

        Each is read at its own pace, and the source waits for the slowest: close a branch that you
        stop reading. `abort` ends the response for all branches, `aclose` only its own, and the
        last one closes the source. This stream yields no more events; its `result`, `message` and
        `abort` work as before, and its `aclose` closes all branches.
        """
        if n < 1:
            raise UsageError(f"`n` must be at least 1, not {n}")
        if self._branches is not None:
            raise UsageError("a stream can be teed once; tee one of its branches")
        branches = tuple(_Branch(self._pump, self._queue.copy()) for _ in range(n))
        self._branches = WeakSet(branches)  # A dropped branch must not hold up the others.
        self._leave()
        return branches

    def sync(self) -> SyncStream:
        """Return this stream for code without an event loop; see `SyncStream`."""
        return SyncStream(self)

    # --- the end ---

    async def aclose(self) -> None:
        """Stop reading: drop the events that were not taken; the last branch closes the source.

        Waits until the source is closed, for at most `MAX_CLEANUP` seconds.
        """
        self._leave()
        for branch in list(self._branches or ()):
            await branch.aclose()
        if not self._pump.queues:
            self._pump.abort()
            await self._pump.wait_for_source()

    def _leave(self) -> None:
        self._pump.leave(self._queue)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        with suppress(AttributeError):  # `__init__` may have raised before there was a pump.
            self._leave()


class _Branch(EventStream):
    """One of the streams that a stream was teed into."""

    def __init__(self, pump: Pump, queue: ConsumerQueue) -> None:
        self._connect(pump, queue)


# --- for code without an event loop ---
#
# It has an event loop of its own, which runs only while the caller waits for events. In between,
# the source is paused, and so is the connection that it reads from.

T = TypeVar("T")

_ADVICE: Final = "read the stream with `async for`"


class SyncStream:
    """An iterator over the events of *stream*.

    The end of the iteration, `result` and `close` also close its event loop; use ``with`` if you
    may stop earlier. Raises `UsageError` if an event loop is running: use ``async for`` there.
    """

    def __init__(self, stream: EventStream) -> None:
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

    def __exit__(self, *_exc: object) -> None:
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
