"""Ways to cut an input: whole, into single units, at every single place, anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TypeVar

from laws import effort

Data = TypeVar("Data", str, bytes)


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


def chunkings(data: Data) -> Iterator[list[Data]]:
    """Yield every chunking that each vector has to pass: whole, one by one, every single cut."""
    yield [data]
    yield one_by_one(data)
    yield from single_cuts(data)
