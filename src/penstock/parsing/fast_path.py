"""The fast path: runs of text, of reasoning and of a string that streams.

While a run is open, text without the first character of any marker is emitted directly, by
`Engine.feed` itself: most deltas are of this kind, and the call of a method would cost half as much
as everything else. A run handles other deltas as far as it can; the engine reads the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from penstock import _json
from penstock.events import Event, TextDelta, ThinkingDelta, ToolCallDelta
from penstock.parsing.body import OpenString, Translated
from penstock.parsing.scanner import Markers
from penstock.values.json_grammar import MAX_KNOWN, MAX_REMEMBERED

MAX_HELD_BLANK: Final = 4096
"""How much white space is held back before a possible call, or before the first reasoning."""

_ROOM: Final = 1 << 29
"""After how many characters a run of text ends, and another begins.

Python calculates faster with integers below 2^30; text itself has no limit."""


class Run:
    """Text that continues an open block.

    Text that `gate` finds nothing in, and that is not longer than what is `left`, is appended and
    emitted as one `delta` of block `index`; without a `delta` it is not emitted yet. `held` is the
    end of the last piece, if its meaning depends on more text.
    """

    __slots__ = ("_room", "append", "delta", "gate", "held", "index", "left")

    def __init__(
        self,
        gate: Callable[[str], object],
        pieces: list[str],
        delta: type[TextDelta | ThinkingDelta | ToolCallDelta] | None,
        index: int,
        room: int = _ROOM,
    ) -> None:
        self.gate = gate
        self.append = pieces.append
        self.delta = delta
        self.index = index
        self.left = self._room = room
        self.held = ""

    def take(self, text: str) -> list[Event] | None:
        """Return the event of *text* that is not plain, without the end that has to be held.

        None means that the engine has to read it, after the text that is `held`.
        """
        raise NotImplementedError

    def close(self) -> int:
        """End the run; return how many characters were taken."""
        return self._room - self.left


class TextRun(Run):
    """Text or reasoning that continues: text without the beginning of a marker is emitted.

    With *trims*, white space at the end is held: it may belong to a call that follows.
    """

    __slots__ = ("_delta", "_markers", "_plain_gate", "_trims")

    def __init__(
        self,
        markers: Markers,
        pieces: list[str],
        index: int,
        delta: type[TextDelta | ThinkingDelta],
        *,
        trims: bool,
    ) -> None:
        self._plain_gate = _trimming_gate(markers) if trims else markers.gate
        super().__init__(self._plain_gate, pieces, delta, index)
        self._delta = delta
        self._markers = markers
        self._trims = trims

    def take(self, text: str) -> list[Event] | None:
        """Return the event of *text*, without its end that may begin a marker."""
        text = self.held + text
        end = self._markers.find_end(text)
        if end == -1:
            return None
        if self._trims:
            shown = len(text[:end].rstrip())
            if end - shown > MAX_HELD_BLANK:
                return None
            end = shown
        if end < len(text):
            self.held, self.gate = text[end:], _always
            if not end:
                return []
            text = text[:end]
        elif self.held:
            self.held, self.gate = "", self._plain_gate
        self.left -= end
        self.append(text)
        return [self._delta(self.index, text, text)]


@lru_cache(maxsize=64)
def _trimming_gate(markers: Markers) -> Callable[[str], object]:
    """Return a gate for *markers* and for white space at the end.

    Markers in any case are compiled for ASCII alone, and white space is not.
    """
    blank = r"(?u:\s)\Z"
    return markers.compile(f"{markers.gate_pattern}|{blank}" if markers.literals else blank).search


_always: Final[Callable[[str], object]] = len
"""Match any text, because text is held before it: any result but None does that."""


class StringRun(Run):
    """A string that streams: text that is plain, or easily translated, is emitted directly.

    In `whole` nothing is emitted yet: the pieces are appended to *deltas*. The text itself is
    appended to *copies* if the call may have to be handed back or repaired. Both get plain text
    only when the run ends or other text comes: it is the same in all of them.
    """

    __slots__ = (
        *("_copies", "_deltas", "_known", "_pieces", "_plain", "_plain_gate", "_translate"),
    )

    def __init__(
        self,
        string: OpenString,
        index: int,
        room: int,
        *,
        deltas: list[str] | None,
        copies: list[str] | None,
    ) -> None:
        self._plain_gate = string.gate.search
        delta = ToolCallDelta if deltas is None and not string.waits else None
        super().__init__(self._plain_gate, string.pieces, delta, index, room)
        self._translate = string.translate
        self._known = {} if string.known is None else string.known
        self._deltas = deltas
        self._copies = copies
        self._pieces = string.pieces
        self._plain = len(string.pieces)  # where the pieces begin that are in `_pieces` only

    def take(self, text: str) -> list[Event] | None:
        """Return the event of *text* that has to be decoded, if the string's reader can do that."""
        held = self.held
        if held:
            text = held + text
        translated = self._known.get(text) or self._translate_new(text)
        if translated is None:
            return None
        value, written, size = translated
        left = self.left - size
        if left <= 0:
            return None
        if size < len(text):
            self.held, self.gate = text[size:], _always
            if not size:
                return []
            text = text[:size]
        elif held:
            self.held, self.gate = "", self._plain_gate
        self.left = left
        if self._deltas is not None or self._copies is not None:
            self._share(written, text)
        self.append(value)
        delta = self.delta
        return [] if delta is None else [delta(self.index, written, text)]

    def _translate_new(self, text: str) -> Translated | None:
        """Return *text* as the reader translates it, and remember it if it is short."""
        translated = None if self._translate is None else self._translate(text)
        if translated is None:
            return None
        value, written, size = translated
        if not written.isascii():
            translated = value, _json.escape_surrogates(written), size
        if len(text) <= MAX_REMEMBERED:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[text] = translated
        return translated

    def close(self) -> int:
        """End the run; return how many characters were taken."""
        self._share_plain()
        return super().close()

    def _share(self, written: str, text: str) -> None:
        """Copy *text*, which is *written* so, to where it is wanted, too."""
        self._share_plain()
        self._plain += 1
        if self._deltas is not None:
            self._deltas.append(written)
        if self._copies is not None:
            self._copies.append(text)

    def _share_plain(self) -> None:
        """Copy the plain pieces to where they are wanted, too."""
        plain = self._pieces[self._plain :]
        if not plain:
            return
        self._plain += len(plain)
        if self._deltas is not None:
            self._deltas += plain
        if self._copies is not None:
            self._copies += plain
