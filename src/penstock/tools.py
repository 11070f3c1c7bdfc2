"""Tools, read from the JSON of any provider.

Every provider wraps the same three things (a name, a description, a JSON Schema) in its own way.
`read_tools` accepts them all, so that the rest of penstock has one shape.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from penstock import _json
from penstock.errors import JSONParseError, UsageError, shorten

_SCHEMA_KEYS = (
    "parameters",  # OpenAI, Gemini, Ollama, plain
    "input_schema",  # Anthropic
    "inputSchema",  # MCP, AI SDK
    "parametersJsonSchema",  # Gemini, for standard JSON Schema
    "parameters_json_schema",
    "schema",
)
_WRAPPER_KEYS = ("jsonSchema", "json_schema", "json")  # AI SDK, the last one Bedrock
_LIST_KEYS = ("functionDeclarations", "function_declarations", "tools", "functions")
_FUNCTION_TYPES = {"function", "custom", "tool"}

MAX_QUOTE: Final = 80
"""How many characters of a value that is not a tool an error shows."""

# The schema of a tool that takes free text instead of JSON (OpenAI's `custom`).
_FREE_TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}


class Tool(Struct, frozen=True):
    """A tool that a model may call: its name, what it does, and the schema of its arguments."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, data: object) -> Tool:
        """Read one tool from any common JSON shape.

        Raises `UsageError` for a tool without a name or with an invalid schema, and for a tool that
        the provider runs (``{"type": "web_search_20250305"}``), which cannot be called here.
        """
        if isinstance(data, Tool):
            return data
        if not isinstance(data, Mapping):
            raise UsageError(f"a tool must be a JSON object, not {type(data).__name__}")
        kind = data.get("type")
        for key in ("function", "custom"):
            inner = data.get(key)
            if isinstance(inner, Mapping):
                return cls._from_fields(inner, free_text=key == "custom")
        if isinstance(kind, str) and kind not in _FUNCTION_TYPES and _find_schema(data) is None:
            raise UsageError(
                f"a tool of type {kind!r} is run by its provider, not by this program: remove it"
            )
        return cls._from_fields(data, free_text=kind == "custom")

    @classmethod
    def _from_fields(cls, data: Mapping[str, Any], *, free_text: bool) -> Tool:
        name = data.get("name")
        if not isinstance(name, str) or not name:
            raise UsageError("a tool needs a `name`")
        schema = _find_schema(data)
        if schema is None:
            schema = _FREE_TEXT if free_text else {}
        description = data.get("description")
        if not isinstance(description, str):
            description = ""
        if free_text:
            description = _with_grammar(description, data.get("format"))
        return cls(name, description, _read_schema(schema, name))


