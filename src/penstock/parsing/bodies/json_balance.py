"""Where broken JSON ends: where its brackets balance, those in strings not counted."""

from __future__ import annotations

import re
from typing import Final

from penstock.values.grammar import CLOSING_QUOTES

_OUTSIDE: Final = re.compile(r'["{}\[\]]')
_INSIDE: Final = {quote: re.compile(rf"[{quote}\\]") for quote in CLOSING_QUOTES.values()}


class Balance:
    """Passes over text in which *depth* brackets are open, and a string that *awaits* its quote.

    Any closing bracket closes any opening one: the text is broken, and only its end is wanted. Only
    ``"`` opens a string; an apostrophe may be one.
    """

    def __init__(self, depth: int, awaits: str) -> None:
        self._depth = depth
        self._quote = awaits if is_quote(awaits) else ""

    @property
    def is_even(self) -> bool:
        """Whether all brackets are closed."""
        return self._depth <= 0

    def pass_over(self, text: str, at: int) -> int:
        """Pass the text from *at* on, up to where it is even; tell where it stopped."""
        while self._depth > 0:
            pattern = _INSIDE[self._quote] if self._quote else _OUTSIDE
            found = pattern.search(text, at)
            if found is None:
                return len(text)
            at = found.end()
            mark = found[0]
            if mark == "\\":
                if at == len(text):
                    return found.start()
                at += 1
            elif self._quote or mark == '"':
                self._quote = "" if self._quote else mark
            else:
                self._depth += 1 if mark in "{[" else -1
        return at


def is_quote(awaits: str) -> bool:
    """Tell whether *awaits* is what ends a string, and not what ends a comment, or nothing."""
    return awaits in _INSIDE
