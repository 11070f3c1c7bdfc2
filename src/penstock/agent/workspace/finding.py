"""Where a piece of text stands in a file, and what to tell a model that got it wrong."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Final

from penstock.errors import ToolError

MAX_PLACES: Final = 10
"""How many places are listed where there are many."""

MAX_COMPARED: Final = 5_000
"""How many lines are compared to find the nearest one: comparing is slow, and only helps."""

ALIKE: Final = 0.6
"""From which likeness on a line is worth showing; lower ones lead astray."""


def line_at(text: str, place: int) -> int:
    """Count the line, from one, in which *place* is."""
    return text.count("\n", 0, place) + 1


def counted_lines(places: list[int], text: str) -> str:
    """Name the lines of *places*, up to a limit."""
    lines = sorted({line_at(text, place) for place in places[:MAX_PLACES]})
    more = ", …" if len(places) > MAX_PLACES else ""
    return f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}{more}"


def places_of(text: str, piece: str) -> list[int]:
    """List where *piece* begins in *text*, overlaps included."""
    places = []
    at = text.find(piece)
    while at != -1:
        places.append(at)
        at = text.find(piece, at + 1)
    return places


def only_place(places: list[int], text: str, line: int | None = None) -> int:
    """Give the one place of *places*, or the one in *line*; raise `ToolError` for several."""
    if len(places) == 1:
        return places[0]
    at_line = [place for place in places if line_at(text, place) == line]
    if len(at_line) == 1:
        return at_line[0]
    raise ToolError(
        f"The text to replace is in the file {len(places)} times"
        f" (in {counted_lines(places, text)}). Add lines around it until it is there once."
    )


def nearest(text: str, piece: str) -> str:
    """Say what in *text* is most like *piece*, for whoever did not copy it exactly."""
    wanted = next((line for line in piece.split("\n") if line.strip()), "")
    lines = text.split("\n")[:MAX_COMPARED]
    for number, line in enumerate(lines, 1):
        if wanted and line.split() == wanted.split():
            return f"Line {number} differs in white space only: {line!r}"
    found = _most_alike(lines, wanted) if wanted else None
    if found is None:
        return "Read the file again: it holds nothing like that."
    return f"The nearest is line {found + 1}: {lines[found]!r}"


def _most_alike(lines: list[str], wanted: str) -> int | None:
    best, at = ALIKE, None
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[:200])
    for number, line in enumerate(lines):
        matcher.set_seq1(line[:200])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            ratio = matcher.ratio()
            if ratio > best:
                best, at = ratio, number
    return at
