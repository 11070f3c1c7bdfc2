"""Lines of styled text, and the rows that they take on a terminal of some width.

What models and tools write is hostile: a character that would steer the terminal is written out as
an escape before it is measured, so whatever reaches a terminal is printable. Rows are broken here
and not by the terminal, so that it is always known which row the cursor is on.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from msgspec import Struct, field
from rich.cells import cell_len

TAB: Final = "    "
"""What a tab is shown as: where it would lead depends on the terminal."""

LEAST_WIDTH: Final = 10
"""How narrow rows get: a terminal without a width says 0."""

_PASSED: Final = frozenset("\u00a0\u3000\u200c\u200d")
"""Blanks and joiners that are not printable by the book and yet steer nothing."""

Cell = tuple[str, str]
"""A character and its style."""


class Span(Struct, frozen=True):
    """Some text in one style."""

    text: str
    style: str = ""


class Line(Struct):
    """One line of any length; the rows behind its first begin with *hang*.

    An *aside* is not what the model says to the user, but about it.
    """

    spans: list[Span] = field(default_factory=list)
    hang: str = ""
    aside: bool = False

    @property
    def text(self) -> str:
        """The line without its styles."""
        return "".join(span.text for span in self.spans)


Row = list[Span]
"""What stands on one row of the terminal."""


def shown(text: str) -> str:
    """Give *text* with everything that is not seen, but steers, as an escape."""
    if text.isprintable():
        return text
    return "".join(map(shown_character, text))


def shown_character(one: str) -> str:
    """Give what one character is shown as."""
    if one.isprintable() or one in _PASSED:
        return one
    return TAB if one == "\t" else repr(one)[1:-1]


def row_width(row: Iterable[Span]) -> int:
    """Tell how many columns *row* takes."""
    return sum(cell_len(span.text) for span in row)


def wrap(line: Line, width: int) -> list[Row]:
    """Break *line* into rows of less than *width* columns, between words where that is possible.

    Text that is added to a line changes nothing but its last row.
    """
    room = max(LEAST_WIDTH, width) - 1  # the last column would make the terminal break by itself
    if row_width(line.spans) <= room:
        return [list(line.spans)]
    hang = _cells(line.hang, "") if cell_len(line.hang) < room // 2 else []
    rows: list[list[Cell]] = [[]]
    used = 0
    for cell in (cell for span in line.spans for cell in _cells(span.text, span.style)):
        size = cell_len(cell[0])
        if used + size > room:
            rows.append(_broken(rows[-1], hang, cell))
            used = sum(cell_len(text) for text, _ in rows[-1])
            if cell[0] == " ":  # the blank between two words is the break itself
                continue
        rows[-1].append(cell)
        used += size
    return [_joined(row) for row in rows]


def _broken(row: list[Cell], hang: list[Cell], following: Cell) -> list[Cell]:
    """Give the beginning of the row behind *row*: the word that does not fit moves there."""
    start = len(row) if following[0] == " " else _last_word(row)
    begun = len(hang)
    if start <= begun or len(row) - start > len(row) // 2:  # a word, or what looks like one
        start = len(row)
    moved = row[start:]
    del row[start:]
    return [*hang, *moved]


def _last_word(row: list[Cell]) -> int:
    return next((at for at in range(len(row), 0, -1) if row[at - 1][0] == " "), 0)


def _cells(text: str, style: str) -> list[Cell]:
    return [(one, style) for one in text]


def _joined(row: list[Cell]) -> Row:
    return [
        Span("".join(text for text, _ in cells), style)
        for style, cells in groupby(row, key=lambda cell: cell[1])
    ]


# --- colours ---

STYLES: Final = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}
"""What a word of a style is to a terminal."""


def rendered(row: Row, *, colours: bool) -> str:
    """Write *row* for a terminal."""
    return "".join(_render(span) if colours else span.text for span in row)


def _render(span: Span) -> str:
    codes = ";".join(STYLES[word] for word in span.style.split())
    return f"\x1b[{codes}m{span.text}\x1b[0m" if codes else span.text
