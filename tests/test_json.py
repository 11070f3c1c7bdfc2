"""`penstock._json`: what is encoded and decoded, and what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.strategies import ANY_TEXT, JSON_VALUES
from penstock import _json
from penstock.errors import JSONParseError, UsageError

AWKWARD = st.recursive(
    JSON_VALUES | ANY_TEXT | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)


def same(one: Any, two: Any) -> bool:
    """Compare as JSON values: NaN equals NaN, 1 is not true."""
    return repr(one) == repr(two)


@given(AWKWARD)
def test_any_value_survives_the_way_there_and_back(value: Any) -> None:
    assert same(_json.decode(_json.encode(value)), value)


@given(AWKWARD)
def test_what_is_written_is_what_the_standard_library_reads(value: Any) -> None:
    assert same(json.loads(_json.encode(value)), value)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('"\\ud83d"', id="half an emoji"),
        pytest.param("NaN", id="not a number"),
        pytest.param("[-Infinity, 1e999]", id="infinity in both spellings"),
        pytest.param("123456789012345678901234567890", id="a big integer"),
        pytest.param('{"a": 1, "a": 2}', id="a doubled key"),
        pytest.param(" [1.0, -0.0, 1e-400] ", id="floats at the edges"),
    ],
)
def test_reading_equals_the_standard_library(text: str) -> None:
    assert same(_json.decode(text), json.loads(text))
    assert same(_json.decode(text.encode()), json.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1,]",
        "{'a': 1}",
        "tru",
        "1 2",
        "[" * 100_000,
        "[" * 600 + "]" * 600,
        "9" * 4301,
        "\ufeff1",
    ],
    ids=lambda text: text[:9] or "nothing",
)
def test_bad_json_is_a_typed_error(text: str) -> None:
    with pytest.raises(JSONParseError):
        _json.decode(text)


def test_an_error_tells_the_place() -> None:
    with pytest.raises(JSONParseError) as caught:
        _json.decode('{"a": 1,\n "b": oops}')
    assert (caught.value.line, caught.value.column) == (2, 7)


@pytest.mark.parametrize(
    "value", [math.nan, [math.inf], {"a": -math.inf}], ids=["nan", "inf", "-inf"]
)
def test_strict_writing_refuses_what_json_has_no_form_for(value: object) -> None:
    with pytest.raises(UsageError):
        _json.encode_strict(value)


def test_strict_writing_takes_null_the_word_null_and_half_an_emoji() -> None:
    value = {"a": None, "b": "null and NaN and Infinity", "c": "\ud83d"}
    assert json.loads(_json.encode_strict(value)) == value


NOT_JSON = ["an object", "an object inside", "an integer of 5,001 digits", "a key that is no text"]


@pytest.mark.parametrize("write", [_json.encode, _json.encode_strict])
@pytest.mark.parametrize("value", [object(), {"a": object()}, 10**5000, {(): 1}], ids=NOT_JSON)
def test_what_is_no_json_value_is_the_callers_fault(write: Any, value: object) -> None:
    with pytest.raises(UsageError):
        write(value)


def test_a_value_nested_beyond_reason_is_the_callers_fault_too() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(UsageError):
        _json.encode(value)
    while value:  # Python's own destructor would recurse on the way out.
        value = value[0]


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


@given(AWKWARD)
def test_what_goes_to_a_stranger_is_json_for_any_reader(value: Any) -> None:
    data = _json.encode_wire(value)
    json.loads(data, parse_constant=refuse)
    data.decode()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "text", ["plain", "half \ud83d", 'NaN "Infinity" \\ \ud83d', '\\"NaN\\\ud83d"']
)
def test_no_number_is_null_to_a_stranger_and_text_stays(number: float, text: str) -> None:
    told = _json.decode(_json.encode_wire({text: [number, 1.5, text]}))
    kept = text.replace("\ud83d", "\ufffd")
    assert told == {kept: [None, 1.5, kept]}


@pytest.mark.parametrize(
    "text",
    [
        *('{"a": 1, "a": 2}', '[{"b": {"c": 1, "c": 1}}]', '{"a": 1, "\\u0061": 2}'),
        *("NaN", "[Infinity]", '{"a": -Infinity}', "[1e999]", '["\\ud83d"]', '["\ud83d"]'),
        *("[1", "{a: 1}", "", "[" * 600 + "]" * 600, "1" * 5000),
    ],
)
def test_a_value_that_readers_disagree_about_is_not_read_at_once(text: str) -> None:
    assert _json.decode_strict_at(text, 0, 16_384) is None


@given(JSON_VALUES, st.sampled_from(["", " ", "}", "</tool_call>", "\n{"]))
def test_a_value_at_a_position_is_the_value_alone(value: Any, after: str) -> None:
    written = json.dumps({"value": value})
    found = _json.decode_strict_at(f"text{written}{after}", 4, len(written))
    try:
        expected = _json.decode_strict(written)
    except JSONParseError:
        assert found is None
    else:
        assert found == (expected, 4 + len(written))
        assert _json.decode_strict_at(written, 0, len(written) - 1) is None
