"""The task that reads a source and puts its events into the queue of every consumer.

It starts with the first consumer and ends with the response. It holds deltas that may not leave yet
(`Throttle`), folds what has passed into the message (`Record`), and stops reading while more than
`limit` characters wait for the slowest consumer, so that the source and the socket below it wait
too.

Whatever happens to the source, consumers receive exactly one terminal event, and without delay: an
abort ends the response first and then cancels the source. Only the end of an iteration waits for
the source to clean up, for at most `MAX_CLEANUP` seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import suppress
from inspect import isawaitable
from typing import Final

from penstock.apis.errors import aborted_error, error_from_exception, truncated_error
from penstock.builder import MessageBuilder
from penstock.errors import UsageError
from penstock.events import (
    BLOCK_ENDS,
    DELTAS,
    Event,
    Failed,
    TextEnd,
    TextStart,
    ThinkingEnd,
    ThinkingStart,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, Content, ErrorInfo, Text, Thinking, ToolCall
from penstock.streams.queues import ConsumerQueue, Throttle, event_size

INTERVAL: Final = 0.05
"""How many seconds are between two deltas: twenty per second look fluent."""

MAX_PENDING: Final = 65_536
"""How many characters may wait for a consumer: minutes of a model's output."""

MAX_TURN: Final = 64
"""How many events a source may yield in a row before other tasks of the event loop run."""

MAX_CLEANUP: Final = 1.0
"""How many seconds the end of an iteration waits for the source to clean up."""

_CANCELLED: Final = "the source was cancelled"


class Record:
    """Folds events into one message, up to exactly one terminal event.

    A decoder ends the blocks that it starts. A source that raises, is aborted or violates the
    contract of `events` does not. In that case the record ends the open blocks with what has
    arrived (a cut call is incomplete and never executed) and emits `Failed`.
    """

    def __init__(self) -> None:
        self._builder = MessageBuilder()
        self._open: set[int] = set()
        self.add_delta = self._builder.add
        """Fold a delta; raise `UsageError` if its block is not open."""

    @property
    def message(self) -> AssistantMessage:
        """The message so far; the same object every time."""
        return self._builder.message

    @property
    def ended(self) -> bool:
        """Whether the terminal event has passed."""
        return self._builder.ended

    def add(self, event: Event) -> list[Event]:
        """Fold *event*; return it, after the ends of the blocks that a failure left open.

        Raises `UsageError` for an event that may not come here; the message is not changed then.
        """
        before = self._close_blocks() if isinstance(event, Failed) else []
        self._builder.add(event)
        if isinstance(event, TextStart | ThinkingStart | ToolCallStart):
            self._open.add(event.index)
        elif isinstance(event, BLOCK_ENDS):
            self._open.discard(event.index)
        return [*before, event]

    def fail(self, error: ErrorInfo) -> list[Event]:
        """End with *error*; return the ends of the open blocks and the terminal event."""
        was_aborted = error.kind == "aborted"
        return self.add(Failed("aborted" if was_aborted else "error", error, self.message))

    def _close_blocks(self) -> list[Event]:
        content = self.message.content
        ends = [_make_end(index, content[index]) for index in sorted(self._open)]
        for end in ends:
            self._builder.add(end)
        self._open.clear()
        return ends


def _make_end(index: int, block: Content) -> Event:
    match block:
        case Text():
            return TextEnd(index, block.text)
        case Thinking():
            return ThinkingEnd(index, block.text)
        case ToolCall():
            return ToolCallEnd(index, block)
        case _:
            raise AssertionError(f"a block of type {block.type} is never open")


Events = AsyncIterable[Event] | Iterable[Event]
"""A source of events: an async iterable, or one that does not wait."""


class Source:
    """Reads *events* once and closes them; raises `UsageError` if they are not iterable."""

    def __init__(self, events: Events) -> None:
        if not isinstance(events, AsyncIterable | Iterable):
            raise UsageError(f"a stream reads an iterable of events, not {type(events).__name__!r}")
        self._events = events
        self._reader: object = events

    def read(self) -> AsyncIterator[Event]:
        """Start to read."""
        events = self._events
        reader = aiter(events) if isinstance(events, AsyncIterable) else _in_turns(events)
        self._reader = reader
        return reader

    async def close(self) -> None:
        """Close what can be closed; errors are suppressed: they are not part of the response."""
        await _close(self._reader)
        if self._reader is not self._events:
            await _close(self._events)


async def _in_turns(events: Iterable[Event]) -> AsyncIterator[Event]:
    """Read an iterable that does not wait, and let consumers run after each event."""
    iterator = iter(events)
    try:
        for event in iterator:
            yield event
            await asyncio.sleep(0)
    finally:
        await _close(iterator)


async def _close(source: object) -> None:
    """Close *source*, an object of the caller's: a generator, an async generator or neither."""
    # Only generators have these; an iterator may be any object of the caller's.
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    if callable(close):
        with suppress(Exception):
            closed = close()
            if isawaitable(closed):
                await closed


