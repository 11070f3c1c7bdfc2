r"""The strings of Python, one piece after the other, at any cut.

A `Quoting` is how a string is quoted: what ends it, and whether backslashes mean anything. There
are eight, and each reads its strings with patterns that were compiled once. Almost all of a string
is tame: plain text, and escapes of one character. What is left are escapes by number, and those
are taken one at a time.

Models write both Python and JSON in the same place, so a string is read as what either has: the
two halves of a surrogate pair make one character, and in double quotes ``\/`` is a slash. A line
may end inside a string of one quote. An escape that nobody has keeps its backslash, as in Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from json.decoder import scanstring  # type: ignore[attr-defined]
from json.encoder import encode_basestring
from typing import Final

from penstock.errors import ParseError

_ESCAPES: Final = {
    "\n": "",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_ESCAPES_OF_BOTH: Final = _ESCAPES | {"/": "/"}
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)

MORE: Final = -1
"""What stands for a place where only more text can tell."""

MAX_ESCAPES: Final = 1000
"""How many escapes are read in one go."""

_HEX: Final = "[0-9A-Fa-f]"
_CODE: Final = re.compile(
    rf"\\(?:x({_HEX}{{2}})|u({_HEX}{{4}})|U({_HEX}{{8}})|([0-7]{{3}}|[0-7]{{1,2}}(?=[^0-7])))"
)
_LINE_END: Final = re.compile(r"\\\r(?:\n|(?=[^\n]))")
_BEGINS: Final = re.compile(rf"\\(?:x{_HEX}{{0,1}}|u{_HEX}{{0,3}}|U{_HEX}{{0,7}}|[0-7]{{0,2}}|\r)")
_LAST_CHARACTER: Final = 0x10FFFF
_HIGH: Final = range(0xD800, 0xDC00)
_LOW: Final = re.compile(rf"\\u([Dd][C-Fc-f]{_HEX}{{2}})")
_LOW_BEGINS: Final = re.compile(rf"(?:\\(?:u(?:[Dd](?:[C-Fc-f]{_HEX}?)?)?)?)?")


class Quoting:
    """How a string is quoted: it ends at *delimiter*; where it is *raw* nothing is escaped."""

    __slots__ = ("_held", "_json", "_says", "_tame", "delimiter", "gate", "raw")

    def __init__(self, delimiter: str, *, raw: bool = False) -> None:
        quote = delimiter[0]
        self.delimiter = delimiter
        self.raw = raw
        self.gate = re.compile(rf'["{quote}\\\x00-\x1f]')
        """What is not plain, or has to be escaped in strict JSON."""
        escapes = _ESCAPES_OF_BOTH if quote == '"' else _ESCAPES
        self._says: Callable[[re.Match[str]], str] = lambda found: escapes.get(found[1], found[0])
        self._held = ("", "\\") if delimiter == quote else ("", "\\", quote, quote * 2)
        tame = [rf"[^{quote}\\]++", r"\\." if raw else r"\\[^0-7NUux\r]"]
        if delimiter != quote:
            tame.append(rf"{quote}{{1,2}}(?=[^{quote}])")
        json = rf'[^"{quote}\\\x00-\x1f]++' + ("" if raw else r'|\\["\\bfnrt]')
        self._json = re.compile(rf"(?:{json}){{0,{MAX_ESCAPES}}}")
        self._tame = re.compile(rf"(?:{'|'.join(tame)}){{0,{MAX_ESCAPES}}}", re.DOTALL)

    def read(self, text: str, at: int) -> tuple[str, int, bool]:
        """Read on from *at*: what a piece says, where it ends, whether the string ends there.

        A piece of no length tells that only more text can tell. Raises `ParseError` for an escape
        that is none.
        """
        tame = self._tame.match(text, at)
        if tame is not None and tame.end() > at:
            return self._decoded(tame[0]), tame.end(), False
        if text.startswith(self.delimiter, at):
            return "", at + len(self.delimiter), True
        if not text.startswith("\\", at):
            return "", at, False
        return *_read_code(text, at), False

    def translate(self, text: str) -> tuple[str, str, int] | None:
        """Read a piece of the string that is tame: what it says, in strict JSON, and its size.

        What may belong to an escape or to the delimiter is left. None tells that more is to be
        read here than a piece.
        """
        if self._json.fullmatch(text):
            return scanstring(text + '"', 0)[0], text, len(text)
        tame = self._tame.match(text)
        size = tame.end() if tame else 0
        if text[size:] not in self._held:
            return None
        says = self._decoded(text[:size])
        return says, encode_basestring(says)[1:-1], size

    def _decoded(self, piece: str) -> str:
        if self.raw or "\\" not in piece:
            return piece
        return _ESCAPED.sub(self._says, piece)


def _read_code(text: str, at: int) -> tuple[str, int]:
    """Read one escape that is more than a character; of no length if it may go on."""
    code = _CODE.match(text, at)
    if code is not None:
        return _decode(code, text)
    line_end = _LINE_END.match(text, at)
    if line_end is not None:
        return "", line_end.end()
    if _BEGINS.fullmatch(text, at):
        return "", at
    raise ParseError(f"`{text[at : at + 2]}` begins no escape")


def _decode(code: re.Match[str], text: str) -> tuple[str, int]:
    number = int(code[4], 8) if code[4] else int(code[1] or code[2] or code[3], 16)
    if number > _LAST_CHARACTER:
        raise ParseError(f"`{code[0]}` is no character")
    if not (code[2] and number in _HIGH):
        return chr(number), code.end()
    low = _LOW.match(text, code.end())
    if low is not None:
        return chr(0x10000 + ((number - 0xD800) << 10) + int(low[1], 16) - 0xDC00), low.end()
    if _LOW_BEGINS.fullmatch(text, code.end()):
        return "", code.start()
    return chr(number), code.end()


OPENING_CHARACTERS: Final = "'\"RrUu"
"""What a string may begin with."""

# One quote opens a string unless it may be the first of three; two are an empty string.
_OPENING: Final = re.compile(
    r"""([RrUu]?)('{3}|"{3}|'(?=[^']|'[^'])|"(?=[^"]|"[^"]))""",
)
_OPENING_BEGINS: Final = re.compile(r"""[RrUu]?(?:'{0,2}|"{0,2})""")


def quoting_at(text: str, at: int) -> tuple[Quoting | None, int]:
    """Give the quoting of the string that begins at *at*, and where its opening ends.

    None tells that no string begins; then the place is *at*, or `MORE` where more text will tell.
    """
    opening = _OPENING.match(text, at)
    if opening is not None:
        return _quoting(opening[2], raw=opening[1] in ("r", "R")), opening.end()
    return None, MORE if _OPENING_BEGINS.fullmatch(text, at) else at


@cache
def _quoting(delimiter: str, *, raw: bool) -> Quoting:
    return Quoting(delimiter, raw=raw)
