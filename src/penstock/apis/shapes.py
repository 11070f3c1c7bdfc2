"""The hot path of decoding: a frame that differs from an earlier one in its text alone.

A provider writes each delta of a block into the same JSON but for one string. Once such a frame
was read in full, its text is found in it, and the text around it is kept: a frame that begins and
ends alike, with a string between that has nothing to unescape, says the same of another text, and
no JSON has to be read. Padding of random letters, by which OpenAI hides how long a text is, may
differ too: nobody reads it.

The same holds for a whole read of an event stream that is one frame and nothing else, as most are.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.apis.transcript import Passage

_PLAIN: Final = re.compile(r"[A-Za-z0-9 .,]+")
"""Text that nobody escapes: any other might stand in the frame in another spelling."""

_PADDING: Final = re.compile(r'(?<="obfuscation":")[A-Za-z0-9]++(?=")')


class Shape:
    """The frame that was read last, without its text, and the passage that the text went to."""

    __slots__ = ("_end", "_head", "_passage", "_start", "_tail")

    def __init__(self) -> None:
        self._head = ""
        self._start = 0  # where the text begins
        self._tail = ""  # from the end of the text to the padding, or to the end
        self._end = ""  # what follows the padding, if there is any
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
        self._passage = passage
        self._start = at + 1
        self._head = data[: at + 1]
        self._tail, self._end = data[at + 1 + len(text) :], ""
        padding = _PADDING.search(self._tail)
        if padding is not None:
            self._tail, self._end = self._tail[: padding.start()], self._tail[padding.end() :]

    def forget(self) -> None:
        """Match nothing until another frame was learnt."""
        self._passage = None

    def match(self, data: str) -> tuple[Passage | None, str]:
        """Give the passage and the text that *data* says, if it is of this shape."""
        passage = self._passage
        if passage is None or not passage.is_open or not data.startswith(self._head):
            return None, ""
        stop = data.find('"', self._start)
        if data[stop:] != self._tail and not self._is_padded(data, stop):
            return None, ""
        text = data[self._start : stop]
        if "\\" in text or not text.isprintable():
            return None, ""
        return passage, text

    def _is_padded(self, data: str, stop: int) -> bool:
        """Tell whether *data* goes on from *stop* as it should, but for its padding."""
        if not self._end or not data.startswith(self._tail, stop) or not data.endswith(self._end):
            return False
        padding = data[stop + len(self._tail) : len(data) - len(self._end)]
        return padding.isalnum()
