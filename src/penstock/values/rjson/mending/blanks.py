"""Steps over what may stand between two tokens of broken JSON."""

from __future__ import annotations

import re
from typing import Final

from penstock.values.rjson.repairs import Repair, Repairs

CONTROL_TOKEN: Final = r"<(?:\|[\w\-]{1,40}+\||\uff5c[\w\u2581\-]{1,40}+\uff5c)>"  # noqa: S105 - no password
"""A special token of a model, such as the one that ends its turn: never a part of JSON."""

SENTENCE: Final = r"[^\W\d_][\w'\u2019\-]*+(?:,?[ \t]++[\w'\u2019\-]++)++[.!?\u2026]"
"""Words that a model says between two tokens: two or more, and the mark that ends a sentence."""

MAX_SENTENCE: Final = 1024
"""How long a sentence between two tokens may be."""

_COMMENT: Final = r"//[^\n]*+|\#[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*(?:\*/|\Z)"
_BLANK: Final = re.compile(rf"(?:[\s\ufeff\u200b]++|{_COMMENT})*")
_COMMENT_OPENS: Final = re.compile(r"//|/\*|\#")
_ODD: Final = re.compile(r"[^ \t\n\r]")
_SENTENCE: Final = re.compile(SENTENCE)
_TOKEN: Final = re.compile(CONTROL_TOKEN)


def skip_blank(text: str, at: int, end: int, notes: Repairs) -> int:
    """Return where the white space (of any alphabet), comments and control tokens at *at* end.

    A block comment that is never closed ends with the text.
    """
    stop = _skip_space(text, at, end, notes)
    while token := _TOKEN.match(text, stop, end):
        notes.note(Repair.CONTROL_TOKEN, token[0])
        stop = _skip_space(text, token.end(), end, notes)
    return stop


def find_sentence_end(text: str, at: int, end: int) -> int:
    """Return where the sentence at *at* ends, or -1 where there is none."""
    found = _SENTENCE.match(text, at, min(end, at + MAX_SENTENCE))
    return found.end() if found else -1


def _skip_space(text: str, at: int, end: int, notes: Repairs) -> int:
    blank = _BLANK.match(text, at, end)
    stop = blank.end() if blank else at
    if stop > at and _ODD.search(text, at, stop):
        comment = _COMMENT_OPENS.search(text, at, stop)
        notes.note(Repair.COMMENT if comment else Repair.ODD_SPACE)
    return stop
