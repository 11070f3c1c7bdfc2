"""The code fences of an answer: what opens one, what closes it, and what it begins with.

Only a run of three backticks or more that begins its line is a fence. Fences have to be followed
through the whole answer: JSON further down in one is text, and a line that would open a fence
closes the one that is open.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

FENCE: Final = "```"

MAX_LABEL: Final = 64
"""How long the label of a fence may be, and how many backticks it may have."""

MAX_BLANK: Final = 256
"""How much white space may stand between the opening line and the JSON behind it."""

_TICKS: Final = re.compile(rf"`{{0,{MAX_LABEL}}}")
_LABEL: Final = re.compile(rf"[^`\n]{{0,{MAX_LABEL}}}")
_BLANK: Final = re.compile(rf"[ \t\r\n]{{0,{MAX_BLANK}}}")
_BLANK_IN_LINE: Final = re.compile(rf"[ \t\r]{{0,{MAX_LABEL}}}")
_ITEM: Final = re.compile(r"[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]{1,8})+")
_ONE_WORD: Final = re.compile(r"[^\s`{\[]{0,32}[ \t]{0,32}(?=[{\[])")


class Opening(NamedTuple):
    """A line of backticks and a label, and the bracket behind it."""

    is_fence: bool
    bracket: int = -1
    """Where a value begins, if one does."""
    is_inline: bool = False
    """Whether it begins on the line of the fence itself."""


class Fences:
    """Where the fences of one answer are."""

    def __init__(self) -> None:
        self.ticks = 0  # how many backticks opened the fence that is open; none outside of one
        self.is_hidden = False  # its opening line is no text, so its closing line is none either

    def open(self, ticks: int) -> None:
        """Note that a fence was opened, with so many backticks."""
        self.ticks = ticks
        self.is_hidden = False

    def close(self) -> None:
        """Note that the fence is closed."""
        self.ticks = 0


def begins_item(line: str) -> bool:
    """Tell whether *line* is nothing but the mark of an item in a list, or several: ``1. -``."""
    return _ITEM.fullmatch(line) is not None


def find_ticks_end(text: str, at: int) -> int:
    """Find where the backticks at *at* end."""
    found = _TICKS.match(text, at)
    return found.end() if found else at


def find_line_end(text: str, at: int) -> int:
    """Find where the blanks at *at* end; a newline stands there, or something else."""
    found = _BLANK_IN_LINE.match(text, at)
    return found.end() if found else at


def find_blank_end(text: str, at: int) -> int:
    """Find where the white space at *at* ends."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def judge_opening(text: str, at: int) -> Opening | None:
    """Look at the rest of a line that begins with backticks; None tells that more text will tell.

    A backtick in it says that the line is no fence, but code inside a line of text.
    """
    word = _ONE_WORD.match(text, at)
    if word is not None:
        return Opening(is_fence=True, bracket=word.end(), is_inline=True)
    label = _LABEL.match(text, at)
    end = label.end() if label else at
    if end == len(text):
        return None
    if text[end] != "\n":
        return Opening(is_fence=text[end] != "`")
    begin = find_blank_end(text, end + 1)
    if begin == len(text):
        return None
    return Opening(is_fence=True, bracket=begin if text[begin] in "{[" else -1)
