"""The one task that reads a source, and hands what comes to every consumer.

It begins with the first consumer and ends with the answer. Between the two it holds back what may
not leave yet (`Throttle`), keeps the account of what has passed (`Record`), and stops reading while
more than `limit` characters wait for the slowest consumer, so that the source, and the socket
after it, has to wait too.

Whatever happens to the source, consumers see exactly one terminal event, and see it at once: an
abort ends the answer first and cancels the source then. Only the very end of an iteration waits for
the source to clean up, and that not for ever.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import suppress
from inspect import isawaitable
from typing import Final

from penstock.builder import MessageBuilder
from penstock.errors import UsageError
from penstock.events import (
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
from penstock.streams import errors
from penstock.streams.merging import DELTAS, Sized, Throttle, size_of

# One consumer's share: the events that may leave and that it has not taken yet.


class ConsumerQueue:
    """A queue with one end: whoever reads it, at a pace of its own."""

    __slots__ = ("_arrived", "_has_waiters", "ended", "events", "size")

    def __init__(self, events: Iterable[Sized] = (), *, ended: bool = False) -> None:
        self.events = deque(events)
        self._arrived = asyncio.Event()
        self._has_waiters = False
        self.size = sum(size for _, size in self.events)
        self.ended = ended  # nothing more will come

    def copy(self) -> ConsumerQueue:
        """Make another outlet for the same events."""
        return ConsumerQueue(self.events, ended=self.ended)

    def put(self, event: Event, size: int) -> None:
        """Add *event*, which counts for *size*."""
        self.events.append((event, size))
        self.size += size
        if self._has_waiters:
            self._wake()

    def take(self) -> Event:
        """Take the next event; there has to be one."""
        event, size = self.events.popleft()
        self.size -= size
        return event

    def end(self) -> None:
        """Let whoever waits know that nothing more will come."""
        self.ended = True
        self._wake()

    def clear(self) -> None:
        """Forget what nobody will take."""
        self.events.clear()
        self.size = 0

    def forget_waiters(self) -> None:
        """Wake nobody any more who waits now."""
        self._arrived = asyncio.Event()

    async def wait(self) -> bool:
        """Wait for an event; return whether one is there, or the end has come."""
        while not self.events and not self.ended:
            self._has_waiters = True
            self._arrived.clear()
            await self._arrived.wait()
        return bool(self.events)

    def _wake(self) -> None:
        self._has_waiters = False
        self._arrived.set()


# What has passed, as a message, and how to end it correctly from wherever it stands.
#
# A decoder closes what it opens. A source that dies, is aborted or breaks the contract of
# `events` does not: then the record closes the open blocks with what had arrived (a call that
# was cut is not complete and is never executed) and ends in `Failed`.


class Record:
    """Folds what a source gives into one message, up to exactly one terminal event."""

    def __init__(self) -> None:
        self._builder = MessageBuilder()
        self._open: set[int] = set()
        self.add_delta = self._builder.add
        """Fold a delta; raise `UsageError` where its block is not open."""

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

        Raises `UsageError` for an event that may not come here; the message stays as it was.
        """
        before = self._close_blocks() if isinstance(event, Failed) else []
        self._builder.add(event)
        match event:
            case TextStart() | ThinkingStart() | ToolCallStart():
                self._open.add(event.index)
            case TextEnd() | ThinkingEnd() | ToolCallEnd():
                self._open.discard(event.index)
        return [*before, event]

    def fail(self, error: ErrorInfo) -> list[Event]:
        """End with *error*; return the ends of the open blocks and the terminal event."""
        was_aborted = error.kind == "aborted"
        return self.add(Failed("aborted" if was_aborted else "error", error, self.message))

    def _close_blocks(self) -> list[Event]:
        content = self.message.content
        ends = [_end_of(index, content[index]) for index in sorted(self._open)]
        for end in ends:
            self._builder.add(end)
        self._open.clear()
        return ends


