"""`rjson.repair`: what models break, mended by rules that can be predicted, and told in words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.errors import JSONParseError
from penstock.values import rjson
from values.repair_cases import AROUND, CUT, STRINGS, STRUCTURE, WORDS, Case


def table(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.why) for case in cases])


def check_case(case: Case) -> None:
    repaired = rjson.repair(case.text)
    assert json.dumps(repaired.value) == json.dumps(case.value)
    assert repaired.repairs == case.repairs


@table(STRUCTURE)
def test_structure_is_mended(case: Case) -> None:
    check_case(case)


@table(STRINGS)
def test_strings_keep_every_character(case: Case) -> None:
    check_case(case)


@table(WORDS)
def test_words_are_read(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(
    ("text", "value"), [pytest.param(text, value, id=f"cut in {why}") for why, text, value in CUT]
)
def test_what_arrived_of_a_cut_text_is_kept(text: str, value: Any) -> None:
    repaired = rjson.repair(text)
    assert repaired.value == value
    assert repaired.repairs


@table(AROUND)
def test_the_value_is_found_in_its_surroundings(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"a": "{\\"b\\": 1}"}', id="a string with an object inside an object"),
        pytest.param('"[1] is a footnote"', id="a sentence that begins with a footnote"),
        pytest.param('"[2024-01-01]"', id="a date in brackets"),
        pytest.param('"{name} said {what}"', id="a template"),
        pytest.param('"see {\\"a\\": 1}"', id="a sentence with an object in it"),
        pytest.param('"{\\"a\\": 1} and more"', id="an object with a sentence after it"),
    ],
)
def test_a_string_that_is_more_than_json_stays_a_string(text: str) -> None:
    assert rjson.repair(text) == rjson.Repaired(json.loads(text), [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "Just a sentence.",
        "12px is a width",
        "{{ name }}",
        ")(",
        "```\n```",
        "}]",
        '"Hi," she said.',
    ],
)
def test_text_without_a_value_is_refused(text: str) -> None:
    with pytest.raises(JSONParseError, match="no JSON value"):
        rjson.repair(text)


CERTAIN = {
    '{"a": {"b": "ls -la}}': {"a": {"b": "ls -la"}},
    '{"a": "use "strict"; x"}': {"a": 'use "strict"; x'},
    '{"a": ""x", ""b": 1}': {"a": "x", "b": 1},
    '{"a"": "x""}': {"a": "x"},
    '{"a": I should wait here. "x"}': {"a": "x"},
    '{"a": ["x"<|im_end|>, "y"]}': {"a": ["x", "y"]},
    '{"a": "f() { g(); }': {"a": "f() { g(); }"},
    '{"a": 1, "b": {"c": 2': {"a": 1, "b": {"c": 2}},
}


@pytest.mark.parametrize("text", CERTAIN)
def test_a_repair_that_is_certain_is_no_guess(text: str) -> None:
    assert rjson.repair(text, guess=False).value == CERTAIN[text]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "x", "b',
        '{"a": "x", "b: 3}',
        '{"a": "x",',
        '{"a": "x", "b":',
        '{"a": ["x, "y"]}',
        '{"a": ["x"',
        '{"a": "x" y", "b": 1}',
        '{"a": ls -la}}</call>',
        '{"a": "ls -la}, "b": 1',
        '{"a": "x", : 3}',
        '{"a": x y}',
        '{"a": "x", y 3}',
        '{"a": 1, "a": 2, "b" 3}',
    ],
)
def test_what_may_be_meant_otherwise_is_a_guess(text: str) -> None:
    assert rjson.repair(text).repairs
    with pytest.raises(JSONParseError, match="not certain"):
        rjson.repair(text, guess=False)
