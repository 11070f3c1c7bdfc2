"""How long to wait, and for what: every wait of an answer over HTTP has an end of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from math import inf
from typing import Final, TypeVar

from msgspec import Struct

from penstock.errors import UsageError
from penstock.models.http.transport import (
    FirstByteTimeoutError,
    IdleTimeoutError,
    TotalTimeoutError,
    TransportError,
)

T = TypeVar("T")

_LATE: Final[dict[type[TransportError], str]] = {
    FirstByteTimeoutError: "the first byte did not come in time",
    IdleTimeoutError: "nothing came for too long in the middle of the answer",
    TotalTimeoutError: "the whole answer took too long",
}


class Timeouts(Struct, frozen=True):
    """How many seconds each wait may last; None is for ever.

    *connect* is to be connected, *first_byte* from the sending of the call to the first byte of
    the body, *idle* between two reads, *total* for the whole answer with all its tries. Models on
    small machines take minutes to read a long prompt, hence the default for the first byte.
    """

    connect: float | None = 10.0
    first_byte: float | None = 300.0
    idle: float | None = 120.0
    total: float | None = 3600.0

    def __post_init__(self) -> None:
        waits = (self.connect, self.first_byte, self.idle, self.total)
        if any(seconds is not None and not seconds > 0 for seconds in waits):
            raise UsageError("a timeout is more than zero seconds, or None")


class Patience:
    """Waits for one answer, from now on; `close` when it has ended.

    A timer for each wait would cost more than to read what is waited for. So there is one for all:
    when it goes off, it looks whether the wait of that moment is over, and is set anew if not.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self.first_byte = _seconds(timeouts.first_byte)
        self.idle = _seconds(timeouts.idle)
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.ends = self._began + _seconds(timeouts.total)
        """When the whole answer has to be there."""
        self._task: asyncio.Task[object] | None = None  # while it waits
        self._until = inf
        self._timer: asyncio.TimerHandle | None = None
        self._has_expired = False

    def now(self) -> float:
        """Give the time of the loop."""
        return self._loop.time()

    def passed(self) -> float:
        """Give the seconds since the beginning."""
        return self._loop.time() - self._began

    async def wait(self, waiting: Awaitable[T], until: float, late: type[TransportError]) -> T:
        """Wait until *until* and raise *late* then; the end of it all may come before that."""
        if self.ends < until:
            until, late = self.ends, TotalTimeoutError
        task = asyncio.current_task()
        if task is None or until == inf:
            return await waiting
        cancelled_before = task.cancelling()
        self._task, self._until = task, until
        self._set_timer(until)
        try:
            return await waiting
        except asyncio.CancelledError:
            # Who else cancelled the task at the same moment wins, as with `asyncio.timeout`.
            if self._has_expired and task.uncancel() <= cancelled_before:
                raise late(_LATE[late]) from None
            raise
        finally:
            self._task, self._has_expired = None, False

    def close(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if self._task is None:  # The consumer has its turn, who may take its time.
            return
        if self._loop.time() < self._until:
            self._set_timer(self._until)
        else:
            self._has_expired = True
            self._task.cancel()


def _seconds(timeout: float | None) -> float:
    return inf if timeout is None else timeout
