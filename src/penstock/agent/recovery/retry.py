"""When an agent asks for a whole answer again, and after how long."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from penstock.agent.recovery.classify import EMPTY, is_transient, limit_wait
from penstock.errors import UsageError
from penstock.messages import ErrorInfo
from penstock.models.http.retry import RetryPolicy


class AgentRetry(Struct, frozen=True):
    """How often an answer that failed is retried, and how long is waited before.

    *attempts* counts what comes after the first try; an answer that was empty is retried
    once at most. The first wait is *base* seconds, each further one twice as long, up to
    *longest*, less a share of up to *jitter* by chance. A server that names a time is waited for
    as long as it asks, and an account that has used up what it may as long as that usually takes;
    where either is more than *longest_asked*, the failure is passed on.

    Raises `UsageError` for numbers that cannot be.
    """

    attempts: int = 3
    base: float = 2.0
    longest: float = 60.0
    longest_asked: float = 300.0
    jitter: float = 0.25

    def __post_init__(self) -> None:
        if self.attempts < 0:
            raise UsageError(f"an answer is asked for again never or more, not {self.attempts}")
        self._tries()

    def delay(self, tried: int, error: ErrorInfo, chance: float) -> float | None:
        """Return the seconds to wait after *tried* tries of which the last ended in *error*.

        None is not a further try: they are used up, or another would end the same way. *chance* is
        a number from 0 to 1.
        """
        if not is_transient(error) or (error.type == EMPTY and tried > 1):
            return None
        asked = limit_wait(error, chance) or error.retry_after
        return self._tries().delay(tried, replace(error, retryable=True, retry_after=asked), chance)

    def _tries(self) -> RetryPolicy:
        """Give the same as a policy for calls, which counts the first try too."""
        return RetryPolicy(
            self.attempts + 1, self.base, self.longest, self.longest_asked, self.jitter
        )
