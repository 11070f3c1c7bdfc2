"""What one set of schema keywords says, read leniently: a keyword of the wrong shape says nothing.

Here are the seven JSON types too. "number" never stands without "integer" in a set of types, so
such sets can be joined and cut plainly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.values.schema.patterns import safe_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

Part = dict[str, Any]
"""A set of keywords, as a schema node holds it; references and combinators are dealt with above."""

PREFERENCE: Final = ("object", "array", "boolean", "number", "integer", "string", "null")
"""Which of several types coercion aims at: the first."""

ALL_TYPES: Final = frozenset(PREFERENCE)

_IMPLIED_TYPES: Final = {
    "properties": "object",
    "additionalProperties": "object",
    "patternProperties": "object",
    "items": "array",
    "prefixItems": "array",
}


def type_of(value: object) -> str:
    """Name the JSON type of *value*; ``""`` for what JSON has no word for.

    A whole number is an integer however it is written (4.0), and a bool is not a number.
    """
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    return "null" if value is None else _type_of_number(value)


def types_of(part: Part) -> frozenset[str]:
    """Name the types that *part* allows, said or implied."""
    named = _named_types(part.get("type"))
    if not named:
        named = {type_of(member) for member in member_list(part) or ()} & ALL_TYPES
    if not named:
        named = {name for keyword, name in _IMPLIED_TYPES.items() if keyword in part}
    if not named:
        return ALL_TYPES
    if part.get("nullable") is True:
        named.add("null")
    return frozenset(named | {"integer"} if "number" in named else named)


def member_list(part: Part) -> list[Any] | None:
    """List the values that `const` or `enum` allow, or None where neither is said."""
    if "const" in part:
        return [part["const"]]
    members = part.get("enum")
    return members if isinstance(members, list) and members else None


def declared(part: Part) -> dict[str, Any]:
    """Return the schemas of `properties` by name."""
    return _by_name(part, "properties")


def undeclared(parts: Iterable[Part], name: str) -> list[Any]:
    """Return the schemas of a property that is not declared: by pattern, else as additional."""
    matching: list[Any] = []
    rest: list[Any] = []
    for part in parts:
        for pattern, raw in _by_name(part, "patternProperties").items():
            if safe_pattern(pattern).occurs_in(name):
                matching.append(raw)
        raw = part.get("additionalProperties")
        if isinstance(raw, dict) or raw is True:
            rest.append(raw)
    return matching or rest


def required_names(part: Part) -> list[str]:
    """List the properties that must be there."""
    names = part.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def prefix_items(part: Part) -> list[Any]:
    """List the schemas of the first items; older drafts keep them in `items` itself."""
    for keyword in ("prefixItems", "items"):
        found = part.get(keyword)
        if isinstance(found, list):
            return found
    return []


def item_schemas(parts: Iterable[Part], index: int) -> list[Any]:
    """Return the schemas of the item at *index*, none if nothing is said about it."""
    found: list[Any] = []
    for part in parts:
        prefix = prefix_items(part)
        rest = part.get("additionalItems" if isinstance(part.get("items"), list) else "items")
        if index < len(prefix):
            found.append(prefix[index])
        elif isinstance(rest, (dict, bool)):
            found.append(rest)
    return found


def _by_name(part: Part, keyword: str) -> dict[str, Any]:
    found = part.get(keyword)
    if not isinstance(found, dict):
        return {}
    return {name: raw for name, raw in found.items() if isinstance(name, str)}


def _named_types(said: object) -> set[str]:
    """Read the keyword `type`; names count in any case (one provider writes ``STRING``)."""
    names = said if isinstance(said, list) else [said]
    return {name.lower() for name in names if isinstance(name, str)} & ALL_TYPES


def _type_of_number(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return ""
