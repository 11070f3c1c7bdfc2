"""The steps through strings and keys, and over the colon and comma that lead to them.

Plain text is taken in runs. An escape is decoded when all of it is there: until then it waits in
`Reading.held`, at most eleven characters, and a high surrogate waits for its other half, since
only the next characters tell whether it is alone. What is plain is told by string methods: on
pieces of a few characters they cost a quarter of what a pattern does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.values.incremental.draft import Change

if TYPE_CHECKING:
    from penstock.values.incremental.reading import Reading

_CODE: Final = re.compile(r"[0-9A-Fa-f]{4}")
_CODE_BEGINS: Final = re.compile(r"[0-9A-Fa-f]{0,3}")
_LOW: Final = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_LOW_BEGINS: Final = re.compile(r"(?:\\(?:u(?:[Dd](?:[C-Fc-f][0-9A-Fa-f]?)?)?)?)?")


def open_text(reading: Reading, text: str, at: int) -> int:
    """Read a string that is a value."""
    reading.awaits = reading.dialect.closing[text[at]]
    at += 1
    end = text.find(reading.awaits, at)
    if end != -1:
        piece = text[at:end]
        if "\\" not in piece and piece.isprintable():
            reading.awaits = ""
            reading.put_text(piece)
            reading.state = reading.after
            return end + 1
    reading.open_text()
    if at < len(text):
        return more_text(reading, text, at)
    reading.resume = more_text
    reading.gate = reading.awaits
    return at


def open_odd_text(reading: Reading, text: str, at: int) -> int:
    """Read a string that is a value, in quotes that strict JSON has not."""
    reading.relaxed[_ODD_QUOTES.get(text[at], _SMART_QUOTES)] = None
    return open_text(reading, text, at)


def open_odd_key(reading: Reading, text: str, at: int) -> int:
    """Read a key in quotes that strict JSON has not."""
    reading.relaxed[_ODD_QUOTES.get(text[at], _SMART_QUOTES)] = None
    return open_key(reading, text, at)


_ODD_QUOTES: Final = {"'": "single-quoted strings"}
_SMART_QUOTES: Final = "strings in smart quotes"


def more_text(reading: Reading, text: str, at: int) -> int:
    """Read on in a string that is a value; all its text in this piece is one change."""
    end = text.find(reading.awaits, at)
    piece = text[at:end] if end != -1 else text[at:]
    if "\\" in piece or not piece.isprintable():
        piece, end = _take_special_text(reading, text, at)
    if piece:
        reading.parts.append(piece)
        reading.changes.append(Change(reading.path, "string", piece))
        for watch in reading.watching:
            watch.add(piece)
    if end == -1:
        reading.resume = more_text
        reading.gate = "" if reading.held else reading.awaits
        return len(text)
    reading.awaits = ""
    reading.close_text()
    reading.state = reading.after
    return end + 1


def open_key(reading: Reading, text: str, at: int) -> int:
    """Read a key in quotes."""
    reading.awaits = reading.dialect.closing[text[at]]
    reading.parts = []
    at += 1
    if at < len(text):
        return more_key(reading, text, at)
    reading.resume = more_key
    reading.gate = reading.awaits
    return at


def more_key(reading: Reading, text: str, at: int) -> int:
    """Read on in a key in quotes; it shows only when it is whole."""
    end = text.find(reading.awaits, at)
    piece = text[at:end] if end != -1 else text[at:]
    if not piece.isidentifier() and ("\\" in piece or not piece.isprintable()):
        piece, end = _take_special_text(reading, text, at)
    if end == -1:
        reading.parts.append(piece)
        reading.resume = more_key
        reading.gate = "" if reading.held else reading.awaits
        return len(text)
    if reading.parts:
        reading.parts.append(piece)
        piece = "".join(reading.parts)
    reading.awaits = ""
    reading.path = reading.trail + (piece,)  # noqa: RUF005 - `Draft.name`, without the call
    at = end + 1
    if at < len(text) and text[at] == ":":
        return to_value(reading, text, at)
    reading.state = reading.dialect.colon
    return at


def to_value(reading: Reading, text: str, at: int) -> int:
    """Pass the colon, and what mostly follows: one space and a quote."""
    at += 1
    if text.startswith(' "', at):
        return open_text(reading, text, at + 1)
    reading.state = reading.dialect.value
    return at + 1 if at < len(text) and text[at] == " " else at


def to_key(reading: Reading, text: str, at: int) -> int:
    """Pass the comma between members, and what mostly follows: one space and a quote."""
    at += 1
    if text.startswith(' "', at):
        return open_key(reading, text, at + 1)
    reading.state = reading.dialect.next_key
    return at + 1 if at < len(text) and text[at] == " " else at


def _take_special_text(reading: Reading, text: str, at: int) -> tuple[str, int]:
    """Take decoded text up to the closing quote; give it, and the place of the quote or -1.

    For text with escapes, or with characters that strict JSON may not take.
    """
    pieces = []
    find_special = reading.dialect.special[reading.awaits]
    while (found := find_special(text, at)) is not None:
        end = found.start()
        pieces.append(text[at:end])
        if text[end] == reading.awaits:
            return "".join(pieces), end
        char, at = _take_escape(reading, text, end)
        if not char:
            reading.held = text[end:]
            return "".join(pieces), -1
        pieces.append(char)
    pieces.append(text[at:])
    return "".join(pieces), -1


def _take_escape(reading: Reading, text: str, at: int) -> tuple[str, int]:
    """Decode the escape at *at*; an empty string means that it is not whole yet."""
    if text[at] != "\\":
        reading.refuse("a raw control character in a string", text, at)
    letter = text[at + 1 : at + 2]
    char = reading.dialect.escapes.get(letter)
    if char is not None:
        return char, at + 2
    if letter == "u":
        return _take_code(reading, text, at)
    if not letter and not reading.ended:
        return "", at
    # A recovering reading takes the backslash for itself: `C:\dir` was meant so.
    reading.refuse("an escape that JSON does not know", text, at)
    return "\\", at + 1


def _take_code(reading: Reading, text: str, at: int) -> tuple[str, int]:
    r"""Decode ``\u`` and its digits; both halves of a surrogate pair make one character."""
    code = _CODE.match(text, at + 2)
    if code is None:
        if _CODE_BEGINS.fullmatch(text, at + 2) and not reading.ended:
            return "", at
        reading.refuse(r"a `\u` escape without four digits", text, at)
        return "\\", at + 1
    char = chr(int(code[0], 16))
    if not "\ud800" <= char <= "\udbff":
        return char, at + 6
    low = _LOW.match(text, at + 6)
    if low is not None:
        return chr(0x10000 + ((ord(char) - 0xD800) << 10) + int(low[1], 16) - 0xDC00), at + 12
    if _LOW_BEGINS.fullmatch(text, at + 6) and not reading.ended:
        return "", at
    return char, at + 6
