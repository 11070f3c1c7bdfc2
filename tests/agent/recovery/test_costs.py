"""What a run took, in tokens and in money."""

from __future__ import annotations

import pytest

from penstock import UsageError
from penstock.agent.recovery import Cost, Prices, Spending, cost
from penstock.messages import Usage

USAGE = Usage(input=1_000_000, output=500_000, cache_read=2_000_000, cache_write=100_000, total=9)


def test_each_kind_of_token_has_its_price() -> None:
    told = cost(USAGE, Prices(3, 15, cache_read=0.5, cache_write=4))
    assert told == Cost(input=3, output=7.5, cache_read=1, cache_write=0.4)
    assert told.total == pytest.approx(11.9)


def test_a_cache_without_a_price_costs_what_other_input_does() -> None:
    told = cost(USAGE, Prices(3, 15))
    assert told.cache_read == 6
    assert told.cache_write == pytest.approx(0.3)
    assert cost(USAGE, Prices(3, 15, cache_read=0)).cache_read == 0


def test_a_run_counts_failures_and_compactions_too() -> None:
    spending = Spending()
    spending.add(Usage(input=10, output=1, total=11))
    spending.add(Usage(input=20, output=2, total=22), "failure")
    spending.add(Usage(input=30, output=3, reasoning=1, total=33), "compaction")
    spending.add(Usage(input=1), "answer")
    assert spending.answers.input == 11
    assert spending.failures.output == 2
    assert spending.compactions.reasoning == 1
    assert spending.usage == Usage(input=61, output=6, reasoning=1, total=66)
    assert spending.cost(Prices(1, 1)).total == pytest.approx(67e-6)


def test_a_price_below_zero_is_refused() -> None:
    with pytest.raises(UsageError):
        Prices(1, 1, cache_read=-1)
