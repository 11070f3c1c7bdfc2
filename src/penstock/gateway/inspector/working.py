"""What a piece of an answer has cost this process, over time.

A sample is taken when an answer ends, at most every `STEP` seconds: how long the process has worked
by then, and how many pieces have passed. What lies between two samples is what their pieces cost,
with everything else that the process did meanwhile.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

STEP: Final = 10.0
"""How many seconds lie between two samples."""

KEPT: Final = 10_000
"""How many samples are kept: those of a day, and some."""

MIN_CHUNKS: Final = 100
"""Of how many pieces the cost is told at least: of fewer, it is that of everything else."""


class Sample(NamedTuple):
    """How long the process had worked, and on how many pieces, at a moment."""

    at: float
    seconds: float
    chunks: int


class Working:
    """Keeps samples of one process."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        worked: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock = clock
        self._worked = worked
        self._samples = deque([Sample(clock(), worked(), 0)], KEPT)
        self.chunks = 0

    def note(self, chunks: int) -> None:
        """Count the pieces of an answer that has ended."""
        self.chunks += chunks
        now = self._clock()
        if now - self._samples[-1].at >= STEP:
            self._samples.append(Sample(now, self._worked(), self.chunks))

    def over_time(self, since: float, width: float, number: int) -> list[float | None]:
        """Give the microseconds of a piece in each of *number* stretches of *width* seconds."""
        seconds, chunks = [0.0] * number, [0] * number
        for before, sample in pairwise(self._samples):
            place = int((sample.at - since) // width)
            if 0 <= place < number:
                seconds[place] += sample.seconds - before.seconds
                chunks[place] += sample.chunks - before.chunks
        return [
            worked / many * 1e6 if many >= MIN_CHUNKS else None
            for worked, many in zip(seconds, chunks, strict=True)
        ]
