"""A source of events, whatever it is: read one by one, and closed when nobody reads on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import suppress
from inspect import isawaitable

from penstock.errors import UsageError
from penstock.events import Event

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
        """Close what can be closed; how that goes is no part of the answer."""
        await _close(self._reader)
        if self._reader is not self._events:
            await _close(self._events)


async def _in_turns(events: Iterable[Event]) -> AsyncIterator[Event]:
    """Read what does not wait, and give consumers their turn after each event."""
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
