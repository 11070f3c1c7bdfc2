"""Writes the segments of one answer: opens, fills and ends them, and gives each an id of its own.

Text and reasoning are shown in one segment at a time, which a call ends; calls may be open side by
side, told apart by id. Text of the answer that no segment shows, such as a closing tag, rides as
`raw` on the next event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.messages import ToolCall
from penstock.views.segments.events import SegmentContent, SegmentEnd, SegmentEvent, SegmentStart

Sink = Callable[[SegmentEvent, Sequence[ToolCall]], None]
"""Takes every event; with an END, the calls that were read in the segment."""


class SegmentWriter:
    """Writes to *sink*; *prefix* stands before every id that is made here."""

    def __init__(self, sink: Sink, prefix: str = "") -> None:
        self._kept: list[str] = []  # text that no event stands for yet
        self._sink = sink
        self._prefix = prefix
        self._made = 0  # how many ids were
        self._taken: dict[str, int] = {}  # an id, and the last number that was put behind it
        self._shown = ""  # the id of the open segment of text or reasoning
        self._kind = ""  # its type

    # --- any segment ---

    def new_id(self) -> str:
        """Make the next id: ``seg_1``, ``seg_2`` …, behind the prefix."""
        self._made += 1
        return self.claim(f"{self._prefix}seg_{self._made}")

    def claim(self, wanted: str) -> str:
        """Give *wanted* itself, or with a number behind it where it is taken; or a new id."""
        if not wanted:
            return self.new_id()
        number, claimed = self._taken.get(wanted, 1), wanted
        while claimed in self._taken:
            number += 1
            claimed = f"{wanted}-{number}"
        self._taken[wanted] = number
        self._taken.setdefault(claimed, 1)
        return claimed

    def start(self, id: str, kind: str, metadata: Mapping[str, Any], raw: str = "") -> None:  # noqa: A002 - the field's name
        """Open a segment of a call; text before it ends."""
        self.end_shown()
        self._sink(SegmentStart(id, kind, dict(metadata), self._raw(raw)), ())

    def add(self, id: str, delta: str, raw: str = "") -> None:  # noqa: A002
        """Show more in an open segment; without any *delta*, *raw* waits for the next event."""
        if delta:
            self._sink(SegmentContent(id, delta, self._raw(raw)), ())
        else:
            self.keep(raw)

    def end(
        self,
        id: str,  # noqa: A002
        metadata: Mapping[str, Any],
        raw: str = "",
        calls: Sequence[ToolCall] = (),
    ) -> None:
        """End an open segment; *calls* were read in it."""
        self._sink(SegmentEnd(id, dict(metadata), self._raw(raw)), calls)

    def keep(self, raw: str) -> None:
        """Let *raw* ride on the next event."""
        if raw:
            self._kept.append(raw)

    @property
    def rest(self) -> str:
        """The text that no event stands for yet."""
        return "".join(self._kept)

    def _raw(self, raw: str) -> str:
        if self._kept:
            raw = self.rest + raw
            self._kept.clear()
        return raw

    # --- text and reasoning ---

    def show(self, kind: str, text: str, raw: str = "") -> None:
        """Show more text or reasoning, in the open segment of that *kind* or in a new one."""
        if text and self._kind != kind:
            self.open_shown(kind, {})
        if text:
            self._sink(SegmentContent(self._shown, text, self._raw(raw)), ())
        else:
            self.keep(raw)

    def open_shown(self, kind: str, metadata: Mapping[str, Any]) -> None:
        """Open a segment of text or reasoning; the one before it ends."""
        self.end_shown()
        self._shown, self._kind = self.new_id(), kind
        self._sink(SegmentStart(self._shown, kind, dict(metadata)), ())

    def end_shown(self) -> None:
        """End the open segment of text or reasoning, if there is one."""
        if self._kind:
            shown, self._shown, self._kind = self._shown, "", ""
            self._sink(SegmentEnd(shown), ())
