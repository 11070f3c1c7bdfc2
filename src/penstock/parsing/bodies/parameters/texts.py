"""The raw text of a value while it comes: a string that goes out at once, or text that waits.

What may be no part of the value (a newline at its end, white space there) is held back until
something follows. Of a call that is cut it stays unwritten: nobody knows what it would have been.
"""

from __future__ import annotations

import re
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, Protocol

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import Run, Translated
from penstock.parsing.bodies.open_strings import MAX_TAIL, Tail
from penstock.parsing.bodies.parameters.dialects import Trim
from penstock.parsing.scanner import Markers

MAX_LINE: Final = 256
"""How much of a line is looked at for a quote before a tag: a line of code is shorter."""


class OpenText(Protocol):
    """Takes the raw text of a value."""

    @property
    def is_blank(self) -> bool:
        """Whether the text so far is white space."""

    @property
    def ends_with_newline(self) -> bool:
        """Whether the text ends with a newline that a forgotten tag would not take along."""

    def restart(self) -> bool:
        """Forget white space, because the opening tag came again; return whether that can be."""

    def line(self) -> str:
        """Return the last line of the text so far, at most `MAX_LINE` characters of it."""

    def count_waiting(self, piece: str) -> int:
        """Return how many characters at the end of *piece*, the next one, will wait."""

    def add(self, piece: str) -> None:
        """Take more of the text, at least a character."""

    def close(self, *, forgotten: bool = False) -> None:
        """End the value: a tag follows. A newline before a *forgotten* one was not its own."""

    def gone_out(self) -> str | None:
        """Give what was written so far of a string that streams."""

    def run(self) -> Run | None:
        """Give the text as a run, if it streams and none of it waits."""


class StreamedText:
    """A string that goes out as it comes, but for what *trims* cuts off; *marks* may end it."""

    __slots__ = ("_edges", "_firsts", "_marks", "_pieces", "_writer")

    def __init__(self, marks: Markers, writer: ArgumentWriter, trims: Trim) -> None:
        self._pieces: list[str] = []
        self._marks = marks
        self._firsts = {literal[0] for literal in marks.literals}
        self._writer = writer
        self._edges = _EDGES[trims]()

    @property
    def is_blank(self) -> bool:
        """Whether the text so far is white space."""
        return all(map(str.isspace, self._pieces))

    @property
    def ends_with_newline(self) -> bool:
        """Whether the text ends with a newline that a forgotten tag would not take along."""
        return bool(self._pieces) and self._pieces[-1].endswith("\n")

    def restart(self) -> bool:
        """Forget white space; none may have gone out."""
        self._edges = type(self._edges)()
        return not self._pieces

    def line(self) -> str:
        """Return the last line of the text so far."""
        return "" if self._edges.is_after_newline else _last_line(self._pieces)

    def count_waiting(self, piece: str) -> int:
        """Return how many characters at the end of *piece*, the next one, will wait."""
        return len(piece) - self._edges.find(piece, len(piece))

    def add(self, piece: str) -> None:
        """Take more of the text."""
        shown = self._edges.push(piece)
        if shown:
            self._pieces.append(shown)
            self._writer.add_text(shown)

    def close(self, *, forgotten: bool = False) -> None:
        """End the string."""
        held = "" if forgotten else self._edges.held_text
        if held:
            self._pieces.append(held)
            self._writer.add_text(held)
        self._writer.close_text("".join(self._pieces))

    def gone_out(self) -> str:
        """Give what was written so far."""
        return "".join(self._pieces)

    def run(self) -> Run | None:
        """Give the string as a run, unless any of it waits."""
        if not self._edges.is_clear:
            return None
        return Run(_special(self._marks.literals, self._edges.gate), self._pieces, self._translate)

    def _translate(self, text: str) -> Translated | None:
        """Read a piece without any mark; what may begin one, or may be cut off, is left."""
        size = len(text)
        if any(first in text for first in self._firsts):
            if self._marks.find(text) is not None:
                return None
            size = self._marks.find_held(text)
        if text[size - 1 : size].isspace():
            size = self._edges.find(text, size)
        if size < len(text):
            if len(text) - size > MAX_TAIL:
                return None
            text = text[:size]
        return text, encode_basestring(text)[1:-1], size


