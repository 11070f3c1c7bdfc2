"""What stands between the tokens of Python: white space and comments."""

from __future__ import annotations

import re
from typing import Final

BLANK: Final = r"[ \t\r\n\f]"
"""One character of white space, as a pattern: inside brackets a new line is one too."""

_BLANKS: Final = re.compile(rf"{BLANK}*+")


class Gap:
    """Passes white space and comments; a comment may go on in the text that comes next."""

    __slots__ = ("_in_comment",)

    def __init__(self) -> None:
        self._in_comment = False

    def skip(self, text: str, at: int) -> int:
        """Return where the next token begins; at the end of *text* there is none yet."""
        while True:
            if self._in_comment:
                at = text.find("\n", at)
                if at == -1:
                    return len(text)
                self._in_comment = False
            blanks = _BLANKS.match(text, at)
            at = blanks.end() if blanks else at
            if not text.startswith("#", at):
                return at
            self._in_comment = True
