"""`rjson.loads` and `rjson.dumps`: strict JSON as Python has it, relaxed as the spec has it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_linear
from penstock.errors import JSONParseError, UsageError
from penstock.values import rjson
from penstock.values.json_grammar import MAX_DEPTH, MAX_DIGITS

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "vectors" / "rjson.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]

# A lone surrogate next to another would be read as a pair, which is the grammar's own law.
TEXTS = st.text(max_size=12) | st.sampled_from(["\ud83d", "a\n", "\\d", '"', "\u2028", "😀"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
WRITABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
PIECES = st.lists(
    st.sampled_from(
        [
            *'{}[]:,"\\ \n#/*',
            "'",
            "“",
            "”",
            "true",
            "None",
            "nullable",
            "1",
            "-",
            ".",
            "e",
            "a",
            "\\u00e9",
        ]
    ),
    max_size=24,
).map("".join)


@pytest.mark.parametrize("vector", [pytest.param(v, id=f"{v['id']} {v['why']}") for v in VECTORS])
def test_the_vectors_hold(vector: dict[str, Any]) -> None:
    if vector["expect"] == {"error": True}:
        with pytest.raises(JSONParseError):
            rjson.loads(vector["text"])
    else:
        assert rjson.loads(vector["text"]) == vector["expect"]


RELAXED: list[Any] = [
    pytest.param("{a: 1, $b_c: 2}", {"a": 1, "$b_c": 2}, id="keys need no quotes"),
    pytest.param(
        "{nullable: 1, trueish: 2}",
        {"nullable": 1, "trueish": 2},
        id="a key may begin like a literal",
    ),
    pytest.param(
        "[yes, a//b, c#d]", ["yes", "a//b", "c#d"], id="a word may hold what opens a comment"
    ),
    pytest.param(
        "[NaN, Infinity, -Infinity]",
        ["NaN", "Infinity", "-Infinity"],
        id="NaN and infinity are words",
    ),
    pytest.param("undefined", "undefined", id="undefined is a word"),
    pytest.param(
        "[True, False, None]", [True, False, None], id="the literals of Python are literals"
    ),
    pytest.param(
        "[.5, +1, 1., 007, -.5e1]", [0.5, 1, 1.0, 7, -5.0], id="numbers may be written loosely"
    ),
    pytest.param("'it\\'s'", "it's", id="single quotes, and one escaped inside"),
    pytest.param('“say "hi"”', 'say "hi"', id="smart quotes with straight ones inside"),
    pytest.param("„tief“", "tief", id="German quotes"),
    pytest.param("\u2018a\u2019", "a", id="single smart quotes"),
    pytest.param('"a\n\tb\x00"', "a\n\tb\x00", id="raw control characters stay"),
    pytest.param('{"a": [1,], "b": {"c": 2,},}', {"a": [1], "b": {"c": 2}}, id="trailing commas"),
    pytest.param("# one\n[1, // two\n2 /* three */]", [1, 2], id="three kinds of comment"),
    pytest.param("[1] // the end", [1], id="a line comment may end with the text"),
    pytest.param("[1] #", [1], id="a hash comment may be empty"),
    pytest.param(
        "[1// one\n, true# two\n]", [1, True], id="a comment may touch a number or literal"
    ),
    pytest.param("[1, /* a * b / c ** */ 2]", [1, 2], id="stars and slashes inside a comment"),
    pytest.param("\ufeff{}", {}, id="one byte order mark is skipped"),
    pytest.param(
        '{"a": "\\ud83d\\ude00", b: 1}', {"a": "😀", "b": 1}, id="an escaped pair is one character"
    ),
    pytest.param('{"a": "\\ud83d", b: 1}', {"a": "\ud83d", "b": 1}, id="half a pair stays half"),
    pytest.param(
        "{a: " + "9" * MAX_DIGITS + "}",
        {"a": int("9" * MAX_DIGITS)},
        id="as many digits as Python takes",
    ),
    pytest.param("[-" + "9" * MAX_DIGITS + ",]", [-int("9" * MAX_DIGITS)], id="a sign is no digit"),
    pytest.param("[1e999,]", [float("inf")], id="a number too large for a float"),
]


@pytest.mark.parametrize(("text", "value"), RELAXED)
def test_relaxed_text_has_its_value(text: str, value: Any) -> None:
    read = rjson.loads(text)
    assert json.dumps(read) == json.dumps(value)


BROKEN: list[Any] = [
    pytest.param("[12px]", 1, "a number with something glued to it", id="a number and a unit"),
    pytest.param("[1.2.3]", 1, "a number with something glued to it", id="a version"),
    pytest.param("[truex]", 1, "a literal with something glued to it", id="a literal and a letter"),
    pytest.param('{"a" 1}', 5, "expected `:` after the key", id="a missing colon"),
    pytest.param('{"a":1 "b":2}', 7, "expected `,` or `}`", id="a missing comma"),
    pytest.param("[1 2]", 3, "expected `,` or `]`", id="a missing comma in a list"),
    pytest.param("[1", 2, "expected `,` or `]`", id="a missing closer"),
    pytest.param("[", 1, "expected a value, not the end", id="nothing after an opener"),
    pytest.param("[,1]", 1, "expected a value", id="a comma before the first element"),
    pytest.param("{1: 2}", 1, "a key must be a string or a word, not `1`", id="a number as a key"),
    pytest.param(
        "{None: 2}", 1, "a key must be a string or a word, not `None`", id="a literal as a key"
    ),
    pytest.param(
        "{2nd: 2}",
        1,
        "a key must be a string or a word, not `2nd`",
        id="a key that begins with a number",
    ),
    pytest.param("{: 2}", 1, "expected a key", id="no key"),
    pytest.param('["a\\d"]', 3, "unknown escape", id="an unknown escape"),
    pytest.param("['\\u12']", 2, "unknown escape", id="half an escape"),
    pytest.param('["a]', 1, "the string is not closed", id="an open string"),
    pytest.param("[1, /* x", 4, "the comment is not closed", id="an open comment"),
    pytest.param("[1] [2]", 4, "text after the value", id="a second value"),
    pytest.param(
        "[" + "1" * (MAX_DIGITS + 1) + "]",
        1,
        "an integer of more than 4300 digits",
        id="too many digits",
    ),
    pytest.param('{"a": 1, "a": 2}', 9, "the key `a` is repeated", id="a repeated key"),
    pytest.param(
        '[{"\\u0061": 1, a: 2}]',
        15,
        "the key `a` is repeated",
        id="a repeated key in two spellings",
    ),
]


@pytest.mark.parametrize(("text", "position", "reason"), BROKEN)
def test_broken_text_is_refused_with_its_place(text: str, position: int, reason: str) -> None:
    with pytest.raises(JSONParseError) as caught:
        rjson.loads(text)
    assert (caught.value.position, caught.value.reason) == (position, reason)
    assert caught.value.text == text


def test_an_error_names_line_and_column() -> None:
    with pytest.raises(JSONParseError, match=r"line 2, column 9"):
        rjson.loads('{"a": 1,\n "b": x y}')


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2, "a": 3}', "{a: 1, b: 2, a: 3}"])
def test_the_last_of_repeated_keys_wins_on_demand_at_the_place_of_the_first(text: str) -> None:
    assert list(rjson.loads(text, duplicates="last").items()) == [("a", 3), ("b", 2)]


def test_another_rule_for_repeated_keys_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        rjson.loads("{}", duplicates="first")  # type: ignore[arg-type]


def test_bytes_are_read_as_utf_8_and_refused_otherwise() -> None:
    assert rjson.loads("{a: 'é'}".encode()) == {"a": "é"}
    assert rjson.loads(b"\xef\xbb\xbf[1]") == [1]
    with pytest.raises(JSONParseError, match="not UTF-8"):
        rjson.loads(b'["\xff"]')


@given(VALUES)
@settings(max_examples=60)
def test_strict_text_gives_what_the_standard_library_gives(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        if "Infinity" in text:
            continue
        assert json.dumps(rjson.loads(text)) == json.dumps(json.loads(text))


@given(VALUES)
@settings(max_examples=60)
def test_the_relaxed_reader_agrees_on_strict_text(value: Any) -> None:
    text = json.dumps([value])
    if "Infinity" not in text:
        # A trailing comma sends the whole text to the slow reader.
        assert json.dumps(rjson.loads(text[:-1] + ",]")) == text


@given(PIECES)
@settings(max_examples=100)
def test_any_text_gives_a_value_or_the_typed_error(text: str) -> None:
    try:
        value = rjson.loads(text, duplicates="last")
    except JSONParseError as exc:
        assert 0 <= exc.position <= len(text)  # noqa: PT017 - to raise is lawful, as is a value
    else:
        assert json.loads(json.dumps(value)) == value


# --- limits ---


@pytest.mark.parametrize("tail", ["", ","], ids=["strict", "relaxed"])
def test_the_limit_of_depth_is_exact(tail: str) -> None:
    deepest = "[" * MAX_DEPTH + tail.replace(",", "1,") + "]" * MAX_DEPTH
    value = rjson.loads(deepest)
    for _ in range(MAX_DEPTH - 1):
        value = value[0]
    assert value == ([1] if tail else [])
    with pytest.raises(JSONParseError, match="nested deeper"):
        rjson.loads(f"[{deepest}]")


@pytest.mark.parametrize("unit", ["[", '{"a":', "[{a:", '[[{"b":['])
def test_a_hundred_thousand_brackets_are_a_typed_error(unit: str) -> None:
    with pytest.raises(JSONParseError, match="nested deeper"):
        rjson.loads(unit * (100_000 // len(unit)))


def test_many_brackets_side_by_side_are_no_depth() -> None:
    text = "[" + "[[]]," * 5_000 + "[[]]]"
    assert rjson.loads(text) == [[[]]] * 5_001


@pytest.mark.parametrize(
    "unit",
    ['"', "/*", "//\n", "[1,", "{a:1}", "'\\n', ", "a:", "#", "{a:{},", "1 ", '[{"a":1,"a":2},'],
)
def test_time_is_linear_on_hostile_text(unit: str) -> None:
    def load(size: int) -> None:
        with suppress(JSONParseError):
            rjson.loads("[" + unit * (size // len(unit)))

    check_linear(load, 10_000, 100_000, at_most=4)


# --- dumps ---


@given(WRITABLE)
@settings(max_examples=60)
def test_what_dumps_writes_is_read_back_equal(value: Any) -> None:
    for text in (rjson.dumps(value), rjson.dumps(value, indent=2)):
        text.encode()
        assert json.dumps(json.loads(text)) == json.dumps(value)
        assert json.dumps(rjson.loads(text)) == json.dumps(value)


def test_dumps_is_compact_and_readable() -> None:
    assert rjson.dumps({"a": [1, "é😀", None, True, 1.5]}) == '{"a":[1,"é😀",null,true,1.5]}'
    assert rjson.dumps({"a": [1]}, indent=2) == '{\n  "a": [\n    1\n  ]\n}'
    assert rjson.dumps("\ud83d") == '"\\ud83d"'
    assert rjson.dumps(10**40) == "1" + "0" * 40


REFUSED: list[Any] = [
    pytest.param(float("nan"), id="not a number"),
    pytest.param([1.0, float("inf")], id="infinity"),
    pytest.param({1: 2}, id="a key that is a number"),
    pytest.param({"a": {1, 2}}, id="a set"),
    pytest.param([b"bytes"], id="bytes"),
    pytest.param(object(), id="an object of no known kind"),
    pytest.param(10**MAX_DIGITS, id="an integer of too many digits"),
]


@pytest.mark.parametrize("value", REFUSED)
def test_dumps_refuses_what_would_not_come_back(value: object) -> None:
    with pytest.raises(UsageError):
        rjson.dumps(value)


def test_dumps_refuses_a_nesting_that_loads_would_refuse() -> None:
    value: list[Any] = []
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    assert rjson.loads(rjson.dumps(value)) == value
    with pytest.raises(UsageError):
        rjson.dumps([value])


def test_dumps_refuses_a_value_that_holds_itself() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(UsageError):
        rjson.dumps(value)
