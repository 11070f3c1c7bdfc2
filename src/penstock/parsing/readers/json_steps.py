r"""JSON read in steps: each ends at a change, so that every event can claim its own text.

The relaxed grammar of `IncrementalJSON`, and two things on top. A string is entered at its quote
and its first character comes alone: whoever is told of it decides how the rest is to come. And a
string that streams is taken apart here: plain text as it is, escapes that strict JSON has too
(``\n``, ``\"``) as they came, any other escape by itself. So when a mistake is found all text
before it has gone out, at any cut.
"""

from __future__ import annotations

import re
from enum import Enum
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Final

from penstock.errors import JSONParseError
from penstock.parsing.call_sink import NoCallError
from penstock.parsing.readers.base import OpenString, Translated
from penstock.values.incremental import IncrementalJSON
from penstock.values.incremental_state import Change
from penstock.values.json_grammar import BYTE_ORDER_MARK, CLOSING_QUOTES, WORD

Steps = tuple[list[Change], int]
"""What changed, and where in the text the step ended."""

_QUOTE: Final = re.compile(f"[{''.join({*CLOSING_QUOTES, *CLOSING_QUOTES.values()})}]")
_SPECIAL: Final = {
    quote: re.compile(rf'["{quote}\\\x00-\x1f]') for quote in CLOSING_QUOTES.values()
}
"""What is not plain in a string that ends with this quote, or has to be escaped in strict JSON."""

_TAME_ESCAPES: Final = re.compile(r'(?:\\["\\/bfnrt]){1,1000}')
_TAME: Final = re.compile(r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]){0,1000}')
_TAME_OR_RAW: Final = re.compile(r'(?:[^"\\\x00-\x08\x0b\x0c\x0e-\x1f]|\\["\\/bfnrt]){0,1000}')

# After a high surrogate only what follows tells whether it is half of a pair.
_HIGH: Final = r"[Dd][89ABab]"
_ESCAPE: Final = re.compile(
    rf"\\(?:u{_HIGH}[0-9A-Fa-f]{{2}}(?:\\u[0-9A-Fa-f]{{4}}|\\[^u]|[^\\])"
    rf"|u(?!{_HIGH})[0-9A-Fa-f]{{4}}|[^u])",
    re.DOTALL,
)
_ESCAPE_BEGINS: Final = re.compile(
    rf"\\(?:u(?:[0-9A-Fa-f]{{0,3}}|{_HIGH}[0-9A-Fa-f]{{2}}(?:\\(?:u[0-9A-Fa-f]{{0,3}})?)?))?"
)
_LONGEST: Final = 12  # characters of an escape: both halves of a surrogate pair
_OFFSET: Final = " at offset "
_WORD_CHARACTERS: Final = "".join(char for char in map(chr, range(128)) if WORD.match(char))

MAX_STEP: Final = 4096
"""How much text between two strings is read in one step."""

MAX_WORD: Final = 64
"""How long a number or a word is read as one: a mistake in it is found where it begins."""


class JSONFlow(Enum):
    """How the text of the open string is to come."""

    WAITS = "nobody wants it before it is whole"
    STREAMS = "it goes out as it comes"
    NESTS = "it is JSON itself: what each of its characters was written as matters"


class BrokenJSONError(NoCallError):
    """The text is no JSON from *at* on.

    *place* is where the mistake begins: before *at*, where some of a long word was read before.
    """

    def __init__(self, reason: str, at: int, place: int | None = None) -> None:
        super().__init__(reason)
        self.at = at
        self.place = at if place is None else place


class BrokenArgumentsError(BrokenJSONError):
    """The JSON in a string is not one; what is around that string may be good JSON."""


def error_at(reason: str, place: int) -> JSONParseError:
    """Make the error that tells of *reason*, without the offset that it may name, at *place*."""
    return JSONParseError(f"{reason.partition(_OFFSET)[0]}{_OFFSET}{place}", position=place)


