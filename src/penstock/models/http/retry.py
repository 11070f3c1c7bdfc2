"""The retry policy: whether a failed call is repeated, and after how long."""

from __future__ import annotations

from msgspec import Struct

from penstock.errors import UsageError
from penstock.messages import ErrorInfo


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
