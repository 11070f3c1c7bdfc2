"""A call that a tool's schema would accept, to show a model how one is written."""

from __future__ import annotations

from typing import Any, Final

from penstock.messages import ToolCall
from penstock.tools import Tool
from penstock.values.schema import Schema

MAX_EXAMPLE_DEPTH: Final = 4
"""How deep an example goes into a schema: it shows the form, not all that is possible."""

MAX_EXAMPLE_ARGUMENTS: Final = 3
"""How many arguments an example has, unless more are required."""

_PLAIN: Final[dict[str, Any]] = {
    "string": "some text",
    "boolean": True,
    "integer": 1,
    "number": 1.5,
    "null": None,
}


def example_call(tool: Tool) -> ToolCall:
    """Make a call of *tool*: what is required, and some of the other arguments."""
    return ToolCall("", tool.name, _example_object(Schema(tool.parameters), 1))


def _example_object(schema: Schema, depth: int) -> dict[str, Any]:
    names = list(schema.required)
    others = [name for name in schema.properties if name not in names]
    names += others[: max(0, MAX_EXAMPLE_ARGUMENTS - len(names))]
    return {name: _example(schema.property(name), depth) for name in names}


def _example(schema: Schema | None, depth: int) -> Any:
    if schema is None:
        return "some text"
    for given in ("examples", "default"):
        value = schema.raw.get(given) if isinstance(schema.raw, dict) else None
        if isinstance(value, list) and given == "examples":
            value = value[0] if value else None
        if value is not None and schema.accepts(value):
            return value
    if schema.members is not None and schema.members.values:
        return schema.members.values[0]
    if schema.wants == "object":
        return _example_object(schema, depth + 1) if depth < MAX_EXAMPLE_DEPTH else {}
    if schema.wants == "array":
        item = schema.item(0)
        return [_example(item, depth + 1)] if depth < MAX_EXAMPLE_DEPTH else []
    return _PLAIN.get(schema.wants or "string")
