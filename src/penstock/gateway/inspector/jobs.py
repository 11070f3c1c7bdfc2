"""A piece of heavy work, and whether anybody still wants it.

Nobody can stop a thread from outside, so the work itself looks up (`look_up`) between the pieces of
a text, and ends there if its caller has left, if the gateway ends, or if it took too long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from penstock.gateway.errors import HTTPError

MAX_SECONDS: Final = 10.0
"""How many seconds a piece of work may run: nobody looks at a page that long."""

_here: Final = threading.local()


class Job:
    """*work* that a caller with the key *whose* asked for; None is one of those without keys.

    It ends early where the process *is_ending*.
    """

    def __init__(
        self,
        work: Callable[[], Any],
        whose: str | None = None,
        is_ending: Callable[[], bool] = lambda: False,
    ) -> None:
        self.whose = whose
        self.done: Future[Any] = Future()
        self._work = work
        self._is_ending = is_ending
        self._why: Exception | None = None  # it is wanted no more
        self._deadline = time.monotonic() + MAX_SECONDS

    def give_up(self, why: Exception) -> None:
        """Let the work end with *why* as soon as it looks up; from any thread."""
        self._why = self._why or why

    def run(self, pause: Callable[[], None]) -> None:
        """Do the work on this thread; *pause* is called whenever it looks up."""
        self._deadline = time.monotonic() + MAX_SECONDS
        _here.job, _here.pause = self, pause
        try:
            self.check()
            self.done.set_result(self._work())
        except BaseException as exc:  # noqa: BLE001 - whoever waits for it is told
            self.done.set_exception(exc)
        finally:
            _here.job = None

    def check(self) -> None:
        """Raise what the work is to end with, if it is."""
        if self._why is not None:
            raise self._why
        if self._is_ending():
            raise HTTPError(503, "the gateway is shutting down", retry_after=1.0)
        if time.monotonic() > self._deadline:
            raise HTTPError(
                413, f"this took more than {MAX_SECONDS:g} seconds, and was given up: ask for less"
            )


def look_up() -> None:
    """Raise where nobody wants the work of this thread any more; elsewhere do nothing."""
    job: Job | None = getattr(_here, "job", None)
    if job is not None:
        _here.pause()
        job.check()
