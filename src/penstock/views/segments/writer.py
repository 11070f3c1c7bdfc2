"""Writes the segments of one answer: opens, fills and ends them, and gives each an id of its own.

Text and reasoning are shown in one segment at a time, which a call ends; calls may be open side by
side, told apart by id. Text of the answer that no segment shows, such as a closing tag, rides as
`raw` on the next event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.formats.tool_tag import RegisteredTool
from penstock.messages import ToolCall
from penstock.values.incremental import IncrementalJSON
from penstock.values.incremental_state import Change
from penstock.views.segments.events import (
    INCOMPLETE,
    SegmentContent,
    SegmentEnd,
    SegmentEvent,
    SegmentStart,
)

Sink = Callable[[SegmentEvent, Sequence[ToolCall]], None]
"""Takes every event; with an END, the calls that were read in the segment."""


class SegmentWriter:
    """Writes to *sink*; *prefix* comes before every id that is made here."""

    def __init__(self, sink: Sink, prefix: str = "") -> None:
        self._kept: list[str] = []  # text that no event stands for yet
        self._sink = sink
        self._prefix = prefix
        self._made = 0  # how many ids were
        self._taken: dict[str, int] = {}  # an id, and the last number that was put after it
        self._shown = ""  # the id of the open segment of text or reasoning
        self._kind = ""  # its type

    # --- any segment ---

    def new_id(self) -> str:
        """Make the next id: ``seg_1``, ``seg_2`` …, after the prefix."""
        self._made += 1
        return self.claim(f"{self._prefix}seg_{self._made}")

    def claim(self, wanted: str) -> str:
        """Return *wanted* itself, or with a number after it where it is taken; or a new id."""
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


# A segment whose content is one argument of its call, decoded while the call arrives.
#
# The file that `write_file` writes is what a user wants to see grow, not the markup around it.
# START waits for the path; what comes later is in END's metadata.


class ContentSegment:
    """Shows the content argument of one call of *tool*, under *id* or under a new one.

    *metadata* is known from the start. With *patient*, content that comes before the path waits for
    it; otherwise START goes out without one.
    """

    def __init__(
        self,
        writer: SegmentWriter,
        id: str,  # noqa: A002 - the field's name
        tool: RegisteredTool,
        metadata: dict[str, Any],
        *,
        patient: bool,
    ) -> None:
        self.arguments = IncrementalJSON(recover=True)
        self._writer = writer
        self._id = id
        self._tool = tool
        self._patient = patient
        self._known = metadata  # what START says
        self._late: dict[str, Any] = {}  # what END says
        self._started = False
        self._unshown: list[str] = []  # the text of the call before START
        self._waiting: list[str] = []  # content that came before the path
        self._has_shown = False  # the content argument has ended: it is shown once
        if "path" not in tool.metadata:
            self._start()

    def add(self, arguments: str, raw: str = "") -> None:
        """Take a piece of the arguments, as JSON text, that was read out of *raw*."""
        self._keep(raw)
        for change in self.arguments.feed(arguments):
            if len(change.path) == 1:
                self._note(str(change.path[0]), change)

    def end(self, call: ToolCall, raw: str = "") -> str:
        """End the segment of *call*.

        A call over text that was cut before there was anything to show is not a segment: its text
        is given back.
        """
        self._keep(raw)
        if not call.complete:
            self._late[INCOMPLETE] = True
            if not self._started and not self._patient:
                return "".join(self._unshown)
        if not self._started:
            self._start()
        self._writer.end(self._id, self._late, calls=[call])
        return ""

    def _keep(self, raw: str) -> None:
        if self._started:
            self._writer.keep(raw)
        else:
            self._unshown.append(raw)

    def _note(self, key: str, change: Change) -> None:
        if key == self._tool.content:
            self._note_content(change)
        elif change.kind in ("value", "end") and key in self._tool.metadata:
            self._note_metadata(key, change.value)

    def _note_metadata(self, key: str, value: Any) -> None:
        if not self._started:
            self._known[key] = value
        elif key in self._late or self._known.get(key) != value:
            self._late[key] = value
        if key == "path" and not self._started:
            self._start()

    def _note_content(self, change: Change) -> None:
        """Show the content, once: given again, or no text, only the invocation has it."""
        if change.kind == "string" and not self._has_shown:
            self._show(change.text)
        elif change.kind in ("value", "end"):
            self._has_shown = True

    def _show(self, text: str) -> None:
        if not self._started and self._patient:
            self._waiting.append(text)
            return
        if not self._started:
            self._start()
        self._writer.add(self._id, text)

    def _start(self) -> None:
        self._started = True
        self._id = self._writer.claim(self._id)
        raw = "".join(self._unshown)
        self._writer.start(self._id, self._tool.segment_type, self._known, raw)
        for text in self._waiting:
            self._writer.add(self._id, text)
