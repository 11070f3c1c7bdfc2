"""Which calls an answer brought, and in which format each was written.

A call that a server made natively consumed no text; one that was read out of text consumed it, and
its first characters tell the format. Only those are kept of a call, whatever its length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from penstock.errors import UsageError
from penstock.events import Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from penstock.formats import detect
from penstock.tools import Tool

MAX_KEPT: Final = 2_000
"""How many characters of a call are looked at to tell its format."""

NATIVE: Final = "native"
AUTO: Final = "auto"
_CALLS: Final = (ToolCallStart, ToolCallDelta, ToolCallEnd)


class Tally:
    """Counts the calls of one answer; *format* is the one that its text is read as."""

    def __init__(self, format: str, tools: Sequence[Tool]) -> None:  # noqa: A002 - the word for it
        self.formats: Counter[tuple[str, bool]] = Counter()
        """How many calls there were of each format, complete or not."""
        self.repaired = 0
        self._format = format
        self._tools = tools
        self._texts: dict[int, str] = {}  # of open calls

    def see(self, batch: list[Event]) -> None:
        """Look at what passes."""
        for event in batch:
            if not isinstance(event, _CALLS):
                continue
            text = self._texts.get(event.index, "")
            if len(text) < MAX_KEPT:
                self._texts[event.index] = text = text + event.raw
            if isinstance(event, ToolCallEnd):
                del self._texts[event.index]
                self._count(event, text)

    def _count(self, end: ToolCallEnd, text: str) -> None:
        self.formats[self._name(text), end.call.complete] += 1
        self.repaired += bool(end.call.repairs)

    def _name(self, text: str) -> str:
        if not text:
            return NATIVE
        if self._format != AUTO:
            return self._format
        try:
            found = detect(text, self._tools)
        except UsageError:
            return AUTO
        return AUTO if found is None else found.name
