"""Coercion: convert a value to the type of its schema, where it can mean only that.

Models print numbers in quotes, lists as lines, objects as text. `coerce` converts such values by
their schema. It never raises and never drops anything; a value that cannot be converted stays as it
is, and validation decides about it.

The rules, from the outside in:

1. A valid value stays: one of a type that the schema names, a member of its `enum`, null where null
   is allowed. A string stays wherever a string is allowed.
2. A text that means exactly one member of an `enum` (see `Members`) becomes that member.
3. Several types are tried in the order of `PREFERENCE`; the first that the value can become is
   taken. ``"null"`` is null only where null is allowed and a string is not.
4. `anyOf` and `oneOf`: a value that satisfies an alternative stays; else the first alternative
   whose coerced value satisfies it is taken; else the value stays. Constraints of the node besides
   its alternatives are applied in any case.
5. Where nothing is known (no schema, an undeclared property, an array without `items`) a text is
   read by `read_freely`; where anything is valid (``{}``, ``true``) it stays.

Integers: "4.0" and "1e3" become 4 and 1000, "4.5" becomes 4.5, which the schema then refuses.
Objects and null are not converted to a string. Items of a tuple are coerced by position.

Values nested deeper than `MAX_DEPTH` stay as they are. One value is tried against at most
`MAX_TRIES` combinations of alternatives, and the results are cached, so that neither a recursive
schema nor a nested value multiplies the work. A value in which nothing changes is returned as the
same object; the input is never modified.
"""

from __future__ import annotations

import re
from collections import Counter
from operator import is_
from typing import TYPE_CHECKING, Any, Final

from penstock import _json
from penstock.errors import PenstockError
from penstock.values import rjson
from penstock.values.json_grammar import MAX_DIGITS
from penstock.values.schema import MAX_NESTED_UNIONS, NO_MEMBER, Schema
from penstock.values.schema_keywords import MAX_DEPTH, PREFERENCE, Validation, json_type

if TYPE_CHECKING:
    from collections.abc import Iterator


# --- entities -----------------------------------------------------------------------------------
#
# Models write code between tags, escaped or not, and only the text itself shows which. A value with
# a ``<`` was not escaped, so nothing in it is decoded; in any other value entities are decoded
# exactly once. Known are the five of XML and numeric ones; any other (``&nbsp;``, ``&#xD800;``,
# ``&#99999999;``) stays as it is.


_NAMED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ENTITY: Final = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#[xX]([0-9A-Fa-f]{1,6}));")
_BEGUN_ENTITY: Final = re.compile(
    r"&(?:a(?:mp?|p(?:os?)?)?|lt?|gt?|q(?:u(?:ot?)?)?|#[0-9]{0,7}|#[xX][0-9A-Fa-f]{0,6})?\Z"
)

_LAST_CHARACTER: Final = 0x10FFFF
_LONGEST_ENTITY: Final = len("&#xABCDEF;")
_SURROGATES: Final = range(0xD800, 0xE000)


def decode_entities(text: str) -> str:
    """Decode the entities of *text* once, unless it holds a ``<`` and so was never escaped."""
    if "&" not in text or "<" in text:
        return text
    return _ENTITY.sub(_character, text)


def find_entity(text: str) -> tuple[int, bool]:
    """Return where the first entity of *text* begins, and whether it is complete.

    At the end of the text it may be incomplete; without an entity this is the end of the text.
    """
    entity = _ENTITY.search(text)
    if entity is not None:
        return entity.start(), True
    begun = _BEGUN_ENTITY.search(text, max(0, len(text) - _LONGEST_ENTITY))
    return (begun.start() if begun else len(text)), False


def _character(entity: re.Match[str]) -> str:
    name, decimal, hexadecimal = entity.groups()
    if name is not None:
        return _NAMED[name]
    code = int(decimal) if decimal is not None else int(hexadecimal, 16)
    # NUL is not a character of XML either, and in a path it would cut the name.
    if code == 0 or code > _LAST_CHARACTER or code in _SURROGATES:
        return entity.group()
    return chr(code)


