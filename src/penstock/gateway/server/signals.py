"""The signals that a gateway is told by, and how they wait until it can act on them.

A signal that comes while a process begins would end it on the spot, HUP included. While modules are
loaded there is nothing to be ended well, so whoever is told to end then just goes. After that they
are held back, which processes that are begun meanwhile inherit, and heeded once there are handlers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
"""To end, to end from a terminal, to read the configuration again."""

INTERRUPTED: Final = 130
"""The exit code of a process that somebody at a terminal ended before it served."""


def leave_quietly() -> None:
    """Let the process end without a word when it is told to, and HUP wait."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


def hold() -> None:
    """Let signals wait from now on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def heed() -> None:
    """Let them come, also those that waited."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


@contextmanager
def held() -> Iterator[None]:
    """Let them wait for a while; what held before holds again afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
