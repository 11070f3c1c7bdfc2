"""The hot path of decoding: a frame that differs from an earlier one in its text alone.

A provider writes each delta of a block into the same JSON but for one string. Once such a frame
was read in full, its text is found in it, and the text around it is kept: a frame that begins and
ends alike, with a string between that has nothing to unescape, says the same of another text, and
no JSON has to be read.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.apis.transcript import Passage

_PLAIN: Final = re.compile(r"[A-Za-z0-9 .,]+")
"""Text that nobody escapes: any other might stand in the frame in another spelling."""


class Shape:
    """The frame that was read last, without its text, and the passage that the text went to."""

    __slots__ = ("_head", "_passage", "_tail", "_width")

    def __init__(self) -> None:
        self._head = ""
        self._tail = ""
        self._width = 0
        self._passage: Passage | None = None

    def learn(self, data: str, text: str, passage: Passage) -> None:
        """Take *data* for a frame that said *text* for *passage*, and nothing else.

        Where *text* cannot be found with certainty, nothing is learnt.
        """
        quoted = f'"{text}"'
        at = data.find(quoted)
        if at < 0 or not _PLAIN.fullmatch(text) or data.find(quoted, at + 1) >= 0:
            self._passage = None
            return
        self._head = data[: at + 1]
        self._tail = data[at + 1 + len(text) :]
        self._width = len(self._head) + len(self._tail)
        self._passage = passage

    def match(self, data: str) -> tuple[Passage | None, str]:
        """Give the passage and the text that *data* says, if it is of this shape."""
        passage = self._passage
        if (
            passage is None
            or not passage.is_open
            or len(data) <= self._width
            or not data.startswith(self._head)
            or not data.endswith(self._tail)
        ):
            return None, ""
        text = data[len(self._head) : len(data) - len(self._tail)]
        if '"' in text or "\\" in text or not text.isprintable():
            return None, ""
        return passage, text
