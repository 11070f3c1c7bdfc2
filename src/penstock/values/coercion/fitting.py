"""Make a value what its schema wants, where the value can only mean that; else leave it.

Models print numbers in quotes, lists as lines, objects as text. `coerce` takes such a value by its
schema to what was meant. It never raises and never drops anything; a value that cannot be read as
what is wanted stays as it is, for whoever validates it to judge.

The rules, from the outside in:

1. What is right stays: a value whose own type the schema names, a member of its `enum`, null where
   null is allowed. A string stays wherever a string is allowed.
2. A text that means exactly one member of an `enum` (see `members`) becomes that member.
3. Of several types each is tried in the order of `PREFERENCE`; the first that the value can become
   is taken. ``"null"`` is null only where null is allowed and a string is not.
4. `anyOf` and `oneOf`: a value that satisfies an alternative stays; else the first alternative
   whose coerced value satisfies it is taken; else the value is left. What the node says besides
   its alternatives is applied in any case.
5. Where nothing is known (no schema, an undeclared property, an array without `items`) a text is
   read by `read_freely`; where anything is right (``{}``, ``true``) it is left.

Integers: "4.0" and "1e3" become 4 and 1000, "4.5" becomes 4.5, which the schema then refuses.
A string wants no object and no null: these are left. Items of a tuple are coerced by position.

Values nested deeper than `MAX_DEPTH` are left from there on. One value is tried against at most
`MAX_TRIES` combinations of alternatives, and what was tried is remembered, so that neither a
recursive schema nor a nested value multiplies the work. A value in which nothing changes comes
back as the same object; the input is never changed.
"""

from __future__ import annotations

from operator import is_
from typing import Any, Final

from penstock.values.coercion import shaping
from penstock.values.coercion.reading import (
    UNREAD,
    read_array,
    read_boolean,
    read_freely,
    read_number,
    read_object,
    split_list,
    write_scalar,
)
from penstock.values.schema import Schema
from penstock.values.schema.keywords import PREFERENCE, type_of
from penstock.values.schema.members import NO_MEMBER
from penstock.values.schema.nodes import MAX_NESTED_UNIONS
from penstock.values.schema.validate import MAX_DEPTH, Validation

MAX_TRIES: Final = 1000
"""How many alternatives one value is tried against, nested ones included."""


def coerce(value: Any, schema: object = None, *, typed: bool = False) -> Any:
    """Return *value* as *schema* wants it, or as it is where it cannot be read so.

    *schema* is a JSON Schema (dict or bool, also wrapped in ``{"jsonSchema": …}``), a `Schema`, or
    None. Text that no schema speaks of is read for what it looks like (``"5"`` is 5), unless the
    value is *typed*: then what is text is meant to be. Nothing is raised, whatever value or schema,
    and neither is changed.
    """
    wanted = Schema.of(schema)
    try:
        round_ = _Coercion(typed=typed)
        return round_.read_freely(value) if wanted.absent else round_.coerce(value, wanted, 0)
    except RecursionError:  # the caller's own stack was nearly full
        return value


def describe_change(key: str, value: object, fitted: object) -> str:
    """Say in words that coercion made *fitted* of the argument *key*, which was *value*."""
    before, after = type_of(value), type_of(fitted)
    name = key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + "\u2026"
    if before == after:
        return f"coerced values inside {name}" if before in _NESTED else f"coerced {name}"
    return f"coerced {name} from {before or 'another type'} to {after}"


_LONGEST_KEY: Final = 64
_NESTED: Final = ("array", "object")


