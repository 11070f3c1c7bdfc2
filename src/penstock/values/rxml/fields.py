"""What a schema says about reading an element: as raw text, as elements, or as whichever it holds.

Raw text is for every field that may be a string and cannot be a list or an object: also one that
may be null, or a number, or one of an `enum`. Coercion leaves a string that its schema allows as
it is, so nothing of it may be lost before. A list of strings, and a string that may be a list or an
object instead, hold elements if they begin with one, and raw text if they do not; an object must
begin with one of its properties, since any markup begins with an element.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.values.schema import Schema

_CONTAINERS: Final = frozenset({"object", "array"})
_RAW_BY_NAME: Final = frozenset({"script", "style"})


class Reading(enum.Enum):
    """How the inside of an element is read."""

    TEXT = "text"
    TEXT_OR_ELEMENTS = "text or elements"
    ELEMENTS = "elements"


def reading_of(name: str, schema: Schema | None) -> Reading:
    """Tell how the inside of the element *name* is read under *schema*."""
    if is_string_field(schema) or (schema is None and name in _RAW_BY_NAME):
        return Reading.TEXT
    return Reading.TEXT_OR_ELEMENTS if may_be_raw(schema) else Reading.ELEMENTS


def is_string_field(schema: Schema | None) -> bool:
    """Tell whether a value of *schema* may be a string and cannot hold elements."""
    return schema is not None and "string" in schema.types and not schema.types & _CONTAINERS


def may_be_raw(schema: Schema | None) -> bool:
    """Tell whether the whole inside of an element, markup and all, may be its value."""
    if schema is None:
        return False
    if "string" in schema.types:
        return not says_nothing(schema)
    return is_list(schema) and is_string_field(schema.item(0))


def may_hold(schema: Schema | None, name: str) -> bool:
    """Tell whether what begins with the element *name* may be a list or an object of *schema*."""
    if schema is None or "array" in schema.types or not schema.properties:
        return True
    return schema.property(name) is not None


def says_nothing(schema: Schema | None) -> bool:
    """Tell whether *schema* leaves the shape of a value to what the text shows."""
    return schema is None or schema.wants is None


def is_list(schema: Schema | None) -> bool:
    """Tell whether elements under *schema* are those of a list rather than properties."""
    return schema is not None and "array" in schema.types and "object" not in schema.types


def empty_value(schema: Schema | None) -> Any:
    """Return what an empty element is: ``""`` for all but lists and objects."""
    if schema is None or "string" in schema.types:
        return ""
    return {"object": {}, "array": []}.get(schema.wants or "", "")


def wants_scalar(schema: Schema | None) -> bool:
    """Tell whether *schema* asks for a value that can have no attributes."""
    return schema is not None and "object" not in schema.types
