"""Raw values while their text arrives: strings that stream, and text that waits for its end.

A `StreamedText` is written as it comes, except for its end: white space there may not belong to
the value, so it waits until something follows it, at most `MAX_TAIL` characters. In formats that
resemble XML a string was escaped only if it holds no ``<``, which its end decides: there a string
waits from its first entity on, until a ``<`` or its end comes.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache, partial
from json.encoder import encode_basestring
from typing import Final

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.body import OpenString, Translated
from penstock.parsing.scanner import Markers, Scanner
from penstock.readers.tagged import MAX_TAIL, Trim
from penstock.values.coercion import decode_entities, find_entity
from penstock.values.json_grammar import string_gate

MAX_LINE: Final = 256
"""How much of a line is searched for a quote before a tag: lines of code are shorter."""


class OpenValue(ABC):
    """Takes the raw text of a value."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """The text of the value so far, entities as written."""
        return "".join(self._pieces)

    @property
    def is_blank(self) -> bool:
        """Whether the text so far is white space."""
        return all(map(str.isspace, self._pieces))

    @property
    def ends_with_newline(self) -> bool:
        """Whether a newline is written that a forgotten closing tag would have dropped."""
        return False

    def last_line(self) -> str:
        """Return the last line of the text so far, at most `MAX_LINE` characters of it."""
        line = ""
        for piece in reversed(self._pieces):
            _, newline, end = piece[-MAX_LINE:].rpartition("\n")
            line = end + line
            if newline or len(line) >= MAX_LINE:
                break
        return line[-MAX_LINE:]

    def count_waiting(self, piece: str) -> int:
        """Return how many characters at the end of *piece*, the next one, will wait."""
        del piece
        return 0

    @abstractmethod
    def restart(self) -> bool:
        """Drop white space, because the opening tag came again; return whether that is possible."""

    @abstractmethod
    def add(self, piece: str) -> None:
        """Take more of the text, at least a character."""

    @abstractmethod
    def close(self, *, forgotten: bool = False) -> None:
        """End the value; *forgotten*: its own closing tag is missing."""

    def flush(self, *, at_tag: bool = False) -> None:
        """Write the text that waits: the response ends inside the value, or *at_tag* after it."""
        del at_tag

    def wait(self) -> None:
        """Write no more before the end: what follows may not be part of the value."""
        return

    def open_text(self) -> str | None:
        """Return what was written of a string that streams; None for any other value."""
        return None

    def open_string(self) -> OpenString | None:
        """Return the string for the engine's fast path, if it streams and none of it waits."""
        return None


def take_text(value: OpenValue, scanner: Scanner, end: int) -> None:
    """Read the text up to *end* into *value*."""
    at = scanner.at
    if end > at:
        piece = scanner.text[at:end]
        # No event claims text that waits: if the call breaks, it is text, wherever chunks were cut.
        scanner.advance_to(end - value.count_waiting(piece))
        value.add(piece)
        scanner.advance_to(end)


def trim_text(text: str, trim: Trim) -> str:
    """Return *text*, a whole value, without the white space that *trim* excludes."""
    if trim == "any newlines" and text.startswith("\r\n"):
        text = text.removeprefix("\r\n")
        return text.removesuffix("\r\n" if text.endswith("\r\n") else "\n")
    if trim in _NEWLINES or (trim == "lines" and text.startswith("\n")):
        return text.removeprefix("\n").removesuffix("\n")
    return text.strip() if trim == "blanks" else text


_NEWLINES: Final = ("newlines", "any newlines")


class CollectedText(OpenValue):
    """Text that is kept until its end; `close` drops the white space that *trim* excludes.

    With *marks*, only what begins with one of these may end it.
    """

    __slots__ = ("_marks", "_trim")

    def __init__(self, trim: Trim = "exact", marks: Markers | None = None) -> None:
        super().__init__()
        self._trim = trim
        self._marks = marks

    def restart(self) -> bool:
        """Drop the text."""
        self._pieces.clear()
        return True

    def open_string(self) -> OpenString | None:
        """Return the text for the engine's fast path, if it is known what ends it."""
        marks = self._marks
        if marks is None:
            return None
        string = make_open_string(_waiting_gate(marks.firsts), self._pieces, marks)
        return string._replace(waits=True)

    def add(self, piece: str) -> None:
        """Take more of the text."""
        self._pieces.append(piece)

    def close(self, *, forgotten: bool = False) -> None:
        """End the text."""
        text = trim_text(self.text, self._trim)
        # The next tag is on a line of its own: the newline before it separates, as it would have
        # after the closing tag.
        if forgotten and self._trim in ("nothing", "lines"):
            text = text.removesuffix("\n")
        self._pieces = [text]


