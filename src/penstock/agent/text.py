"""Characters that act instead of being seen, made visible.

A page that shows what a stranger wrote must not be steered by it: controls move a terminal's
cursor, and characters of direction let text read otherwise than it is.
"""

from __future__ import annotations

import re
from typing import Final

# Long text made short: its beginning and its end stay, and a note says what is missing.


MIN_LIMIT: Final = 100
"""The least that a text is shortened to: below that there is room for the note alone."""

_HEAD: Final = 2 / 3  # beginnings say more than ends


def shortened(text: str, limit: int) -> str:
    """Return *text* with at most *limit* characters, cut in the middle where it has more.

    Less than `MIN_LIMIT` is taken for that.
    """
    limit = max(limit, MIN_LIMIT)
    if len(text) <= limit:
        return text
    room = limit - len(_note(len(text)))
    head = round(room * _HEAD)
    tail = room - head
    return text[:head] + _note(len(text) - room) + text[len(text) - tail :]


def _note(left_out: int) -> str:
    return f"\n[… {left_out} characters left out …]\n"


_ACTING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_PICTURES: Final = 0x2400
_SPACE: Final = 0x20


def visible(text: str) -> str:
    """Return *text* with every acting character but line ends and tabs as its picture or code."""
    return _ACTING.sub(_show, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Return *text* visible and on one line."""
    return " ".join(visible(text).split())


def _show(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(_PICTURES + code) if code < _SPACE else f"[U+{code:04X}]"
