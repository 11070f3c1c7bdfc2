"""Long text made short: its beginning and its end stay, and a note says what is missing."""

from __future__ import annotations

from typing import Final

MIN_LIMIT: Final = 100
"""The least that a text is shortened to: below that there is room for the note alone."""

_HEAD: Final = 2 / 3  # beginnings say more than ends


def shortened(text: str, limit: int) -> str:
    """Give *text* with at most *limit* characters, cut in the middle where it has more.

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