class CollectedText:
    """Text that waits until it is whole; then `text` is all of it, but for what *trims* cuts."""

    __slots__ = ("_pieces", "_trims", "text")

    def __init__(self, trims: Trim) -> None:
        self.text = ""
        self._pieces: list[str] = []
        self._trims = trims

    @property
    def is_blank(self) -> bool:
        """Whether the text so far is white space."""
        return all(map(str.isspace, self._pieces))

    @property
    def ends_with_newline(self) -> bool:
        """Whether it matters: white space around a value that waits says nothing."""
        return False

    def restart(self) -> bool:
        """Forget white space."""
        self._pieces.clear()
        return True

    def line(self) -> str:
        """Return the last line of the text so far."""
        return _last_line(self._pieces)

    def count_waiting(self, piece: str) -> int:
        """Return 0: all of it waits, and no event comes."""
        del piece
        return 0

    def add(self, piece: str) -> None:
        """Take more of the text."""
        self._pieces.append(piece)

    def close(self, *, forgotten: bool = False) -> None:
        """End the text."""
        text = "".join(self._pieces)
        if forgotten and self._trims == "nothing":
            text = text.removesuffix("\n")
        if self._trims == "newlines":
            text = text.removeprefix("\n").removesuffix("\n")
        self.text = text.strip() if self._trims == "blanks" else text

    def gone_out(self) -> None:
        """Give nothing: none of it was written."""

    def run(self) -> None:
        """Give nothing: the text waits."""


def _last_line(pieces: list[str]) -> str:
    """Return the end of the text that *pieces* are, from its last newline on."""
    line = ""
    for piece in reversed(pieces):
        _, newline, end = piece[-MAX_LINE:].rpartition("\n")
        line = end + line
        if newline or len(line) >= MAX_LINE:
            break
    return line[-MAX_LINE:]


class _Nothing:
    """All of the text is the value; a newline at its end waits, a forgotten tag may follow it."""

    gate = ""

    def __init__(self) -> None:
        self.held_text = ""

    @property
    def is_clear(self) -> bool:
        return not self.held_text

    @property
    def is_after_newline(self) -> bool:
        return bool(self.held_text)

    def push(self, piece: str) -> str:
        text = self.held_text + piece
        self.held_text = "\n" if text.endswith("\n") else ""
        return text.removesuffix("\n")

    def find(self, text: str, size: int) -> int:
        return size - text.endswith("\n", 0, size)


class _Newlines:
    """One newline at either end is no part of the value."""

    gate = ""
    held_text = ""  # what waits is no part of the value

    def __init__(self) -> None:
        self._begun = False
        self._held = ""

    @property
    def is_clear(self) -> bool:
        return self._begun and not self._held

    def push(self, piece: str) -> str:
        if not self._begun:
            self._begun = True
            piece = piece.removeprefix("\n")
        text = self._held + piece
        self._held = "\n" if text.endswith("\n") else ""
        return text.removesuffix("\n")

    def find(self, text: str, size: int) -> int:
        return size - text.endswith("\n", 0, size)

    @property
    def is_after_newline(self) -> bool:
        return bool(self._held)


class _Blanks:
    """No white space at either end is part of the value."""

    gate = r"\s"
    held_text = ""

    def __init__(self) -> None:
        self._begun = False
        self._tail = Tail()

    @property
    def is_clear(self) -> bool:
        return self._begun and self._tail.is_clear

    def push(self, piece: str) -> str:
        if not self._begun:
            piece = piece.lstrip()
            self._begun = bool(piece)
        return self._tail.push(piece)

    def find(self, text: str, size: int) -> int:
        return len(text[:size].rstrip())

    @property
    def is_after_newline(self) -> bool:
        return "\n" in self._tail.held


_EDGES: dict[Trim, type[_Nothing | _Newlines | _Blanks]] = {
    "nothing": _Nothing,
    "newlines": _Newlines,
    "blanks": _Blanks,
}


@lru_cache(maxsize=512)
def _special(marks: tuple[str, ...], at_end: str) -> re.Pattern[str]:
    """Give what is not plain: what may begin one of *marks*, strict JSON escapes, or ends the text.

    One set is found much faster than either of two patterns; what is only special at the end, and
    does not stand there, is then let pass.
    """
    firsts = "".join(sorted({mark[0] for mark in marks}))
    always = rf'{re.escape(firsts)}"\\\x00-\x1f'
    if not at_end:
        return re.compile(f"[{always}]")
    return re.compile(rf"[{always}{at_end}](?:(?<=[{always}])|\Z)")
