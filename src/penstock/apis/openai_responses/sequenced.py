"""The hot path of decoding for frames that are numbered.

Each event has a number of its own, which nobody reads: without it, two deltas of one part differ
in their text alone.
"""

from __future__ import annotations

from typing import Final

from penstock.apis.shapes import Shape
from penstock.apis.transcript import Passage

_NUMBER: Final = '"sequence_number":'
_DIGITS: Final = 20  # more than any number has


class SequencedShape(Shape):
    """The frame that was read last, without its text and its number."""

    __slots__ = ()

    def learn(self, data: str, text: str, passage: Passage) -> None:
        """Take *data* for a frame that said *text* for *passage*, and nothing else."""
        super().learn(_unnumbered(data), text, passage)

    def match(self, data: str) -> tuple[Passage | None, str]:
        """Give the passage and the text that *data* says, if it is of this shape."""
        if self._passage is None:
            return None, ""
        return super().match(_unnumbered(data))


def _unnumbered(data: str) -> str:
    """Leave the number out; a text cannot look like one, since its quotes are escaped."""
    at = data.find(_NUMBER)
    if at < 0:
        return data
    at += len(_NUMBER)
    end = data.find(",", at, at + _DIGITS)
    if end < 0:
        end = data.find("}", at, at + _DIGITS)
    return data[:at] + data[end:] if data[at:end].strip().isdecimal() else data
