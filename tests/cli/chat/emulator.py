"""A terminal that understands the sequences of `penstock chat`, and fails on all others."""

from __future__ import annotations

import re
import unicodedata

_SEQUENCE = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])")
_MAY_BE_SEQUENCE = re.compile(r"\x1b(?:\[[\d;?]*)?$")
_MODES = {
    "1": "cursor keys",
    "7": "automatic line breaks",
    "12": "blinking cursor",
    "25": "visible cursor",
    "2004": "bracketed paste",
}


class Emulator:
    """A screen of *width* columns, with all rows that have scrolled away above it."""

    def __init__(self, width: int = 80, height: int = 24) -> None:
        self.width = width
        self.height = height
        self.rows: list[list[str]] = [[]]
        self.row = 0
        self.column = 0
        self.modes = {"automatic line breaks", "visible cursor"}
        self._held = ""

    @property
    def text(self) -> str:
        """Everything that can be seen, scrolled away or not."""
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
                assert found is not None, f"unknown sequence: {text[at : at + 20]!r}"
                self._obey(found[1], found[2], found[3])
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    def _obey(self, private: str, number: str, letter: str) -> None:
        count = int(number) if number.isdecimal() else 1
        if private:
            (self.modes.add if letter == "h" else self.modes.discard)(_MODES[number])
        elif letter == "A":
            assert self.row - count >= 0, "the cursor leaves the terminal"
            self.row -= count
        elif letter == "B":
            assert self.row + count < len(self.rows), "the cursor leaves what was written"
            self.row += count
        elif letter == "C":
            self.column += count
        elif letter == "D":
            self.column -= count
        elif letter == "J" and number == "2":
            self.rows = [[] for _ in self.rows]
        elif letter == "J":
            self.rows = self.rows[: self.row + 1]
            self.rows[self.row] = self.rows[self.row][: self.column]
        elif letter == "K":
            self.rows[self.row] = self.rows[self.row][: self.column]
        elif letter == "H":
            assert number == "0;0"
            self.row, self.column = 0, 0
            self.rows = [[]]
        else:
            assert letter == "m", f"unexpected sequence {letter}"

    def _put(self, one: str) -> None:
        if one == "\r":
            self.column = 0
        elif one == "\b":
            self.column -= 1
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
