"""Tools are read from every shape that their owners have them in."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import UsageError
from penstock.tools import Tool, read_tools

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool("weather", "Tells the weather.", SCHEMA)
NAMED = {"name": "weather", "description": "Tells the weather."}

SHAPES: dict[str, Any] = {
    "plain": {**NAMED, "parameters": SCHEMA},
    "OpenAI Chat": {
        "type": "function",
        "function": {**NAMED, "parameters": SCHEMA, "strict": True},
    },
    "OpenAI Responses": {"type": "function", **NAMED, "parameters": SCHEMA, "strict": None},
    "Anthropic": {**NAMED, "input_schema": SCHEMA},
    "Anthropic, typed": {"type": "custom", **NAMED, "input_schema": SCHEMA},
    "Gemini": {
        **NAMED,
        "parameters": {
            "type": "OBJECT",
            "properties": {"city": {"type": "STRING"}},
            "required": ["city"],
        },
    },
    "Gemini, standard schema": {**NAMED, "parametersJsonSchema": SCHEMA},
    "MCP": {**NAMED, "inputSchema": SCHEMA, "annotations": {"title": "Weather"}},
    "AI SDK": {"type": "function", **NAMED, "inputSchema": {"jsonSchema": SCHEMA}},
    "Bedrock": {**NAMED, "inputSchema": {"json": SCHEMA}},
    "a wrapped schema": {**NAMED, "parameters": {"jsonSchema": SCHEMA}},
    "a schema as text": {
        **NAMED,
        "inputSchema": '{"jsonSchema": ' + str(SCHEMA).replace("'", '"') + "}",
    },
    "a tool already read": WEATHER,
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_tool_is_read_from_its_shape(shape: Any) -> None:
    assert Tool.read(shape) == WEATHER


@pytest.mark.parametrize(
    "data",
    [
        pytest.param([SHAPES["plain"]], id="a list"),
        pytest.param(SHAPES["Anthropic"], id="one tool"),
        pytest.param({"functionDeclarations": [SHAPES["Gemini"]]}, id="Gemini's declarations"),
        pytest.param([{"function_declarations": [SHAPES["Gemini"]]}], id="a list of declarations"),
        pytest.param({"tools": [SHAPES["MCP"]], "nextCursor": None}, id="an answer of MCP"),
        pytest.param(
            {"jsonrpc": "2.0", "id": 1, "result": {"tools": [SHAPES["MCP"]]}},
            id="an answer of MCP in its envelope",
        ),
        pytest.param([{"toolSpec": SHAPES["Bedrock"]}], id="a list of Bedrock's"),
        pytest.param({"1": SHAPES["plain"]}, id="a mapping of tools with names"),
        pytest.param(
            {"weather": {"description": "Tells the weather.", "inputSchema": SCHEMA}},
            id="the AI SDK's mapping by name",
        ),
    ],
)
def test_tools_are_read_from_any_collection(data: Any) -> None:
    assert read_tools(data) == [WEATHER]


def test_no_tools_are_no_tools() -> None:
    assert read_tools(None) == read_tools([]) == []


def test_a_tool_without_a_schema_or_description_takes_anything() -> None:
    assert Tool.read({"name": "ping", "parameters": None, "description": None}) == Tool("ping")
    assert Tool.read({"name": "ping", "parameters": True}) == Tool("ping")


def test_a_tool_of_free_text_takes_one_string() -> None:
    for shape in (
        {"type": "custom", "custom": {"name": "shell", "format": {"type": "text"}}},
        {"type": "custom", "name": "shell"},
    ):
        assert Tool.read(shape).parameters["properties"] == {"input": {"type": "string"}}
    Tool.read({"type": "custom", "name": "shell"}).parameters["properties"].clear()
    assert Tool.read({"type": "custom", "name": "python"}).parameters["properties"]


@pytest.mark.parametrize("name", ["name", "type", "function", "result", "tools"])
def test_a_tool_of_a_mapping_may_have_any_name(name: str) -> None:
    shape = {"description": "Tells the weather.", "inputSchema": SCHEMA}
    assert read_tools({name: shape}) == [Tool(name, "Tells the weather.", SCHEMA)]


def test_a_tool_of_a_mapping_may_have_nothing_but_its_name() -> None:
    assert read_tools({"f": {"inputSchema": SCHEMA}, "ping": {}})[1] == Tool("ping")


def test_a_schema_that_holds_itself_is_refused() -> None:
    endless: dict[str, Any] = {"type": "array"}
    endless["items"] = endless
    with pytest.raises(UsageError, match="nested too deeply"):
        Tool.read({"name": "f", "parameters": endless})


def test_gemini_types_are_spelled_as_the_standard_does_at_every_depth() -> None:
    schema = {
        "anyOf": [{"type": "ARRAY", "items": {"type": "INTEGER"}}, {"type": "NULL"}],
        "properties": {"type": {"type": "STRING", "enum": ["OBJECT"]}},
        "additionalProperties": False,
    }
    parameters = Tool.read({"name": "f", "parameters": schema}).parameters
    assert parameters == {
        "anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}],
        "properties": {"type": {"type": "string", "enum": ["OBJECT"]}},
        "additionalProperties": False,
    }
    assert schema["properties"]["type"]["type"] == "STRING", "the caller's own is untouched"  # type: ignore[index]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("weather", id="a name alone"),
        pytest.param(["weather"], id="a list of names"),
        pytest.param([1], id="a number"),
        pytest.param({}, id="nothing"),
        pytest.param({"description": "x"}, id="no name"),
        pytest.param({"name": ""}, id="an empty name"),
        pytest.param({"name": 3}, id="a name that is no text"),
        pytest.param({"name": "f", "parameters": [1]}, id="a schema that is a list"),
        pytest.param({"name": "f", "parameters": "{"}, id="a schema that is broken text"),
        pytest.param({"type": "web_search_20250305", "name": "web_search"}, id="a provider's own"),
        pytest.param([{"googleSearch": {}}], id="a provider's own, by its key"),
        pytest.param({"type": {"a": 1}}, id="a type that is no text"),
        pytest.param([SHAPES["MCP"], SHAPES["plain"]], id="two of one name"),
    ],
)
def test_what_is_no_tool_is_refused(data: Any) -> None:
    with pytest.raises(UsageError):
        read_tools(data)


def test_types_of_databases_and_of_c_are_those_of_json_schema() -> None:
    kinds = {
        "int32": "integer",
        "unsigned": "integer",
        "uint8": "integer",
        "float64": "number",
        "numeric": "number",
        "varchar": "string",
        "text": "string",
        "enum": "string",
        "binary": "boolean",
    }
    properties = {kind: {"type": kind} for kind in kinds}
    (tool,) = read_tools([{"name": "set", "parameters": {"properties": properties}}])
    assert {kind: tool.parameters["properties"][kind]["type"] for kind in kinds} == kinds
