"""When to try again, and after how long."""

from __future__ import annotations

from msgspec import Struct

from penstock.errors import UsageError
from penstock.messages import ErrorInfo


class Retry(Struct, frozen=True):
    """How often a call is tried in all, and how long is waited between two tries.

    The first wait is *base* seconds, each further one twice as long, up to *longest*; a share of
    up to *jitter* of it is taken off by chance, so that many clients do not come back at once. A
    server that names a time is waited for as long as it asks, unless it asks for more than
    *longest_asked*: then the failure is passed on, with the time in it.

    Nothing is tried again once a part of the answer went out.
    """

    attempts: int = 3
    base: float = 0.5
    longest: float = 8.0
    longest_asked: float = 60.0
    jitter: float = 0.25

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise UsageError(f"a call is tried once or more, not {self.attempts} times")
        if min(self.base, self.longest, self.longest_asked) < 0 or not 0 <= self.jitter <= 1:
            raise UsageError("waits are zero or more seconds, and jitter is a share of one")

    def delay(self, tried: int, error: ErrorInfo, chance: float) -> float | None:
        """Give the seconds to wait after *tried* tries of which the last ended in *error*.

        None is no further try. *chance* is a number from 0 to 1.
        """
        if not error.retryable or tried >= self.attempts:
            return None
        asked = error.retry_after or 0.0
        if asked > self.longest_asked:
            return None
        # Beyond 64 doublings any base is above any longest wait; floats end not far behind.
        wait: float = min(self.longest, self.base * 2.0 ** min(tried - 1, 64))
        return max(asked, wait * (1 - self.jitter * chance))


NO_RETRY = Retry(attempts=1)
"""One try, and no other."""