def _with_grammar(description: str, format: object) -> str:  # noqa: A002 - the field's name
    """Add the grammar of the free text to *description*: functions have no field for it."""
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

    Gemini's ``{"functionDeclarations": […]}`` and MCP's ``{"tools": […]}``, also as the `result` of
    its response, are unwrapped. Raises `UsageError` for two tools with one name: a call could not
    distinguish them.
    """
    if isinstance(data, (list, tuple)) and set(map(type, data)) == {Tool}:
        tools: list[Tool] = list(data)
    else:
        tools = [Tool.read(item) for item in _each_tool(data)]
    if len({tool.name for tool in tools}) < len(tools):
        uses = Counter(tool.name for tool in tools)
        doubled = [name for name, count in uses.items() if count > 1]
        names = ", ".join(doubled)
        raise UsageError(f"several tools are called {names}: give each a name of its own")
    return tools


def _each_tool(data: object) -> Iterator[object]:
    if data is None:
        return
    if isinstance(data, (str, bytes)):
        shown = shorten(repr(data), MAX_QUOTE)
        raise UsageError(f"a tool must be an object with a `name`, not the text {shown}")
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
        # The AI SDK has tools as {name: tool}; a name in the tool itself takes precedence.
        for name, tool in data.items():
            yield {"name": name, **tool}
    else:
        yield data


def _describes_tool(data: Mapping[str, Any]) -> bool:
    """Return whether *data* is a tool without its name: ``{"googleSearch": {}}`` is not."""
    return _find_schema(data) is not None or isinstance(data.get("description"), str)


def _find_schema(data: Mapping[str, Any]) -> object:
    return next((data[key] for key in _SCHEMA_KEYS if data.get(key) is not None), None)


def _read_schema(schema: object, name: str) -> dict[str, Any]:
    """Return the schema of tool *name*: unwrapped, decoded if it is text, with standard types."""
    if isinstance(schema, str):
        try:
            schema = _json.decode(schema)
        except JSONParseError as exc:
            raise UsageError(f"the schema of tool {name!r} is not JSON: {exc}") from exc
    for key in _WRAPPER_KEYS:
        if isinstance(schema, Mapping) and isinstance(schema.get(key), Mapping):
            schema = schema[key]
    if schema is True or schema is None:
        return {}
    if not isinstance(schema, Mapping):
        raise UsageError(f"the schema of tool {name!r} is not a JSON object")
    try:
        standard: dict[str, Any] = _with_standard_types(schema)
    except RecursionError:
        raise UsageError(f"the schema of tool {name!r} is nested too deeply") from None
    return standard


_STANDARD_TYPES: Final = frozenset(
    ("object", "array", "string", "number", "integer", "boolean", "null")
)
# Names of types in any case: those of JSON Schema (Gemini has capitals) and of Python.
_TYPES: Final = {
    **{name: name for name in _STANDARD_TYPES},
    **dict.fromkeys(("dict", "map"), "object"),
    **dict.fromkeys(("list", "tuple", "set"), "array"),
    **dict.fromkeys(("bool", "binary"), "boolean"),
    **dict.fromkeys(("str", "text", "char", "varchar", "enum"), "string"),
    "none": "null",
}
# Types of databases and of C, as vLLM and SGLang read them: ``int32``, ``unsigned``, ``float64``.
_INTEGERS: Final = ("int", "uint", "long", "short", "unsigned")
_NUMBERS: Final = ("num", "float", "double")

_SCHEMA, _SCHEMAS, _NAMED_SCHEMAS = range(3)
# The keywords that have schemas inside, and how.
_SCHEMAS_AT: Final = {
    **dict.fromkeys(("items", "additionalProperties", "not"), _SCHEMA),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _SCHEMAS),
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions"), _NAMED_SCHEMAS),
}


def _with_standard_types(schema: object) -> Any:
    """Write Gemini's ``"OBJECT"`` and Python's ``"dict"`` as ``"object"``, inside too."""
    if type(schema) is not dict and not isinstance(schema, Mapping):  # The first is faster.
        return schema
    written = dict(schema)
    kind = written.get("type")
    if isinstance(kind, str) and kind not in _STANDARD_TYPES:
        written["type"] = _standard_type(kind)
    elif isinstance(kind, list):
        written["type"] = [_standard_type(one) if isinstance(one, str) else one for one in kind]
    for key, value in schema.items():
        place = _SCHEMAS_AT.get(key)
        if place is None:
            continue
        if place == _SCHEMA:
            written[key] = _with_standard_types(value)
        elif place == _SCHEMAS and isinstance(value, list):
            written[key] = [_with_standard_types(inner) for inner in value]
        elif place == _NAMED_SCHEMAS and isinstance(value, Mapping):
            written[key] = {name: _with_standard_types(inner) for name, inner in value.items()}
    return written


def _standard_type(kind: str) -> str:
    """Return the name of *kind* in JSON Schema: ``List[str]`` is an array."""
    name = kind.partition("[")[0].strip().lower()
    if name.startswith(_INTEGERS):
        return "integer"
    if name.startswith(_NUMBERS):
        return "number"
    return _TYPES.get(name, kind)


def clean_name(name: str, tools: Iterable[str], *, folds: bool = False) -> str:
    """Return the known tool that *name* contains, or *name* itself if there is none, or several.

    With *folds*, the case of a name does not matter.
    """
    known = set(tools)
    if name in known:
        return name
    # Harmony: the channel follows the recipient, and weaker parsers leave both in the name.
    short = name.split("<|", maxsplit=1)[0].strip().strip("\"'`")
    # Kimi counts calls in the name (``functions.X:0``); SDKs replace the punctuation by `_`.
    bare = _NAMESPACE.sub("", _CALL_NUMBER.sub("", short))
    candidates = [short, bare]
    if bare != short:
        candidates.append(_CALL_SUFFIX.sub("", bare))
    first, dot, second = short.partition(".")
    if dot and first == second:  # Muse writes a tool without a namespace as ``X.X``.
        candidates.append(first)
    # Any other namespace may be that of another tool with the same name.
    for candidate in candidates:
        if candidate in known:
            return candidate
        same = [one for one in known if one.casefold() == candidate.casefold()]
        if folds and len(same) == 1:
            return same[0]
    return name


# Prefixes that models add to the name: `functions.` is gpt-oss's and Kimi's, `default_api` is
# Gemini's.
_NAMESPACE: Final = re.compile(r"\A(?i:(?:functions?|tools?|default_api)[._:/-]){1,2}")
_CALL_NUMBER: Final = re.compile(r":\d{1,4}\Z")
_CALL_SUFFIX: Final = re.compile(r"[_-]\d{1,4}\Z")