# --- text of a known type -----------------------------------------------------------------------
#
# Every reader returns `UNREAD` for a text that is not of its type; then the text stays. So does a
# number that JSON cannot write (``1e999``, integers of more digits than Python converts).


UNREAD: Final = object()
"""The text is not a value of the wanted type."""

_NUMBER: Final = re.compile(r"(-?[0-9]+)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_BOOLEANS: Final = {"true": True, "false": False}
# Up to here a float is exact for every whole number.
_EXACT: Final = 2**53

_TAG: Final = re.compile(r"\s*<([A-Za-z_][A-Za-z0-9_.-]*)>([^<]*)</([A-Za-z_][A-Za-z0-9_.-]*)>\s*")


def read_number(text: str) -> Any:
    """Read a number (``-?digits``, a fraction, an exponent); leading zeros are ignored.

    Integers are exact at any size; a whole number in another notation (``4.0``, ``1e3``) is an
    integer too, as far as a float is exact.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return UNREAD
    if match[2] is None and match[3] is None:
        return int(match[1]) if len(match[1].lstrip("-")) <= MAX_DIGITS else UNREAD
    number = float(match[0])
    if number in (float("inf"), float("-inf")):
        return UNREAD
    # Minus zero stays a float: an integer would lose the sign.
    return int(number) if number.is_integer() and 0 < abs(number) <= _EXACT else number


def read_boolean(text: str) -> Any:
    """Read ``true`` or ``false``, in any case; "yes" and "1" are not booleans."""
    # Python's `True` and `False` are the most frequent other spelling.
    return _BOOLEANS.get(text.strip().lower(), UNREAD)


def read_object(text: str) -> Any:
    """Read an object: JSON, relaxed JSON or a Python dict, else flat ``<key>value</key>`` tags."""
    found = UNREAD
    body = text.strip()
    if body.startswith("{"):
        found = _read_json(body)
    elif body.startswith("<"):
        found = _read_tags(body)
    return found if isinstance(found, dict) else UNREAD


def read_array(text: str) -> Any:
    """Read an array as JSON or relaxed JSON; a lone object is returned as it is."""
    body = text.strip()
    found = _read_json(body) if body.startswith(("[", "{")) else UNREAD
    return found if isinstance(found, (list, dict)) else UNREAD


def split_list(text: str) -> list[str]:
    """Split a text into lines, or at commas if it is one line; trimmed, empty pieces omitted."""
    body = text.strip()
    pieces = body.split("\n" if "\n" in body else ",")
    return [piece for raw in pieces if (piece := raw.strip())]


def read_freely(text: str) -> Any:
    """Read a text without a schema; it is converted only if it cannot mean anything else.

    Converted are ``true`` and ``false``, numbers that print as the same text (so ``00531``,
    ``1.50`` and ``1e3`` stay), and strict JSON objects and arrays, whose inner values stay.
    """
    body = text.strip()
    if body.startswith(("{", "[")):
        return _read_json(body, strict=True)
    number = read_number(body)
    if number is UNREAD:
        return read_boolean(body)
    return number if write_scalar(number) == body and "e" not in body else UNREAD


def write_scalar(value: object) -> Any:
    """Write a number or a boolean as JSON would; anything else is `UNREAD`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        if isinstance(value, int):
            return str(int(value))
        return _json.encode_strict(value).decode() if isinstance(value, float) else UNREAD
    except (PenstockError, ValueError):  # NaN, infinity, more digits than Python converts
        return UNREAD


def _read_json(text: str, *, strict: bool = False) -> Any:
    """Read JSON, or relaxed JSON, unless it holds a number that JSON cannot write."""
    try:
        value = _json.decode(text) if strict else rjson.loads(text, duplicates="last")
        _json.encode_strict(value)
    except PenstockError:
        return UNREAD
    return value


def _read_tags(text: str) -> Any:
    """Read a row of ``<key>value</key>``; a repeated key becomes a list."""
    found: dict[str, Any] = {}
    at = 0
    while at < len(text):
        match = _TAG.match(text, at)
        if match is None or match[1] != match[3]:
            return UNREAD
        found.setdefault(match[1], []).append(decode_entities(match[2]))
        at = match.end()
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


# --- objects of another shape -------------------------------------------------------------------
#
# An XML reader cannot distinguish a list of one from an object, and models invent wrappers:
# ``{"item": …}``, ``{"row": [..]}``, ``{"0": .., "1": ..}``, columns instead of rows.
# `list_elements` returns the list that was meant. `rename_keys` applies to strict objects only,
# where an unknown key is an error anyway.


_INDEX: Final = re.compile(r"[0-9]{1,18}")


def may_wrap(value: object, schema: Schema) -> bool:
    """Return whether *value* can be an element at some depth: not if arrays hold only arrays."""
    kind = json_type(value)
    seen: set[int] = set()
    level: Schema | None = schema
    while level is not None and not level.free and kind not in level.types:
        if not kind or id(level) in seen or len(seen) > MAX_DEPTH:
            return False
        seen.add(id(level))
        if "array" not in level.types:
            break
        level = level.trunk.item(0)
    return True


def is_element(value: dict[Any, Any], item: Schema | None) -> bool:
    """Return whether *value* may be one element: the item's schema declares all its keys."""
    return item is not None and bool(value) and all(name in item.properties for name in value)


def list_elements(value: dict[Any, Any], item: Schema | None) -> list[Any]:
    """Return the elements that *value*, an object in place of an array, means.

    In this order: columns of equal length when items are strict objects, a sole ``item``, a sole
    key that holds an array, index keys, a sole key around one element, else one element.
    """
    if _are_columns(value, item):
        return [dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=True)]
    if len(value) == 1:
        (name, inner), *_ = value.items()
        if isinstance(inner, list):
            return inner
        if name == "item" or _holds_items(name, inner, item):
            return [inner]
    if all(isinstance(name, str) and _INDEX.fullmatch(name) for name in value):
        return [value[name] for name in sorted(value, key=int)]
    return [value]


