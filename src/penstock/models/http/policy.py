"""How long a call may take, and whether a failed one is repeated: timeouts and the retry policy.

`Deadlines` enforces all timeouts of a response with a single timer.
"""

from __future__ import annotations

import asyncio
from math import inf
from types import TracebackType
from typing import Final, Self

from msgspec import Struct

from penstock.errors import UsageError
from penstock.messages import ErrorInfo
from penstock.models.http.transport import (
    FirstByteTimeoutError,
    IdleTimeoutError,
    TotalTimeoutError,
    TransportError,
)

_MESSAGES: Final[dict[type[TransportError], str]] = {
    FirstByteTimeoutError: "the first byte of the response did not arrive in time",
    IdleTimeoutError: "no data arrived for too long in the middle of the response",
    TotalTimeoutError: "the whole response took too long",
}


class Timeouts(Struct, frozen=True):
    """Seconds that each wait may take; None means no limit.

    *connect* is for the connection, *first_byte* from sending the call to the first byte of the
    body, *idle* between two reads, *total* for the whole response with all retries. Models on small
    machines take minutes to read a long prompt, hence the default for the first byte.
    """

    connect: float | None = 10.0
    first_byte: float | None = 300.0
    idle: float | None = 120.0
    total: float | None = 3600.0

    def __post_init__(self) -> None:
        waits = (self.connect, self.first_byte, self.idle, self.total)
        if any(seconds is not None and not seconds > 0 for seconds in waits):
            raise UsageError("timeouts must be greater than zero seconds, or None for no limit")


class Deadlines:
    """Enforces *timeouts* on the waits of one response; `close` it at the end.

    Wrap each wait in ``with deadlines.until(…)``. A timer per wait would cost more than the read it
    guards, so all waits share one: when it fires, it checks whether the current wait has expired,
    and is set again if not.
    """

    __slots__ = ("_began", "_cancelled_before", "_error", "_fires_at", "_has_expired", "_loop",
                 "_task", "_timer", "_until", "ends", "first_byte", "idle")  # fmt: skip

    def __init__(self, timeouts: Timeouts) -> None:
        self.first_byte = inf if timeouts.first_byte is None else timeouts.first_byte
        self.idle = inf if timeouts.idle is None else timeouts.idle
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.ends = self._began + (inf if timeouts.total is None else timeouts.total)
        """The time of the loop at which the whole response must be complete."""
        self._task: asyncio.Task[object] | None = None  # set while it waits
        self._until = inf
        self._error: type[TransportError] = TotalTimeoutError
        self._cancelled_before = 0  # `cancelling()` of the task when the wait started
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = inf
        self._has_expired = False

    def now(self) -> float:
        """Return the time of the loop."""
        return self._loop.time()

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return self._loop.time() - self._began

    def until(self, when: float, error: type[TransportError]) -> Self:
        """Set the deadline of the next wait; use the result in a ``with`` statement.

        The wait raises *error* at *when*, or `TotalTimeoutError` if the total ends earlier.
        """
        if self.ends < when:
            when, error = self.ends, TotalTimeoutError
        self._until, self._error = when, error
        return self

    def __enter__(self) -> None:
        self._task = task = asyncio.current_task(self._loop)
        if task is not None:
            self._cancelled_before = task.cancelling()
        if self._until < self._fires_at:
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
        # As with `asyncio.timeout`, another cancellation at the same moment takes precedence.
        if task.uncancel() <= self._cancelled_before:
            raise self._error(_MESSAGES[self._error]) from None

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        self.close()
        self._fires_at = self._until
        self._timer = self._loop.call_at(self._fires_at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._fires_at = None, inf
        if self._task is None:  # The consumer is running; its time does not count.
            return
        if self._loop.time() < self._until:
            self._set_timer()
        else:
            self._has_expired = True
            self._task.cancel()


class RetryPolicy(Struct, frozen=True):
    """How many times a call is sent in all, and how long to wait between two attempts.

    The first wait is *base* seconds and each further one twice as long, up to *longest*. A random
    share of up to *jitter* is subtracted, so that many clients do not return at the same moment. If
    the server names a time to wait, it is respected up to *longest_asked* seconds; above that the
    failure is passed on with the time in it.

    A call is never repeated once a part of its response was passed on.
    """

    attempts: int = 3
    base: float = 0.5
    longest: float = 8.0
    longest_asked: float = 60.0
    jitter: float = 0.25

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise UsageError(f"attempts must be 1 or more, got {self.attempts}")
        if min(self.base, self.longest, self.longest_asked) < 0 or not 0 <= self.jitter <= 1:
            raise UsageError("waits must be 0 or more seconds, and jitter between 0 and 1")

    def delay(self, tried: int, error: ErrorInfo, chance: float) -> float | None:
        """Return the seconds to wait after *tried* attempts, the last of which ended in *error*.

        None means not to try again. *chance* is a random number from 0 to 1.
        """
        if not error.retryable or tried >= self.attempts:
            return None
        asked = error.retry_after or 0.0
        if asked > self.longest_asked:
            return None
        # After 64 doublings any base exceeds any longest wait; floats overflow soon after.
        wait: float = min(self.longest, self.base * 2.0 ** min(tried - 1, 64))
        return max(asked, wait * (1 - self.jitter * chance))


NO_RETRY = RetryPolicy(attempts=1)
"""Send a call once."""
