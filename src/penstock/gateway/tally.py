"""Which calls an answer brought, and in which format each was written.

A call that a server made natively consumed no text; one that was read out of text consumed it, and
its first characters tell the format. Only those are kept of a call, whatever its length.

Telling a format means to read the call once more, in all of them. A model writes its calls alike,
so what was told of a complete call holds for the next one that begins so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from penstock.errors import UsageError
from penstock.events import Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from penstock.formats import detect
from penstock.messages import ToolCall
from penstock.tools import Tool

MAX_KEPT: Final = 2_000
"""How many characters of a call are looked at to tell its format."""

MAX_HEADS: Final = 256
"""How many beginnings of calls are remembered: those of all tools of a few agents."""

NATIVE: Final = "native"
AUTO: Final = "auto"
_CALLS: Final = (ToolCallStart, ToolCallDelta, ToolCallEnd)
_BEHIND_NAME: Final = 16  # characters, which tell formats apart that begin alike
_told: Final[dict[str, str]] = {}  # the formats of complete calls, by their beginnings


class Tally:
    """Counts the calls of one answer; *format* is the one that its text is read as."""

    __slots__ = ("_format", "_texts", "_tools", "formats", "repaired")

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
            if event.raw and len(text := self._texts.get(event.index, "")) < MAX_KEPT:
                self._texts[event.index] = text + event.raw
            if isinstance(event, ToolCallEnd):
                self._count(event.call, self._texts.pop(event.index, ""))

    def _count(self, call: ToolCall, text: str) -> None:
        self.formats[self._name(call, text), call.complete] += 1
        self.repaired += bool(call.repairs)

    def _name(self, call: ToolCall, text: str) -> str:
        if not text:
            return NATIVE
        if self._format != AUTO:
            return self._format
        if not call.complete or call.repairs:  # Not all of it is as its format has it.
            return self._detected(text)
        return self._remembered(call.name, text)

    def _remembered(self, name: str, text: str) -> str:
        """Name the format of a complete call, by one before it where they begin alike."""
        named = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
        head = text[: named.end() + _BEHIND_NAME] if named else ""
        found = _told.get(head)
        if found is None:
            found = self._detected(text)
            if head and found != AUTO:  # Of a longer piece the format might have been told.
                _remember(head, found)
        return found

    def _detected(self, text: str) -> str:
        try:
            found = detect(text, self._tools)
        except UsageError:
            return AUTO
        return AUTO if found is None else found.name


def _remember(head: str, format_: str) -> None:
    if len(_told) >= MAX_HEADS:
        _told.clear()
    _told[head] = format_
