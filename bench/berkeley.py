"""Real calls of real tools: the Berkeley function-calling data, as penstock's own tools and calls.

The package `bfcl-eval` brings the data along; only its files are wanted, so it is unpacked beside
the virtual environment without what it depends on. Each case has its tools and, for every argument,
the values that count as right: the first of them is taken, and `""` means that none may be given.

The schemas are written in words of Python, Java and JavaScript, and some contradict their own
answers. What is no JSON Schema is translated; where a schema says nothing about a value, or does
not allow it, it is made to say what the value is. The values are coerced first, so a call is what a
model that obeys the schema would write.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from penstock.formats.round_trip import infer_schema
from penstock.messages import ToolCall
from penstock.tools import Tool
from penstock.values import Schema, coerce

PACKAGE = "bfcl-eval==2026.3.23"
CACHE = Path(__file__).parent.parent / ".venv" / "bfcl"
DATA = CACHE / "bfcl_eval" / "data"
TRIES = 4

CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "simple_java",
    "simple_javascript",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
)
"""The kinds of cases whose right answers are calls, one turn each."""

TYPES: dict[str, dict[str, Any]] = {
    "dict": {"type": "object"},
    "hashmap": {"type": "object"},
    "tuple": {"type": "array"},
    "arraylist": {"type": "array"},
    "float": {"type": "number"},
    "double": {"type": "number"},
    "long": {"type": "integer"},
    "char": {"type": "string"},
    "any": {},
    "": {},
}
"""Types that JSON Schema has under another name; `any` and no type at all say nothing."""

KEPT = ("description", "enum", "required")
"""What a schema says in the same words everywhere; defaults and formats bind no reader."""


class Case(NamedTuple):
    """One question: the tools that were offered, and the calls that answer it."""

    category: str
    name: str
    tools: list[Tool]
    calls: list[ToolCall]


def fetch() -> None:
    """Unpack the data, unless it is there; the network is tried again a few times."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    command += ["--retries", "5", "install", "--no-deps", "--no-compile", "--only-binary", ":all:"]
    for left in reversed(range(TRIES)):
        if DATA.is_dir():
            return
        subprocess.run([*command, "--target", str(CACHE), PACKAGE], check=left == 0)


def cases() -> Iterator[Case]:
    """Give every case of every category, in the order of the files."""
    for category in CATEGORIES:
        file = f"BFCL_v4_{category}.json"
        right = _entries(f"possible_answer/{file}")
        answers = {entry["id"]: entry["ground_truth"] for entry in right}
        for entry in _entries(file):
            yield _case(category, entry, answers[entry["id"]])


def _entries(file: str) -> list[dict[str, Any]]:
    lines = (DATA / file).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def _case(category: str, entry: dict[str, Any], answer: list[dict[str, Any]]) -> Case:
    schemas = {tool["name"]: translated(tool["parameters"]) for tool in entry["function"]}
    calls = []
    for number, said in enumerate(answer):
        ((name, allowed),) = said.items()
        arguments = coerce(first_of(allowed), schemas[name])
        schemas[name] = completed(schemas[name], arguments)
        calls.append(ToolCall(f"call_{number}", name, arguments))
    tools = [
        Tool(tool["name"], tool["description"], schemas[tool["name"]]) for tool in entry["function"]
    ]
    return Case(category, entry["id"], tools, calls)


def first_of(allowed: dict[str, list[Any]]) -> dict[str, Any]:
    """Take the first allowed value of each argument; leave out those that need not be given."""
    chosen = ((key, [value for value in values if value != ""]) for key, values in allowed.items())
    return {key: _plain(values[0]) for key, values in chosen if values}


def _plain(value: Any) -> Any:
    """Give *value* without the lists of choices that stand inside its objects."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(inner, list) for inner in value.values()):
        return first_of(value)
    return value


def translated(schema: dict[str, Any]) -> dict[str, Any]:
    """Give *schema* in the words of JSON Schema."""
    kind = str(schema.get("type", "")).lower()
    made = dict(TYPES.get(kind, {"type": kind}))
    made |= {key: schema[key] for key in KEPT if key in schema}
    if isinstance(schema.get("items"), dict):
        made["items"] = translated(schema["items"])
    if isinstance(schema.get("properties"), dict):
        properties = schema["properties"].items()
        made["properties"] = {key: translated(inner) for key, inner in properties}
    return made


def completed(schema: dict[str, Any], value: Any) -> dict[str, Any]:
    """Give *schema* with all that it has to say about *value*."""
    if not ({"type", "enum"} & schema.keys() and Schema.of(_flat(schema)).accepts(value)):
        return infer_schema(value)
    if isinstance(value, dict):
        properties = dict(schema.get("properties", {}))
        for key, inner in value.items():
            properties[key] = completed(properties.get(key, {}), inner)
        return schema | {"properties": properties}
    if isinstance(value, list) and value:
        items = reduce(completed, value, schema.get("items", {}))
        fits = all(Schema.of(items).accepts(item) for item in value)
        return schema | {"items": items if fits else infer_schema(value)["items"]}
    return schema


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """Give *schema* without what it says about insides, and about what has to be there."""
    return {key: schema[key] for key in ("type", "enum") if key in schema}
