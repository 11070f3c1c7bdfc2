"""Law 6 with the schemas that no tool should have: no text of a model raises."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from laws import Ending, check_readings, cut_at
from penstock import Parser, find_unread
from penstock.errors import CoercionError, UsageError, XMLParseError
from penstock.formats import Format
from penstock.formats.base import build_message
from penstock.formats.morph_xml import MORPH_XML
from penstock.formats.registry import BUILT_IN
from penstock.messages import ToolCall
from penstock.tools import Tool, read_tools
from penstock.values import coerce, rjson, rxml

Make = Callable[[random.Random, int], Any]

NAMES = [
    *("a", "b", "path", "items", "item", "", "a.b", "a b", "é", "😀", "k" * 300, "\n", "#text"),
    *("parameter", "arguments", "name", "function", "tool_call", "type", "properties", "$ref"),
    *("</parameter>", "<parameter=x>", 'a"b', "x=y", "tool", "id", "input", "\ud800", "@_a"),
]
"""Names of arguments: odd ones, and those of the markup around them."""

TYPES = ["object", "array", "string", "number", "integer", "boolean", "null", "OBJECT", "odd", ""]
REFERENCES = ["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/nowhere", "#/allOf/-1", "x", ""]
SCALARS = [None, True, False, 0, 1.5, 10**30, "", "a", "5", "[1]", '{"a": 1}', "<b>", "\ud83d"]
PIECES = [
    *("{", "}", "[", "]", '"', ",", ":", "\n", "\\", "</", "<", ">", "[[]]", "{}", "null", "-1"),
    *("1e999", "- a\n", "a: b\n", "```", "<a>", "</a>", "<item>", "<![CDATA[", "]]>", "\ud800"),
    *("<think>", "</think>", "log(", "<arguments>", "</parameter>", "<parameter=a>", '"name"'),
]
"""What a text is damaged with."""


def make_value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if kind < 0.6 or depth > 2:
        return rng.choice([*SCALARS, [], {}])
    if kind < 0.8:
        return [make_value(rng, depth + 1) for _ in range(rng.randint(0, 2))]
    return {rng.choice(NAMES): make_value(rng, depth + 1) for _ in range(rng.randint(0, 2))}


def make_schemas(rng: random.Random, depth: int) -> list[Any]:
    return [make_schema(rng, depth) for _ in range(rng.randint(0, 3))]


def make_named(rng: random.Random, depth: int) -> dict[str, Any]:
    return {rng.choice(NAMES): make_schema(rng, depth) for _ in range(rng.randint(0, 4))}


def make_schema(rng: random.Random, depth: int = 0) -> Any:
    """Make a schema; some of its keywords have values of the wrong type."""
    kind = rng.random()
    if kind < 0.1 and depth:
        return rng.choice([True, False, make_value(rng)])
    if depth > 3:
        return {"type": rng.choice(TYPES)}
    return {
        key: make_value(rng) if rng.random() < 0.08 else make(rng, depth + 1)
        for key, share, make in KEYWORDS
        if rng.random() < share
    }


KEYWORDS: list[tuple[str, float, Make]] = [
    ("type", 0.6, lambda rng, _: rng.choice([rng.choice(TYPES), rng.sample(TYPES, 2)])),
    ("properties", 0.5, make_named),
    ("required", 0.3, lambda rng, _: rng.sample(NAMES, 2)),
    ("additionalProperties", 0.2, make_schema),
    ("patternProperties", 0.1, lambda rng, depth: {"(": make_schema(rng, depth), ".": True}),
    ("items", 0.2, make_schema),
    ("prefixItems", 0.1, make_schemas),
    ("anyOf", 0.1, make_schemas),
    ("oneOf", 0.1, make_schemas),
    ("allOf", 0.1, make_schemas),
    ("not", 0.05, make_schema),
    ("enum", 0.1, lambda rng, _: [make_value(rng) for _ in range(rng.randint(0, 3))]),
    ("const", 0.05, lambda rng, _: make_value(rng)),
    ("$ref", 0.1, lambda rng, _: rng.choice(REFERENCES)),
    ("$defs", 0.2, lambda rng, depth: {"a": make_schema(rng, depth), "b": {"$ref": "#/$defs/b"}}),
    ("nullable", 0.05, lambda _, __: True),
]
"""Each keyword, how often a schema has it, and what it is."""


def make_tools(rng: random.Random) -> list[Any]:
    names = rng.sample(["log", "a", "x-y", "parameter", "arguments", "é", "think", "name"], 3)
    schemas = [make_schema(rng) for _ in range(4)]
    return [
        Tool("log_all", "", schemas[0]),
        {"type": "function", "function": {"name": names[0], "parameters": schemas[1]}},
        {"name": names[1], "input_schema": schemas[2]},
        {"functionDeclarations": [{"name": names[2], "parameters": schemas[3]}]},
    ]


def make_text(rng: random.Random, fmt: Format, tools: list[Tool]) -> str:
    """Write a call of one of *tools* that may fit its schema, and damage it."""
    tool = rng.choice(tools)
    declared = tool.parameters.get("properties")
    keys = [*(declared if isinstance(declared, dict) else ()), rng.choice(NAMES)]
    arguments = {key: make_value(rng) for key in keys}
    while True:
        style = fmt if fmt.name != "auto" else rng.choice(BUILT_IN)
        try:
            text = style.render_call(ToolCall("c", tool.name, arguments))
        except UsageError:
            if not arguments:
                return "".join(rng.choices(PIECES, k=9))
            arguments.popitem()
        else:
            break
    for _ in range(rng.choice([0, 1, 2, 3])):
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice([*PIECES, ""]) + text[at + rng.choice([0, 0, 1, 9]) :]
    return text


@pytest.mark.parametrize("fmt", BUILT_IN, ids=lambda fmt: fmt.name)
def test_no_text_raises_whatever_the_schemas_of_the_tools_are(fmt: Format) -> None:
    rng = random.Random(fmt.name)
    for _ in range(2):
        given = make_tools(rng)
        tools = read_tools(given)
        for _ in range(2):
            text = make_text(rng, fmt, tools)
            options: dict[str, Any] = {
                "arguments": rng.choice(["whole", "live"]),
                "repair": rng.random() < 0.7,
                "trim": rng.random() < 0.3,
                "fenced": rng.choice(["text", "calls"]),
                "max_calls": rng.choice([None, None, 1]),
                "untrusted": rng.choice([None, None, [text[: len(text) // 2]]]),
            }
            is_cut = rng.random() < 0.4

            def make() -> Ending:
                return Ending(Parser(fmt, given, **options), cut=is_cut)  # noqa: B023

            cut = cut_at(text, [rng.randint(0, len(text))])
            message = build_message(check_readings(make, text, [cut]))
            for call in message.tool_calls:
                assert isinstance(call.arguments, dict)
                assert not call.complete or rjson.dumps(call.arguments)
            find_unread(message, fmt, given)


def test_no_value_raises_whatever_its_schema_is() -> None:
    rng = random.Random(6)
    for _ in range(200):
        schema, value = make_schema(rng), make_value(rng)
        coerce(value, schema)
        text = make_text(rng, MORPH_XML, [Tool("log", "", {"properties": {}})])
        for strict in (False, True):
            try:
                rxml.loads(text, schema, strict=strict)
            except (XMLParseError, CoercionError):
                continue
