"""What one consumer has not taken yet: queues, and deltas that are merged and paced.

Only neighbouring deltas of one type and one index are merged, so the order never changes: of text
for block 0, arguments for block 1 and text for block 0, nothing is merged. When deltas leave
depends only on when they arrived, not on how fast a consumer reads. The time is passed in.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from math import inf
from typing import Final, Generic, TypeVar

from penstock import _json
from penstock.errors import UsageError
from penstock.events import (
    Delta,
    Event,
    Part,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
)

T = TypeVar("T")

# A tuple: a union in a call of `isinstance` would be built again for each event.
_TEXTS: Final = (TextDelta, ThinkingDelta, TextEnd, ThinkingEnd)

Sized = tuple[Event, int]
"""An event and its size, which counts against a limit."""


class WaitQueue(Generic[T]):
    """A queue whose producer never waits and whose consumer waits for the next item or the end."""

    __slots__ = ("_arrived", "_has_waiters", "ended", "items")

    def __init__(self, items: Iterable[T] = (), *, ended: bool = False) -> None:
        self.items = deque(items)
        self.ended = ended  # nothing more will come
        self._arrived = asyncio.Event()
        self._has_waiters = False

    def __len__(self) -> int:
        return len(self.items)

    def end(self) -> None:
        """Note that nothing more will come, and wake the consumer."""
        self.ended = True
        self._wake()

    def clear(self) -> None:
        """Drop all items."""
        self.items.clear()

    def forget_waiters(self) -> None:
        """Drop consumers that wait in an event loop that has ended: nothing can wake them."""
        self._arrived = asyncio.Event()

    async def wait(self) -> bool:
        """Wait for an item or the end; return whether there is an item."""
        while not self.items and not self.ended:
            self._has_waiters = True
            self._arrived.clear()
            await self._arrived.wait()
        return bool(self.items)

    def _wake(self) -> None:
        self._has_waiters = False
        self._arrived.set()


class ConsumerQueue(WaitQueue[Sized]):
    """The events that one consumer of a stream has not taken yet."""

    __slots__ = ("size",)

    def __init__(self, items: Iterable[Sized] = (), *, ended: bool = False) -> None:
        super().__init__(items, ended=ended)
        self.size = sum(size for _, size in self.items)

    def copy(self) -> ConsumerQueue:
        """Return a queue with the same events."""
        return ConsumerQueue(self.items, ended=self.ended)

    def put(self, event: Event, size: int) -> None:
        """Add *event*."""
        self.items.append((event, size))
        self.size += size
        if self._has_waiters:
            self._wake()

    def take(self) -> Event:
        """Return the next event; there must be one."""
        event, size = self.items.popleft()
        self.size -= size
        return event

    def clear(self) -> None:
        """Drop all events."""
        super().clear()
        self.size = 0


def event_size(event: Event) -> int:
    """Return the size of *event*: its characters, or those of its `raw` if more; at least one.

    Raises `UsageError` for a value that is not an event.
    """
    if isinstance(event, _TEXTS):
        characters = len(event.text)
    elif isinstance(event, ToolCallDelta):
        characters = len(event.arguments)
    elif isinstance(event, Part):
        characters = len(_json.encode(event.part.data))
    elif isinstance(event, Event):
        characters = 0
    else:
        raise UsageError(f"a source must yield events, not {type(event).__name__!r}")
    return max(characters, len(event.raw), 1)


def merge_deltas(deltas: list[Delta]) -> Delta:
    """Return *deltas* as one; their `raw` is joined too.

    Raises `UsageError` if they are not of one type and one index.
    """
    first = deltas[0]
    if len(deltas) == 1:
        return first
    if any(not _are_alike(first, delta) for delta in deltas):
        raise UsageError("only deltas of one type and one index can be merged")
    raw = "".join([delta.raw for delta in deltas])
    if isinstance(first, ToolCallDelta):
        pieces = [delta.arguments for delta in deltas if isinstance(delta, ToolCallDelta)]
        return ToolCallDelta(first.index, "".join(pieces), raw)
    texts = [delta.text for delta in deltas if not isinstance(delta, ToolCallDelta)]
    return type(first)(first.index, "".join(texts), raw)


class Throttle:
    """Holds deltas so that they leave at most every *interval* seconds; 0 holds none.

    The first delta leaves at once. Deltas that follow too soon are held until `due` and merged
    with their neighbours. Call `flush` before any other event leaves.
    """

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.size = 0  # of the held deltas
        self._runs: list[list[Delta]] = []  # each of one type and one index
        self._left = -inf  # when deltas left last

    @property
    def due(self) -> float | None:
        """When the held deltas are to leave, or None."""
        return self._left + self.interval if self._runs else None

    def passes(self, delta: Delta, size: int, now: float) -> bool:
        """Return whether *delta* leaves at once; otherwise it is held."""
        if not self._runs and now - self._left >= self.interval:
            self._left = now
            return True
        if self._runs and _are_alike(self._runs[-1][0], delta):
            self._runs[-1].append(delta)
        else:
            self._runs.append([delta])
        self.size += size
        return False

    def flush(self, now: float) -> list[Sized]:
        """Return the held deltas, merged, in order of arrival."""
        if not self._runs:
            return []
        leaving = [merge_deltas(run) for run in self._runs]
        self._runs.clear()
        self._left, self.size = now, 0
        return [(delta, event_size(delta)) for delta in leaving]


def _are_alike(one: Delta, two: Delta) -> bool:
    return type(one) is type(two) and one.index == two.index
