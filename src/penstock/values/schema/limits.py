"""The bounds that a schema puts on a value of the right type: size, length, pattern.

Only what is cheap is looked at; `uniqueItems`, `format`, `contains` and the like are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from penstock.values.schema.patterns import safe_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.values.schema.keywords import Part

Check = Callable[[Any, Any], bool]
"""Tells whether a value keeps within a bound."""

Limits = dict[str, list[tuple[Check, Any]]]
"""The checks, each with its bound, by the JSON type that they bind."""


def limits_of(parts: Iterable[Part]) -> Limits:
    """Collect the checks of *parts*, each with its bound, by the JSON type that they bind."""
    found: Limits = {}
    for part in parts:
        for keyword, (types, check) in _CHECKS.items():
            bound = part.get(keyword)
            if _is_bound(keyword, bound):
                for name in types:
                    found.setdefault(name, []).append((check, bound))
    return found


def _is_bound(keyword: str, bound: object) -> bool:
    if keyword == "pattern":
        return isinstance(bound, str)
    return isinstance(bound, (int, float)) and not isinstance(bound, bool)


def _at_least(value: Any, bound: Any) -> bool:
    return bool(value >= bound)


def _at_most(value: Any, bound: Any) -> bool:
    return bool(value <= bound)


def _above(value: Any, bound: Any) -> bool:
    return bool(value > bound)


def _below(value: Any, bound: Any) -> bool:
    return bool(value < bound)


def _is_multiple(value: Any, step: Any) -> bool:
    # Fractions are let pass: to a float, 0.3 is no multiple of 0.1.
    return not (isinstance(value, int) and isinstance(step, int) and step > 0) or value % step == 0


def _no_shorter(value: Any, bound: Any) -> bool:
    return bool(len(value) >= bound)


def _no_longer(value: Any, bound: Any) -> bool:
    return bool(len(value) <= bound)


def _keeps_pattern(text: Any, pattern: Any) -> bool:
    return not safe_pattern(pattern).forbids(text)


_NUMBERS: Final = ("number", "integer")
_CHECKS: Final[dict[str, tuple[tuple[str, ...], Check]]] = {
    "minimum": (_NUMBERS, _at_least),
    "maximum": (_NUMBERS, _at_most),
    "exclusiveMinimum": (_NUMBERS, _above),
    "exclusiveMaximum": (_NUMBERS, _below),
    "multipleOf": (_NUMBERS, _is_multiple),
    "minLength": (("string",), _no_shorter),
    "maxLength": (("string",), _no_longer),
    "pattern": (("string",), _keeps_pattern),
    "minItems": (("array",), _no_shorter),
    "maxItems": (("array",), _no_longer),
    "minProperties": (("object",), _no_shorter),
    "maxProperties": (("object",), _no_longer),
}
