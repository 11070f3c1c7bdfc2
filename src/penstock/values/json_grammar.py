"""The words of JSON, strict and relaxed, that `rjson` and `IncrementalJSON` share.

Strict is RFC 8259. Relaxed is what models print and people write by hand: unquoted keys, bare
words as strings, single and smart quotes, comments, trailing commas, Python's literals, and
numbers such as ``.5``, ``+1`` and ``007``. ``NaN`` and ``Infinity`` are bare words like any other:
they have no JSON form, and as text they reach the tool unharmed.
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
"""Skipped where it leads a relaxed text: files have it, and it means nothing."""

LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
PYTHON_LITERALS: Final[dict[str, bool | None]] = {"True": True, "False": False, "None": None}
RELAXED_LITERALS: Final[dict[str, bool | None]] = LITERALS | PYTHON_LITERALS

NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
RELAXED_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

WORD_CHARACTERS: Final = r"$A-Za-z0-9_\-+.*?!|&%^/#\\"
"""What a bare word may hold (for a character class); a comment opens only where a word begins."""

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
"""Opening quotes of relaxed strings and what closes each; a German low quote ends in a high one."""


def read_number(token: str) -> int | float:
    """Turn a number token, strict or relaxed, into an exact int or the nearest float.

    Raises `ValueError` for an integer of more than `MAX_DIGITS` digits.
    """
    digits = token.lstrip("+-")
    if digits.isdigit():
        if len(digits) > MAX_DIGITS:
            raise ValueError(f"an integer of more than {MAX_DIGITS} digits")
        return int(token)
    return float(token)
