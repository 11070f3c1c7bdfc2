"""Ways to cut an input: whole, into single units, at every single place, anywhere.

One reading for each place costs the square of the length. A text longer than `LONG` is therefore
read in pieces of `GAP` units: each place is still a cut, far from the next one, and `SINGLES`
places have a reading of their own. With ``EXHAUSTIVE=1`` each place has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TypeVar

from laws import effort

Data = TypeVar("Data", str, bytes)

GAP = 32
"""Units between two cuts of a long text in one reading: more than a marker has."""

SINGLES = 16
"""Places of a long text, spread over it, that are the only cut of a reading."""

LONG = GAP + SINGLES
"""Units that a text has at most to be read once for each place."""


def cut_at(data: Data, places: Iterable[int]) -> list[Data]:
    """Cut *data* at *places* (out of range and doubled ones do no harm)."""
    edges = [0, *sorted(min(max(place, 0), len(data)) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def one_by_one(data: Data) -> list[Data]:
    return [data[at : at + 1] for at in range(len(data))]


def single_cuts(data: Data) -> Iterator[list[Data]]:
    """Yield *data* in two pieces, cut at every place (at some places in a quick run)."""
    for place in range(1, len(data), effort.sample(len(data))):
        yield [data[:place], data[place:]]


def spaced_cuts(data: Data) -> Iterator[list[Data]]:
    """Yield *data* in pieces of `GAP` units; every place is a cut of one of these ways."""
    for first in range(1, GAP + 1):
        yield cut_at(data, range(first, len(data), GAP))


def chunkings(data: Data) -> Iterator[list[Data]]:
    """Yield every chunking that each vector has to pass: whole, one by one, cut at every place."""
    yield [data]
    yield one_by_one(data)
    if len(data) <= LONG or effort.quick or effort.exhaustive:
        yield from single_cuts(data)
        return
    yield from spaced_cuts(data)
    step = len(data) // SINGLES
    yield from (cut_at(data, [place]) for place in range(1 + len(data) % step, len(data), step))
