"""How hard the checks try: the option ``--quick`` of pytest sets `quick`."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

quick = False

exhaustive = "EXHAUSTIVE" in os.environ
"""Whether to try all that `make e2e` tries: every cut of a text alone, a text in every setting."""

QUICK_CUTS = 6
"""Single cuts of each text that a quick run tries, spread over the text."""

QUICK_STEP = 10
"""Every how many of many similar cases a quick run tries."""


def some(cases: Iterable[T]) -> Iterator[T]:
    """Yield all of *cases*, or a few if the run is quick."""
    return islice(cases, 0, None, QUICK_STEP if quick else 1)


def examples(number: int) -> int:
    """Return how many examples to try of each of many formats; *number* if the run is exhaustive.

    The formats share their readers, so half of them for each find the same.
    """
    return number if exhaustive else number // 2


def sample(count: int) -> int:
    """Return the step that takes all of *count* places, or a few if the run is quick."""
    return max(1, count // QUICK_CUTS) if quick else 1
