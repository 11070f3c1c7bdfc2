r"""The escapes inside JSON strings: decoded, refused, or kept as they are.

`decode_escapes` is for a reader that refuses bad ones (`find_bad_escape`), `repair_escapes` for one
that repairs. Both join the two halves of an escaped surrogate pair and keep a lone half, as the
standard library does.

Repair **never loses a backslash**: one that is not an escape is data, so ``\d+`` stays ``\d+``. A
model that writes such a bad escape does not escape backslashes, so in that string ``\b``, ``\f``
and ``\/`` are data as well: a word border, ``\frac``, a slash in a pattern; a backspace or a form
feed is never meant. If the string also begins like a Windows path, every single backslash is data,
also that of ``\new`` or ``\temp``.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Final

from penstock.values.json_grammar import RELAXED_ESCAPES
from penstock.values.rjson.notes import Repair, Repairs

_HEX = "[0-9a-fA-F]"
_HIGH = rf"\\u[dD][89abAB]{_HEX}{{2}}"
_LOW = rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
_SIMPLE = "[" + re.escape("".join(RELAXED_ESCAPES)) + "]"

_VALID: Final = re.compile(rf"(?:[^\\]++|\\(?:{_SIMPLE}|u{_HEX}{{4}}))*")
_CODES = rf"{_HIGH}{_LOW}|\\u{_HEX}{{4}}"
_ESCAPE: Final = re.compile(rf"{_CODES}|\\{_SIMPLE}")
_SURE_ESCAPE: Final = re.compile(rf"{_CODES}|\\(?![bf/]){_SIMPLE}")
_CUT: Final = rf"\\(?:u{_HEX}{{0,3}})?\Z"
_WHOLE: Final = re.compile(
    # Everything before a cut escape. The branches match whole escapes, so that a backslash is only
    # matched where one begins. A high surrogate at the end lacks its other half: cut as well.
    rf"(?:[^\\]++|{_HIGH}{_LOW}|(?!{_CUT}|{_HIGH}(?:\Z|{_CUT}))\\.)*",
    re.DOTALL,
)
_FOREIGN_QUOTE: Final = re.compile(r"(?:[^\\]++|\\[^'`])*\\['`]", re.DOTALL)

# Python's own reader with raw control characters: much faster where it accepts the string.
_decoder: Final = json.JSONDecoder(strict=False)

_PATH: Final = re.compile(r"[A-Za-z]:\\(?!\\)|\\\\(?=[^\\\s]+\\[^\\])")
_DOUBLED: Final = re.compile(r'\\([\\"])')


def find_bad_escape(body: str) -> int:
    """Return where the first unknown escape is, or -1."""
    valid = _VALID.match(body)
    end = valid.end() if valid else 0
    return -1 if end == len(body) else end


def decode_escapes(body: str) -> str:
    """Decode every escape of *body*; any other backslash stays."""
    with suppress(ValueError):  # an unescaped quote, or an escape that only we know
        return str(_decoder.decode(f'"{body}"'))
    return _ESCAPE.sub(_decoded, body)


def repair_escapes(body: str, notes: Repairs) -> str:
    """Decode the valid escapes of *body* and keep all other backslashes as data."""
    bad = find_bad_escape(body)
    if bad < 0:
        note_foreign_quotes(body, notes)
        return decode_escapes(body)
    path = _PATH.match(body)
    if path:
        notes.note(Repair.WINDOWS_PATH, body)
        # The first two backslashes of `\\server\share` are two; elsewhere a doubled one is one.
        return path.group() + _DOUBLED.sub(r"\1", body[path.end() :])
    notes.note(Repair.BAD_ESCAPE, body[bad : bad + 2])
    if "\\\\" in body:
        notes.doubt("backslashes of which some are escaped")
    # `\\` must be matched as one escape, or its second half would begin another.
    return _SURE_ESCAPE.sub(_decoded, body)


def drop_cut_escape(body: str) -> str:
    r"""Return *body* without the escape that the end of the text cut (``\``, ``\u12``).

    Its character is not known. Half of a surrogate pair is dropped, too: its other half is missing.
    """
    whole = _WHOLE.match(body)
    return whole.group() if whole else body


def note_foreign_quotes(body: str, notes: Repairs) -> None:
    r"""Note an escape that only relaxed JSON has: ``\'`` and its like."""
    if _FOREIGN_QUOTE.match(body):
        notes.note(Repair.ESCAPED_QUOTE)


def looks_like_path(body: str) -> bool:
    """Return whether *body* begins like a Windows path and has an escape unknown to JSON."""
    return _PATH.match(body) is not None and find_bad_escape(body) >= 0


def _decoded(escape: re.Match[str]) -> str:
    token = escape.group()
    if token[1] != "u":
        return RELAXED_ESCAPES[token[1]]
    first = int(token[2:6], 16)
    if len(token) == 6:  # noqa: PLR2004 - one escape: a backslash, `u` and four digits
        return chr(first)
    return chr(0x10000 + ((first - 0xD800) << 10) + (int(token[8:], 16) - 0xDC00))
