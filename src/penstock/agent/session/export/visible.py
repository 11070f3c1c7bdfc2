"""Characters that act instead of being seen, made visible.

A page that shows what a stranger wrote must not be steered by it: controls move a terminal's
cursor, and characters of direction let text read otherwise than it is.
"""

from __future__ import annotations

import re
from typing import Final

_ACTING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_PICTURES: Final = 0x2400
_SPACE: Final = 0x20


def visible(text: str) -> str:
    """Give *text* with every acting character but line ends and tabs as its picture or code."""
    return _ACTING.sub(_show, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Give *text* visible and on one line."""
    return " ".join(visible(text).split())


def _show(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(_PICTURES + code) if code < _SPACE else f"[U+{code:04X}]"