class StreamedText(OpenValue):
    """The open string of *writer*, written as it comes except for what *trim* cuts off.

    *marks* may end it. With *entities*, entities are decoded if it holds no ``<``. With *is_marked*
    its own markers are around it: the first newline is not part of it, nor is white space from the
    last newline on if the end marker was forgotten.
    """

    __slots__ = ("_edges", "_entities", "_firsts", "_held", "_is_flushed", "_is_waiting", "_marks",
                 "_waiting", "_writer")  # fmt: skip

    def __init__(
        self,
        marks: Markers,
        writer: ArgumentWriter,
        trim: Trim = "exact",
        *,
        entities: bool = False,
        is_marked: bool = False,
    ) -> None:
        super().__init__()
        self._marks = marks
        self._firsts = marks.firsts
        self._writer = writer
        self._edges = _MarkedEdges() if is_marked else _EDGES[trim]()
        self._entities = entities  # until a "<" comes
        self._held = ""  # what may become an entity
        self._waiting: list[str] = []  # the text from the first entity on
        self._is_flushed = False
        self._is_waiting = False  # all text waits for the end

    @property
    def raw(self) -> str:
        """All text that was taken, what was cut off included."""
        return self._edges.lead + self.text + self._edges.held

    @property
    def ends_with_newline(self) -> bool:
        """Whether a newline is written that a forgotten closing tag would have dropped."""
        return bool(self._pieces) and self._pieces[-1].endswith("\n")

    def restart(self) -> bool:
        """Drop white space; none may have been written."""
        self._edges = type(self._edges)()
        return not self._pieces

    def last_line(self) -> str:
        """Return the last line of the text so far."""
        return "" if "\n" in self._edges.held else super().last_line()

    def count_waiting(self, piece: str) -> int:
        """Return how many characters at the end of *piece*, the next one, will wait."""
        return self._edges.count_held(piece)

    def add(self, piece: str) -> None:
        """Take more of the text."""
        self._write(self._edges.push(piece))

    def close(self, *, forgotten: bool = False) -> None:
        """End the string."""
        self._write("" if forgotten else self._edges.kept)
        self._write_waiting()
        self._writer.close_text(decode_entities(self.text) if self._entities else self.text)

    def flush(self, *, at_tag: bool = False) -> None:
        """Write the text that waits, except for white space that is cut off at any end."""
        self._write("" if at_tag else self._edges.cut)
        self._write_waiting()
        self._is_flushed = True

    def wait(self) -> None:
        """Write no more before the end."""
        self._is_waiting = True

    def open_text(self) -> str:
        """Return what was written so far."""
        text = self.text
        if self._is_flushed and self._entities:
            return decode_entities(text)
        # From the first entity on nothing was written: only the end decides whether it is decoded.
        return text[: len(text) - sum(map(len, self._waiting)) - len(self._held)]

    def open_string(self) -> OpenString | None:
        """Return the string for the engine's fast path, unless some of it waits."""
        if self._is_waiting or self._waiting or self._held or not self._edges.is_clear:
            return None
        edges = self._edges
        if self._entities:
            gate = _gate(self._firsts + "&<", edges.gate)
            translate, known = _make_translator(self._marks, edges.find_end, "<&")
            return OpenString(gate, self._pieces, translate, known=known)
        gate = _gate(self._firsts, edges.gate)
        return make_open_string(gate, self._pieces, self._marks, edges.find_end)

    def _write(self, text: str) -> None:
        if not text:
            return
        self._pieces.append(text)
        if self._is_waiting:
            self._waiting.append(self._held + text)
            self._held = ""
        elif not self._entities:
            self._writer.add_text(text)
        elif "<" in text:
            # Raw markup: a model that had escaped the text would have escaped this, too.
            self._entities = False
            self._writer.add_text("".join((*self._waiting, self._held, text)))
            self._waiting, self._held = [], ""
        elif self._waiting:
            self._waiting.append(text)
        elif self._held or "&" in text:
            text = self._held + text
            at, is_whole = find_entity(text)
            self._writer.add_text(text[:at])
            self._waiting, self._held = ([text[at:]], "") if is_whole else ([], text[at:])
        else:
            self._writer.add_text(text)

    def _write_waiting(self) -> None:
        rest = "".join(self._waiting) + self._held
        self._waiting, self._held = [], ""
        self._is_waiting = False
        self._entities = self._entities and "<" not in rest
        if rest:
            self._writer.add_text(decode_entities(rest) if self._entities else rest)


