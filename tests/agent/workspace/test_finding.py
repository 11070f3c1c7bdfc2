"""A model that did not copy a text exactly is told what is nearest."""

from __future__ import annotations

import random
import time

import pytest

from penstock.agent.workspace.search import nearest, only_place, places_of
from penstock.errors import ToolError

TEXT = "def tide(harbour):\n    return 6\n\nx = 1\nx = 1\n"


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        ("\ndef  tide(harbour):", "Line 1 differs in white space only: 'def tide(harbour):'"),
        ("def tides(harbour):", "The nearest is line 1: 'def tide(harbour):'"),
        ("class Boat:", "Read the file again: it holds nothing like that."),
        ("", "Read the file again: it holds nothing like that."),
    ],
)
def test_the_nearest_line_is_told(piece: str, words: str) -> None:
    assert nearest(TEXT, piece) == words


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
            "Its line 3 is the first that is wrong. Line 2 differs in white space only:"
            " '    return 6'",
            id="a blank line too many",
        ),
        pytest.param(
            "def tide(harbour):\nx = 1",
            "Its line 2 is the first that is wrong. Line 4 is the same, but what stands around it"
            " is not.",
            id="lines that do not follow each other",
        ),
    ],
)
def test_of_several_lines_the_first_wrong_one_is_told(piece: str, words: str) -> None:
    assert nearest(TEXT, piece) == words


def test_accents_of_another_form_are_named() -> None:
    told = nearest("caf\u00e9 = 1\n", "cafe\u0301 = 1")
    assert told == "Line 1 differs in how its accents are made of characters only: 'caf\u00e9 = 1'"


def test_several_places_are_listed() -> None:
    with pytest.raises(ToolError, match=r"2 times \(in lines 4, 5\)"):
        only_place(places_of(TEXT, "x = 1"), TEXT)


def test_many_places_are_not_all_listed() -> None:
    text = "x\n" * 50
    with pytest.raises(ToolError, match=r"50 times \(in lines 1, .*, 10, …\)"):
        only_place(places_of(text, "x"), text)


def test_places_are_not_counted_for_ever() -> None:
    text = "x\n" * 200_000
    before = time.process_time()
    with pytest.raises(ToolError, match="more than 1000 times"):
        only_place(places_of(text, "x"), text)
    assert time.process_time() - before < 1  # counting the lines of each takes a minute


RANDOM = random.Random(8)


def letters(of: str) -> str:
    return "".join(RANDOM.choices(of, k=200))


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        pytest.param("\n".join(letters("ab") for _ in range(5_000)), letters("ab"), id="alike"),
        pytest.param(f"{'a' * 199}b\n" * 5_000, f"{'a' * 100}c{'a' * 99}", id="one letter"),
        pytest.param("x y " * 250_000, "x y z " * 100, id="one line"),
    ],
)
def test_the_nearest_line_is_found_quickly(text: str, piece: str) -> None:
    before = time.process_time()
    assert len(nearest(text, piece)) < 500
    assert time.process_time() - before < 1  # some 60 ms; comparing all takes several seconds
