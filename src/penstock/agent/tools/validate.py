"""Whether the arguments of a call fit its tool, and what the model should change if not.

`Schema.accepts` returns yes or no; `find_faults` walks the same nodes and says what to change. Of
alternatives that all fail, only one of the value's own type is explained.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from penstock import _json
from penstock.agent.tools.base import AgentTool
from penstock.errors import PenstockError, ToolError, shorten
from penstock.messages import ToolCall
from penstock.values import Schema, coerce

MAX_FAULTS: Final = 8
"""How many faults of one call are reported: with more, the model should read the schema again."""

MAX_RENDERED: Final = 80
"""How many characters of a wrong value are shown: enough to recognise it."""

MAX_DEPTH: Final = 32
"""How deep faults are searched for; deeper, a value is only reported not to fit."""

MAX_MEMBERS: Final = 30
"""How many values of an `enum` are listed: enough to choose from."""

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


def prepare(tool: AgentTool, call: ToolCall) -> dict[str, Any]:
    """Return the arguments of *call* as *tool* takes them, without changing the call.

    They are coerced by the schema: ``"5"`` becomes 5 for a number, and null is dropped for a
    property that is optional and not nullable. Raises `ToolError`, with a message for the model, if
    they do not fit then; a *lenient* tool gets them as they arrived. A call that was cut off is
    always refused.
    """
    if not call.complete:
        raise ToolError(f"The call of `{call.name}` was cut off, so it was not run. Call it again.")
    schema = Schema(tool.tool.parameters)
    # Some models send null for every optional property that they do not use.
    arguments = coerce(drop_nulls(call.arguments, schema), schema, typed=True)
    if isinstance(arguments, dict) and schema.accepts(arguments):
        return _copy(arguments)
    if tool.lenient:
        return _copy(call.arguments)
    faults = list_faults(arguments, schema)
    raise ToolError(f"The arguments of `{tool.name}` do not fit its schema:\n{faults}")


def _copy(arguments: dict[str, Any]) -> dict[str, Any]:
    """Copy what a tool may change: the call belongs to the conversation."""
    copy: dict[str, Any] = _json.decode(_json.encode(arguments))
    return copy


def drop_nulls(arguments: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Return *arguments* without nulls that may only be absent: some models fill in everything."""
    kept = {}
    for name, value in arguments.items():
        child = schema.properties.get(name)
        is_optional = child is not None and name not in schema.required
        if value is None and child is not None and is_optional and not child.accepts(None):
            continue
        kept[name] = value
    return kept


# --- faults ---


def list_faults(value: object, schema: Schema) -> str:
    """Return the faults of *value* as a list, one on each line, at most `MAX_FAULTS` of them."""
    faults = list(islice(find_faults(value, schema), MAX_FAULTS + 1))
    lines = [f"- {fault}" for fault in faults[:MAX_FAULTS]]
    return "\n".join([*lines, *(["- … and more"] if len(faults) > MAX_FAULTS else [])])


def find_faults(value: object, schema: Schema, path: str = "", depth: int = 0) -> Iterator[str]:
    """Yield what is wrong with *value*, each as ``path: what``; nothing if it fits."""
    if schema.accepts(value):
        return
    found = False
    if depth < MAX_DEPTH and _kind_for(value) in schema.types:
        for fault in _find_inside(value, schema, path, depth):
            found = True
            yield fault
    if not found:
        here = f"{path}: " if path else ""
        yield f"{here}expected {_describe_expected(schema, value)}, got {_render(value)}"


def _describe_expected(schema: Schema, value: object = None) -> str:
    """Describe what *schema* requires, as far as *value* does not have it."""
    if schema.members is not None:
        members = [_render(each) for each in schema.members.values[:MAX_MEMBERS]]
        more = ", …" if len(schema.members.values) > MAX_MEMBERS else ""
        return f"one of {', '.join(members)}{more}"
    if _kind_for(value) in schema.types:
        bounds = [
            text.format(_render(part[keyword]))
            for part in schema.parts
            for keyword, text in _BOUNDS.items()
            if keyword in part and not Schema({keyword: part[keyword]}).accepts(value)
        ]
        return " and ".join(bounds) or "something else (see the schema)"
    # JSON Schema: every integer is a number, so naming both would be redundant.
    names = sorted(schema.types - ({"integer"} if "number" in schema.types else set()))
    return " or ".join(_TYPE_NAMES.get(name, f"a {name}") for name in names) or "nothing at all"


def _find_inside(value: object, schema: Schema, path: str, depth: int) -> Iterator[str]:
    for union in schema.unions:
        if not any(each.accepts(value) for each in union):
            alike = [each for each in union if _kind_for(value) in each.types]
            # With several alternatives of the same type it is unknown which one was meant.
            if len(alike) == 1:
                yield from find_faults(value, alike[0], path, depth + 1)
    if isinstance(value, dict):
        yield from _find_in_object(value, schema.trunk, path, depth)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            item = schema.trunk.item(at)
            if item is not None:
                yield from find_faults(inner, item, f"{path}[{at}]", depth + 1)


def _find_in_object(value: dict[Any, Any], schema: Schema, path: str, depth: int) -> Iterator[str]:
    dotted = f"{path}." if path else ""
    for name in schema.required:
        if name not in value:
            child = schema.property(name)
            expected = f", expected {_describe_expected(child)}" if child else ""
            yield f"{dotted}{name}: missing{expected}"
    for name, inner in value.items():
        child = schema.property(name) if isinstance(name, str) else None
        if child is not None:
            yield from find_faults(inner, child, f"{dotted}{name}", depth + 1)
        elif schema.closed:
            known = ", ".join(schema.properties) or "none"
            yield f"{dotted}{name}: unknown; known are: {known}"


def _kind_for(value: object) -> str:
    """Return the JSON type of *value* as a schema names it."""
    return next((kind for kind, schema in _KINDS.items() if schema.accepts(value)), "")


def _render(value: object) -> str:
    try:
        text = _json.encode(value).decode()
    except PenstockError:
        text = repr(value)
    return shorten(text, MAX_RENDERED)
