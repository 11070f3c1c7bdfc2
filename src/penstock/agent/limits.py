"""Limits of a run: turns, tokens, money and time; and what a run has cost so far."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from penstock.errors import UsageError
from penstock.messages import ErrorInfo, Usage
from penstock.models.catalog import Catalog, Cost, Prices, cost, find_facts

Spent = tuple[str, Usage]
"""The tokens of one response, and the name of its model."""


class RunLimits(Struct, frozen=True):
    """How much one run may use; None: as much as it needs.

    *tokens* counts all tokens of all responses: prompts, responses, failures and summaries. *cost*
    is in US dollars, by the prices of the catalog. Both are checked before each turn, so the last
    turn may exceed them. *seconds* is the time of the whole run; it stops a response or a tool in
    the middle. A run that reaches a limit ends with an error whose `type` is ``turns``, ``tokens``,
    ``cost`` or ``time``.

    Raises `UsageError` for a limit that is not positive.
    """

    turns: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"the limit of {name} must be more than 0, got {value}")

    def find_excess(
        self, turns: int, spent: Iterable[Spent], prices: PriceList
    ) -> ErrorInfo | None:
        """Return the error of a run that has reached a limit, after *turns* that *spent* this."""
        if self.turns is not None and turns >= self.turns:
            number = "1 turn" if turns == 1 else f"{turns} turns"
            return ErrorInfo(f"the agent stopped after {number}", "aborted", "turns")
        each = list(spent)
        used = sum(count_tokens(usage) for _, usage in each)
        if self.tokens is not None and used >= self.tokens:
            reason = f"the agent stopped after {used:,} tokens; the limit is {self.tokens:,}"
            return ErrorInfo(reason, "aborted", "tokens")
        if self.cost is not None:
            paid = prices.sum(each)
            if paid is None:
                names = ", ".join(sorted({name for name, _ in each if not prices.has(name)}))
                reason = f"the cost is limited, but the price of {names} is unknown: pass `catalog`"
                return ErrorInfo(reason, "aborted", "cost")
            if paid.total >= self.cost:
                reason = f"the agent stopped after ${paid.total:.4f}; the limit is ${self.cost:g}"
                return ErrorInfo(reason, "aborted", "cost")
        return None


def count_tokens(usage: Usage) -> int:
    """Return all tokens of *usage*; some servers send no total."""
    return max(usage.total, usage.input + usage.cache_read + usage.cache_write + usage.output)


class PriceList:
    """The prices of models: those of *catalog*, or else of the package's table.

    A response names its model; *fallback* is the name for one that does not.
    """

    def __init__(self, catalog: Catalog | None, fallback: str) -> None:
        self._catalog = catalog
        self._fallback = fallback

    def has(self, name: str) -> bool:
        """Return whether the prices of the model *name* are known."""
        return self._find(name) is not None

    def sum(self, spent: Iterable[Spent]) -> Cost | None:
        """Return the cost of *spent*; None if a price is unknown."""
        total = Cost()
        for name, usage in spent:
            if not count_tokens(usage):
                continue
            prices = self._find(name)
            if prices is None:
                return None
            total += cost(usage, prices)
        return total

    def _find(self, name: str) -> Prices | None:
        # The server's name may be an alias or a file, while the caller's is in the catalog.
        found = find_facts(name or self._fallback, self._catalog).prices
        return found or find_facts(self._fallback, self._catalog).prices
