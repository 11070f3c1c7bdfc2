"""Writes the segments of one response, each with an id of its own.

One segment of text or reasoning is open at a time, and a call ends it; calls may be open at the
same time. Text that is in no segment, such as a closing tag, is added to `raw` of the next event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.formats.tool_tag import RegisteredTool
from penstock.messages import ToolCall, UniqueIds
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
"""Receives every event; with an END, the calls that were parsed in the segment."""


class SegmentWriter:
    """Writes to *sink*; *prefix* is added to every new id."""

    def __init__(self, sink: Sink, prefix: str = "") -> None:
        self._kept: list[str] = []  # text for `raw` of the next event
        self._sink = sink
        self._prefix = prefix
        self._made = 0  # how many new ids
        self._ids = UniqueIds()
        self._shown = ""  # the id of the open segment of text or reasoning
        self._kind = ""  # its type

    # --- any segment ---

    def new_id(self) -> str:
        """Return a new id: the prefix and ``seg_1``, ``seg_2``, …."""
        self._made += 1
        return self.claim(f"{self._prefix}seg_{self._made}")

    def claim(self, wanted: str) -> str:
        """Return *wanted*, with a number added if it is in use; without *wanted*, a new id."""
        if not wanted:
            return self.new_id()
        return self._ids.claim(wanted)

    def start(self, id: str, kind: str, metadata: Mapping[str, Any], raw: str = "") -> None:  # noqa: A002 - the field's name
        """Start the segment of a call; the open text ends."""
        self.end_shown()
        self._sink(SegmentStart(id, kind, dict(metadata), self._raw(raw)), ())

    def add(self, id: str, delta: str, raw: str = "") -> None:  # noqa: A002
        """Add content to an open segment; without *delta*, keep *raw* for the next event."""
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
        """End an open segment; *calls* were parsed in it."""
        self._sink(SegmentEnd(id, dict(metadata), self._raw(raw)), calls)

    def keep(self, raw: str) -> None:
        """Keep *raw* for the next event."""
        if raw:
            self._kept.append(raw)

    @property
    def rest(self) -> str:
        """The text that is not in `raw` of any event yet."""
        return "".join(self._kept)

    def _raw(self, raw: str) -> str:
        if self._kept:
            raw = self.rest + raw
            self._kept.clear()
        return raw

    # --- text and reasoning ---

    def show(self, kind: str, text: str, raw: str = "") -> None:
        """Add text or reasoning to the open segment of that *kind*, or to a new one."""
        if text and self._kind != kind:
            self.open_shown(kind, {})
        if text:
            self._sink(SegmentContent(self._shown, text, self._raw(raw)), ())
        else:
            self.keep(raw)

    def open_shown(self, kind: str, metadata: Mapping[str, Any]) -> None:
        """Start a segment of text or reasoning; the one before it ends."""
        self.end_shown()
        self._shown, self._kind = self.new_id(), kind
        self._sink(SegmentStart(self._shown, kind, dict(metadata)), ())

    def end_shown(self) -> None:
        """End the open segment of text or reasoning, if there is one."""
        if self._kind:
            shown, self._shown, self._kind = self._shown, "", ""
            self._sink(SegmentEnd(shown), ())


class ContentSegment:
    """A segment whose content is one argument of a call of *tool*, decoded while it arrives.

    A user wants to see the file that `write_file` writes, not the markup around it. START waits for
    the path; later metadata is in END. *metadata* is known from the start. With *patient*, content
    that arrives before the path is held for it; otherwise START is emitted without one.
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
        self._known = metadata  # the metadata of START
        self._late: dict[str, Any] = {}  # the metadata of END
        self._started = False
        self._unshown: list[str] = []  # the text of the call before START
        self._waiting: list[str] = []  # content that came before the path
        self._has_shown = False  # the content argument has ended: a repeated one is ignored
        if "path" not in tool.metadata:
            self._start()

    def add(self, arguments: str, raw: str = "") -> None:
        """Add a piece of the arguments, as JSON text, that was parsed from *raw*."""
        self._keep(raw)
        for change in self.arguments.feed(arguments):
            if len(change.path) == 1:
                self._note(str(change.path[0]), change)

    def end(self, call: ToolCall, raw: str = "") -> str:
        """End the segment of *call*; return ``""``.

        A call in text that was cut before its segment started has none: return its text.
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
        """Add the content; a repeated one, or one that is not text, is only in the invocation."""
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
