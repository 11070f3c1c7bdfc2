"""JSON Schemas in the API's two forms: its own subset, and standard JSON Schema.

`parameters` and `responseSchema` take a subset with types in capitals, which every model supports;
`parametersJsonSchema` and `responseJsonSchema` take the standard. A schema that fits the subset is
written as that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.errors import UsageError
from penstock.tools import Tool

MAX_DEPTH: Final = 32
"""How deep a schema of the subset may nest; a deeper one is written as JSON Schema."""

_KEYS: Final = frozenset(
    {
        "type", "format", "title", "description", "nullable", "enum", "default", "example",
        "items", "minItems", "maxItems", "properties", "required", "minProperties",
        "maxProperties", "propertyOrdering", "minLength", "maxLength", "pattern", "minimum",
        "maximum", "anyOf",
    }
)  # fmt: skip
_FORMATS: Final = {
    "string": {"date-time", "enum"},
    "number": {"float", "double"},
    "integer": {"int32", "int64"},
}
_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})


def read_schema(data: object) -> dict[str, Any]:
    """Read a schema in either form as JSON Schema; a value that is not one is empty."""
    try:
        return Tool.read({"name": "schema", "parameters": data}).parameters
    except UsageError:
        return {}


def write_schema(schema: dict[str, Any], key: str, standard_key: str) -> dict[str, Any]:
    """Write *schema* under *key* if it fits the subset, else under *standard_key*."""
    if fits(schema):
        return {key: _with_capitals(schema)}
    return {standard_key: schema}


def fits(schema: dict[str, Any]) -> bool:
    """Return whether the subset can express *schema*, which must be of an object."""
    level: list[object] = [schema]
    for _ in range(MAX_DEPTH):
        if not level:
            return schema.get("type") == "object"
        if not all(_fits_alone(inner) for inner in level):
            return False
        level = [below for inner in level if isinstance(inner, Mapping) for below in _below(inner)]
    return False


def _fits_alone(schema: object) -> bool:
    """Return whether *schema* fits, without the schemas inside it."""
    if not isinstance(schema, Mapping) or not schema.keys() <= _KEYS:
        return False
    if "type" not in schema:
        return bool(schema.get("anyOf")) and isinstance(schema["anyOf"], list)
    type_ = schema["type"]
    if not isinstance(type_, str) or type_ not in _TYPES:
        return False
    if "format" in schema and schema["format"] not in _FORMATS.get(type_, ()):
        return False
    if "enum" in schema and not (type_ == "string" and _are_strings(schema["enum"])):
        return False
    if type_ == "object":  # The API refuses one without properties.
        return isinstance(schema.get("properties"), Mapping) and bool(schema["properties"])
    return type_ != "array" or "items" in schema


def _are_strings(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) and value for value in values)


def _below(schema: Mapping[str, Any]) -> Iterator[object]:
    if "items" in schema:
        yield schema["items"]
    if isinstance(schema.get("properties"), Mapping):
        yield from schema["properties"].values()
    if isinstance(schema.get("anyOf"), list):
        yield from schema["anyOf"]


def _with_capitals(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Write types in capitals, also in the schemas inside; `fits` has bounded the depth."""
    written = dict(schema)
    if "type" in written:
        written["type"] = written["type"].upper()
    if "items" in written:
        written["items"] = _with_capitals(written["items"])
    if "anyOf" in written:
        written["anyOf"] = [_with_capitals(inner) for inner in written["anyOf"]]
    if "properties" in written:
        written["properties"] = {
            name: _with_capitals(inner) for name, inner in written["properties"].items()
        }
    return written
