"""The hot path of decoding: a frame that differs from an earlier one in its text alone.

A provider writes each delta of a block into the same JSON but for one string. Once such a frame
was read in full, its text is found in it, and what stands around the text is kept: a frame that is
the same but for that string says the same of another text, and its JSON need not be read. Two more
things may differ, since nobody reads them: the number that OpenAI gives each event, and the padding
by which it hides how long a text is.

All of this holds as well for a read of an event stream that is one frame and no more, as most are.
"""

from __future__ import annotations

import re
from typing import Final

from penstock import _json
from penstock.apis.transcript import CallBlock, TextBlock
from penstock.errors import JSONParseError

_PLAIN: Final = re.compile(r"[A-Za-z0-9 .,:;!?()\[\]{}_*#@^~|$%-]+")
"""Text that nobody escapes: any other might are in the frame in another spelling."""

_FILLER: Final = re.compile(r'(?<="sequence_number":)[0-9]++|(?<="obfuscation":")[A-Za-z0-9]++')
_NUMBER: Final = re.compile(r"0|[1-9][0-9]*+")
_PADDING: Final = re.compile(r"[A-Za-z0-9]++")


class FrameTemplate:
    """The frame that was read last, without its text, and the passage that the text went to.

    What is kept of it are the pieces around the gaps: one gap is the text's, the others are
    numbers and padding. Most frames have no gap but the text.
    """

    __slots__ = ("_head", "_inner", "_passage", "_place", "_tail")

    def __init__(self) -> None:
        self._passage: TextBlock | CallBlock | None = None
        self._head = ""
        self._inner: list[str] = []  # pieces between two gaps
        self._tail = ""
        self._place = 0  # which of the gaps is the text's

    def learn(self, data: str, text: str, passage: TextBlock | CallBlock) -> None:
        """Take *data* for a frame that said *text* for *passage*, and nothing else.

        Where *text* cannot be found with certainty, nothing is learnt.
        """
        quoted = f'"{text}"'
        at = data.find(quoted) + 1
        if not at or not _PLAIN.fullmatch(text) or data.find(quoted, at) >= 0:
            self._passage = None
            return
        self._passage = passage
        before, after = _FILLER.split(data[:at]), _FILLER.split(data[at + len(text) :])
        self._place = len(before) - 1
        self._head, *self._inner, self._tail = before + after

    def forget(self) -> None:
        """Match nothing until another frame was learnt."""
        self._passage = None

    def match(self, data: str) -> tuple[TextBlock | CallBlock | None, str]:
        """Return the passage and the text that *data* says, if it is of this shape."""
        passage = self._passage
        if (
            passage is None
            or not passage.is_open
            or not data.startswith(self._head)
            or not data.endswith(self._tail)
        ):
            return None, ""
        text = data[len(self._head) : len(data) - len(self._tail)]
        if self._inner:
            text = self._text_in(text)
        if '"' in text or "\\" in text or not text.isprintable():
            text = _unescaped(text)
        return (passage, text) if text else (None, "")

    def _text_in(self, gaps: str) -> str:
        """Return the text out of *gaps* and the pieces between them, if all is as it should be."""
        text = ""
        before = self._head
        for place, piece in enumerate([*self._inner, ""]):
            gap, is_there, gaps = gaps.partition(piece) if piece else (gaps, True, "")
            if place == self._place:
                text = gap
            elif not is_there or not _is_filler(gap, before):
                return ""
            before = piece
        return text


def _is_filler(gap: str, before: str) -> bool:
    """Return whether *gap* is a number or, in quotes, padding."""
    pattern = _PADDING if before.endswith('"') else _NUMBER
    return pattern.fullmatch(gap) is not None


def _unescaped(text: str) -> str:
    """Read *text* as the inside of a JSON string; return nothing if it is not one."""
    try:
        value = _json.decode(f'"{text}"')
    except JSONParseError:
        return ""
    return value if isinstance(value, str) else ""
