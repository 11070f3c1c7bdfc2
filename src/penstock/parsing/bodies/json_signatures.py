"""How JSON begins that may be a call, where no marker says so.

A signature is the beginning of a JSON text up to the first key that tells, such as ``{"tool":``.
White space between its tokens does not matter. It is looked for behind every bracket of an answer,
so the first character that differs ends the search.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_SIGNATURE: Final = 256
"""Within how many characters a signature has to be whole: more white space is no call."""

NO_CALL: Final = r"(?<=[{\[])[ \t\r\n]{0,99}[^ \t\r\n\"'{]"
"""What behind a bracket says at once that no call begins there."""

_WHITESPACE: Final = " \t\r\n"
_TOKEN: Final = re.compile(r"""["']\w+["']|.""")


class Signature:
    """A set of beginnings, each written without white space."""

    def __init__(self, beginnings: Iterable[str]) -> None:
        self._beginnings = tuple(beginnings)
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._seconds: dict[str, str] = {}  # what may follow the bracket
        for bracket in "{[":
            rests = [text[1:] for text in self._beginnings if text.startswith(bracket)]
            self._patterns[bracket] = re.compile("|".join(map(_spaced, rests)) or r"(?!)")
            self._seconds[bracket] = _WHITESPACE + "".join({rest[0] for rest in rests})

    def judge(self, bracket: str, text: str, at: int) -> bool | None:
        """Tell whether *text* from *at* on, behind *bracket*, goes on as a signature.

        None tells that only more text will tell.
        """
        if at < len(text) and text[at] not in self._seconds[bracket]:
            return False
        window = text[at : at + MAX_SIGNATURE]
        if self._patterns[bracket].match(window):
            return True
        if len(window) == MAX_SIGNATURE:
            return False
        begun = bracket + "".join(window.split())
        may_match = any(beginning.startswith(begun) for beginning in self._beginnings)
        return None if may_match else False


def _spaced(text: str) -> str:
    """Write a pattern of *text* that lets white space stand before each of its tokens."""
    return "".join(rf"[{_WHITESPACE}]*+{re.escape(token)}" for token in _TOKEN.findall(text))