class _Coercion:
    """One round of coercion, with what was tried in it."""

    __slots__ = ("_known", "_tries", "_typed", "_validation")

    def __init__(self, *, typed: bool) -> None:
        self._typed = typed
        self._known: dict[tuple[int, int], tuple[Any, Any, Schema]] = {}
        self._tries: dict[int, int] = {}
        self._validation = Validation()

    def read_freely(self, value: Any) -> Any:
        """Read text that no schema speaks of for what it looks like."""
        found = read_freely(value) if isinstance(value, str) and not self._typed else UNREAD
        return value if found is UNREAD else found

    def coerce(self, value: Any, schema: Schema, depth: int) -> Any:
        if schema.free or not schema.types or depth > MAX_DEPTH:
            return value
        if not schema.unions:
            return self._coerce_plainly(value, schema, depth)
        key = (id(value), id(schema))
        if key not in self._known:
            # Value and schema are kept with the result, so that their ids stay theirs; while the
            # result is being found, a value that contains itself is left.
            self._known[key] = value, value, schema
            self._known[key] = self._choose(value, schema, depth), value, schema
        return self._known[key][0]

    # --- alternatives ----------------------------------------------------------------------------

    def _choose(self, value: Any, schema: Schema, depth: int) -> Any:
        if self._validation.accepts(value, schema):
            return value
        if _means_null(value, schema) and self._validation.accepts(None, schema):
            return None
        given = id(value)
        if schema.has_trunk:
            value = self._coerce_plainly(value, schema.trunk, depth)
            if self._validation.accepts(value, schema):
                return value
        for alternative in schema.unions[0]:
            tries = self._tries[given] = self._tries.get(given, 0) + 1
            if tries > MAX_TRIES or schema.nesting > MAX_NESTED_UNIONS:
                break
            chosen = schema.choose(0, alternative)
            found = self.coerce(value, chosen, depth)
            if self._validation.accepts(found, chosen):
                return found
        return value

    # --- one schema without alternatives ---------------------------------------------------------

    def _coerce_plainly(self, value: Any, schema: Schema, depth: int) -> Any:
        members = schema.members
        if members is not None:
            if value in members:
                return value
            meant = members.meant_by(value) if isinstance(value, str) else NO_MEMBER
            if meant is not NO_MEMBER:
                return meant
        if type_of(value) in schema.types:
            if isinstance(value, dict):
                return self._coerce_object(value, schema, depth)
            return self._coerce_array(value, schema, depth) if isinstance(value, list) else value
        if _means_null(value, schema):
            return None
        for wanted in PREFERENCE:
            if wanted in schema.types:
                found = self._convert(value, wanted, schema, depth)
                if found is not UNREAD:
                    return found
        return value

    def _coerce_object(self, value: dict[Any, Any], schema: Schema, depth: int) -> dict[Any, Any]:
        named = shaping.rename_keys(value, schema)
        changed = {}
        for name, inner in named.items():
            if not isinstance(name, str):
                continue
            child = schema.property(name)
            if child is not None:
                found = self.coerce(inner, child, depth + 1)
            else:
                found = inner if schema.closed else self.read_freely(inner)
            if found is not inner:
                changed[name] = found
        return {**named, **changed} if changed else named

    def _coerce_array(self, value: list[Any], schema: Schema, depth: int) -> list[Any]:
        found = []
        for at, inner in enumerate(value):
            item = schema.item(at)
            found.append(
                self.read_freely(inner) if item is None else self.coerce(inner, item, depth + 1)
            )
        return value if all(map(is_, found, value)) else found

    # --- another type ----------------------------------------------------------------------------

    def _convert(self, value: Any, wanted: str, schema: Schema, depth: int) -> Any:
        """Return *value* as the wanted type, `UNREAD` where it cannot be read so."""
        if wanted == "array":
            return self._to_array(value, schema, depth)
        if wanted == "string":
            return write_scalar(value)
        if not isinstance(value, str):
            return UNREAD
        if wanted == "boolean":
            return read_boolean(value)
        if wanted in {"number", "integer"}:
            return read_number(value)
        found = read_object(value) if wanted == "object" else UNREAD
        return self._coerce_object(found, schema, depth) if isinstance(found, dict) else UNREAD

    def _to_array(self, value: Any, schema: Schema, depth: int) -> Any:
        elements = read_array(value) if isinstance(value, str) else value
        if not isinstance(elements, list):
            if not shaping.may_wrap(value, schema):
                return UNREAD
            elements = self._to_elements(value if elements is UNREAD else elements, schema, depth)
        return self._coerce_array(elements, schema, depth)

    def _to_elements(self, value: Any, schema: Schema, depth: int) -> list[Any]:
        if isinstance(value, str):
            return split_list(value)
        if not isinstance(value, dict):
            return [value]
        item = schema.item(0)
        if item is not None and shaping.is_element(value, item):
            element = self.coerce(value, item, depth + 1)
            if self._validation.accepts(element, item):
                return [element]
        return shaping.elements_of(value, item)


def _means_null(value: object, schema: Schema) -> bool:
    if not isinstance(value, str) or value.strip() != "null":
        return False
    return "null" in schema.types and "string" not in schema.types
