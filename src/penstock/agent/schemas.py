"""Schemas as each provider accepts them for its structured output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from penstock.models.tool_choice import map_schemas

RESULT: Final = "result"
"""The key of an output that is not an object itself: APIs want an object at the root."""

_DATA: Final = frozenset({"const", "enum", "default", "examples"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})

# https://platform.openai.com/docs/guides/structured-outputs: with `strict`, other keywords are
# refused. `default` is one of them.
_STRICT_KEYWORDS: Final = frozenset(
    {
        "$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum",
        "exclusiveMaximum", "exclusiveMinimum", "items", "maxItems", "maximum", "minItems",
        "minimum", "multipleOf", "pattern", "properties", "required", "title", "type",
    }
)  # fmt: skip

# Anthropic refuses a schema with one of these. Each becomes a part of the description.
_ANTHROPIC_NOTES: Final = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
    "maxLength", "pattern", "maxItems", "minItems", "minProperties", "maxProperties", "uniqueItems",
)  # fmt: skip


def inline_root(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* with its *definitions*; one that is only a reference is replaced."""
    prefix = "#/$defs/"
    reference = schema.get("$ref", "")
    if set(schema) == {"$ref"} and reference.startswith(prefix):
        name = reference.removeprefix(prefix)
        schema = definitions[name]
        if not any(one == reference for one in _iter_references(definitions)):
            definitions = {key: value for key, value in definitions.items() if key != name}
    return {**schema, "$defs": definitions} if definitions else dict(schema)


def is_plain_object(schema: dict[str, Any]) -> bool:
    """Return whether *schema* is an object at its root, without alternatives."""
    return schema.get("type") == "object" and not {"anyOf", "oneOf", "allOf", "$ref"} & set(schema)


def wrap(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object whose only property `result` has *schema*."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {
        "type": "object",
        "properties": {RESULT: inner},
        "required": [RESULT],
        "additionalProperties": False,
        **definitions,
    }


def close_objects(schema: Any) -> Any:
    """Return *schema* in which every object with properties takes no others."""

    def close(node: dict[str, Any]) -> dict[str, Any]:
        return {"additionalProperties": False, **node} if "properties" in node else node

    return map_schemas(schema, close)


def is_strict(schema: dict[str, Any]) -> bool:
    """Return whether OpenAI accepts *schema* with `strict`: closed, and all properties required."""
    return all(
        set(node) <= _STRICT_KEYWORDS
        and (
            "properties" not in node
            or (
                node.get("additionalProperties") is False
                and set(node["properties"]) == set(node.get("required", ()))
            )
        )
        and not (node.get("type") == "object" and "properties" not in node)
        for node in _iter_nodes(schema)
    )


def is_recursive(schema: dict[str, Any]) -> bool:
    """Return whether a definition of *schema* refers to itself."""
    edges = {
        name: {one.rpartition("/")[2] for one in _iter_references(each)}
        for name, each in schema.get("$defs", {}).items()
    }
    for name, direct in edges.items():
        seen: set[str] = set()
        waiting = set(direct)
        while waiting:
            one = waiting.pop()
            if one == name:
                return True
            if one not in seen:
                seen.add(one)
                waiting |= edges.get(one, set())
    return False


def move_bounds(schema: Any) -> Any:
    """Return *schema* for Anthropic: bounds, which it refuses, are moved to the descriptions."""

    def move(node: dict[str, Any]) -> dict[str, Any]:
        notes = [f"{key}: {node[key]}" for key in _ANTHROPIC_NOTES if key in node]
        if not notes:
            return node
        kept = {key: value for key, value in node.items() if key not in _ANTHROPIC_NOTES}
        described = [text for text in (node.get("description", ""), ", ".join(notes)) if text]
        return {**kept, "description": ". ".join(described)}

    return map_schemas(schema, move)


# --- nodes ---


def _iter_nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, list):
        for one in schema:
            yield from _iter_nodes(one)
    elif isinstance(schema, dict):
        yield schema
        for key, value in schema.items():
            if key in _NAMED and isinstance(value, dict):
                for each in value.values():
                    yield from _iter_nodes(each)
            elif key not in _DATA:
                yield from _iter_nodes(value)


def _iter_references(schema: Any) -> Iterator[str]:
    nodes = schema.values() if isinstance(schema, dict) and "$ref" not in schema else [schema]
    for one in nodes:
        for node in _iter_nodes(one):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
