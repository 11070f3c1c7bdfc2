"""The page: lines that are done, the one that is being written, and what is shown for now alone.

Whoever tells something writes here, and knows nothing of terminals; a painter or a printer takes it
from here. Text comes in pieces of any size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from rich.cells import cell_len

from penstock.cli.chat.rows import Line, Span, shown

MAX_LINE: Final = 100_000
"""How many characters a line has before it is broken: lines of models may never end."""

_RULES: Final = ("│", "┆")


class Page:
    """Takes text in pieces and gives it as lines."""

    def __init__(self) -> None:
        self.done: deque[Line] = deque()
        """Lines that change no more and were not taken yet."""
        self.open: Line | None = None
        """The line that is being written."""
        self.live: list[Line] = []
        """What is shown below for now: the end of a thought, or of what a tool prints."""
        self._lead = Span("")
        self._aside = False
        self._length = 0
        self._return = ""  # a carriage return that may be half of a line end

    def begin(self, lead: str = "", style: str = "", *, aside: bool = False) -> None:
        """Begin a block: each of its lines begins with *lead*."""
        self.end()
        self._lead = Span(lead, style)
        self._aside = aside

    def add(self, text: str, style: str = "") -> None:
        """Write on."""
        text = self._return + text
        self._return = "\r" if text.endswith("\r") else ""
        first, *rest = text.removesuffix("\r").replace("\r\n", "\n").split("\n")
        self._put(first, style)
        for piece in rest:
            self._start()
            self._close()
            self._put(piece, style)

    def end(self) -> None:
        """End the block; a line that was begun is done."""
        if self._return:
            self._return = ""
            self._put("\r", "")
        self._close()
        self._lead = Span("")
        self._aside = False

    def line(self, text: str, style: str = "", lead: str = "") -> None:
        """Write a whole block about what happens; a block that is open ends before it."""
        self.end()
        self.note(text, style, lead)

    def note(self, text: str, style: str = "", lead: str = "") -> None:
        """Write such a block above the line that is being written, which goes on."""
        for line in text.replace("\r\n", "\n").split("\n"):
            spans = [Span(lead, style), Span(shown(line), style)]
            lead = hang_of(lead)
            self.done.append(Line([span for span in spans if span.text], lead, aside=True))

    def show_live(self, lines: Iterable[str], style: str = "dim", lead: str = "  ┆ ") -> None:
        """Show *lines* below, in place of what was shown there."""
        hang = hang_of(lead)
        self.live = [Line([Span(lead, style), Span(shown(line), style)], hang) for line in lines]

    def take(self) -> list[Line]:
        """Take the lines that are done."""
        taken = list(self.done)
        self.done.clear()
        return taken

    def _put(self, text: str, style: str) -> None:
        for at in range(0, len(text), MAX_LINE):
            if self._length >= MAX_LINE:
                self._close()
            line = self._start()
            piece = text[at : at + MAX_LINE]
            line.spans.append(Span(shown(piece), style))
            self._length += len(piece)

    def _start(self) -> Line:
        if self.open is None:
            spans = [self._lead] if self._lead.text else []
            self.open = Line(spans, hang_of(self._lead.text), self._aside)
        return self.open

    def _close(self) -> None:
        if self.open is not None:
            self.done.append(self.open)
        self.open = None
        self._length = 0


def hang_of(lead: str) -> str:
    """Give what the rows behind a first one begin with: a rule goes on, any other mark does not."""
    return lead if lead.strip() in _RULES else " " * cell_len(lead)
