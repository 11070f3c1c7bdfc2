"""What a run took: tokens, and money where prices are known.

Everything that was asked counts: answers that were kept, tries that failed, and the summaries of
compactions. Prices change and differ by contract, so they are the caller's.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct, field

from penstock.errors import UsageError
from penstock.messages import Usage, summed

MILLION: Final = 1_000_000
"""How many tokens a price is for."""

Purpose = Literal["answer", "failure", "compaction"]
"""What tokens were spent on."""


class Prices(Struct, frozen=True):
    """What a million tokens cost; those from or into a cache cost what other input does if unsaid.

    Raises `UsageError` for a price below zero.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        if min(self.input, self.output, self.cache_read or 0, self.cache_write or 0) < 0:
            raise UsageError("a price is zero or more")


class Cost(Struct, frozen=True):
    """What tokens cost, in the currency of the prices."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.input + self.output + self.cache_read + self.cache_write


def cost(usage: Usage, prices: Prices) -> Cost:
    """Return what *usage* costs at *prices*."""
    read = prices.input if prices.cache_read is None else prices.cache_read
    written = prices.input if prices.cache_write is None else prices.cache_write
    return Cost(
        input=usage.input * prices.input / MILLION,
        output=usage.output * prices.output / MILLION,
        cache_read=usage.cache_read * read / MILLION,
        cache_write=usage.cache_write * written / MILLION,
    )


class Spending(Struct):
    """What a run has taken so far, by what it was spent on."""

    answers: Usage = field(default_factory=Usage)
    failures: Usage = field(default_factory=Usage)
    compactions: Usage = field(default_factory=Usage)

    def add(self, usage: Usage, purpose: Purpose = "answer") -> None:
        """Add *usage*, which may be empty: many a failure tells none."""
        if purpose == "answer":
            self.answers = summed([self.answers, usage])
        elif purpose == "failure":
            self.failures = summed([self.failures, usage])
        else:
            self.compactions = summed([self.compactions, usage])

    @property
    def usage(self) -> Usage:
        """All of it."""
        return summed([self.answers, self.failures, self.compactions])

    def cost(self, prices: Prices) -> Cost:
        """Return what all of it costs at *prices*."""
        return cost(self.usage, prices)
