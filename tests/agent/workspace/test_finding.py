"""A model that did not copy a text exactly is told what is nearest."""

from __future__ import annotations

import pytest

from penstock.agent.workspace.finding import nearest, only_place, places_of
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


def test_a_line_decides_between_two_places() -> None:
    places = places_of(TEXT, "x = 1")
    assert only_place(places, TEXT, 5) == places[1]
    for line in (None, 3):
        with pytest.raises(ToolError, match=r"2 times \(in lines 4, 5\)"):
            only_place(places, TEXT, line)


def test_many_places_are_not_all_listed() -> None:
    text = "x\n" * 50
    with pytest.raises(ToolError, match=r"50 times \(in lines 1, .*, 10, …\)"):
        only_place(places_of(text, "x"), text)
