"""Strings between tags that go out as they come: trimmed, or exactly as they stand.

The white space at the end of a string goes out only when something follows it, for it may be the
end. At most `MAX_TAIL` of it waits: more than that belongs to the string.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, Protocol

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import Run, Translated
from penstock.parsing.bodies.closers import DATA, MORE, Closer
from penstock.parsing.bodies.raw_strings import RawString
from penstock.parsing.scanner import Markers, Scanner
from penstock.values.coercion.entities import decode_entities, find_entity

MAX_TAIL: Final = 1024
"""How much white space at the end of a string waits for what follows."""


class OpenValue(Protocol):
    """Takes the text of a value while it comes."""

    def add(self, piece: str) -> None:
        """Take more of the text."""

    def close(self, mark: str) -> None:
        """End the value, at *mark*."""

    def flush(self) -> None:
        """Write what is held back, for a value that is cut."""

    def gone_out(self) -> str | None:
        """Give what was written so far of a string that streams."""

    def run(self) -> Run | None:
        """Give the value as a run, if it is a string and none of it waits."""


def read_value(value: OpenValue, closer: Closer, scanner: Scanner, *, final: bool = False) -> bool:
    """Read on in *value*, up to what ends it by its *closer*; tell whether it has ended.

    *final* says that no more text will come.
    """
    text, marks = scanner.text, closer.marks
    while found := marks.find(text, scanner.at):
        _add(value, scanner, found.start())
        end = closer.judge(text, found.start(), final=final)
        if end == MORE:
            return False
        if end != DATA:
            scanner.at = end
            value.close(found[0])
            return True
        _add(value, scanner, found.end())
    _add(value, scanner, len(text) if final else marks.find_held(text, scanner.at))
    return False


def _add(value: OpenValue, scanner: Scanner, end: int) -> None:
    at = scanner.at
    if end > at:
        scanner.at = end
        value.add(scanner.text[at:end])


def _as_it_is(text: str) -> Translated:
    return text, encode_basestring(text)[1:-1], len(text)


class Tail:
    """The white space that a text ends with just now, with *lines* only from its first newline."""

    __slots__ = ("_flooded", "_lines", "held")

    def __init__(self, *, lines: bool = False) -> None:
        self.held = ""
        self._lines = lines
        self._flooded = False  # there was too much of it: it goes out until something else comes

    @property
    def is_clear(self) -> bool:
        """Whether nothing is held back, and nothing was too much."""
        return not (self.held or self._flooded)

    def push(self, piece: str) -> str:
        """Take more text; give all that is no tail."""
        if self._flooded:
            if piece.isspace():
                return piece
            self._flooded = False
        text = self.held + piece
        end = self.find(text)
        self.held = text[end:]
        if len(self.held) > MAX_TAIL:
            self.held = ""
            self._flooded = True
            return text
        return text[:end]

    def find(self, text: str) -> int:
        """Find where the tail of *text* begins."""
        end = len(text.rstrip())
        if not self._lines:
            return end
        newline = text.find("\n", end)
        return newline if newline != -1 else len(text)


class TrimmedString:
    """A string without the white space around it; entities are decoded where it holds no ``<``.

    Whoever makes it has skipped the white space before it. *marks* may end it.
    """

    def __init__(self, marks: Markers, writer: ArgumentWriter) -> None:
        self._pieces: list[str] = []
        self._string = RawString(marks, writer, self._pieces, trims=False)
        self._tail = Tail()
        self._is_cut = False
        self._translate_inner: Callable[[str], Translated | None] = _as_it_is

    def add(self, piece: str) -> None:
        """Take more of the text."""
        shown = self._tail.push(piece)
        if shown:
            self._string.add(shown)

    def close(self, mark: str) -> None:
        """End the string, at *mark*."""
        del mark
        self._string.close()

    def flush(self) -> None:
        """Write what waits, for a string that is cut; white space at its end stays unwritten."""
        self._string.finish(at_tag=False)
        self._is_cut = True

    def gone_out(self) -> str:
        """Give what was written so far."""
        text = "".join(self._pieces)
        if self._is_cut:
            return decode_entities(text)
        return text if "<" in text else text[: find_entity(text)[0]]

    def run(self) -> Run | None:
        """Give the string as a run, unless any of it waits."""
        inner = self._string.run() if self._tail.is_clear else None
        if inner is None or inner.translate is None:
            return None
        self._translate_inner = inner.translate
        return Run(_with_blank_end(inner.gate), self._pieces, self._translate)

    def _translate(self, text: str) -> Translated | None:
        """Read a piece; the white space at its end is left."""
        shown = text.rstrip()
        if len(text) - len(shown) > MAX_TAIL:
            return None
        translated = self._translate_inner(shown)
        if translated is not None and translated[0][-1:].isspace():
            return self._translate_inner(translated[0].rstrip())  # behind it may be a mark
        return translated


class PlainString:
    """A string exactly as it stands; *marks* may end it.

    With *skips*, a newline at its beginning is none of it; with *drops*, neither is the white space
    from the newline on that its last line ends with, if it ends at a tag.
    """

    def __init__(
        self, marks: Markers, writer: ArgumentWriter, *, skips: bool = False, drops: bool = False
    ) -> None:
        self._pieces: list[str] = []
        self._writer = writer
        self._marks = marks
        self._skips = skips
        self._tail = Tail(lines=True) if drops else None

    def add(self, piece: str) -> None:
        """Take more of the text."""
        if self._skips and piece:
            self._skips = False
            piece = piece.removeprefix("\n")
        self._write(piece if self._tail is None else self._tail.push(piece))

    def close(self, mark: str) -> None:
        """End the string, at *mark*."""
        if not mark.startswith("<"):
            self.flush()
        self._writer.close_text("".join(self._pieces))

    def flush(self) -> None:
        """Write what is held back, for a string that is cut."""
        if self._tail is not None:
            self._write(self._tail.held)

    def gone_out(self) -> str:
        """Give what was written so far."""
        return "".join(self._pieces)

    def run(self) -> Run | None:
        """Give the string as a run, unless any of it waits."""
        if self._skips or not (self._tail is None or self._tail.is_clear):
            return None
        return Run(_plain(self._marks.literals), self._pieces, self._translate)

    def _write(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            self._writer.add_text(text)

    def _translate(self, text: str) -> Translated | None:
        """Read a piece that holds no mark; what may begin one, or is a tail, is left."""
        size = len(text)
        if self._marks.gate(text) is not None:
            if self._marks.find(text) is not None:
                return None
            size = self._marks.find_held(text)
        if self._tail is not None:
            end = self._tail.find(text[:size])
            if size - end > MAX_TAIL:
                return None
            size = end
        text = text[:size]
        return text, encode_basestring(text)[1:-1], size


@lru_cache(maxsize=64)
def _with_blank_end(gate: re.Pattern[str]) -> re.Pattern[str]:
    """Let *gate*, a set of characters, stop white space at the end, too.

    One set that holds both is found much faster than either of two patterns; what is white space
    and not at the end is then let pass.
    """
    special = gate.pattern[1:-1]
    return re.compile(rf"[{special}\s](?:(?<=[{special}])|\Z)")


@lru_cache(maxsize=512)
def _plain(marks: tuple[str, ...]) -> re.Pattern[str]:
    """Give what is not plain: what may begin one of *marks*, or strict JSON escapes."""
    firsts = "".join(sorted({mark[0] for mark in marks}))
    return re.compile(rf'[{re.escape(firsts)}"\\\x00-\x1f]')
