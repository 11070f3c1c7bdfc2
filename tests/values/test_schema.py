"""`Schema`: what it finds through references and combinators, and how it takes nonsense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import CoercionError
from penstock.values.schema import MAX_MERGED, Schema
from penstock.values.schema_keywords import ALL_TYPES, json_type

NUMBER = {"type": "number"}
STRING = {"type": "string"}
NULL = {"type": "null"}


def types(*names: str) -> frozenset[str]:
    return frozenset(names)


def found(schema: Schema | None) -> Schema:
    assert schema is not None
    return schema


TYPES: dict[str, tuple[object, frozenset[str]]] = {
    "a name": ({"type": "string"}, types("string")),
    "a list": ({"type": ["string", "null"]}, types("string", "null")),
    "a number may be an integer": (NUMBER, types("number", "integer")),
    "nullable": ({"type": "integer", "nullable": True}, types("integer", "null")),
    "capitals": ({"type": "STRING"}, types("string")),
    "an unknown name": ({"type": "any"}, ALL_TYPES),
    "properties": ({"properties": {}}, types("object")),
    "additional properties": ({"additionalProperties": NUMBER}, types("object")),
    "items": ({"items": NUMBER}, types("array")),
    "prefix items": ({"prefixItems": [NUMBER]}, types("array")),
    "members": ({"enum": ["a", None, 4.5]}, types("string", "null", "number", "integer")),
    "a const": ({"const": True}, types("boolean")),
    "a type over members": ({"type": "string", "enum": [1]}, types("string")),
    "alternatives": ({"anyOf": [STRING, {"oneOf": [NULL]}]}, types("string", "null")),
    "a trunk and alternatives": (
        {"type": ["string", "object"], "anyOf": [STRING, NULL]},
        types("string"),
    ),
    "two unions": ({"anyOf": [STRING, NULL], "oneOf": [STRING, NUMBER]}, types("string")),
    "all of": (
        {"allOf": [{"type": ["string", "null"]}, {"type": ["string", "array"]}]},
        types("string"),
    ),
    "nullable over a reference": (
        {"$ref": "#/$defs/n", "nullable": True, "$defs": {"n": STRING}},
        types("string", "null"),
    ),
    "nothing": ({}, ALL_TYPES),
    "true": (True, ALL_TYPES),
    "false": (False, types()),
    "false in all of": ({"allOf": [STRING, False]}, types()),
    "a union of itself": ({"anyOf": [{"$ref": "#"}, STRING]}, types("string")),
}


@pytest.mark.parametrize(("schema", "expected"), TYPES.values(), ids=TYPES.keys())
def test_types_are_those_that_a_value_may_have(schema: object, expected: frozenset[str]) -> None:
    assert Schema(schema).types == expected


STRINGS: dict[str, tuple[object, bool]] = {
    "a string": (STRING, True),
    "a string with limits": ({"type": "string", "maxLength": 5, "format": "uri"}, True),
    "a string by reference": ({"$ref": "#/$defs/s", "$defs": {"s": STRING}}, True),
    "a string in all of": ({"allOf": [STRING, {"maxLength": 3}]}, True),
    "alternatives that are all strings": (
        {"anyOf": [STRING, {"type": "string", "pattern": "a"}]},
        True,
    ),
    "a wrapped string": ({"jsonSchema": STRING}, True),
    "a string or null": ({"type": ["string", "null"]}, False),
    "a nullable string": ({"type": "string", "nullable": True}, False),
    "an enum": ({"type": "string", "enum": ["a"]}, False),
    "a const": ({"const": "a"}, False),
    "an enum among alternatives": ({"anyOf": [STRING, {"enum": ["a"]}]}, False),
    "an enum by reference": (
        {"allOf": [{"$ref": "#/$defs/e"}], "$defs": {"e": {"enum": ["a"]}}},
        False,
    ),
    "anything": ({}, False),
    "nothing known": (None, False),
    "a reference to nowhere": ({"$ref": "#/gone"}, False),
}


@pytest.mark.parametrize(("schema", "expected"), STRINGS.values(), ids=STRINGS.keys())
def test_is_string_tells_what_may_stream(schema: object, *, expected: bool) -> None:
    assert Schema(schema).is_string is expected


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": ["string", "array", "object"]}, "object"),
        ({"type": ["integer", "boolean"]}, "boolean"),
        ({"type": ["integer", "number"]}, "number"),
        ({"type": ["null", "string"]}, "string"),
        (NULL, "null"),
        ({}, None),
        (False, None),
    ],
)
def test_wants_is_the_first_of_the_types_in_order(schema: object, wanted: str | None) -> None:
    assert Schema(schema).wants == wanted


REFERENCES: dict[str, tuple[str, dict[str, Any]]] = {
    "the root's definitions": ("#/$defs/x", {"$defs": {"x": NUMBER}}),
    "the older definitions": ("#/definitions/x", {"definitions": {"x": NUMBER}}),
    "any pointer": ("#/x/b/items", {"x": {"b": {"items": NUMBER}}}),
    "a list's index": ("#/allOf/0/then/1", {"allOf": [{"then": [STRING, NUMBER]}]}),
    "escaped signs": ("#/$defs/a~1b~0c", {"$defs": {"a/b~c": NUMBER}}),
    "percent signs": ("#/$defs/a%20%C3%A4", {"$defs": {"a \u00e4": NUMBER}}),
    "an empty name": ("#/$defs/", {"$defs": {"": NUMBER}}),
    "an anchor": ("#here", {"$defs": {"x": {"$anchor": "here", **NUMBER}}}),
    "an id": ("urn:x", {"$defs": {"x": {"$id": "urn:x", **NUMBER}}}),
    "a place below an id": ("urn:y#/$defs/x", {"$id": "urn:y", "$defs": {"x": NUMBER}}),
    "a chain": ("#/$defs/x", {"$defs": {"x": {"$ref": "#/$defs/y"}, "y": NUMBER}}),
    "a wrapped node": ("#/$defs/x", {"$defs": {"x": {"jsonSchema": NUMBER}}}),
}


@pytest.mark.parametrize(("reference", "rest"), REFERENCES.values(), ids=REFERENCES.keys())
def test_a_reference_is_followed(reference: str, rest: dict[str, Any]) -> None:
    child = Schema({"properties": {"a": {"$ref": reference}}, **rest}).property("a")
    assert found(child).resolve().types == types("number", "integer")


@pytest.mark.parametrize(
    "reference",
    [
        "#/gone",
        "#/$defs/a/b",
        "#/list/2",
        "#/list/-1",
        "#/list/01",
        "#nowhere",
        "other.json",
        "https://example.com/x#/y",
        "#/n/x",
        5,
        None,
    ],
)
def test_a_reference_to_nowhere_is_told_by_resolve_alone(reference: object) -> None:
    document = {"$ref": reference, "$defs": {"a": True}, "list": [{}, {}], "n": 5}
    schema = Schema(document)
    with pytest.raises(CoercionError):
        schema.resolve()
    assert schema.free
    assert schema.accepts("anything")


def test_a_reference_that_leads_only_to_itself_is_told_by_resolve() -> None:
    ring = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a", "description": "round"}}
    with pytest.raises(CoercionError, match="itself"):
        Schema({"$ref": "#/$defs/a", "$defs": ring}).resolve()
    assert Schema({"type": "object", "allOf": [{"$ref": "#"}]}).resolve().types == types("object")


def test_a_whole_schema_resolves_to_itself() -> None:
    schema = Schema({"properties": {"a": {"$ref": "#/gone"}}})
    assert schema.resolve() is schema
    assert found(schema.property("a")).broken is not None


def test_properties_are_found_through_everything() -> None:
    schema = Schema(
        {
            "properties": {"own": NUMBER},
            "allOf": [{"properties": {"all": STRING}}],
            "anyOf": [{"properties": {"any": STRING}}, {"anyOf": [{"properties": {"any": NULL}}]}],
            "$ref": "#/$defs/x",
            "$defs": {"x": {"properties": {"reference": STRING, "own": {"minimum": 3}}}},
        }
    )
    assert set(schema.properties) == {"own", "all", "any", "reference"}
    assert found(schema.property("any")).types == types("string", "null")
    assert not found(schema.property("own")).accepts(2)
    assert found(schema.property("own")).accepts(3)
    assert schema.property("other") is None


def test_an_undeclared_property_has_the_schema_of_a_pattern_or_the_rest() -> None:
    schema = Schema(
        {
            "properties": {"x_a": STRING},
            "patternProperties": {"^x_": NUMBER, "b$": {"minimum": 3}, "(x+)+": NULL},
            "additionalProperties": {"type": "boolean"},
        }
    )
    assert found(schema.property("x_a")).types == types("string")
    assert found(schema.property("x_c")).types == types("number", "integer")
    assert not found(schema.property("x_b")).accepts(2)
    assert found(schema.property("xx")).types == types("boolean")


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        ({"additionalProperties": False}, True),
        ({"allOf": [{"additionalProperties": False}]}, True),
        ({"additionalProperties": {}}, False),
        ({}, False),
    ],
)
def test_closed_means_that_unknown_properties_are_refused(schema: object, *, closed: bool) -> None:
    assert Schema(schema).closed is closed


def test_items_are_found_by_position() -> None:
    schema = Schema({"prefixItems": [STRING, NULL], "items": NUMBER})
    assert [found(schema.item(at)).wants for at in (0, 1, 2, 999)] == [
        "string",
        "null",
        "number",
        "number",
    ]
    assert Schema({"prefixItems": [STRING]}).item(1) is None
    assert Schema({"type": "array"}).item(0) is None
    older = Schema({"items": [STRING], "additionalItems": NUMBER})
    assert [found(older.item(at)).wants for at in (0, 1)] == ["string", "number"]
    either = Schema({"anyOf": [{"items": STRING}, {"items": NUMBER}]})
    assert found(either.item(5)).types == types("string", "number", "integer")


def test_required_and_nullable_are_read_through_references() -> None:
    schema = Schema({"required": ["a", 5], "allOf": [{"required": ["b", "a"]}, {"required": "c"}]})
    assert schema.required == ("a", "b")
    assert Schema({"anyOf": [NULL, STRING]}).nullable
    assert not Schema(STRING).nullable


def test_a_wrapped_schema_is_unwrapped_and_is_its_own_root() -> None:
    inner = {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": NUMBER}}
    schema = Schema({"jsonSchema": {"jsonSchema": inner}})
    assert found(schema.property("a")).wants == "number"
    assert Schema.of(schema) is schema
    assert Schema({"properties": {"jsonSchema": NUMBER}}).wants == "object"


def test_no_schema_is_not_the_schema_of_anything() -> None:
    assert Schema(None).absent
    assert Schema({"jsonSchema": None}).absent
    assert not Schema({}).absent
    assert Schema({"description": "x", "title": "y"}).free


def test_a_node_is_looked_up_once() -> None:
    schema = Schema({"properties": {"a": {"$ref": "#"}, "b": {"items": {"$ref": "#"}}}})
    assert schema.property("a") is schema.property("a")
    again = found(found(schema.property("a")).property("a"))
    assert again is schema.property("a")


def test_names_that_models_choose_fill_no_memory() -> None:
    patterns = {f"{chr(97 + n)}": {"minimum": n} for n in range(14)}
    schema = Schema({"patternProperties": patterns})
    for number in range(2**14):
        name = "".join(chr(97 + n) for n in range(14) if number >> n & 1)
        assert number == 0 or schema.property(name) is not None
    assert len(schema.document.merged) <= MAX_MERGED
    assert len(schema.document.nodes) < 100


def test_very_deep_combinators_come_to_an_end() -> None:
    for keyword in ("anyOf", "allOf", "oneOf", "not"):
        schema: dict[str, Any] = {"type": "string"}
        for _ in range(20_000):
            schema = {keyword: [schema], "minLength": 0} if keyword != "not" else {"not": schema}
        wanted = Schema(schema)
        assert wanted.types <= ALL_TYPES
        assert wanted.accepts("x") in {True, False}
        assert wanted.property("x") is None


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (4.0, "integer"),
        (4.5, "number"),
        (float("inf"), "number"),
        (float("nan"), "number"),
        (True, "boolean"),
        (10**40, "integer"),
        ((), ""),
        (b"", ""),
    ],
)
def test_the_type_of_a_value_is_the_json_one(value: object, name: str) -> None:
    assert json_type(value) == name


KEYWORDS = [
    *("type", "properties", "items", "prefixItems", "anyOf", "allOf", "oneOf", "not", "$ref"),
    *("enum", "const", "required", "nullable", "additionalProperties", "patternProperties"),
    *("jsonSchema", "$id", "$anchor", "$defs"),
]
NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS) | st.text(max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(document=NONSENSE, name=st.text(max_size=3), index=st.integers(0, 3))
def test_nonsense_is_read_without_complaint(document: Any, name: str, index: int) -> None:
    waiting = [Schema(document)]
    for _ in range(20):
        if not waiting:
            break
        schema = waiting.pop()
        assert schema.types <= ALL_TYPES
        assert schema.wants in {*ALL_TYPES, None}
        assert schema.accepts(document) in {True, False}
        assert not schema.is_string or schema.wants == "string"
        children = [schema.property(name), schema.item(index), *schema.properties.values()]
        waiting.extend(child for child in children if child is not None)


def test_a_schema_shows_its_document() -> None:
    assert repr(Schema(STRING)) == "Schema({'type': 'string'})"
