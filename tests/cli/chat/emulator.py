"""A terminal that understands what `penstock chat` may send, and fails on anything else."""

from __future__ import annotations

import re
import unicodedata

_SEQUENCE = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])")
_MAY_BE_SEQUENCE = re.compile(r"\x1b(?:\[[\d;?]*)?$")


class Emulator:
    """A screen of *width* columns with all that has scrolled away above it."""

    def __init__(self, width: int = 80, height: int = 24) -> None:
        self.width = width
        self.height = height
        self.rows: list[list[str]] = [[]]
        self.row = 0
        self.column = 0
        self._held = ""

    @property
    def text(self) -> str:
        """Everything there is to see, scrolled away or not."""
        return "\n".join("".join(row).rstrip() for row in self.rows)

    def feed(self, text: str) -> None:
        text = self._held + text
        self._held = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = _SEQUENCE.match(text, at)
                if found is None and _MAY_BE_SEQUENCE.match(text[at:]):
                    self._held = text[at:]
                    return
                assert found is not None, f"a sequence from nowhere: {text[at : at + 20]!r}"
                self._obey(found[1], found[2], found[3])
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    def _obey(self, private: str, number: str, letter: str) -> None:
        count = int(number) if number.isdecimal() else 1
        if private:
            assert (number, letter) in {("25", "l"), ("25", "h"), ("2004", "l"), ("2004", "h")}
        elif letter == "A":
            assert self.row - count >= 0, "the cursor leaves the terminal"
            self.row -= count
        elif letter == "C":
            self.column += count
        elif letter == "J":
            self._erase()
        elif letter == "H":
            self.row, self.column = 0, 0
            self.rows = [[]]
        else:
            assert letter == "m", f"nobody sends {letter}"

    def _erase(self) -> None:
        self.rows = self.rows[: self.row + 1]
        self.rows[self.row] = self.rows[self.row][: self.column]

    def _put(self, one: str) -> None:
        if one == "\r":
            self.column = 0
        elif one == "\n":
            self.row += 1
            while len(self.rows) <= self.row:
                self.rows.append([])
        else:
            assert one.isprintable() or one in "\u200c\u200d\u00a0\u3000", f"sent raw: {one!r}"
            self._print(one)

    def _print(self, one: str) -> None:
        wide = unicodedata.east_asian_width(one) in "WF"
        size = 0 if unicodedata.combining(one) or one in "\u200d\ufe0f" else 2 if wide else 1
        assert self.column + size <= self.width, "the terminal breaks a row by itself"
        row = self.rows[self.row]
        row.extend(" " * (self.column - len(row)))
        if not size:
            if self.column:  # at the beginning of a row there is nothing that it could join
                row[self.column - 1] += one
            return
        row[self.column : self.column + size] = [one, *([""] if wide else [])]
        self.column += size