def rename_keys(value: dict[Any, Any], schema: Schema) -> dict[Any, Any]:
    """Rename unknown keys of a strict object to the missing required ones that they resemble.

    Alike are names that differ in case and ``_`` only, and then those that also differ in a final
    ``s``; each must be the only one like the other. Order is kept.
    """
    # In an open object an unknown key is allowed and may be meant.
    if not schema.closed:
        return value
    required = dict.fromkeys(schema.required)
    missing = [name for name in required if name not in value]
    if not missing:
        return value
    extra = [name for name in value if isinstance(name, str) and name not in required]
    unknown = [name for name in extra if schema.property(name) is None]
    renamed: dict[str, str] = {}
    for plurals in (False, True):
        pairs = _alike(
            [name for name in missing if name not in renamed.values()],
            [name for name in unknown if name not in renamed],
            plurals=plurals,
        )
        renamed.update(pairs)
    return {renamed.get(name, name): inner for name, inner in value.items()} if renamed else value


def _are_columns(value: dict[Any, Any], item: Schema | None) -> bool:
    if item is None or not item.closed or not value:
        return False
    if not all(isinstance(column, list) for column in value.values()):
        return False
    one_length = len(set(map(len, value.values()))) == 1
    return one_length and (len(value) > 1 or next(iter(value)) in item.properties)


def _holds_items(name: object, inner: object, item: Schema | None) -> bool:
    """Return whether a sole key only names the kind of element, as in ``{"row": {…}}``."""
    if item is None or item.free:
        return False
    if "object" not in item.types:
        return True
    return isinstance(inner, dict) and bool(item.properties) and name not in item.properties


def _alike(missing: list[str], unknown: list[str], *, plurals: bool) -> Iterator[tuple[str, str]]:
    """Yield the pairs (unknown, missing) of names that are alike, each like no other."""
    by_stem: dict[str, list[str]] = {}
    for name in unknown:
        by_stem.setdefault(_stem(name), []).append(name)
    found = {
        name: [u for stem in _stems(name, plurals=plurals) for u in by_stem.get(stem, ())]
        for name in missing
    }
    times = Counter(name for names in found.values() for name in names)
    for name, names in found.items():
        if len(names) == 1 and times[names[0]] == 1:
            yield names[0], name


def _stem(name: str) -> str:
    return name.replace("_", "").casefold()


