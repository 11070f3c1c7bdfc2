"""`EventStream`: what a consumer of an answer holds in its hands."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self
from weakref import WeakSet

from penstock.errors import UsageError
from penstock.events import Event
from penstock.messages import AssistantMessage
from penstock.streams.pump import INTERVAL, MAX_PENDING, ConsumerQueue, Events, Pump
from penstock.streams.sync import SyncStream


class EventStream:
    """Reads *events* and gives them on: merged, paced, bounded, with exactly one terminal event.

    *events* is an async iterable of events, or one that does not wait. It is read from the first
    ``async for``, `batch` or `result` on. Neighbouring deltas of one type and one index leave at
    most every *interval* seconds, joined (0 joins nothing); anything else leaves at once. While
    more than *limit* characters wait to be taken, the source is not read.

    Nothing that the source does is raised here: one that raises, or ends without a terminal event,
    ends in `Failed`, after the blocks that it left open. A consumer whose task is cancelled while
    it waits closes the stream, as does ``async with``; dropping the stream closes the source too.

    Raises `UsageError` for a source, an interval or a limit that cannot be one.
    """

    def __init__(
        self, events: Events, *, interval: float = INTERVAL, limit: int = MAX_PENDING
    ) -> None:
        if not interval >= 0:
            raise UsageError(f"an interval is zero or more seconds, not {interval}")
        if limit < 1:
            raise UsageError(f"a limit is one or more characters, not {limit}")
        self._connect(Pump(events, interval=interval, limit=limit), ConsumerQueue())

    def _connect(self, pump: Pump, outlet: ConsumerQueue) -> None:
        self._pump = pump
        self._outlet = outlet
        self._branches: WeakSet[EventStream] | None = None  # once teed
        pump.outlets.append(outlet)

    # --- the answer ---

    @property
    def message(self) -> AssistantMessage:
        """The one live message: what has arrived, which may be more than what was taken yet."""
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
        """Wait for the end and return the message, whether the answer is done or failed.

        What nobody has taken by then stays to be taken. While somebody waits here the limit does
        not hold, so this needs nobody who iterates.
        """
        await self._pump.wait_for_end()
        await self._pump.wait_for_source()
        return self._pump.message

    def abort(self) -> None:
        """End the answer here: what has arrived stays, `Failed` follows, the source is cancelled.

        Returns at once and does nothing to an answer that has ended. May be called from any task
        and any thread, before the first event too.
        """
        self._pump.abort()

    # --- events ---

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if not self._outlet.events and not await self._wait():
            raise StopAsyncIteration
        event = self._outlet.take()
        self._pump.make_room()
        return event

    async def batch(self) -> list[Event]:
        """Wait for events and take all that are there; an empty list is the end."""
        if not self._outlet.events and not await self._wait():
            return []
        events = [self._outlet.take() for _ in range(len(self._outlet.events))]
        self._pump.make_room()
        return events

    async def _wait(self) -> bool:
        """Wait for an event; at the end, until the source is closed."""
        if self._branches is not None:
            raise UsageError("a stream that was teed is read from its branches")
        if not self._outlet.ended:
            self._pump.start()
        try:
            if await self._outlet.wait():
                return True
            await self._pump.wait_for_source()
        except asyncio.CancelledError:
            self._leave()
            raise
        return False

    # --- several consumers ---

    def tee(self, n: int = 2) -> tuple[EventStream, ...]:
        """Make *n* streams of this one, each with every event that was not taken yet.

        Each is read at its own pace, and the source waits for the slowest: close the one that you
        stop reading, and it holds up nobody. `abort` ends the answer for all of them, `aclose` only
        its own branch, and the last one closes the source. This stream itself gives no more events;
        its `result`, `message` and `abort` continue as before, and `aclose` closes all branches.
        """
        if n < 1:
            raise UsageError(f"a stream is teed into one or more, not {n}")
        if self._branches is not None:
            raise UsageError("a stream is teed once; its branches may be teed again")
        branches = tuple(_Branch(self._pump, self._outlet.copy()) for _ in range(n))
        self._branches = WeakSet(branches)  # so that one that is dropped holds up nobody
        self._leave()
        return branches

    def sync(self) -> SyncStream:
        """Read this stream in a script, without a loop of your own; see `SyncStream`."""
        return SyncStream(self)

    # --- the end ---

    async def aclose(self) -> None:
        """Stop reading: what was not taken is dropped, and the source is closed with the last one.

        Waits until the source is closed, though not for ever.
        """
        self._leave()
        for branch in list(self._branches or ()):
            await branch.aclose()
        if not self._pump.outlets:
            self._pump.abort()
            await self._pump.wait_for_source()

    def _leave(self) -> None:
        self._pump.leave(self._outlet)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if hasattr(self, "_pump"):  # not where making one was refused
            self._leave()


class _Branch(EventStream):
    """One of the streams that a stream was teed into."""

    def __init__(self, pump: Pump, outlet: ConsumerQueue) -> None:
        self._connect(pump, outlet)
