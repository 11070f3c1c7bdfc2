"""Reading numbers that a provider may leave out, send as `null` or spell as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def count_of(data: Mapping[str, Any], key: str) -> int:
    """Give the count at *key*, and 0 for what is none."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return 0
    return max(0, int(value)) if abs(value) < 2**63 else 0


def counts_of(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Give the object of counts at *key*, and an empty one for what is none."""
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def index_of(data: Mapping[str, Any], key: str = "index") -> int | None:
    """Give the index at *key*, also one that is spelled as text."""
    value = data.get(key)
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) < 10:  # noqa: PLR2004
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
