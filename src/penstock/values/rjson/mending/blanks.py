"""Steps over what may stand between two tokens of broken JSON."""

from __future__ import annotations

import re
from typing import Final

from penstock.values.rjson.repairs import Repair, Repairs

_COMMENT: Final = r"//[^\n]*+|\#[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*(?:\*/|\Z)"
_BLANK: Final = re.compile(rf"(?:[\s\ufeff\u200b]++|{_COMMENT})*")
_COMMENT_OPENS: Final = re.compile(r"//|/\*|\#")
_ODD: Final = re.compile(r"[^ \t\n\r]")


def skip_blank(text: str, at: int, end: int, notes: Repairs) -> int:
    """Return where the white space (of any alphabet) and the comments at *at* end.

    A block comment that is never closed ends with the text.
    """
    blank = _BLANK.match(text, at, end)
    stop = blank.end() if blank else at
    if stop > at and _ODD.search(text, at, stop):
        comment = _COMMENT_OPENS.search(text, at, stop)
        notes.note(Repair.COMMENT if comment else Repair.ODD_SPACE)
    return stop