def _end_of(index: int, block: Content) -> Event:
    match block:
        case Text():
            return TextEnd(index, block.text)
        case Thinking():
            return ThinkingEnd(index, block.text)
        case ToolCall():
            return ToolCallEnd(index, block)
        case _:
            raise AssertionError(f"a block of type {block.type} is never open")


# A source of events, whatever it is: read one by one, and closed when nobody reads on.


Events = AsyncIterable[Event] | Iterable[Event]
"""What a stream can read: anything that gives events, waiting or not."""


class Source:
    """Reads *events* once; raises `UsageError` for what gives none at all."""

    def __init__(self, events: Events) -> None:
        if not isinstance(events, AsyncIterable | Iterable):
            raise UsageError(f"a stream reads an iterable of events, not {type(events).__name__!r}")
        self._events = events
        self._reader: object = events

    def read(self) -> AsyncIterator[Event]:
        """Begin to read."""
        if isinstance(self._events, AsyncIterable):
            reader = aiter(self._events)
        else:
            reader = _in_turns(self._events)
        self._reader = reader
        return reader

    async def close(self) -> None:
        """Close what can be closed; how that goes is not a part of the answer."""
        await _close(self._reader)
        if self._reader is not self._events:
            await _close(self._events)


async def _in_turns(events: Iterable[Event]) -> AsyncIterator[Event]:
    """Read what does not wait, and return consumers their turn after each event."""
    iterator = iter(events)
    try:
        for event in iterator:
            yield event
            await asyncio.sleep(0)
    finally:
        await _close(iterator)


async def _close(source: object) -> None:
    closing = getattr(source, "aclose", None) or getattr(source, "close", None)
    if callable(closing):
        with suppress(Exception):
            closed = closing()
            if isawaitable(closed):
                await closed


INTERVAL: Final = 0.05
"""How many seconds lie between two deltas: twenty a second look fluent."""

MAX_PENDING: Final = 65_536
"""How many characters may wait for a consumer: minutes of a model's talk."""

MAX_TURN: Final = 64
"""How many events a source may give in a row before others on the loop have their turn."""

MAX_CLEANUP: Final = 1.0
"""How many seconds the end of an iteration waits for a source that cleans up."""


