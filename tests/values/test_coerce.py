"""`coerce`: the vectors, the rules one by one, and what must hold for any value and schema."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_linear
from penstock.values import coerce
from penstock.values.coercion import MAX_TRIES
from penstock.values.schema import Schema
from penstock.values.schema_keywords import MAX_DEPTH

VECTORS = Path(__file__).parent.parent / "vectors" / "coerce.jsonl"

NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}
STRING = {"type": "string"}
BOOLEAN = {"type": "boolean"}
NUMBERS = {"type": "array", "items": NUMBER}
STRINGS = {"type": "array", "items": STRING}
OBJECT = {"type": "object", "properties": {"a": NUMBER, "s": STRING}}
ROW = {
    "type": "object",
    "properties": {"id": INTEGER, "name": STRING},
    "additionalProperties": False,
}


def as_json(value: object) -> str:
    """Write a value so that 1, 1.0, True and "1" all differ."""
    return json.dumps(value, sort_keys=False)


def vectors() -> list[Any]:
    lines = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]
    return [pytest.param(line, id=f"{line['id']}: {line['why']}") for line in lines]


@pytest.mark.parametrize("vector", vectors())
def test_a_vector_gives_exactly_what_it_expects(vector: dict[str, Any]) -> None:
    assert as_json(coerce(vector["value"], vector["schema"])) == as_json(vector["expect"])


def case(sentence: str, schema: object, value: object, expected: object) -> Any:
    return pytest.param(schema, value, expected, id=sentence)


def left(sentence: str, schema: object, value: object) -> Any:
    return pytest.param(schema, value, value, id=sentence)


SCALARS = [
    case("leading zeros of a number count for nothing", NUMBER, "01", 1),
    case("a whole number with a point is an integer", INTEGER, "4.0", 4),
    case("an exponent is an integer where it is whole", INTEGER, "1e3", 1000),
    case("an integer of forty digits stays exact", INTEGER, "1" * 40, int("1" * 40)),
    case("an integer of 4300 digits is converted", INTEGER, "9" * 4300, 10**4300 - 1),
    left("an integer of more digits stays text", INTEGER, "9" * 4301),
    left("a number beyond all floats stays text", NUMBER, "1e999"),
    left("hexadecimal stays text", NUMBER, "0x1f"),
    left("an underscore stays text", NUMBER, "1_000"),
    left("infinity stays text", NUMBER, "Infinity"),
    left("a plus sign stays text", NUMBER, "+1"),
    left("a lone point stays text", NUMBER, "1."),
    left("digits of other scripts stay text", NUMBER, "\u0661\u0662"),
    left("an empty text is no number", NUMBER, ""),
    left("a boolean is no number", NUMBER, True),
    left("null is no number", NUMBER, None),
    left("a float stays where an integer is wanted", INTEGER, 4.5),
    left("a number is no boolean", BOOLEAN, 1),
    case("a number becomes a string", STRING, 1.5, "1.5"),
    case("a big integer becomes a string", STRING, 10**30, "1" + "0" * 30),
    case("a boolean becomes a string as JSON writes it", STRING, True, "true"),
    left("an object is not made a string", STRING, {"a": 1}),
    left("an array is not made a string", STRING, ["a"]),
    left("null is not made a string", STRING, None),
    left("infinity is not made a string", STRING, float("inf")),
    left("a string keeps its leading zeros", STRING, "00501"),
    left("a string keeps text that is null", STRING, "null"),
    left("a string keeps text that is JSON", STRING, '{"a": 1}'),
]

TYPE_LISTS = [
    left("a string stays where the list names strings", {"type": ["number", "string"]}, "5"),
    case("boolean goes before number", {"type": ["number", "boolean"]}, "true", True),
    case("the next type is tried if the first fails", {"type": ["boolean", "integer"]}, "5", 5),
    case("array goes before number", {"type": ["number", "array"]}, "5", [5]),
    case("the text null is null", {"type": ["integer", "null"]}, " null ", None),
    case("the text null is null before a list is made", {"type": ["array", "null"]}, "null", None),
    left("the text null stays where strings are meant", {"type": ["string", "null"]}, "null"),
    case(
        "nullable lets the text null be null", {"type": "integer", "nullable": True}, "null", None
    ),
    left("null stays where a type list names it", {"type": ["array", "null"]}, None),
    case("types count in capitals", {"type": "INTEGER"}, "5", 5),
    left("an unknown type says nothing", {"type": "quantity"}, "5"),
    left("an empty schema leaves text", {}, "5"),
    left("a schema of mere words leaves text", {"description": "anything"}, "5"),
    left("the schema false leaves text", False, "5"),
]

OBJECTS = [
    case("relaxed JSON", OBJECT, "{a: 5, s: hello,}", {"a": 5, "s": "hello"}),
    case("a Python dict", OBJECT, "{'a': None, 's': True}", {"a": None, "s": "true"}),
    case("an apostrophe inside", OBJECT, '{"s": "it\'s"}', {"s": "it's"}),
    case("lines of tags", OBJECT, "<a>5</a>\n<s> x </s>", {"a": 5, "s": " x "}),
    case("entities in tags", OBJECT, "<s>&#65; &lt; b &amp;amp;</s>", {"s": "A < b &amp;"}),
    case(
        "a tag that comes again", {"properties": {"a": NUMBERS}}, "<a>1</a><a>2</a>", {"a": [1, 2]}
    ),
    left("tags that do not match", OBJECT, "<a>5</b>"),
    left("tags with text around", OBJECT, "see <a>5</a>"),
    left("broken JSON", OBJECT, '{"a": '),
    left("an array as text", OBJECT, "[1]"),
    left("an empty text", OBJECT, ""),
    left("an array", OBJECT, [1]),
    left("not a number inside", OBJECT, '{"a": 1e999}'),
    case("the last of equal keys", OBJECT, '{"a": 1, "a": 2}', {"a": 2}),
]

ARRAYS = [
    case("lines go before commas", STRINGS, "a, b\nc", ["a, b", "c"]),
    case("relaxed JSON", STRINGS, "[a, 'b',]", ["a", "b"]),
    case("an empty text is an empty list", STRINGS, "", []),
    case("an empty JSON list", STRINGS, " [] ", []),
    case("text of digits stays text in a list of strings", STRINGS, "00501", ["00501"]),
    case("a decimal keeps its zeros in a list of strings", STRINGS, "1.50", ["1.50"]),
    case("a broken JSON list is split at commas", STRINGS, "[a, b", ["[a", "b"]),
    case("a null becomes a list of null", NUMBERS, None, [None]),
    case(
        "JSON lines", {"type": "array", "items": OBJECT}, '{"a":"1"}\n{"a":2}', [{"a": 1}, {"a": 2}]
    ),
    case("items without a schema are read freely", {"type": "array"}, "1, x, true", [1, "x", True]),
    case("a list in a list", {"type": "array", "items": NUMBERS}, "5", [[5]]),
    left("arrays that hold only arrays take no scalar", {"items": {"$ref": "#"}}, "5"),
    case("arrays that hold only arrays", {"items": {"$ref": "#"}}, "[[], [[]]]", [[], [[]]]),
    case("index keys out of order", NUMBERS, {"10": "3", "2": "1"}, [1, 3]),
    case("no keys at all", NUMBERS, {}, []),
    case("a sole key around a scalar", STRINGS, {"line": "x"}, ["x"]),
    case("a sole key where items are free", {"type": "array"}, {"line": "x"}, [{"line": "x"}]),
    case(
        "a sole key around an object",
        {"type": "array", "items": ROW},
        {"row": {"id": "1"}},
        [{"id": 1}],
    ),
    case(
        "an object that is one element", {"type": "array", "items": ROW}, {"id": "1"}, [{"id": 1}]
    ),
    case(
        "a sole key that is the element's own",
        {"type": "array", "items": {"type": "object", "properties": {"tags": STRINGS}}},
        {"tags": ["x", "y"]},
        [{"tags": ["x", "y"]}],
    ),
    case(
        "columns of strict items are zipped",
        {"type": "array", "items": ROW},
        {"id": ["1", "2"], "name": ["a", "b"]},
        [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
    ),
    case(
        "columns of unequal length are one element",
        {"type": "array", "items": ROW},
        {"id": ["1", "2"], "name": ["a"]},
        [{"id": ["1", "2"], "name": ["a"]}],
    ),
    case(
        "columns of open items are one element",
        {"type": "array", "items": {"type": "object", "properties": {"id": INTEGER, "v": STRING}}},
        {"id": ["1", "2"], "v": ["a", "b"]},
        [{"id": ["1", "2"], "v": ["a", "b"]}],
    ),
    case(
        "items after the tuple's are coerced by items",
        {"prefixItems": [STRING], "items": NUMBER},
        ["1", "2", "3"],
        ["1", 2, 3],
    ),
    case("a tuple of an older draft", {"items": [NUMBER, STRING]}, "1, 2", [1, "2"]),
]

PROPERTIES = [
    case(
        "true leaves an unknown one",
        {"properties": {}, "additionalProperties": True},
        {"z": "2"},
        {"z": "2"},
    ),
    case(
        "false keeps and leaves one",
        {"properties": {}, "additionalProperties": False},
        {"z": "2"},
        {"z": "2"},
    ),
    case("a schema takes an unknown one", {"additionalProperties": NUMBER}, {"z": "2"}, {"z": 2}),
    case("a pattern takes one", {"patternProperties": {"^n_": NUMBER}}, {"n_x": "2"}, {"n_x": 2}),
    case(
        "a declaration goes before a pattern",
        {"properties": {"n": STRING}, "patternProperties": {"^n": NUMBER}},
        {"n": "1", "n2": "2"},
        {"n": "1", "n2": 2},
    ),
    case(
        "an unsafe pattern takes none",
        {"patternProperties": {"^(n+)+$": NUMBER}, "additionalProperties": True},
        {"nn": "2"},
        {"nn": "2"},
    ),
]

RENAMED = [
    case("snake for camel", ["file_path"], {"filePath": "x"}, {"file_path": "x"}),
    case("camel for snake", ["filePath"], {"FILE_PATH": "x"}, {"filePath": "x"}),
    case("plural for singular", ["tag"], {"Tags": "x"}, {"tag": "x"}),
    case("singular for plural", ["tags"], {"tag": "x"}, {"tags": "x"}),
    case(
        "the nearer of two",
        ["file_path"],
        {"filepaths": 1, "filePath": 2},
        {"filepaths": 1, "file_path": 2},
    ),
    left("two that are alike", ["file_path"], {"filePath": 1, "filepath": 2}),
    left("one that is like two", ["file_path", "filepath"], {"FilePath": 1}),
    left("a known one", ["tag"], {"tag": 1, "tags": 2}),
    left("a required one", ["filePath", "file_path"], {"file_path": 1}),
    left("one that is not alike", ["path"], {"file": 1}),
    case("order is kept", ["b_b", "a"], {"bB": 1, "a": 2}, {"b_b": 1, "a": 2}),
]

FREE = [
    case("an integer", None, "42", 42),
    case("a negative integer", None, "-7", -7),
    case("false in capitals", None, "FALSE", False),
    case("a JSON array", None, ' ["5"] ', ["5"]),
    left("leading zeros", None, "00531"),
    left("a trailing zero", None, "1.50"),
    left("a whole number with a point", None, "1.0"),
    left("an underscore", None, "1_000"),
    left("an exponent", None, "1e3"),
    left("an exponent as Python prints it", None, "1e+16"),
    left("minus zero", None, "-0"),
    left("more digits than a float has", None, "0.12345678901234567890"),
    left("null", None, "null"),
    left("relaxed JSON", None, "[INFO]"),
    left("not a number in JSON", None, "[NaN]"),
    left("texts inside an object", None, {"a": "1"}),
    left("texts inside a list", None, ["1"]),
]

UNITS = {"type": "string", "enum": ["lb", "kg", "fl oz", "driver's"]}
MEMBERS = [
    case("padding", UNITS, " lb ", "lb"),
    case("case", UNITS, "KG", "kg"),
    case("quotes around", UNITS, '"lb"', "lb"),
    case("padding inside quotes", UNITS, "' lb '", "lb"),
    case("inner white space", UNITS, "fl \n oz", "fl oz"),
    case("the shape of a quote", UNITS, "driver\u2019s", "driver's"),
    left("a member", UNITS, "lb"),
    left("no member", UNITS, "stone"),
    left("two members", {"enum": ["a", "A"]}, " a "),
    case("a number by its text", {"enum": [1, 2, 3]}, "2", 2),
    left("a number that is a member", {"enum": [1, 2]}, 2),
    left("true, which is not 1", {"enum": [1, 2]}, True),
    case("a boolean by its text", {"enum": [True, False]}, "True", True),
    case("null by its text", {"enum": ["a", None]}, "null", None),
    case("a string for a number", {"type": "string", "enum": ["1", "2"]}, 2, "2"),
    case("a const", {"const": "add"}, "Add", "add"),
    case("a const number", {"const": 5}, "5", 5),
    case("a list by its JSON", {"enum": [[1, 2]]}, "[1, 2]", [1, 2]),
]

CIRCLE = {
    "type": "object",
    "properties": {"kind": {"const": "circle"}, "r": NUMBER},
    "required": ["kind", "r"],
}
LABEL = {
    "type": "object",
    "properties": {"kind": {"const": "label"}, "r": STRING},
    "required": ["kind"],
}
UNIONS = [
    left("no branch fits", {"anyOf": [INTEGER, BOOLEAN]}, "abc"),
    case("the first branch that fits", {"anyOf": [BOOLEAN, NUMBER]}, "5", 5),
    case("oneOf as well", {"oneOf": [BOOLEAN, INTEGER]}, "TRUE", True),
    left("a list stays a list of strings", {"anyOf": [STRINGS, STRING]}, ["1"]),
    case(
        "an object by its kind",
        {"anyOf": [CIRCLE, LABEL]},
        {"kind": "circle", "r": "2"},
        {"kind": "circle", "r": 2},
    ),
    case(
        "an object of text",
        {"anyOf": [CIRCLE, LABEL]},
        '{"kind": "Label", "r": 5}',
        {"kind": "label", "r": "5"},
    ),
    left("text of the right kind", {"anyOf": [CIRCLE, LABEL]}, {"kind": "label", "r": "2"}),
    case(
        "a union in a union", {"anyOf": [{"type": "null"}, {"anyOf": [BOOLEAN, INTEGER]}]}, "5", 5
    ),
    case(
        "the trunk applies too",
        {**OBJECT, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"s": 5},
        {"s": "5"},
    ),
    case(
        "the trunk keeps strings from a branch",
        {**OBJECT, "anyOf": [{"properties": {"b": NUMBER}, "required": ["b"]}]},
        {"s": "5", "b": "6"},
        {"s": "5", "b": 6},
    ),
    case(
        "two unions are both chosen from",
        {"anyOf": [{"properties": {"a": NUMBER}}], "oneOf": [{"properties": {"b": BOOLEAN}}]},
        {"a": "1", "b": "true"},
        {"a": 1, "b": True},
    ),
    case("allOf adds limits", {"allOf": [INTEGER, {"minimum": 3}]}, "5", 5),
    case(
        "allOf of one property",
        {"allOf": [{"properties": {"a": NUMBER}}, {"properties": {"a": {"minimum": 3}}}]},
        {"a": "5"},
        {"a": 5},
    ),
    case(
        "nullable beside a reference",
        {"$ref": "#/$defs/n", "nullable": True, "$defs": {"n": INTEGER}},
        "null",
        None,
    ),
    case(
        "a reference in a branch",
        {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}], "$defs": {"n": INTEGER}},
        "5",
        5,
    ),
    case("the text null", {"anyOf": [STRINGS, {"type": "null"}]}, "null", None),
    left("the text null among strings", {"anyOf": [STRING, {"type": "null"}]}, "null"),
    left("items that another branch speaks of", {"anyOf": [STRINGS, {"type": "null"}]}, ["5"]),
    left("branches that contradict the trunk", {"type": "array", "anyOf": [STRING]}, "5"),
    left("a reference to nowhere", {"$ref": "#/$defs/gone"}, "5"),
    left("a reference to elsewhere", {"$ref": "https://example.com/schema"}, "5"),
    left("a reference to itself", {"$ref": "#"}, "5"),
    left(
        "references in a ring",
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "5",
    ),
    case(
        "a branch that is the whole",
        {
            "type": "object",
            "properties": {"n": NUMBER},
            "anyOf": [{"$ref": "#"}, {"required": ["n"]}],
        },
        {"n": "5"},
        {"n": 5},
    ),
]

RULES = SCALARS + TYPE_LISTS + OBJECTS + ARRAYS + PROPERTIES + FREE + MEMBERS + UNIONS


@pytest.mark.parametrize(("schema", "value", "expected"), RULES)
def test_a_rule_holds(schema: object, value: object, expected: object) -> None:
    assert as_json(coerce(value, schema)) == as_json(expected)
    assert as_json(coerce(value, Schema(schema))) == as_json(expected)


@pytest.mark.parametrize(("required", "value", "expected"), RENAMED)
def test_only_a_strict_object_renames_keys(
    required: list[str], value: object, expected: object
) -> None:
    properties: dict[str, object] = {name: {} for name in required}
    strict = {"properties": properties, "required": required, "additionalProperties": False}
    assert as_json(coerce(value, strict)) == as_json(expected)
    open_schema = {**strict, "additionalProperties": True}
    assert as_json(coerce(value, open_schema)) == as_json(value)


def test_what_is_right_comes_back_as_the_same_object() -> None:
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": ROW}}}
    value = {"rows": [{"id": n, "name": "x"} for n in range(3)]}
    assert coerce(value, schema) is value
    changed = coerce({"rows": value["rows"], "other": "5"}, schema)
    assert changed["rows"] is value["rows"]


def test_values_that_json_does_not_know_are_left() -> None:
    for value in ((1, 2), b"5", {1, 2}, object()):
        assert coerce(value, NUMBERS) is value
        assert coerce({"a": value, 5: "6"}, OBJECT) == {"a": value, 5: "6"}


# --- any value and any schema ---------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "tag", "tags", "filePath", "file_path", "item", "0", "1"])
TEXTS = st.sampled_from(
    [
        "",
        "5",
        "4.5",
        "00501",
        "true",
        "null",
        " kg ",
        "[1, '2']",
        '{"a": "1"}',
        "1, 2",
        "x\ny",
        "<a>1</a>",
    ]
) | st.text(max_size=6)
SCALAR_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES = st.recursive(
    SCALAR_VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
GARBAGE = st.sampled_from([None, 5, "x", [], [5], [None], {}, {"a": 5}, {5: 5}, True, False])
TYPES = st.sampled_from(["object", "array", "boolean", "number", "integer", "string", "null"])
REFERENCES = st.sampled_from(["#", "#/properties/a", "#/$defs/x", "#/nowhere", "urn:x", 5])
MEMBER_LISTS = st.lists(
    st.sampled_from(["kg", "KG", "5", 5, True, None, [1], {"a": 1}]), max_size=3
)


def keyword_sets(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    named = st.dictionaries(NAMES, inner, max_size=3)
    several = st.lists(inner, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, max_size=3),
        "properties": named,
        "$defs": st.dictionaries(st.just("x"), inner, max_size=1),
        "patternProperties": st.dictionaries(st.sampled_from(["^t", "(a+)+$", "["]), inner),
        "additionalProperties": inner,
        "items": inner | several,
        "prefixItems": several,
        "anyOf": several,
        "oneOf": several,
        "allOf": several,
        "not": inner,
        "required": st.lists(NAMES, max_size=2),
        "enum": MEMBER_LISTS,
        "const": st.sampled_from(["kg", 5, None]),
        "nullable": st.booleans(),
        "minimum": st.integers(-2, 9),
        "maxLength": st.integers(-2, 9),
        "pattern": st.sampled_from(["^k", "[", "(x+)+$"]),
        "$ref": REFERENCES,
        "jsonSchema": inner,
    }
    return st.fixed_dictionaries(
        {},
        optional={
            name: st.one_of(found, found, found, GARBAGE) for name, found in keywords.items()
        },
    )


SCHEMAS = st.recursive(GARBAGE | st.fixed_dictionaries({"type": TYPES}), keyword_sets, max_leaves=6)


@settings(max_examples=120, deadline=None)
@given(value=VALUES, schema=SCHEMAS)
def test_nothing_is_raised_or_changed_and_once_is_enough(value: Any, schema: Any) -> None:
    before = repr(value), repr(schema)
    once = coerce(value, schema)
    assert (repr(value), repr(schema)) == before
    assert repr(coerce(once, schema)) == repr(once)


@settings(max_examples=70, deadline=None)
@given(value=VALUES, schema=SCHEMAS)
def test_a_string_where_only_strings_are_meant_is_never_changed(value: Any, schema: Any) -> None:
    wanted = Schema(schema)
    if wanted.is_string and not wanted.free:
        assert coerce("00501", wanted) == "00501"
        if isinstance(value, str):
            assert coerce(value, wanted) is value


@settings(max_examples=70, deadline=None)
@given(value=VALUES, schema=SCHEMAS)
def test_an_accepted_value_without_text_stays_as_it_is(value: Any, schema: Any) -> None:
    # Text where nothing is known (undeclared properties) is read freely, however right it is.
    value = json.loads(json.dumps(value), parse_constant=lambda _: None)
    numbers = _without_text(value)
    if schema is not None and Schema(schema).accepts(numbers):
        assert repr(coerce(numbers, schema)) == repr(numbers)


def _without_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_text(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_text(inner) for inner in value]
    return len(value) if isinstance(value, str) else value


@given(text=st.text())
def test_a_text_read_freely_prints_as_it_was(text: str) -> None:
    found = coerce(text)
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        assert json.dumps(found) == text.strip()
    elif isinstance(found, str):
        assert found == text


# --- hostile values and schemas -------------------------------------------------------------------


def nested(depth: int, inner: Any) -> Any:
    for _ in range(depth):
        inner = {"a": inner}
    return inner


def test_a_value_deeper_than_the_limit_is_left_from_there_on() -> None:
    tree = {"properties": {"a": {"anyOf": [{"$ref": "#"}, NUMBER]}}, "additionalProperties": False}
    assert coerce(nested(10, "5"), tree) == nested(10, 5)
    deep = nested(10_000, "5")
    found = coerce(deep, tree)
    for _ in range(10_000):
        found = found["a"]
    assert found == "5"
    assert MAX_DEPTH < 10_000


def test_a_text_of_many_brackets_is_left() -> None:
    for text in ("[" * 100_000, "[" * 5000 + "]" * 5000, '{"a":' * 10_000 + "1" + "}" * 10_000):
        assert coerce(text, OBJECT) == text
        assert coerce(text) == text


def test_a_value_that_contains_itself_comes_to_an_end() -> None:
    loop: list[Any] = ["5"]
    loop.extend([loop, loop])
    tree = {"type": "array", "items": {"anyOf": [{"$ref": "#"}, NUMBER]}}
    assert coerce(loop, tree)[0] == 5


def test_a_schema_that_contains_itself_comes_to_an_end() -> None:
    schema: dict[str, Any] = {"type": "array", "minItems": 0}
    schema["items"] = schema
    schema["anyOf"] = [schema, {"items": schema}, {"type": "null"}]
    schema["allOf"] = [schema]
    assert coerce("5", schema) == "5"
    assert coerce([[], [[]]], schema) == [[], [[]]]


def test_branches_that_double_at_every_step_come_to_an_end() -> None:
    steps = {
        f"s{n}": {
            "minLength": 0,
            "anyOf": [{"$ref": f"#/$defs/s{n + 1}"}, {"$ref": f"#/$defs/s{n + 1}", "maxLength": n}],
        }
        for n in range(60)
    }
    schema = {"$ref": "#/$defs/s0", "$defs": {**steps, "s60": INTEGER}}
    assert coerce("x", schema) == "x"
    assert MAX_TRIES < 2**60


def test_a_value_is_tried_against_a_limited_number_of_alternatives() -> None:
    schema = Schema({"anyOf": [{"const": n} for n in range(MAX_TRIES + 1)]})
    assert coerce(str(MAX_TRIES - 1), schema) == MAX_TRIES - 1
    assert coerce(str(MAX_TRIES), schema) == str(MAX_TRIES)
    assert coerce(MAX_TRIES, schema) == MAX_TRIES


def test_members_that_json_does_not_know_are_never_meant() -> None:
    assert coerce(" A ", {"enum": [{1, 2}, "a", b"a"]}) == "a"
    assert coerce("", {"enum": [{1, 2}, object()]}) == ""


def test_nested_alternatives_do_not_multiply_the_work() -> None:
    branch = {"type": "object", "properties": {"next": {"$ref": "#"}, "n": INTEGER}}
    schema = {"anyOf": [{**branch, "required": [name]} for name in ("x", "y", "z", "n")]}
    value: dict[str, Any] = {"n": "0"}
    for n in range(20):
        value = {"n": str(n), "next": value}
    found = coerce(value, schema)
    assert found["n"] == 19
    assert found["next"]["next"]["n"] == 17


def test_ten_thousand_properties_are_coerced() -> None:
    schema = {"type": "object", "properties": {f"p{n}": INTEGER for n in range(10_000)}}
    value = {f"p{n}": str(n) for n in range(10_000)}
    assert coerce(value, schema) == {f"p{n}": n for n in range(10_000)}


def test_a_long_list_costs_in_proportion() -> None:
    schema = Schema(NUMBERS)

    def read(count: int) -> None:
        assert len(coerce(",".join(["7"] * count), schema)) == count

    check_linear(read, 10_000, 80_000, at_most=4)


def test_a_stack_that_is_nearly_full_leaves_the_value() -> None:
    tree = {"properties": {"a": {"$ref": "#"}}}
    value = nested(50, {"b": "5"})

    def dig(rest: int) -> Any:
        return coerce(value, tree) if rest == 0 else dig(rest - 1)

    answers = []
    for rest in range(800, 990, 10):
        try:
            answers.append(dig(rest))
        except RecursionError:  # of `dig` itself
            break
    assert answers
    assert all(answer in (value, nested(50, {"b": 5})) for answer in answers)


def test_neither_value_nor_schema_is_kept_or_changed() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [NUMBERS, INTEGER]}}}
    value = {"a": ["1", "2"], "z": '{"x": [1]}'}
    copies = copy.deepcopy((value, schema))
    coerce(value, schema)
    assert (value, schema) == copies
