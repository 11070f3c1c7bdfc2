"""What a parser puts out: blocks in order, each event with the text that it consumed."""

from __future__ import annotations

from penstock.events import (
    Event,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import ToolCall
from penstock.parsing.scanner import Scanner


class Output:
    """The events of one `feed`, and the block that is open."""

    __slots__ = ("_scanner", "events", "index", "pieces")

    def __init__(self, scanner: Scanner) -> None:
        self.events: list[Event] = []
        self.index = 0  # of the open block, or of the next one
        self.pieces: list[str] | None = None  # of the open text block
        self._scanner = scanner

    def take(self) -> list[Event]:
        """Take the events that have come together."""
        events, self.events = self.events, []
        return events

    def show(self, end: int) -> None:
        """Put out the text up to *end* in the scanner."""
        scanner = self._scanner
        text = scanner.text[scanner.at : end]
        if self.pieces is None:
            self.pieces = []
            self.events.append(TextStart(self.index, scanner.take_raw()))
        scanner.at = end
        self.pieces.append(text)
        self.events.append(TextDelta(self.index, text, scanner.take_raw()))

    def close_text(self) -> None:
        """Close the open text block."""
        if self.pieces is None:
            return
        self.events.append(TextEnd(self.index, "".join(self.pieces)))
        self.pieces = None
        self.index += 1

    def start_call(self, id: str, name: str) -> None:  # noqa: A002 - the field's name
        """Open a call, behind the text."""
        self.close_text()
        self.events.append(ToolCallStart(self.index, id, name, self._scanner.take_raw()))

    def add_arguments(self, piece: str) -> None:
        """Put out more of the open call's arguments."""
        self.events.append(ToolCallDelta(self.index, piece, self._scanner.take_raw()))

    def end_call(self, call: ToolCall) -> None:
        """Close the open call."""
        self.events.append(ToolCallEnd(self.index, call, self._scanner.take_raw()))
        self.index += 1
