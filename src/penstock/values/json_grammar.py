"""The tokens of JSON, strict and relaxed, for `rjson` and `IncrementalJSON`.

Strict is RFC 8259. Relaxed is what models print and people write by hand: unquoted keys, bare
words as strings, single and smart quotes, comments, trailing commas, Python's literals, and
numbers such as ``.5``, ``+1`` and ``007``. ``NaN`` and ``Infinity`` are bare words like any other:
JSON cannot express them, and as text they reach the tool unchanged.
"""

from __future__ import annotations

import re
from typing import Final

from penstock import _json

MAX_DEPTH: Final = _json.MAX_DEPTH

MAX_DIGITS: Final = 4300
"""How many digits an integer may have: Python's own guard against quadratic conversion."""

WHITESPACE: Final = " \t\n\r"

BYTE_ORDER_MARK: Final = "\ufeff"
"""Skipped at the beginning of a relaxed text: some files have it, and it has no meaning."""

LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
PYTHON_LITERALS: Final[dict[str, bool | None]] = {"True": True, "False": False, "None": None}
RELAXED_LITERALS: Final[dict[str, bool | None]] = LITERALS | PYTHON_LITERALS

NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
RELAXED_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

WORD_CHARACTERS: Final = r"$A-Za-z0-9_\-+.*?!|&%^/#\\"
"""The characters of a bare word, for a pattern; a comment opens only where a word begins."""

WORD: Final = re.compile(rf"[{WORD_CHARACTERS}]+")

ESCAPES: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
RELAXED_ESCAPES: Final = ESCAPES | {"'": "'", "`": "`"}

CLOSING_QUOTES: Final = {
    '"': '"',
    "'": "'",
    "\u201c": "\u201d",
    "\u2018": "\u2019",
    "\u201e": "\u201c",
    "\u201a": "\u2018",
}
"""The closing quote for each opening quote of relaxed strings; German ones open low."""


def read_number(token: str) -> int | float:
    """Return a number token, strict or relaxed, as an exact int or the nearest float.

    Raises `ValueError` for an integer of more than `MAX_DIGITS` digits.
    """
    digits = token.lstrip("+-")
    if digits.isdigit():
        if len(digits) > MAX_DIGITS:
            raise ValueError(f"an integer of more than {MAX_DIGITS} digits")
        return int(token)
    return float(token)


def string_gate(characters: str, at_end: str = "") -> re.Pattern[str]:
    r"""Match what is not plain in a string: *characters*, and what strict JSON escapes.

    *at_end* is a class, such as ``\s``, that is special at the end of the text only. Looking at
    the last of a run of plain characters is faster than a second pattern for that class.
    """
    special = rf'{re.escape(characters)}"\\\x00-\x1f\ud800-\udfff'
    if not at_end:
        return re.compile(f"[{special}]")
    return re.compile(rf"\A(?![^{special}]*+(?<![{at_end}])\Z)")


MAX_REMEMBERED: Final = 32
"""Up to this length, decoded pieces of strings are remembered: models repeat their tokens."""

MAX_KNOWN: Final = 4096
"""How many decoded pieces are remembered: more than most vocabularies have tokens with escapes."""
