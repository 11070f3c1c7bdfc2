"""What of a schema becomes rules, by what they match and what they do not."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbnf import Grammar
from penstock.errors import UsageError
from penstock.grammar.outline import JSON
from penstock.grammar.rules import Rules
from penstock.grammar.schema import Values
from penstock.grammar.text_without import JSON_LETTERS, RAW, Marks, text
from penstock.values.schema import Schema


def grammar_of(schema: Any) -> Grammar:
    rules = Rules()
    root = rules.name("root")
    rules.add(root, Values(rules, JSON).value(Schema(schema), "it"))
    return Grammar(rules.written())


TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"type": "null"}},
            "required": ["v"],
        }
    },
}
OPTIONAL = {
    "type": "object",
    "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}, "d": {"const": 4}},
    "required": ["c"],
}

CASES: list[tuple[Any, list[Any], list[Any]]] = [
    ({"type": "string"}, ["", "a", 'é"\\\n\u2028'], [1, None, ["a"]]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "a\n\u00e9"], ["a", "abcd"]),
    ({"type": "string", "maxLength": 0}, [""], ["a"]),
    ({"type": "string", "maxLength": 99999}, ["a" * 999], [1]),
    ({"type": "integer"}, [0, -7, 120], [1.5, "1", True]),
    ({"type": "integer", "minimum": 3, "exclusiveMaximum": 6}, [3, 4, 5], [2, 6, 33]),
    ({"type": "integer", "minimum": 0}, [0, 7], [-1]),
    ({"type": "integer", "exclusiveMinimum": 0}, [1, 70], [0, -1]),
    ({"type": "number"}, [0, -1.25, 3, 1e-7], ["1", None]),
    ({"type": "number", "minimum": 0}, [0.5, 12], [-0.5]),
    ({"type": "boolean"}, [True, False], [1, "true"]),
    ({"type": ["string", "null"]}, [None, "x"], [0]),
    ({"enum": ["a", 1, None, {"b": []}]}, ["a", 1, None, {"b": []}], ["b", 2]),
    ({"enum": ["a", 1], "type": "string"}, ["a"], [1]),
    ({"const": "[x]"}, ["[x]"], ["x"]),
    ({"anyOf": [{"type": "integer"}, {"const": "no"}]}, [4, "no"], ["yes", None]),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, [4, 4.5], ["4"]),
    ({"allOf": [{"type": "string"}, {"maxLength": 1}]}, ["x"], ["xy", 1]),
    ({"type": "array", "items": {"type": "integer"}}, [[], [1], [1, 2]], [["a"], 1]),
    ({"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 3}, [[1, 1], [1, 1, 1]],
     [[], [1], [1, 1, 1, 1]]),
    ({"type": "array", "maxItems": 0}, [[]], [[1]]),
    ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": {"const": 3}},
     [[], [1], [1, 2], [1, 2, 3, 3]], [[2], [1, 3], [1, 2, 4]]),
    ({"type": "array", "prefixItems": [{"const": 1}], "items": False, "minItems": 1}, [[1]],
     [[], [1, 1]]),
    (OPTIONAL, [{"c": 3}, {"a": 1, "c": 3}, {"b": 2, "c": 3, "d": 4}, {"c": 3, "d": 4},
                {"a": 1, "b": 2, "c": 3, "d": 4}], [{}, {"a": 1}, {"c": 4}, {"c": 3, "e": 1}]),
    ({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}},
     [{}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}], [{"c": 1}, {"a": 2}]),
    ({"type": "object"}, [{}, {"any": [1, {"x": None}]}], [[], 1]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"x": 1, "y": 2}],
     [{"x": "1"}]),
    ({"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": True},
     [{}, {"a": 1}, {"a": 1, "x": "y"}, {"x": 1}], [{"a": 1, "": 2}]),
    ({"type": "object", "additionalProperties": False}, [{}], [{"a": 1}]),
    ({"type": "object", "required": ["x"]}, [{"x": 1}], [{}]),
    ({"type": "object", "properties": {"a": False, "b": {"const": 1}}}, [{}, {"b": 1}], [{"a": 1}]),
    (TREE, [{"v": None}, {"next": {"next": {"v": None}, "v": None}, "v": None}], [{}, {"v": 1}]),
    ({"$ref": "#/nowhere"}, [1, "a", {}], []),
    ({}, [1, "a", None, [{"a": []}], -1.5e-9, True], []),
    ({"type": "string", "pattern": "^a", "format": "date"}, ["a", "b"], [1]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "right", "wrong"), CASES)
def test_a_schema_becomes_rules(schema: Any, right: list[Any], wrong: list[Any]) -> None:
    grammar = grammar_of(schema)
    assert grammar.reachable() == set(grammar.rules)
    for value, separators in itertools.product(right, ((",", ":"), (", ", ": "))):
        written = json.dumps(value, separators=separators, ensure_ascii=False)
        assert grammar.matches(written), written
    for value in wrong:
        assert not grammar.matches(json.dumps(value)), value


@pytest.mark.parametrize("schema", [case[0] for case in CASES])
def test_what_the_rules_give_is_json_that_the_schema_accepts(schema: Any) -> None:
    grammar, chance = grammar_of(schema), random.Random(1)
    loose = "pattern" in schema
    for _ in range(20):
        value = json.loads(grammar.sample(chance))
        assert loose or Schema(schema).accepts(value), value


@pytest.mark.parametrize(
    "schema",
    [False, {"enum": [1], "type": "string"}, {"allOf": [{"type": "string"}, {"type": "null"}]},
     {"type": "object", "properties": {"a": False}, "required": ["a"]}],
)  # fmt: skip
def test_a_schema_that_allows_nothing_is_refused(schema: Any) -> None:
    with pytest.raises(UsageError, match="allows no value"):
        grammar_of(schema)


def text_grammar(marks: tuple[str, ...], **bounds: Any) -> Grammar:
    rules = Rules()
    root = rules.name("root")
    folds = bounds.pop("folds", False)
    letters = bounds.pop("letters", RAW)
    rules.add(root, text(rules, letters, Marks(marks, folds=folds), **bounds))
    return Grammar(rules.written())


@given(
    st.lists(st.text("aab<", min_size=1, max_size=4), min_size=1, max_size=3, unique=True),
    st.text("ab<c", max_size=9),
)
def test_a_text_matches_just_where_no_mark_is_in_it(marks: list[str], said: str) -> None:
    grammar = text_grammar(tuple(marks))
    assert grammar.matches(said) == (not any(mark in said for mark in marks))


def test_marks_are_barred_in_any_case() -> None:
    grammar = text_grammar(("</x",), folds=True)
    assert grammar.matches("</ x < X")
    assert not grammar.matches("</X")


def test_a_bound_counts_characters() -> None:
    grammar = text_grammar(("<b>",), low=1, high=3)
    for said in ("<", "<b", "<<<", "a<b", "<b<", "abc"):
        assert grammar.matches(said), said
    for said in ("", "<b>", "abcd", "<<<<", "<b<b"):
        assert not grammar.matches(said), said


def test_a_bound_that_would_take_too_many_rules_counts_units() -> None:
    grammar = text_grammar(("<" + "b" * 9,), high=400)
    assert grammar.matches("<ba" * 134)  # 402 characters
    assert not grammar.matches("a" * 401)


def test_a_bound_is_exact_where_letters_can_be_escaped() -> None:
    grammar = text_grammar(("<b>",), high=3, letters=JSON_LETTERS)
    assert grammar.matches("a\\u003Cc")
    assert not grammar.matches("abcd")
    assert not grammar.matches("<<<")


def test_rules_of_equal_names_get_a_number() -> None:
    rules = Rules()
    assert [rules.name("a b!"), rules.name("a-b"), rules.name("1"), rules.name("\u00e9")] == [
        "a-b", "a-b-2", "r-1", "r",
    ]  # fmt: skip
