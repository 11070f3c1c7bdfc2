"""Metadata of ``Annotated``: descriptions and constraints, for the schema and for values.

`Field` of pydantic, `msgspec.Meta`, `annotated_types` and plain text are read by their attributes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Final

_CONSTRAINTS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
"""Attributes of metadata that are keywords of numbers."""

_LENGTHS: Final = {"string": "Length", "array": "Items", "object": "Properties"}

_COMPARISONS: Final = {
    "gt": (operator.gt, "greater than {}"),
    "ge": (operator.ge, "{} or more"),
    "lt": (operator.lt, "less than {}"),
    "le": (operator.le, "{} or less"),
}
_STRINGS_IN_JSON: Final = (Decimal, date, time, timedelta)
"""Types that are compared, but are strings in JSON, whose schema cannot have a bound."""


def iter_metadata(metadata: Sequence[Any]) -> Iterator[Any]:
    """Yield each piece of *metadata*, and those inside it: a `Field` of pydantic is a list."""
    for one in metadata:
        yield one
        inner = getattr(one, "metadata", None)
        if isinstance(inner, list):
            yield from iter_metadata(inner)


def read_description(one: Any) -> dict[str, Any]:
    """Return the keywords with which the metadata *one* describes a schema."""
    if isinstance(one, str):
        return {"description": one}
    found: dict[str, Any] = {}
    for key in ("title", "description"):
        value = getattr(one, key, None)
        if isinstance(value, str) and value:
            found[key] = value
    documentation = getattr(one, "documentation", None)  # `typing_extensions.Doc`
    if isinstance(documentation, str):
        found["description"] = documentation
    examples = getattr(one, "examples", None)
    if isinstance(examples, list):
        found["examples"] = examples
    for key in ("json_schema_extra", "extra_json_schema"):
        extra = getattr(one, key, None)
        if isinstance(extra, dict):
            found |= extra
    return found


def constrain(schema: dict[str, Any], one: Any) -> dict[str, Any]:
    """Return *schema* with the constraints of the metadata *one*, where its type has them."""
    if isinstance(one, str):
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [constrain(each, one) for each in schema["anyOf"]]}
    kind = schema.get("type")
    found: dict[str, Any] = {}
    if kind in ("integer", "number"):
        for name, keyword in _CONSTRAINTS.items():
            value = getattr(one, name, None)
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[keyword] = value
    if kind in _LENGTHS:
        for name, keyword in (("min_length", "min"), ("max_length", "max")):
            value = getattr(one, name, None)
            if isinstance(value, int) and not (name == "min_length" and value == 0):
                found[keyword + _LENGTHS[kind]] = value
    pattern = getattr(one, "pattern", None)
    if kind == "string" and pattern is not None:
        found["pattern"] = pattern.pattern if isinstance(pattern, re.Pattern) else str(pattern)
    return {**schema, **found}


def find_violation(value: object, metadata: Sequence[Any]) -> str:
    """Return how *value* violates a bound of *metadata* that its schema cannot have; or nothing."""
    if not isinstance(value, _STRINGS_IN_JSON):
        return ""
    for one in iter_metadata(metadata):
        for name, (compare, words) in _COMPARISONS.items():
            bound = getattr(one, name, None)
            if bound is None:
                continue
            try:
                fits = compare(value, bound)
            except TypeError:  # such as a date with a time zone and one without
                continue
            if not fits:
                return f"Expected {words.format(bound)}"
    return ""
