"""Which upstreams can be reached, told to whoever runs the gateway: a line when that changes.

What a client is told stays with the client, and the log is looked at later. A server that is down
is worth a line on stderr at once, and another when it is back. One that comes and goes must not
fill the screen: so it has no more than two lines in `QUIET` seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from logging import getLogger
from math import inf
from typing import Final

from penstock.events import Done, Failed

QUIET: Final = 60.0
"""How many seconds lie between two lines which say that the same upstream is down."""

_LOG: Final = getLogger("penstock.gateway")


class Reachability:
    """Knows by the ends of answers which upstreams are down."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._down: set[str] = set()  # those of which it was told
        self._told: dict[str, float] = {}  # when it was told last that one is down

    def note(
        self,
        upstream: str,
        end: Done | Failed,
        *,
        has_spoken: bool,
        hide: Callable[[str], str] = str,
    ) -> None:
        """Note how an answer of *upstream* ended, and whether the server *has_spoken* at all.

        Whoever says anything is there, be it a refusal; a client that gave up before tells nothing.
        *hide* hides secrets in a reason.
        """
        if has_spoken or isinstance(end, Done):
            self._note_up(upstream)
        elif end.error.kind == "transport":
            self._note_down(upstream, hide(end.error.message))

    def _note_up(self, upstream: str) -> None:
        if upstream in self._down:
            self._down.discard(upstream)
            _LOG.warning("the upstream %s is back", upstream)

    def _note_down(self, upstream: str, why: str) -> None:
        now = self._clock()
        if upstream in self._down or now - self._told.get(upstream, -inf) < QUIET:
            return
        self._down.add(upstream)
        self._told[upstream] = now
        _LOG.warning("the upstream %s cannot be reached: %s", upstream, " ".join(why.split()))
