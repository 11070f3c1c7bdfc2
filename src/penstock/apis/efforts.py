"""How much to think, in words, for APIs that take no number of tokens."""

from __future__ import annotations

from typing import Final

from penstock.requests import ReasoningOptions

BUDGETS: Final = ((0, "none"), (4_096, "low"), (16_384, "medium"))
"""The most tokens that each word stands for; more than all of them is ``high``.

Words that some models refuse (``minimal``, ``xhigh``) are not among them.
"""


def effort_of(wanted: ReasoningOptions | None) -> str:
    """Give the word for what is *wanted*: its own, or that for its budget."""
    if wanted is None or wanted.effort or wanted.budget is None:
        return wanted.effort if wanted else ""
    budget = wanted.budget
    return next((effort for most, effort in BUDGETS if budget <= most), "high")
