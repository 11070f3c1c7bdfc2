"""Places in text as browsers count them: in units of UTF-16."""

from __future__ import annotations

from typing import Final

_LAST_OF_ONE_UNIT: Final = "\uffff"


def width(text: str) -> int:
    """Count the UTF-16 units of *text*; half a surrogate pair is one, as on the wire."""
    if text.isascii() or max(text) <= _LAST_OF_ONE_UNIT:
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def clipped(text: str, units: int) -> str:
    """Give the beginning of *text* that has at most so many *units*, without half a character."""
    shown = text[:units]
    while width(shown) > units:
        shown = shown[: len(shown) - -(-(width(shown) - units) // 2)]
    return shown
