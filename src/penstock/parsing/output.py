"""What a parser puts out: blocks in order, each event with the text that it consumed."""

from __future__ import annotations

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


class Output:
    """The events of one `feed`, and the block that is open."""

    __slots__ = ("_scanner", "events", "index", "pieces", "thinking")

    def __init__(self, scanner: Scanner) -> None:
        self.events: list[Event] = []
        self.index = 0  # of the open block, or of the next one
        self.pieces: list[str] | None = None  # of the open text or thinking block
        self.thinking = False
        self._scanner = scanner

    def take(self) -> list[Event]:
        """Take the events that have come together."""
        events, self.events = self.events, []
        return events

    def show(self, end: int, *, thinking: bool = False) -> None:
        """Put out the text up to *end* in the scanner, in a block of its kind."""
        scanner = self._scanner
        text = scanner.text[scanner.at : end]
        if not text:
            return
        if self.pieces is None or self.thinking != thinking:
            self._open(thinking=thinking)
        scanner.at = end
        delta = ThinkingDelta if thinking else TextDelta
        self.pieces.append(text)  # type: ignore[union-attr]
        self.events.append(delta(self.index, text, scanner.take_raw()))

    def close_text(self) -> None:
        """Close the open text or thinking block."""
        if self.pieces is None:
            return
        end = ThinkingEnd if self.thinking else TextEnd
        self.events.append(end(self.index, "".join(self.pieces)))
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

    def _open(self, *, thinking: bool) -> None:
        self.close_text()
        self.thinking = thinking
        self.pieces = []
        start = ThinkingStart if thinking else TextStart
        self.events.append(start(self.index, self._scanner.take_raw()))