def _stems(name: str, *, plurals: bool) -> list[str]:
    stem = _stem(name)
    if not plurals:
        return [stem]
    return [stem, stem + "s", *([stem[:-1]] if stem.endswith("s") else [])]


# --- coerce -------------------------------------------------------------------------------------


MAX_TRIES: Final = 1000
"""How many alternatives one value is tried against, nested ones included."""


def coerce(value: Any, schema: object = None, *, typed: bool = False) -> Any:
    """Return *value* converted by *schema*, or *value* itself where it cannot be converted.

    *schema* is a JSON Schema (dict or bool, also wrapped in ``{"jsonSchema": …}``), a `Schema`, or
    None. Text without a schema is converted if it looks like another type (``"5"`` is 5), unless
    the value is *typed*: then text is meant as text. Never raises, and modifies neither argument.
    """
    wanted = Schema.of(schema)
    try:
        if json_type(value) in wanted.settled_types:
            return value
        round_ = _Coercion(typed=typed)
        return round_.read_freely(value) if wanted.absent else round_.coerce(value, wanted, 0)
    except RecursionError:  # the caller's own stack was nearly full
        return value


def describe_change(key: str, value: object, fitted: object) -> str:
    """Return the note that coercion changed the argument *key* from *value* to *fitted*."""
    before, after = json_type(value), json_type(fitted)
    name = key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + "\u2026"
    if before == after:
        return f"coerced values inside {name}" if before in _NESTED else f"coerced {name}"
    return f"coerced {name} from {before or 'another type'} to {after}"


_LONGEST_KEY: Final = 64
_NESTED: Final = ("array", "object")


class _Coercion:
    """One round of coercion, with a cache of its results."""

    __slots__ = ("_known", "_tries", "_typed", "_validation")

    def __init__(self, *, typed: bool) -> None:
        self._typed = typed
        self._known: dict[tuple[int, int], tuple[Any, Any, Schema]] = {}
        self._tries: dict[int, int] = {}
        self._validation = Validation()

    def read_freely(self, value: Any) -> Any:
        """Return a text without a schema converted, or *value* itself."""
        found = read_freely(value) if isinstance(value, str) and not self._typed else UNREAD
        return value if found is UNREAD else found

    def coerce(self, value: Any, schema: Schema, depth: int) -> Any:
        if schema.free or not schema.types or depth > MAX_DEPTH:
            return value
        if not schema.unions:
            return self._coerce_plainly(value, schema, depth)
        key = (id(value), id(schema))
        if key not in self._known:
            # Value and schema are kept with the result, so that their ids are not reused. Until
            # the result is known, a value that contains itself stays as it is.
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
        # What is beside the alternatives holds in each of them.
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
        if json_type(value) in schema.types:
            if isinstance(value, dict):
                return self._coerce_object(value, schema, depth)
            return self._coerce_array(value, schema, depth) if isinstance(value, list) else value
        if _means_null(value, schema):
            return None
        # Text is trimmed before it is read as another type.
        for wanted in PREFERENCE:
            if wanted in schema.types:
                found = self._convert(value, wanted, schema, depth)
                if found is not UNREAD:
                    return found
        return value

    def _coerce_object(self, value: dict[Any, Any], schema: Schema, depth: int) -> dict[Any, Any]:
        named = rename_keys(value, schema)
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
        """Return *value* as the wanted type, or `UNREAD` where it cannot be converted."""
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
            if not may_wrap(value, schema):
                return UNREAD
            elements = self._to_elements(value if elements is UNREAD else elements, schema, depth)
        return self._coerce_array(elements, schema, depth)

    def _to_elements(self, value: Any, schema: Schema, depth: int) -> list[Any]:
        if isinstance(value, str):
            return split_list(value)
        if not isinstance(value, dict):
            return [value]
        item = schema.item(0)
        if item is not None and is_element(value, item):
            element = self.coerce(value, item, depth + 1)
            if self._validation.accepts(element, item):
                return [element]
        return list_elements(value, item)


def _means_null(value: object, schema: Schema) -> bool:
    if not isinstance(value, str) or value.strip() != "null":
        return False
    # Where a string is allowed, "null" may be the text.
    return "null" in schema.types and "string" not in schema.types
