"""`Schema.accepts`: what satisfies a schema, as far as coercion and repair need to know."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values.schema import Schema, same

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
ROW = {
    "type": "object",
    "properties": {"id": INTEGER, "name": STRING},
    "required": ["id"],
    "additionalProperties": False,
}

#                  schema, what it accepts, what it does not
JUDGED: dict[str, tuple[object, list[Any], list[Any]]] = {
    "an integer": (INTEGER, [4, -4, 4.0, 10**30], [4.5, True, "4", None, float("nan")]),
    "a number": ({"type": "number"}, [4, 4.5], [True, "4.5"]),
    "a boolean": ({"type": "boolean"}, [True, False], [1, 0, "true"]),
    "a type list": ({"type": ["string", "null"]}, ["", None], [0]),
    "nullable": ({"type": "string", "nullable": True}, [None, "a"], [1]),
    "nullable over an enum": ({"enum": ["a"], "nullable": True}, [None, "a"], ["b"]),
    "an enum": (
        {"enum": ["a", 1, None, [1, {"x": 2}]]},
        ["a", 1, 1.0, None, [1.0, {"x": 2}]],
        ["b", True, [1]],
    ),
    "a const": ({"const": False}, [False], [0, None]),
    "an object": (
        ROW,
        [{"id": 1}, {"id": 1, "name": "a"}],
        [{}, {"id": "1"}, {"id": 1, "z": 1}, []],
    ),
    "an open object": ({"properties": {"a": INTEGER}}, [{}, {"z": "x"}], [{"a": "x"}, "x"]),
    "additional properties": ({"additionalProperties": INTEGER}, [{}, {"z": 1}], [{"z": "x"}]),
    "pattern properties": (
        {"patternProperties": {"^n": INTEGER}},
        [{"n": 1, "z": "x"}],
        [{"n": "x"}],
    ),
    "items": ({"items": INTEGER}, [[], [1, 2]], [[1, "2"], 1]),
    "a tuple": ({"prefixItems": [STRING], "items": INTEGER}, [["a", 1], []], [["a", "b"], [1]]),
    "items that are forbidden": ({"prefixItems": [STRING], "items": False}, [["a"]], [["a", 1]]),
    "any of": ({"anyOf": [INTEGER, STRING]}, [1, "a"], [None, 1.5]),
    "one of, read as any of": ({"oneOf": [INTEGER, {"type": "number"}]}, [1, 1.5], ["a"]),
    "all of": ({"allOf": [INTEGER, {"minimum": 3}]}, [3], [2, "3"]),
    "not": ({"type": "string", "not": {"enum": ["a"]}}, ["b"], ["a", 1]),
    "a minimum and a maximum": ({"minimum": 1, "maximum": 2.5}, [1, 2.5, "text"], [0, 3]),
    "exclusive bounds": ({"exclusiveMinimum": 1, "exclusiveMaximum": 3}, [2], [1, 3]),
    "a multiple": ({"multipleOf": 3}, [0, 9, 4.5, "x"], [4]),
    "a length": ({"minLength": 1, "maxLength": 2}, ["a", "ab", 5], ["", "abc"]),
    "a pattern": ({"type": "string", "pattern": "^a"}, ["ab"], ["b", 1]),
    "an unsafe pattern": ({"type": "string", "pattern": "^(a+)+$"}, ["b" * 50], [1]),
    "a number of items": ({"minItems": 1, "maxItems": 1}, [[1]], [[], [1, 2]]),
    "a number of properties": (
        {"minProperties": 1, "maxProperties": 1},
        [{"a": 1}],
        [{}, {"a": 1, "b": 2}],
    ),
    "bounds of the wrong kind": (
        {"minimum": "1", "maxLength": None, "pattern": 5, "multipleOf": 0},
        [0, "abc"],
        [],
    ),
    "an older draft's exclusive flag": ({"minimum": 1, "exclusiveMinimum": True}, [1], [0]),
    "true": (True, [1, None, "a"], []),
    "false": (False, [], [1, None, "a"]),
    "a property that is false": ({"properties": {"a": False}}, [{}], [{"a": 1}]),
    "a recursive schema": (
        {"properties": {"next": {"$ref": "#"}, "n": INTEGER}},
        [{"next": {"next": {"n": 1}}}],
        [{"next": {"next": {"n": "1"}}}, {"next": 5}],
    ),
    "what JSON does not know": ({"type": "array"}, [[1]], [(1,), b"", {1}, object()]),
}


@pytest.mark.parametrize(("schema", "right", "wrong"), JUDGED.values(), ids=JUDGED.keys())
def test_right_values_are_told_from_wrong_ones(
    schema: object, right: list[Any], wrong: list[Any]
) -> None:
    wanted = Schema(schema)
    assert [value for value in right if not wanted.accepts(value)] == []
    assert [value for value in wrong if wanted.accepts(value)] == []


def test_nested_alternatives_are_judged_once_each() -> None:
    branch = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    schema = Schema({"anyOf": [{**branch, "required": [name]} for name in ("x", "y", "z")]})
    value: dict[str, Any] = {}
    for _ in range(40):
        value = {"next": value, "z": 1}
    assert not schema.accepts(value)
    inner = value
    while inner:
        last, inner = inner, inner["next"]
    last["next"] = {"z": 1}
    assert schema.accepts(value)


def test_a_not_of_the_same_schema_does_not_double_the_work() -> None:
    schema = Schema(
        {
            "properties": {"a": {"$ref": "#"}},
            "not": {"properties": {"a": {"$ref": "#"}}, "required": ["b"]},
        }
    )
    value: dict[str, Any] = {}
    for _ in range(40):
        value = {"a": value}
    assert schema.accepts(value)
    assert not schema.accepts({"a": value, "b": 1})


def test_what_lies_very_deep_is_taken_for_right() -> None:
    schema = Schema({"type": "array", "items": {"$ref": "#"}})
    value: list[Any] = [5]
    assert not schema.accepts(value)
    for _ in range(10_000):
        value = [value]
    assert schema.accepts(value)


def test_a_value_that_contains_itself_is_judged() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert Schema({"items": {"anyOf": [{"$ref": "#"}]}}).accepts(loop) in {True, False}
    assert same(loop, loop)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(value=JSON_VALUES, other=JSON_VALUES)
def test_a_const_accepts_its_value_alone(value: Any, other: Any) -> None:
    schema = Schema({"const": value})
    assert schema.accepts(value)
    assert schema.accepts(other) is same(value, other)
    assert same(value, other) is same(other, value)
