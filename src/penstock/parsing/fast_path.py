"""The fast path: runs of text, of thinking and of a string that streams.

While a run is open and nothing is held back, text without any first character of a marker goes
straight out. That is most of all deltas, and what makes a call as cheap as text.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.events import Event, TextDelta, ThinkingDelta, ToolCallDelta
from penstock.parsing.arguments import sendable
from penstock.parsing.readers.base import OpenString
from penstock.parsing.scanner import Markers


class TextRun:
    """Text or thinking that continues: what holds no beginning of a marker goes straight out."""

    __slots__ = ("_before", "_delta", "_gate", "_index", "_markers", "_pieces", "_trims", "held")

    def __init__(
        self,
        markers: Markers,
        pieces: list[str],
        index: int,
        delta: type[TextDelta | ThinkingDelta],
        *,
        trims: bool,
    ) -> None:
        self.held = ""  # the end of the last piece, if it may begin a marker
        self._markers = markers
        self._trims = trims  # white space at the end may belong to a call that follows
        self._gate: Callable[[str], object] = _always if trims else markers.gate
        self._pieces = pieces
        self._before = len(pieces)
        self._index = index
        self._delta = delta

    @property
    def size(self) -> int:
        """How much was taken."""
        return sum(map(len, self._pieces[self._before :]))

    def take(self, text: str) -> list[Event] | None:
        """Take *text* but for what may begin a marker.

        None tells that it has to be read, after what is `held`.
        """
        if self._gate(text) is None:
            self._pieces.append(text)
            return [self._delta(self._index, text, text)]
        return self._take_before_held(self.held + text)

    def _take_before_held(self, text: str) -> list[Event] | None:
        markers = self._markers
        end = len(text)
        if markers.gate(text) is not None:
            if markers.find(text) is not None:
                return None
            end = markers.find_held(text)
        if self._trims and text[:end][-1:].isspace():
            return None
        self.held = text[end:]
        self._gate = _always if self._trims or self.held else markers.gate
        if end == 0:
            return []
        taken = text[:end]
        self._pieces.append(taken)
        return [self._delta(self._index, taken, taken)]


def _always(text: str) -> object:
    """Stop any text at the gate: there is something before it, or it has to be looked at."""
    return text


class StringRun:
    """A string that streams: what is plain, or easily written, goes straight out.

    What is not to go out yet is kept: *deltas* takes it as it is written, and *copies*, where
    somebody may want it back, as it came.
    """

    __slots__ = ("_copies", "_deltas", "_gate", "_index", "_pieces", "_room", "_translate",
                 "held", "size")  # fmt: skip

    def __init__(
        self,
        run: OpenString,
        index: int,
        room: int,
        *,
        deltas: list[str] | None,
        copies: list[str] | None,
    ) -> None:
        self.held = ""  # the end of the last piece, if only more text tells what it says
        self.size = 0  # of what was taken
        self._gate = run.gate.search
        self._pieces = run.pieces
        self._translate = run.translate
        self._index = index
        self._room = room  # how much longer the call may get
        self._deltas = deltas
        self._copies = copies

    def take(self, text: str) -> list[Event] | None:
        """Take *text* if all of it belongs to the run.

        None tells that it has to be read, after what is `held`.
        """
        if self.size + len(text) >= self._room:
            return None
        if not self.held and self._gate(text) is None:
            self._pieces.append(text)
            written = text
        elif self._translate is None:
            return None
        else:
            whole = self.held + text
            translated = self._translate(whole)
            if translated is None:
                return None
            value, written, size = translated
            text, self.held = whole[:size], whole[size:]
            if not text:
                return []
            self._pieces.append(value)
        if not written.isascii():
            written = sendable(written)
        self.size += len(text)
        if self._copies is not None:
            self._copies.append(text)
        if self._deltas is None:
            return [ToolCallDelta(self._index, written, text)]
        self._deltas.append(written)
        return []
