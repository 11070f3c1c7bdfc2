"""What the raw text of a value says, once it is whole: by its schema, or as the wire declares it.

A text is trimmed before it is read as anything but a string. Where a string stands beside other
types, only what can hardly be meant otherwise is no string: null, and whole JSON. What cannot be
read as the schema wants stays the text that it was, except for a list or an object: text that has
brackets or quotes and is not JSON was damaged, and is no value.
"""

from __future__ import annotations

from typing import Any, Final

from penstock import _json
from penstock.errors import PenstockError
from penstock.parsing.bodies.base import NoCallError
from penstock.values import rjson
from penstock.values.coercion import coerce
from penstock.values.coercion.reading import UNREAD, read_boolean, read_number
from penstock.values.rxml.fields import is_list
from penstock.values.schema import Schema

_CONTAINERS: Final = ("{", "[")
_SIGNS: Final = frozenset('[]{}"')


class UnreadableError(NoCallError):
    """The text of a value was meant to be a list or an object, and is none."""


def typed(text: str, schema: Schema | None) -> Any:
    """Give what *text* says where *schema* speaks of it; without one it is text.

    One value where a list is wanted is a list of it. Raises `UnreadableError` for a damaged list or
    object.
    """
    if schema is None or schema.free or schema.is_string:
        return text
    if any(node.members is not None for node in (schema, *schema.family)):
        return coerce(text, schema)
    bare = text.strip()
    if bare == "null" and schema.nullable:
        return None
    found = _strict(bare) if "string" in schema.types else _read(bare, schema)
    if isinstance(found, dict | list):
        is_wanted = ("object" if isinstance(found, dict) else "array") in schema.types
        return coerce(found, schema) if is_wanted or "string" not in schema.types else text
    if found is not UNREAD:
        return found
    wanted = schema.types & {"object", "array"}
    if not wanted or "string" in schema.types:
        return text
    if not _SIGNS.isdisjoint(bare):
        raise UnreadableError(f"the text of a value is not {' or '.join(sorted(wanted))}")
    return coerce(text, schema, typed=True) if is_list(schema) else text


def repaired_list(text: str, schema: Schema | None) -> Any:
    """Return the list that *text* is but for a bracket at its end or at its beginning."""
    bare = text.strip()
    if schema is None or not is_list(schema):
        return None
    for whole in (bare + "]", "[" + bare):
        found = _strict(whole)
        if isinstance(found, list) and found:
            return coerce(found, schema, typed=True)
    return None


def declared(text: str) -> Any:
    """Give what *text* says that the wire declares to be no string: JSON, or else itself."""
    found = _relaxed(text)
    return text if found is UNREAD else found


def object_in(text: str) -> dict[str, Any] | None:
    """Give the object that *text* is, if it is one."""
    found = _relaxed(text) if text.lstrip().startswith("{") else None
    return found if isinstance(found, dict) else None


def _read(bare: str, schema: Schema) -> Any:
    """Read text where no string is wanted."""
    found = UNREAD
    if "boolean" in schema.types:
        found = read_boolean(bare)
    if found is UNREAD and "integer" in schema.types:
        found = read_number(bare)
    if found is UNREAD and bare.startswith(_CONTAINERS) and schema.types & {"object", "array"}:
        found = _relaxed(bare)
    return found


def _strict(bare: str) -> Any:
    if not bare.startswith(_CONTAINERS):
        return UNREAD
    try:
        return _writable(_json.decode(bare))
    except PenstockError:
        return UNREAD


def _relaxed(text: str) -> Any:
    try:
        return _writable(rjson.loads(text, duplicates="last"))
    except PenstockError:
        return UNREAD


def _writable(value: Any) -> Any:
    """Give *value* if JSON can write it; raise `PenstockError` otherwise."""
    _json.encode_strict(value)
    return value
