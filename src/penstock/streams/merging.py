"""Join neighbouring deltas, and say when they may leave.

Only neighbours of one type and one index are joined, so order stays as it was: of text for block 0,
arguments for block 1 and text for block 0, nothing is joined. When deltas leave depends on when
they came and on nothing else; how fast somebody reads has no say. There is not a clock in here: the
time is passed in.
"""

from __future__ import annotations

from math import inf
from typing import Final

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

DELTAS: Final = (TextDelta, ThinkingDelta, ToolCallDelta)
"""The types of the events that may be joined with their neighbours."""

# Tuples, since a union in a call of `isinstance` is made again each time.
_TEXTS: Final = (TextDelta, ThinkingDelta, TextEnd, ThinkingEnd)

Sized = tuple[Event, int]
"""An event and what it counts for against a limit."""


def size_of(event: Event) -> int:
    """Return what *event* counts for: its characters, or those of its raw if more; at least one.

    Raises `UsageError` for what is not an event.
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
        raise UsageError(f"a source gives events, not {type(event).__name__!r}")
    return max(characters, len(event.raw), 1)


def joined(deltas: list[Delta]) -> Delta:
    """Join *deltas* of one type and one index into one; what each of them consumed is joined too.

    Raises `UsageError` when they are not of one kind.
    """
    first = deltas[0]
    if len(deltas) == 1:
        return first
    if any(not _are_neighbours(first, delta) for delta in deltas):
        raise UsageError("only deltas of one type and one index are joined")
    raw = "".join([delta.raw for delta in deltas])
    if isinstance(first, ToolCallDelta):
        pieces = [delta.arguments for delta in deltas if isinstance(delta, ToolCallDelta)]
        return ToolCallDelta(first.index, "".join(pieces), raw)
    texts = [delta.text for delta in deltas if not isinstance(delta, ToolCallDelta)]
    return type(first)(first.index, "".join(texts), raw)


class Throttle:
    """Holds deltas back so that they leave at most every *interval* seconds; 0 holds none.

    The first leaves at once. Those that follow too soon are kept, joined where they are neighbours,
    until `due`; whoever has something else to deliver calls `flush` first.
    """

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.size = 0  # what the held deltas count for
        self._runs: list[list[Delta]] = []  # each of one type and one index
        self._left = -inf  # when deltas left last

    @property
    def due(self) -> float | None:
        """When the held deltas are to leave; None where none are held."""
        return self._left + self.interval if self._runs else None

    def passes(self, delta: Delta, size: int, now: float) -> bool:
        """Return whether *delta* leaves at once; if not, it is held."""
        if not self._runs and now - self._left >= self.interval:
            self._left = now
            return True
        self._hold(delta)
        self.size += size
        return False

    def flush(self, now: float) -> list[Sized]:
        """Return what is held, joined, in the order in which it came."""
        if not self._runs:
            return []
        leaving = [joined(run) for run in self._runs]
        self._runs.clear()
        self._left, self.size = now, 0
        return [(delta, size_of(delta)) for delta in leaving]

    def _hold(self, delta: Delta) -> None:
        if self._runs and _are_neighbours(self._runs[-1][0], delta):
            self._runs[-1].append(delta)
        else:
            self._runs.append([delta])


def _are_neighbours(one: Delta, two: Delta) -> bool:
    return type(one) is type(two) and one.index == two.index
