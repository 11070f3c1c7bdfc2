"""Whether a value satisfies a schema, as far as coercion and repair need to know.

Looked at are types, `enum`, `const`, `required`, properties, items, all combinators, `not`, and
the bounds in `limits`. `oneOf` is read as `anyOf`: alternatives of tool schemas overlap often
(integer and number), and a value that fits two of them is still a good value. An unknown property
is refused only by ``additionalProperties: false``. What lies deeper than `MAX_DEPTH` is taken for
right.

Alternatives make the same value meet the same schema again and again, at every level of a nested
value; the answers are remembered, so the work stays within values times schema nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from penstock.values.schema.keywords import type_of
from penstock.values.schema.patterns import safe_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.values.schema import Schema
    from penstock.values.schema.keywords import Part


# The bounds that a schema puts on a value of the right type: size, length, pattern.
#
# Only what is cheap is looked at; `uniqueItems`, `format`, `contains` and the like are not.


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
    # Fractions are let pass: to a float, 0.3 is not a multiple of 0.1.
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


MAX_DEPTH: Final = 64
"""How deep a value is looked into: deeper than any real argument, well within Python's stack."""


class Validation:
    """One round of questions about values that stay alive and unchanged while it lasts."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[bool, object, Schema]] = {}

    def accepts(self, value: object, schema: Schema, depth: int = 0) -> bool:
        """Return whether *value* satisfies *schema*."""
        if depth > MAX_DEPTH or schema.free:
            return True
        if not schema.unions and not schema.refused:
            return self._judge(value, schema, depth)
        key = (id(value), id(schema))
        if key not in self._known:
            # Value and schema are kept with the answer, so that their ids stay theirs. A schema
            # that asks for itself gets no: it cannot be its own reason.
            self._known[key] = False, value, schema
            self._known[key] = self._judge(value, schema, depth), value, schema
        return self._known[key][0]

    def _judge(self, value: object, schema: Schema, depth: int) -> bool:
        if value is None and schema.marked_null:
            return True
        kind = type_of(value)
        if kind not in schema.types:
            return False
        if schema.members is not None and value not in schema.members:
            return False
        for check, bound in schema.limits.get(kind, ()):
            if not check(value, bound):
                return False
        for union in schema.unions:
            if not self._any_accepts(value, union, depth):
                return False
        if schema.refused and self._any_accepts(value, schema.refused, depth):
            return False
        return self._judge_inside(value, schema.trunk, depth + 1)

    def _any_accepts(self, value: object, schemas: tuple[Schema, ...], depth: int) -> bool:
        for schema in schemas:  # noqa: SIM110 - `any` would take a frame more on the way down
            if self.accepts(value, schema, depth):
                return True
        return False

    def _judge_inside(self, value: object, schema: Schema, depth: int) -> bool:
        if isinstance(value, dict):
            return self._judge_object(value, schema, depth)
        if isinstance(value, list):
            for at, inner in enumerate(value):
                item = schema.item(at)
                if item is not None and not self.accepts(inner, item, depth):
                    return False
        return True

    def _judge_object(self, value: dict[Any, Any], schema: Schema, depth: int) -> bool:
        if not all(name in value for name in schema.required):
            return False
        for name, inner in value.items():
            child = schema.property(name) if isinstance(name, str) else None
            if child is None:
                if schema.closed:
                    return False
            elif not self.accepts(inner, child, depth):
                return False
        return True