def make_open_string(
    gate: re.Pattern[str],
    pieces: list[str],
    marks: Markers,
    find_end: FindEnd = lambda _, size: size,
) -> OpenString:
    """Return raw text, which *marks* may end, for the engine's fast path.

    Of a piece, what may begin a mark is not read, nor what follows the place that *find_end* finds.
    """
    translate, known = _make_translator(marks, find_end)
    return OpenString(gate, pieces, translate, known=known)


Translator = Callable[[str], Translated | None]


@lru_cache(maxsize=16)
def _make_translator(
    marks: Markers, find_end: FindEnd, without: str = ""
) -> tuple[Translator, dict[str, Translated]]:
    """Return a function that reads a piece of raw text, and the dict of what it has returned."""
    return partial(_translate, marks, find_end, without), {}


def _translate(marks: Markers, find_end: FindEnd, without: str, text: str) -> Translated | None:
    """Read a piece of raw text; return None if it has one of *marks*, or a character *without*.

    What may begin a mark, or may be cut off, is left.
    """
    if any(character in text for character in without):
        return None
    size, firsts = len(text), marks.firsts
    # One `in` is five times faster than the gate.
    if firsts in text if len(firsts) == 1 else marks.gate(text) is not None:
        if marks.find(text) is not None:
            return None
        size = marks.find_held(text)
    size = find_end(text, size)
    if size < len(text):
        if len(text) - size > MAX_TAIL:
            return None  # Too much waits: the engine reads it, and keeps to the limit.
        text = text[:size]
    return text, encode_basestring(text)[1:-1], size


def find_blank(text: str, size: int) -> int:
    """Find where the white space begins that ``text[:size]`` ends with."""
    return len(text[:size].rstrip())


class _Edges:
    """What is not part of a value at its ends; here: nothing, and nothing waits.

    `lead` is what was dropped before the value, `held` the end of the text that waits. `gate`
    matches what may wait beside a newline.
    """

    gate = ""

    def __init__(self) -> None:
        self.lead = ""
        self.held = ""
        self.is_begun = True

    @property
    def is_clear(self) -> bool:
        """Whether the value has begun and nothing waits."""
        return self.is_begun and not self.held

    @property
    def kept(self) -> str:
        """What waits, if it is part of a value whose closing tag follows."""
        return ""

    @property
    def cut(self) -> str:
        """What waits, if it is part of a value in which the response ends."""
        return ""

    def push(self, piece: str) -> str:
        """Take more text; return what does not wait."""
        return piece

    def count_held(self, piece: str) -> int:
        """Return how many characters at the end of *piece* would wait."""
        return len(piece) - self.find_end(piece, len(piece))

    @staticmethod
    def find_end(text: str, size: int) -> int:
        """Find where the end of ``text[:size]`` that waits begins."""
        del text
        return size


FindEnd = Callable[[str, int], int]


class _NewlineEdges(_Edges):
    """A newline at the end waits: a forgotten closing tag drops it."""

    @property
    def kept(self) -> str:
        return self.held

    def push(self, piece: str) -> str:
        text = self.held + piece
        self.held = "\n" if text.endswith("\n") else ""
        return text.removesuffix("\n")

    @staticmethod
    def find_end(text: str, size: int) -> int:
        return size - text.endswith("\n", 0, size)


