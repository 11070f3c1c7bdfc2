"""How long to wait, and for what: every wait of an answer over HTTP has an end of its own."""

from __future__ import annotations

import asyncio
from math import inf
from types import TracebackType
from typing import Final, Self

from msgspec import Struct

from penstock.errors import UsageError
from penstock.models.http.transport import (
    FirstByteTimeoutError,
    IdleTimeoutError,
    TotalTimeoutError,
    TransportError,
)

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
    """Ends waits for one answer, from now on; `close` when it has ended.

    ``with patience.until(…)`` stands around each wait. A timer for each would cost more than to
    read what is waited for. So there is one for all: when it goes off, it looks whether the wait of
    that moment is over, and is set anew if not.
    """

    __slots__ = ("_began", "_cancelled_before", "_goes_off", "_has_expired", "_late", "_loop",
                 "_task", "_timer", "_until", "ends", "first_byte", "idle")  # fmt: skip

    def __init__(self, timeouts: Timeouts) -> None:
        self.first_byte = _seconds(timeouts.first_byte)
        self.idle = _seconds(timeouts.idle)
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.ends = self._began + _seconds(timeouts.total)
        """When the whole answer has to be there."""
        self._task: asyncio.Task[object] | None = None  # while it waits
        self._until = inf
        self._late: type[TransportError] = TotalTimeoutError
        self._cancelled_before = 0  # how often the task was, when it began to wait
        self._timer: asyncio.TimerHandle | None = None
        self._goes_off = inf  # when the timer does
        self._has_expired = False

    def now(self) -> float:
        """Give the time of the loop."""
        return self._loop.time()

    def passed(self) -> float:
        """Give the seconds since the beginning."""
        return self._loop.time() - self._began

    def until(self, when: float, late: type[TransportError]) -> Self:
        """Wait inside a ``with`` of this; raises *late* at *when*, or earlier at the end of all."""
        if self.ends < when:
            when, late = self.ends, TotalTimeoutError
        self._until, self._late = when, late
        return self

    def __enter__(self) -> None:
        self._task = task = asyncio.current_task(self._loop)
        if task is not None:
            self._cancelled_before = task.cancelling()
        if self._until < self._goes_off:
            self._set_timer()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        has_expired, self._has_expired = self._has_expired, False
        if not has_expired or task is None or not isinstance(exc, asyncio.CancelledError):
            return
        # Who else cancelled the task at the same moment wins, as with `asyncio.timeout`.
        if task.uncancel() <= self._cancelled_before:
            raise self._late(_LATE[self._late]) from None

    def close(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        self.close()
        self._goes_off = self._until
        self._timer = self._loop.call_at(self._goes_off, self._on_time)

    def _on_time(self) -> None:
        self._timer, self._goes_off = None, inf
        if self._task is None:  # The consumer has its turn, who may take its time.
            return
        if self._loop.time() < self._until:
            self._set_timer()
        else:
            self._has_expired = True
            self._task.cancel()


def _seconds(timeout: float | None) -> float:
    return inf if timeout is None else timeout
