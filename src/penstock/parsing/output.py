"""What a parser puts out: blocks in order, each event with the text that it consumed."""

from __future__ import annotations

from typing import Final, Literal

from penstock.events import (
    Event,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import ToolCall
from penstock.parsing.scanner import Scanner

Kind = Literal["text", "thinking"]
"""What a block that shows text is."""

_STARTS: Final[dict[Kind, type[TextStart | ThinkingStart]]] = {
    "text": TextStart,
    "thinking": ThinkingStart,
}
DELTAS: Final[dict[Kind, type[TextDelta | ThinkingDelta]]] = {
    "text": TextDelta,
    "thinking": ThinkingDelta,
}
_ENDS: Final[dict[Kind, type[TextEnd | ThinkingEnd]]] = {
    "text": TextEnd,
    "thinking": ThinkingEnd,
}

MAX_LINE: Final = 256
"""How much of the text before a marker is looked at, to tell whether it begins its line."""


class Output:
    """The events of one `feed`, and the block that is open."""

    __slots__ = (
        "_held",
        "_line",
        "_scanner",
        "_seen",
        "calls",
        "events",
        "index",
        "kind",
        "pieces",
        "preface",
    )

    def __init__(self, scanner: Scanner) -> None:
        self.events: list[Event] = []
        self.index = 0  # of the open block, or of the next one
        self.kind: Kind = "text"  # of the open block
        self.pieces: list[str] | None = None  # of the open block of text or thinking
        self.calls = 0  # that have come out
        self._held = ""  # text that belongs to the next event of the open call
        self._scanner = scanner
        self.preface = ""  # text that the answer lacks, before any other text of it
        self._line = ""  # the last of the open text
        self._seen = 0  # how many of its pieces were looked at for that

    def take(self) -> list[Event]:
        """Take the events that have come together."""
        events, self.events = self.events, []
        return events

    def show(self, end: int, kind: Kind = "text") -> None:
        """Put out the text up to *end* in the scanner, in a block of *kind*."""
        scanner = self._scanner
        text = scanner.text[scanner.at : end]
        pieces = self._open_text(kind, claims=True)
        scanner.at = end
        pieces.append(text)
        self.events.append(DELTAS[kind](self.index, text, scanner.take_raw()))

    def say(self, text: str, kind: Kind = "text") -> None:
        """Put out *text* in a block of *kind*, with all text that was read and not claimed."""
        self._open_text(kind, claims=False).append(text)
        self.events.append(DELTAS[kind](self.index, text, self._scanner.take_raw()))

    def _open_text(self, kind: Kind, *, claims: bool) -> list[str]:
        """Return the pieces of the open block of *kind*, or of a new one, which may claim text."""
        if self.kind != kind:
            self.close_text()
            self.kind = kind
        if self.pieces is None:
            self.pieces = []
            self._line, self._seen = "", 0
            preface, self.preface = ("", self.preface) if kind != "text" else (self.preface, "")
            raw = self._scanner.take_raw() if claims and not preface else ""
            self.events.append(_STARTS[kind](self.index, raw))
            if preface:
                self.pieces.append(preface)
                self.events.append(TextDelta(self.index, preface))
        return self.pieces

    def close_text(self) -> None:
        """Close the open block of text or thinking."""
        if self.pieces is None:
            return
        self.events.append(_ENDS[self.kind](self.index, "".join(self.pieces)))
        self.pieces = None
        self._line, self._seen = "", 0
        self.index += 1

    def forget(self) -> None:
        """Forget the block that is open, as if nothing had come out."""
        self.events = []
        self.pieces = None
        self.index = 0

    def line(self) -> str:
        """Return the last line of the open text, or as much of its end as says what it is."""
        if self.kind != "text":
            return ""
        for piece in (self.pieces or ())[self._seen :]:
            _, newline, end = piece.rpartition("\n")
            self._line = (end if newline else self._line + end)[-MAX_LINE:]
        self._seen = len(self.pieces or ())
        return self._line

    @property
    def position(self) -> int:
        """How much of the answer was read."""
        return self._scanner.offset + self._scanner.at

    def read_since_call(self) -> str:
        """Return the text that was read of the open call, or since the last one ended."""
        return self._scanner.read_since_call()

    def start_call(self, id: str, name: str) -> None:  # noqa: A002 - the field's name
        """Open a call, after the text."""
        self.close_text()
        self.calls += 1
        self.events.append(ToolCallStart(self.index, id, name, self._scanner.take_raw()))

    def add_arguments(self, piece: str, *, claims: bool = True) -> None:
        """Put out more of the open call's arguments, with the text that it *claims*."""
        raw = self._take_raw() if claims else ""
        self.events.append(ToolCallDelta(self.index, piece, raw))

    def hold_raw(self) -> None:
        """Let the next event of the open call claim what was read, whatever is given back."""
        self._held += self._scanner.take_raw()

    def _take_raw(self) -> str:
        raw, self._held = self._held + self._scanner.take_raw(), ""
        return raw

    def end_call(self, call: ToolCall) -> None:
        """Close the open call."""
        self.events.append(ToolCallEnd(self.index, call, self._take_raw()))
        self._scanner.forget()
        self.index += 1