class _TrimmedNewlineEdges(_NewlineEdges):
    """One newline at either end is not part of the value."""

    def __init__(self) -> None:
        super().__init__()
        self.is_begun = False

    @property
    def kept(self) -> str:
        return ""

    @property
    def cut(self) -> str:
        return self.held

    def push(self, piece: str) -> str:
        if not self.is_begun:
            self.is_begun = True
            self.lead = "\n" if piece.startswith("\n") else ""
            piece = piece.removeprefix("\n")
        return super().push(piece)


class _LineEdges(_TrimmedNewlineEdges):
    """One newline at either end is not part of a value that begins with one."""

    @property
    def kept(self) -> str:
        return "" if self.lead else self.held


class _AnyNewlineEdges(_TrimmedNewlineEdges):
    r"""The same; a value that begins with ``\r\n`` also ends with it."""

    @property
    def is_clear(self) -> bool:
        return self.lead != "\r\n" and super().is_clear

    @property
    def kept(self) -> str:
        return "\r" if self.held == "\r" else ""

    def push(self, piece: str) -> str:
        if not self.is_begun:
            piece, self.held = self.held + piece, ""
            if piece == "\r":
                self.held = piece
                return ""
            if piece.startswith("\r\n"):
                self.is_begun, self.lead = True, "\r\n"
                piece = piece.removeprefix("\r\n")
        if self.lead != "\r\n":
            return super().push(piece)
        text = self.held + piece
        end = len(text) - self.count_held(text)
        self.held = text[end:]
        return text[:end]

    def count_held(self, piece: str) -> int:
        if self.lead != "\r\n" and piece != "\r":
            return super().count_held(piece)
        return 2 if piece.endswith("\r\n") else int(piece.endswith(("\r", "\n")))


class _BlankEdges(_Edges):
    """White space at either end is not part of the value."""

    gate = r"\s"

    def __init__(self) -> None:
        super().__init__()
        self.is_begun = False
        self._is_flooded = False  # too much white space: it is written until something else comes

    @property
    def is_clear(self) -> bool:
        return self.is_begun and not (self.held or self._is_flooded)

    def push(self, piece: str) -> str:
        if not self.is_begun:
            piece = self._begin(piece)
        if self._is_flooded:
            if piece.isspace():
                return piece
            self._is_flooded = False
        text = self.held + piece
        end = self.find_end(text, len(text))
        self.held = text[end:]
        if len(self.held) <= MAX_TAIL:
            return text[:end]
        # Holding back all blanks of a model that repeats them would stall the stream (law 4).
        self.held = ""
        self._is_flooded = True
        return text

    def _begin(self, piece: str) -> str:
        text = piece.lstrip()
        self.lead += piece[: len(piece) - len(text)]
        self.is_begun = bool(text)
        return text

    @staticmethod
    def find_end(text: str, size: int) -> int:  # mypyc needs a method, not a value
        return find_blank(text, size)


class _MarkedEdges(_BlankEdges):
    """A newline at the beginning, and white space from the last newline on; see `StreamedText`."""

    gate = ""

    @property
    def kept(self) -> str:
        return self.held

    @property
    def cut(self) -> str:
        return self.held

    def _begin(self, piece: str) -> str:
        self.is_begun = True
        self.lead = "\n" if piece.startswith("\n") else ""
        return piece.removeprefix("\n")

    @staticmethod
    def find_end(text: str, size: int) -> int:
        text = text[:size]
        newline = text.find("\n", len(text.rstrip()))
        return newline if newline != -1 else size


_EDGES: dict[Trim, type[_Edges]] = {
    "exact": _Edges,
    "nothing": _NewlineEdges,
    "newlines": _TrimmedNewlineEdges,
    "any newlines": _AnyNewlineEdges,
    "lines": _LineEdges,
    "blanks": _BlankEdges,
}


_gate: Final = lru_cache(maxsize=512)(string_gate)


@lru_cache(maxsize=64)
def _waiting_gate(firsts: str) -> re.Pattern[str]:
    """Match one of *firsts*."""
    return re.compile(f"[{re.escape(firsts)}]")
