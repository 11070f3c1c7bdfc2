"""Tools, read from whatever JSON their owner has them in.

Every provider wraps the same three things (a name, a description, a JSON Schema) in its own way.
`read_tools` takes them all, so that the rest of penstock knows one shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from penstock import _json
from penstock.errors import JSONParseError, UsageError

_SCHEMA_KEYS = (
    "parameters",  # OpenAI, Gemini, Ollama, plain
    "input_schema",  # Anthropic
    "inputSchema",  # MCP, AI SDK
    "parametersJsonSchema",  # Gemini, for a schema in the standard's own words
    "parameters_json_schema",
    "schema",
)
_WRAPPER_KEYS = ("jsonSchema", "json_schema", "json")  # AI SDK, the last one Bedrock
_LIST_KEYS = ("functionDeclarations", "function_declarations", "tools", "functions")
_FUNCTION_TYPES = {"function", "custom", "tool"}

_FREE_TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
"""What a tool that takes free text instead of JSON (OpenAI's `custom`) looks like to us."""


class Tool(Struct, frozen=True):
    """A tool that a model may call: its name, what it does, and the schema of its arguments."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, data: object) -> Tool:
        """Read one tool from any common JSON shape.

        Raises `UsageError` for what has no name or no readable schema, and for a tool that a
        provider runs by itself (``{"type": "web_search_20250305"}``): nobody here could call it.
        """
        if isinstance(data, Tool):
            return data
        if not isinstance(data, Mapping):
            raise UsageError(f"a tool is a JSON object, not {type(data).__name__}")
        kind = data.get("type")
        for key in ("function", "custom"):
            inner = data.get(key)
            if isinstance(inner, Mapping):
                return cls._from_fields(inner, free_text=key == "custom")
        if isinstance(kind, str) and kind not in _FUNCTION_TYPES and _schema_of(data) is None:
            raise UsageError(f"a tool of type {kind!r} belongs to its provider")
        return cls._from_fields(data, free_text=kind == "custom")

    @classmethod
    def _from_fields(cls, data: Mapping[str, Any], *, free_text: bool) -> Tool:
        name = data.get("name")
        if not isinstance(name, str) or not name:
            raise UsageError("a tool needs a name")
        schema = _schema_of(data)
        if schema is None:
            schema = _FREE_TEXT if free_text else {}
        description = data.get("description")
        if not isinstance(description, str):
            description = ""
        if free_text:
            description = _with_grammar(description, data.get("format"))
        return cls(name, description, _read_schema(schema, name))


def _with_grammar(description: str, format: object) -> str:  # noqa: A002 - the field's name
    """Add the grammar that the free text has to obey: no function has a field for it."""
    outer = format if isinstance(format, Mapping) else {}
    inner = outer.get("grammar")
    fields = inner if isinstance(inner, Mapping) else outer
    grammar, syntax = fields.get("definition"), fields.get("syntax")
    if not isinstance(grammar, str) or not grammar:
        return description
    kind = f" ({syntax})" if isinstance(syntax, str) else ""
    return f"{description}\n\nThe input obeys this grammar{kind}:\n{grammar}".strip()


def read_tools(data: object) -> list[Tool]:
    """Read every tool of *data*: a list in any mix of shapes, one tool, or a mapping by name.

    Gemini's ``{"functionDeclarations": […]}`` and MCP's ``{"tools": […]}``, also as the `result`
    of its answer, are opened. Two tools of one name are refused: a call could not tell which is
    meant.
    """
    tools = [Tool.read(item) for item in _each_tool(data)]
    uses = Counter(tool.name for tool in tools)
    doubled = [name for name, count in uses.items() if count > 1]
    if doubled:
        raise UsageError(f"several tools are called {', '.join(doubled)}")
    return tools


def _each_tool(data: object) -> Iterator[object]:
    if data is None:
        return
    if isinstance(data, (str, bytes)):
        raise UsageError("tools are JSON values, not JSON text")
    if isinstance(data, (list, tuple)):
        for item in data:
            yield from _each_tool(item)
    elif isinstance(data, Mapping):
        yield from _each_of_mapping(data)
    else:
        yield data


def _each_of_mapping(data: Mapping[str, Any]) -> Iterator[object]:
    result = data.get("result")
    if isinstance(result, Mapping) and "tools" in result:
        data = result
    for key in _LIST_KEYS:
        if isinstance(data.get(key), (list, tuple)):
            yield from _each_tool(data[key])
            return
    tools = data.values()
    if all(isinstance(tool, Mapping) for tool in tools) and any(map(_describes_tool, tools)):
        # The AI SDK keeps tools as {name: tool}; a name in the tool itself goes before that.
        for name, tool in data.items():
            yield {"name": name, **tool}
    else:
        yield data


def _describes_tool(data: Mapping[str, Any]) -> bool:
    """Return a tool, its name aside, from settings: Gemini's ``{"googleSearch".

    {}}`` is not one.
    """
    return _schema_of(data) is not None or isinstance(data.get("description"), str)


def _schema_of(data: Mapping[str, Any]) -> object:
    return next((data[key] for key in _SCHEMA_KEYS if data.get(key) is not None), None)


def _read_schema(schema: object, name: str) -> dict[str, Any]:
    """Unwrap the schema of tool *name*, decode it where it is text, spell types as the standard."""
    if isinstance(schema, str):
        try:
            schema = _json.decode(schema)
        except JSONParseError as exc:
            raise UsageError(f"the schema of tool {name!r} is no JSON: {exc}") from exc
    for key in _WRAPPER_KEYS:
        if isinstance(schema, Mapping) and isinstance(schema.get(key), Mapping):
            schema = schema[key]
    if schema is True or schema is None:
        return {}
    if not isinstance(schema, Mapping):
        raise UsageError(f"the schema of tool {name!r} is no JSON object")
    try:
        standard: dict[str, Any] = _with_standard_types(schema)
    except RecursionError:
        raise UsageError(f"the schema of tool {name!r} nests without end") from None
    return standard


_GEMINI_TYPES = {"OBJECT", "ARRAY", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "NULL"}
_SCHEMA_AT = ("items", "additionalProperties", "not")
_SCHEMAS_AT = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED_SCHEMAS_AT = ("properties", "patternProperties", "$defs", "definitions")


def _with_standard_types(schema: object) -> Any:
    """Spell Gemini's ``"OBJECT"`` as ``"object"``, here and in every schema below."""
    if not isinstance(schema, Mapping):
        return schema
    spelled = dict(schema)
    if isinstance(spelled.get("type"), str) and spelled["type"] in _GEMINI_TYPES:
        spelled["type"] = spelled["type"].lower()
    for key in _SCHEMA_AT:
        if key in spelled:
            spelled[key] = _with_standard_types(spelled[key])
    for key in _SCHEMAS_AT:
        if isinstance(spelled.get(key), list):
            spelled[key] = [_with_standard_types(inner) for inner in spelled[key]]
    for key in _NAMED_SCHEMAS_AT:
        if isinstance(spelled.get(key), Mapping):
            spelled[key] = {
                name: _with_standard_types(inner) for name, inner in spelled[key].items()
            }
    return spelled
