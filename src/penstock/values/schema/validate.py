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

from typing import TYPE_CHECKING, Any, Final

from penstock.values.schema.keywords import type_of

if TYPE_CHECKING:
    from penstock.values.schema import Schema

MAX_DEPTH: Final = 64
"""How deep a value is looked into: deeper than any real argument, well within Python's stack."""


class Validation:
    """One round of questions about values that stay alive and unchanged while it lasts."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[bool, object, Schema]] = {}

    def accepts(self, value: object, schema: Schema, depth: int = 0) -> bool:
        """Tell whether *value* satisfies *schema*."""
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
