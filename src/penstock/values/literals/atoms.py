"""The numbers and words that are values: as Python has them, and JSON's words too."""

from __future__ import annotations

import re
from typing import Final

from penstock.values.grammar import MAX_DIGITS, RELAXED_LITERALS

MAX_ATOM: Final = 2 * MAX_DIGITS
"""How many characters a number may have, with the underscores between its digits."""

_TOO_BIG: Final = 10**MAX_DIGITS  # infinity is too
_BASES: Final = ("0x", "0o", "0b")
_MORE: Final = re.compile(r"[\w.]*+")
_BEFORE_SIGN: Final = re.compile(r"[0-9_]*+(?:\.[0-9_]*+)?[eE]")


class Atom:
    """A number or a word that may go on in the text that comes next."""

    __slots__ = ("_pieces", "_size", "sign")

    def __init__(self, sign: str = "") -> None:
        self.sign = sign
        self._pieces: list[str] = []
        self._size = 0

    @property
    def room(self) -> int:
        """How many characters it may still take."""
        return MAX_ATOM - self._size

    def extend(self, text: str, at: int) -> int:
        """Take what belongs to it; return where it ends, the end of *text* if it may go on.

        Raises `ValueError` for one that is longer than any number.
        """
        while True:
            more = _MORE.match(text, at)
            end = more.end() if more else at
            self._add(text[at:end])
            if not (text.startswith(("+", "-"), end) and self._awaits_sign()):
                return end
            self._add(text[end])
            at = end + 1

    def read(self) -> int | float | bool | None:
        """Give its value; raise `ValueError` where it has none."""
        token = "".join(self._pieces)
        if not self.sign and token in RELAXED_LITERALS:
            return RELAXED_LITERALS[token]
        if not token.isascii() or not token.startswith(tuple("0123456789.")):
            raise ValueError(f"`{token[:40]}` is no literal")
        value = _number(token)
        return -value if self.sign == "-" else value

    def _add(self, piece: str) -> None:
        self._size += len(piece)
        if self._size > MAX_ATOM:
            raise ValueError("a number that is too long")
        if piece:
            self._pieces.append(piece)

    def _awaits_sign(self) -> bool:
        """Tell whether it ends with the letter of an exponent."""
        if not self._pieces or self._pieces[-1][-1] not in "eE":
            return False
        return _BEFORE_SIGN.fullmatch("".join(self._pieces)) is not None


def _number(token: str) -> int | float:
    # A text of digits is no float: it has a leading zero, or more digits than Python converts.
    is_integer = token[:2].lower() in _BASES or token.replace("_", "").isdigit()
    try:
        value = int(token, 0) if is_integer else float(token)
    except ValueError:
        raise ValueError(f"`{token[:40]}` is no number") from None
    if value >= _TOO_BIG:
        raise ValueError("a number that is too big")
    return value