class JSONSteps(IncrementalJSON):
    """One JSON value in the relaxed grammar, read step by step."""

    def __init__(self) -> None:
        super().__init__(lenient=True)
        self.pieces: list[str] = []
        """Of the string that was opened last, decoded."""
        self._has_begun = False
        self._is_entered = False  # the first character of the open string has come
        self._string: tuple[str | int, ...] = ()  # where it stands

    @property
    def awaits(self) -> str:
        """What closes the open string, key or comment; empty outside of them."""
        return self._reading.awaits

    def step(self, text: str, at: int, flow: JSONFlow) -> Steps:
        """Read on from *at* up to the next change.

        Where nothing changed and nothing was passed only more text will tell. Raises
        `BrokenJSONError`.
        """
        opened = self.open_string
        if opened is None:
            if not self.awaits and not self.in_line_comment:
                self._is_entered = False
                if text.startswith(BYTE_ORDER_MARK, at):
                    return self._skip_mark(at)
            # Within a window: after a call that breaks soon all of the text would be searched.
            window = at + MAX_STEP
            quote = _QUOTE.search(text, at, window)
            end = quote.end() if quote else self._find_word(text[:window], at)
            # Up to a byte order mark, which is looked at where a step begins.
            mark = text.find(BYTE_ORDER_MARK, at + 1, end)
            end = end if mark == -1 else mark
            return self._read(text, at, end) if end > at else ([], at)
        if not self._is_entered:
            return self._enter(*opened, text, at)
        if flow is JSONFlow.WAITS:
            return self._read(text, at, len(text))
        return self._stream(*opened, text, at, flow)

    def run(self) -> OpenString | None:
        """Return the open string as a run."""
        if self.open_string is None or not self._is_entered:
            return None
        quote, pieces = self.open_string
        return OpenString(_SPECIAL[quote], pieces, _translate_tame if quote == '"' else None)

    def run_inside(self, inner: JSONSteps) -> OpenString | None:
        """Return the open string of *inner*, the JSON in the open string here, as a run."""
        opened, nested = self.open_string, inner.open_string
        if opened is None or nested is None or not (opened[0] == nested[0] == '"'):
            return None
        return OpenString(_SPECIAL['"'], nested[1], _translate_nested)

    def _skip_mark(self, at: int) -> Steps:
        """Skip a byte order mark where it comes first; the reader itself sees only pieces."""
        if self._has_begun:
            raise BrokenJSONError("a byte order mark inside the value", at)
        self._has_begun = True
        return [], at + 1

    def _find_word(self, text: str, at: int) -> int:
        """Find where the word begins that *text* ends with: only what follows tells what it is."""
        if self.awaits or self.in_line_comment:
            return len(text)
        tail = text[max(at, len(text) - MAX_WORD) :]
        word = len(tail) - len(tail.rstrip(_WORD_CHARACTERS))
        return len(text) - word if word < MAX_WORD else len(text)

    def _enter(self, quote: str, pieces: list[str], text: str, at: int) -> Steps:
        """Read the first character of the open string, or its end."""
        if _SPECIAL[quote].match(text, at):
            changes, end = self._read_special(text, at)
        else:
            changes, end = self._read(text, at, at + 1)
        if changes:
            self._is_entered = True
            self._string = changes[0].path
            self.pieces = pieces
        return changes, end

    def _stream(self, quote: str, pieces: list[str], text: str, at: int, flow: JSONFlow) -> Steps:
        """Read on in the open string, up to and after what is special in it."""
        special = _SPECIAL[quote].search(text, at)
        end = special.start() if special else len(text)
        if end > at:
            pieces.append(text[at:end])
            return [Change(self._string, "string", text[at:end])], end
        if quote == '"' and flow is JSONFlow.STREAMS and (tame := _TAME_ESCAPES.match(text, at)):
            piece = scanstring(tame[0] + '"', 0)[0]
            pieces.append(piece)
            return [Change(self._string, "string", piece, tame[0])], tame.end()
        return self._read_special(text, at)

    def _read_special(self, text: str, at: int) -> Steps:
        """Read one escape, or one character that is not a plain text."""
        if text[at] != "\\":
            return self._read(text, at, at + 1)
        escape = _ESCAPE.match(text, at)
        if escape is None and _ESCAPE_BEGINS.fullmatch(text, at):
            return [], at
        return self._read(text, at, escape.end() if escape else min(at + _LONGEST, len(text)))

    def _read(self, text: str, at: int, end: int) -> Steps:
        self._has_begun = True
        is_all = end == len(text)
        try:
            if is_all:
                return self.advance(text, at)
            changes, used = self.advance(text[at:end])
        except JSONParseError as exc:
            place = exc.position + (0 if is_all else at)
            reason = exc.reason.rpartition(_OFFSET)[0]
            raise BrokenJSONError(reason, max(place, at), place) from exc
        return changes, at + used


def _translate_tame(text: str) -> Translated | None:
    """Read a piece of a string if its escapes are those that strict JSON has too.

    Line breaks and tabs may stand as they are: many models write code so. A backslash at the end is
    left: what it escapes comes next.
    """
    if text[-1] == "\\" and text[-2:] != "\\\\":
        text = text[:-1]
    if _TAME.fullmatch(text) is not None:
        return scanstring(text + '"', 0)[0], text, len(text)
    if _TAME_OR_RAW.fullmatch(text) is None:
        return None
    written = text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return scanstring(written + '"', 0)[0], written, len(text)


def _translate_nested(text: str) -> Translated | None:
    """Read a piece of a string that is itself inside a string, if both have tame escapes only."""
    outer = _translate_tame(text)
    if outer is None or outer[1] != text:
        return None
    written, _, size = outer
    if written.endswith("\\") and not written.endswith("\\\\"):
        written, size = written[:-1], size - 2  # the escape that it begins stands as two
    inner = _translate_tame(written) if written else ("", "", 0)
    return None if inner is None else (inner[0], inner[1], size)
