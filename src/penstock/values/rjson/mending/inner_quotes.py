"""Follows the unescaped quotes inside one string, and the brackets of the code between them.

Code in a string has strings of its own, and what follows one of those often looks like JSON: in
``{"code": "d = {"a": "b"}; f(d)"}`` the quote behind ``b`` could end everything. It does not,
because a bracket of the code is still open there and, counting in pairs, the quote closes a string
of the code. An opening one in that place is believed: code may well be cut in its brackets.
"""

from __future__ import annotations

import re
from typing import Final

_QUOTE: Final = re.compile(r'\\.|"', re.DOTALL)
_BEFORE_QUOTATION: Final = re.compile(
    r"(?:\A|[\s(\[{<=:,;+\-*/|&>!?@%~^`'\\]|\b[fFrRbBuULN]{1,2})\Z"
)


def are_quotations(text: str, start: int, end: int) -> bool:
    """Tell whether the quotes between *start* and *end* come in pairs, as quotations do.

    A quotation begins behind a space, a bracket or an operator, never glued to a word: in ``alpha",
    "b`` the first quote ended a string, and what stands behind it was meant to be JSON.
    """
    quotes = [found.start() for found in _QUOTE.finditer(text, start, end) if found[0] == '"']
    if len(quotes) % 2:
        return False
    befores = (text[max(start, at - 3) : at] for at in quotes[::2])
    return all(map(_BEFORE_QUOTATION.search, befores))


class InnerQuotes:
    """The quotes inside the string that begins at *start*, as far as it has been read."""

    def __init__(self, text: str, start: int) -> None:
        self.count = 0
        self.last = -1
        self.boundary = -1  # where a key with its colon begins that may be the next member's
        self.fitting = -1  # the first quote that could end the string, but for the brackets
        self.before_fitting = 0  # how many came before that one
        self._last_fits = False
        self._text = text
        self._from = start
        self._brackets = 0

    @property
    def is_odd(self) -> bool:
        """Whether a string of the code is open, if the quotes come in pairs."""
        return self.count % 2 == 1

    def is_code_cut(self, end: int) -> bool:
        """Tell whether the text, which has its end at *end*, breaks off in the middle of code."""
        is_closed = self._last_fits and self._text[self.last + 1 : end].strip() != ""
        return self._brackets > 0 and not is_closed

    @property
    def in_code(self) -> bool:
        """Whether the next quote closes a string of the code, inside brackets of the code."""
        return self.is_odd and self._brackets > 0

    def add(self, at: int, *, fits: bool) -> None:
        """Count the quote at *at* as an inner one; *fits* says that it could have been the last."""
        if not self.is_odd:
            code = self._text[self._from : at]
            opened = sum(map(code.count, "([{")) - sum(map(code.count, ")]}"))
            self._brackets = max(0, self._brackets + opened)
        if fits and self.fitting < 0:
            self.fitting, self.before_fitting = at, self.count
        self.count += 1
        self.last = at
        self._last_fits = fits
        self._from = at + 1
