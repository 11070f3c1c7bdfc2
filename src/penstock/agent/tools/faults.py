"""Where and why a value does not fit its schema, in words that a model can act on.

`Schema.accepts` says yes or no; this walks the same nodes and tells what to change. What is cheap
to say is said: of alternatives that all fail, only one of the value's own type is gone into.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from penstock import _json
from penstock.errors import PenstockError
from penstock.values import Schema

MAX_SHOWN: Final = 80
"""How much of a wrong value is shown: enough to know it again."""

MAX_DEPTH: Final = 32
"""How deep faults are looked for; below that a value is only said not to fit."""

MAX_MEMBERS: Final = 30
"""How many values of an `enum` are listed: a model needs a choice, not a catalogue."""

_BOUNDS: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters long",
    "maxLength": "at most {} characters long",
    "pattern": "text that matches {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} properties",
    "maxProperties": "at most {} properties",
}
_KINDS: Final = {
    kind: Schema({"type": kind})
    for kind in ("null", "boolean", "integer", "number", "string", "array", "object")
}
_TYPE_NAMES: Final = {"integer": "an integer", "array": "an array", "object": "an object"}


def find_faults(value: object, schema: Schema, path: str = "", depth: int = 0) -> Iterator[str]:
    """Say what is wrong with *value*, each fault as ``path: what``; nothing if it fits."""
    if schema.accepts(value):
        return
    here = f"{path}: " if path else ""
    found = False
    if depth < MAX_DEPTH and _kind(value) in schema.types:
        for fault in _faults_inside(value, schema, path, depth):
            found = True
            yield fault
    if not found:
        yield f"{here}expected {expected(schema, value)}, got {_shown(value)}"


def expected(schema: Schema, value: object = None) -> str:
    """Say in words what *schema* asks for, as far as *value* does not have it."""
    if schema.members is not None:
        members = [_shown(each) for each in schema.members.values[:MAX_MEMBERS]]
        more = ", …" if len(schema.members.values) > MAX_MEMBERS else ""
        return f"one of {', '.join(members)}{more}"
    if _kind(value) in schema.types:
        bounds = [
            text.format(_shown(part[keyword]))
            for part in schema.parts
            for keyword, text in _BOUNDS.items()
            if keyword in part and not Schema({keyword: part[keyword]}).accepts(value)
        ]
        return " and ".join(bounds) or "something else (the schema says what)"
    names = sorted(schema.types - ({"integer"} if "number" in schema.types else set()))
    return " or ".join(_TYPE_NAMES.get(name, f"a {name}") for name in names) or "nothing at all"


def _faults_inside(value: object, schema: Schema, path: str, depth: int) -> Iterator[str]:
    for union in schema.unions:
        if not any(each.accepts(value) for each in union):
            alike = [each for each in union if _kind(value) in each.types]
            if len(alike) == 1:
                yield from find_faults(value, alike[0], path, depth + 1)
    if isinstance(value, dict):
        yield from _faults_of_object(value, schema.trunk, path, depth)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            item = schema.trunk.item(at)
            if item is not None:
                yield from find_faults(inner, item, f"{path}[{at}]", depth + 1)


def _faults_of_object(
    value: dict[Any, Any], schema: Schema, path: str, depth: int
) -> Iterator[str]:
    dotted = f"{path}." if path else ""
    for name in schema.required:
        if name not in value:
            child = schema.property(name)
            yield f"{dotted}{name}: missing" + (f", expected {expected(child)}" if child else "")
    for name, inner in value.items():
        child = schema.property(name) if isinstance(name, str) else None
        if child is not None:
            yield from find_faults(inner, child, f"{dotted}{name}", depth + 1)
        elif schema.closed:
            known = ", ".join(schema.properties) or "none"
            yield f"{dotted}{name}: unknown; known are: {known}"


def _kind(value: object) -> str:
    """Name the JSON type of *value* in the words of a schema."""
    return next((kind for kind, schema in _KINDS.items() if schema.accepts(value)), "")


def _shown(value: object) -> str:
    try:
        text = _json.encode(value).decode()
    except PenstockError:
        text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