class Pump:
    """Reads *events* for all consumers; each has an `ConsumerQueue` in `outlets`."""

    def __init__(self, events: Events, *, interval: float, limit: int) -> None:
        self.outlets: list[ConsumerQueue] = []
        self.ended = False  # whether the terminal event has arrived
        self._source = Source(events)
        self._limit = limit
        self._throttle = Throttle(interval)
        self._record = Record()
        self._loop: asyncio.AbstractEventLoop | None = None  # once begun
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self._room = asyncio.Event()
        self._waits_with = 0  # the size of the event that there is not a room for
        self._results = 0  # how many wait for the whole answer
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
        for outlet in self.outlets:
            slowest = max(slowest, outlet.size)
        return self._throttle.size + slowest

    def start(self) -> None:
        """Begin to read, once; raise `UsageError` in another loop than the first time."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            if self._aborted:
                self._end(errors.aborted())
            self._task = loop.create_task(self._run(), name="penstock: read a source")
            self._task.add_done_callback(self._on_done)
        elif self._loop is not loop and not self.ended:
            if not self._loop.is_closed():
                raise UsageError("a stream belongs to the event loop in which it was begun")
            self._forget_waiters()
            self._end(errors.aborted(errors.LOOP_ENDED))

    def abort(self) -> None:
        """End the answer here; may be called anywhere, any number of times."""
        self._aborted = True
        running = _running_loop()
        if self._loop is None:
            if running is not None:
                self.start()
        elif self._loop is running:
            self._stop()
        else:
            with suppress(RuntimeError):  # the loop has ended, and the source with it
                self._loop.call_soon_threadsafe(self._stop)

    def leave(self, outlet: ConsumerQueue) -> None:
        """Count a consumer out; without any, a source that is being read is closed."""
        if outlet not in self.outlets:
            return
        self.outlets.remove(outlet)
        outlet.clear()
        outlet.end()
        if self.outlets:
            self.make_room()
        elif self._loop is not None:
            self.abort()

    def make_room(self) -> None:
        """Let the source continue if it waits and half of what may wait has been taken."""
        if not self._waits_with:
            return
        pending = self.pending
        if not pending or pending + self._waits_with <= self._limit // 2:
            self._waits_with = 0
            self._room.set()

    async def wait_for_end(self) -> None:
        """Read to the end, also where nobody takes what comes: the limit does not hold meanwhile.

        Whoever asks for the whole answer has room for it; and the alternative is to wait for ever.
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
        """Wait until the source is closed, for `MAX_CLEANUP` seconds at most."""
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
            self._end(errors.truncated())
        except asyncio.CancelledError:
            self._end(errors.aborted(errors.CANCELLED))
        except Exception as exc:  # noqa: BLE001 - whatever it is, consumers are told
            self._end(errors.error_of(exc))
        await self._source.close()

    async def _read(self) -> None:
        given = 0
        async for event in self._source.read():
            size = size_of(event)
            if not self._has_room(size):
                await self._wait_for_room(size)
            if not self.ended:  # A source may abort its own stream, or take no notice of an abort.
                self._accept(event, size)
            if self.ended:
                return
            given += 1
            if not given % MAX_TURN:
                await asyncio.sleep(0)

    def _accept(self, event: Event, size: int) -> None:
        if not isinstance(event, DELTAS):
            passed = self._record.add(event)
            self._flush()
            self._put_all(passed)
        else:
            self._record.add_delta(event)
            if not self._throttle.interval or self._throttle.passes(event, size, self._now()):
                self._put(event, size)
            elif self._timer is None:
                self._set_timer()

    def _put(self, event: Event, size: int) -> None:
        for outlet in self.outlets:
            outlet.put(event, size)

    def _put_all(self, events: list[Event]) -> None:
        for event in events:
            self._put(event, size_of(event))
        if self._record.ended:
            self._close_outlets()

    def _end(self, error: ErrorInfo) -> None:
        """End the answer with *error*, unless it has ended."""
        if not self.ended:
            passed = self._record.fail(error)
            self._flush()
            self._put_all(passed)

    def _close_outlets(self) -> None:
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()
        for outlet in self.outlets:
            outlet.end()
        self._ended.set()

    def _stop(self) -> None:
        if not self.ended:
            self._end(errors.aborted())
            if self._task is not None and self._is_reading:
                self._task.cancel()  # One that has not begun could not close the source.

    def _on_done(self, _task: asyncio.Task[None]) -> None:
        """See to it that even a task that somebody else killed leaves nobody waiting."""
        self._end(errors.aborted(errors.CANCELLED))

    def _forget_waiters(self) -> None:
        """Leave those alone who waited in a loop that has ended: nothing can wake them."""
        self._ended = asyncio.Event()
        for outlet in self.outlets:
            outlet.forget_waiters()

    # --- room ---

    def _has_room(self, size: int) -> bool:
        pending = self.pending
        return not pending or pending + size <= self._limit

    async def _wait_for_room(self, size: int) -> None:
        """Wait until there is room for *size*; an event above the limit goes through alone."""
        if not self._results:
            self._flush()  # what is held back fills the room, and nobody can take it
        while not self._results and not self._has_room(size):
            self._waits_with = size
            self._room.clear()
            await self._room.wait()
        if self._results:  # Nobody may be taking this: let it cost what the message costs.
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
        """Let the held deltas go; what came since an earlier flush may have to wait longer."""
        self._timer = None
        due = self._throttle.due
        if due is not None and due > self._now():
            self._set_timer()
        else:
            self._flush()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
