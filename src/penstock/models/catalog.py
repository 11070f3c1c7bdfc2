"""Context windows and prices of models, from a table in the package and from yours.

The table is ``catalog.json``, which `docs/generate_catalog.py` writes; `read_table_date` returns
the date of its facts. Prices change, so pass your own where they matter: as `ModelFacts` by name,
or as a TOML file::

    [models."my-model"]
    window = 32_768
    input = 0.4     # US dollars for a million tokens
    output = 1.2

A model is found by its exact name, with or without the date at its end. A name that is only similar
is not found: a wrong price is worse than none.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.errors import UsageError
from penstock.messages import Usage

MILLION: Final = 1_000_000
"""How many tokens a price is for."""

# OpenAI writes `gpt-4o-2024-08-06`, Anthropic `claude-sonnet-4-20250514`, and
# Vertex puts an @ before the date.
_DATE: Final = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d)$")
_NUMBERS: Final = ("window", "max_output", "input", "output", "cache_read", "cache_write")


class Prices(Struct, frozen=True):
    """Prices of a million tokens; cached tokens cost the same as other input unless given.

    Raises `UsageError` for a price that is negative or not a finite number.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        each = (self.input, self.output, self.cache_read or 0, self.cache_write or 0)
        # With a price that is NaN, no cost would ever reach a limit.
        if not all(math.isfinite(price) and price >= 0 for price in each):
            raise UsageError("prices must be finite numbers of 0 or more")


class Cost(Struct, frozen=True):
    """The cost of tokens, in the currency of the prices."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all."""
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


def cost(usage: Usage, prices: Prices) -> Cost:
    """Return the cost of *usage* at *prices*."""
    read = prices.input if prices.cache_read is None else prices.cache_read
    written = prices.input if prices.cache_write is None else prices.cache_write
    return Cost(
        input=usage.input * prices.input / MILLION,
        output=usage.output * prices.output / MILLION,
        cache_read=usage.cache_read * read / MILLION,
        cache_write=usage.cache_write * written / MILLION,
    )


class ModelFacts(Struct, frozen=True):
    """What is known about a model: its context window and longest response in tokens (0: unknown).

    *prices* are those of a million tokens; None if they are unknown.
    """

    window: int = 0
    max_output: int = 0
    prices: Prices | None = None


Catalog = Mapping[str, ModelFacts]
"""Facts about models by name."""


def find_facts(name: str, catalog: Catalog | None = None) -> ModelFacts:
    """Return what *catalog*, or else the table, knows about the model *name*.

    A prefix such as ``openai/`` and a date at the end are ignored if the whole name is unknown.
    """
    short = name.rpartition("/")[2]
    for table in (catalog or {}, read_table()):
        for known in (name, short, _DATE.sub("", short)):
            if known in table:
                return table[known]
    return ModelFacts()


def read_catalog(path: str | PathLike[str]) -> dict[str, ModelFacts]:
    """Read a catalog from a TOML file; raise `UsageError` if it is not one."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise UsageError(f"cannot read the catalog {path}: {exc}") from exc
    models = data.get("models")
    if not isinstance(models, dict):
        raise UsageError(f'the catalog {path} has no models: write [models."NAME"]')
    return {name: _read_facts(name, facts) for name, facts in models.items()}


def _read_facts(name: str, facts: Any) -> ModelFacts:
    where = f"the model {name!r} of the catalog"
    if not isinstance(facts, dict):
        raise UsageError(f"{where} must be a table")
    for key, value in facts.items():
        if key not in _NUMBERS:
            raise UsageError(f"{where} has an unknown key {key!r}; known: {', '.join(_NUMBERS)}")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value < 0:
            raise UsageError(f"{key!r} of {where} must be a finite number of 0 or more")
    if ("input" in facts) != ("output" in facts):
        raise UsageError(f"{where} needs both prices, `input` and `output`")
    prices = None
    if "input" in facts:
        prices = Prices(
            facts["input"], facts["output"], facts.get("cache_read"), facts.get("cache_write")
        )
    return ModelFacts(int(facts.get("window", 0)), int(facts.get("max_output", 0)), prices)


@cache
def read_table() -> dict[str, ModelFacts]:
    """Return the table of the package."""
    return {
        name: ModelFacts(window or 0, longest or 0, Prices(given, written, read, cached))
        for name, (window, longest, given, written, read, cached) in _load()["models"].items()
    }


def read_table_date() -> str:
    """Return the date of the facts in the table, as ``2026-08-08``."""
    date: str = _load()["date"]
    return date


@cache
def _load() -> Any:
    return _json.decode((files("penstock.models") / "catalog.json").read_bytes())