class Pump:
    """Reads *events* for all consumers; `queues` has one queue for each."""

    def __init__(self, events: Events, *, interval: float, limit: int) -> None:
        self.queues: list[ConsumerQueue] = []
        self.ended = False  # whether the terminal event has arrived
        self._source = Source(events)
        self._limit = limit
        self._throttle = Throttle(interval)
        self._record = Record()
        self._loop: asyncio.AbstractEventLoop | None = None  # once started
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self._room = asyncio.Event()
        self._waiting_size = 0  # of the event that waits until the limit allows it
        self._results = 0  # how many consumers wait for the whole response
        self._aborted = False
        self._is_reading = False

    # --- for consumers ---

    @property
    def message(self) -> AssistantMessage:
        """The message, as far as it has arrived."""
        return self._record.message

    @property
    def pending(self) -> int:
        """How many characters the slowest consumer has not taken yet."""
        slowest = 0
        for queue in self.queues:
            slowest = max(slowest, queue.size)
        return self._throttle.size + slowest

    def start(self) -> None:
        """Start to read, once; raise `UsageError` in another event loop than the first time."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            if self._aborted:
                self._end(aborted_error())
            self._task = loop.create_task(self._run(), name="penstock: read a source")
            self._task.add_done_callback(self._on_done)
        elif self._loop is not loop and not self.ended:
            if not self._loop.is_closed():
                raise UsageError("a stream belongs to the event loop in which it was started")
            # The old event belongs to the loop that is closed.
            self._ended = asyncio.Event()
            for queue in self.queues:
                queue.forget_waiters()
            self._end(aborted_error("the event loop ended before the response did"))

    def abort(self) -> None:
        """End the response here; may be called from any thread, any number of times."""
        self._aborted = True
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if self._loop is None:
            if running is not None:
                self.start()
        elif self._loop is running:
            self._stop()
        else:
            with suppress(RuntimeError):  # The loop has ended, and the source with it.
                self._loop.call_soon_threadsafe(self._stop)

    def leave(self, queue: ConsumerQueue) -> None:
        """Remove a consumer; without any, a source that is being read is closed."""
        if queue not in self.queues:
            return
        self.queues.remove(queue)
        queue.clear()
        queue.end()
        if self.queues:
            self.make_room()
        elif self._loop is not None:
            self.abort()

    def make_room(self) -> None:
        """Resume a source that waits, once half of what may wait has been taken."""
        if not self._waiting_size:
            return
        pending = self.pending
        # Half, so that the source is not woken for each event that is taken.
        if not pending or pending + self._waiting_size <= self._limit // 2:
            self._waiting_size = 0
            self._room.set()

    async def wait_for_end(self) -> None:
        """Read to the end, even if no consumer takes the events.

        The limit is suspended meanwhile: the caller wants the whole message in memory, and without
        a consumer the source would wait forever.
        """
        self.start()
        self._results += 1
        self._room.set()
        try:
            if not self.ended:
                await self._ended.wait()
        finally:
            self._results -= 1

    async def wait_for_source(self) -> None:
        """Wait until the source is closed, for at most `MAX_CLEANUP` seconds."""
        task = self._task
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            return
        if task is not asyncio.current_task():
            await asyncio.wait([task], timeout=MAX_CLEANUP)

    # --- the task ---

    async def _run(self) -> None:
        self._is_reading = True
        try:
            if not self.ended:
                await self._read()
            self._end(truncated_error())
        except asyncio.CancelledError:
            self._end(aborted_error(_CANCELLED))
        except Exception as exc:  # noqa: BLE001 - consumers receive any exception as `Failed`
            self._end(error_from_exception(exc))
        await self._source.close()

    async def _read(self) -> None:
        count = 0
        async for event in self._source.read():
            size = event_size(event)
            if not self._has_room(size):
                await self._wait_for_room(size)
            if not self.ended:  # A source may abort its own stream, or ignore its cancellation.
                self._accept(event, size)
            if self.ended:
                return
            count += 1
            if not count % MAX_TURN:
                await asyncio.sleep(0)

    def _accept(self, event: Event, size: int) -> None:
        if not isinstance(event, DELTAS):
            self._put_all(self._record.add(event))
            return
        self._record.add_delta(event)
        if not self._throttle.interval or self._throttle.passes(event, size, self._now()):
            self._put(event, size)
        elif self._timer is None:
            self._set_timer()

    def _put(self, event: Event, size: int) -> None:
        for queue in self.queues:
            queue.put(event, size)

    def _put_all(self, events: list[Event]) -> None:
        self._flush()
        for event in events:
            self._put(event, event_size(event))
        if self._record.ended:
            self.ended = True
            if self._timer is not None:
                self._timer.cancel()
            for queue in self.queues:
                queue.end()
            self._ended.set()

    def _end(self, error: ErrorInfo) -> None:
        """End the response with *error*, unless it has ended."""
        if not self.ended:
            self._put_all(self._record.fail(error))

    def _stop(self) -> None:
        if not self.ended:
            self._end(aborted_error())
            if self._task is not None and self._is_reading:
                self._task.cancel()  # A task that has not run yet could not close the source.

    def _on_done(self, _task: asyncio.Task[None]) -> None:
        """End the response even if other code has cancelled the task."""
        self._end(aborted_error(_CANCELLED))

    # --- the limit ---

    def _has_room(self, size: int) -> bool:
        pending = self.pending
        return not pending or pending + size <= self._limit

    async def _wait_for_room(self, size: int) -> None:
        """Wait until the limit allows *size*; an event above the limit passes alone."""
        if not self._results:
            self._flush()  # Held deltas count against the limit, and consumers cannot take them.
        while not self._results and not self._has_room(size):
            self._waiting_size = size
            self._room.clear()
            await self._room.wait()
        if self._results:  # The queue may grow to the size of the message, not of its deltas.
            self._throttle.interval = max(self._throttle.interval, INTERVAL)

    # --- time ---

    def _now(self) -> float:
        return self._loop.time() if self._loop is not None else 0.0

    def _flush(self) -> None:
        for delta, size in self._throttle.flush(self._now()):
            self._put(delta, size)

    def _set_timer(self) -> None:
        due = self._throttle.due
        if due is not None and self._loop is not None:
            self._timer = self._loop.call_at(due, self._on_time)

    def _on_time(self) -> None:
        """Emit the held deltas, unless they arrived after a flush and have to wait longer."""
        self._timer = None
        due = self._throttle.due
        if due is not None and due > self._now():
            self._set_timer()
        else:
            self._flush()
