"""A model that did not copy a text exactly is told what is nearest."""

from __future__ import annotations

import random

import pytest

from laws import check_linear
from penstock.errors import ToolError
from penstock.workspace.search import check_single, describe_nearest, find_places

TEXT = "def tide(harbour):\n    return 6\n\nx = 1\nx = 1\n"


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        ("\ndef  tide(harbour):", "Line 1 differs only in white space: 'def tide(harbour):'"),
        ("def tides(harbour):", "The nearest is line 1: 'def tide(harbour):'"),
        ("class Boat:", "Read the file again: it contains nothing similar."),
        ("", "Read the file again: it contains nothing similar."),
    ],
)
def test_the_nearest_line_is_told(piece: str, words: str) -> None:
    assert describe_nearest(TEXT, piece) == words


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        pytest.param(
            "def tide(harbour):\n    return 7\n",
            "Its line 2 is the first that is wrong. The nearest is line 2: '    return 6'",
            id="a later line",
        ),
        pytest.param(
            "\n\ndef tide(harbour):\n    return 7",
            "Its line 4 is the first that is wrong. The nearest is line 2: '    return 6'",
            id="blank lines before it",
        ),
        pytest.param(
            "def tide(harbour):\n\n  return 6",
            "Its line 3 is the first that is wrong. Line 2 differs only in white space:"
            " '    return 6'",
            id="a blank line too many",
        ),
        pytest.param(
            "def tide(harbour):\nx = 1",
            "Its line 2 is the first that is wrong. Line 4 is the same, but the lines around it"
            " are not.",
            id="lines that do not follow each other",
        ),
    ],
)
def test_of_several_lines_the_first_wrong_one_is_told(piece: str, words: str) -> None:
    assert describe_nearest(TEXT, piece) == words


def test_accents_of_another_form_are_named() -> None:
    told = describe_nearest("caf\u00e9 = 1\n", "cafe\u0301 = 1")
    assert told == "Line 1 differs only in how its accents are encoded: 'caf\u00e9 = 1'"


def test_several_places_are_listed() -> None:
    with pytest.raises(ToolError, match=r"2 times \(in lines 4, 5\)"):
        check_single(find_places(TEXT, "x = 1"), TEXT)


def test_many_places_are_not_all_listed() -> None:
    text = "x\n" * 50
    with pytest.raises(ToolError, match=r"50 times \(in lines 1, .*, 10, …\)"):
        check_single(find_places(text, "x"), text)


def test_places_are_counted_in_linear_time() -> None:
    def count(places: int) -> None:
        text = "x\n" * places
        with pytest.raises(ToolError, match="more than 1000 times"):
            check_single(find_places(text, "x"), text)

    check_linear(count, 20_000, 200_000, at_most=3)


RANDOM = random.Random(8)


def letters(of: str) -> str:
    return "".join(RANDOM.choices(of, k=200))


ALIKE = [letters("ab") for _ in range(5_000)]


@pytest.mark.parametrize(
    ("lines", "piece"),
    [
        pytest.param([f"{line}\n" for line in ALIKE], letters("ab"), id="alike"),
        pytest.param([f"{'a' * 199}b\n"] * 5_000, f"{'a' * 100}c{'a' * 99}", id="one letter"),
        pytest.param(["x y " * 50] * 5_000, "x y z " * 100, id="one line"),
    ],
)
def test_the_nearest_line_is_found_in_linear_time(lines: list[str], piece: str) -> None:
    def find(count: int) -> None:
        assert len(describe_nearest("".join(lines[:count]), piece)) < 500

    check_linear(find, 500, 5_000, at_most=3)
