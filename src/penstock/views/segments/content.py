"""A segment whose content is one argument of its call, decoded while the call arrives.

The file that `write_file` writes is what a user wants to see grow, not the markup around it. START
waits for the path; what comes later is in END's metadata.
"""

from __future__ import annotations

from typing import Any

from penstock.formats.tool_readers import RegisteredTool
from penstock.messages import ToolCall
from penstock.values.incremental import Change, IncrementalJSON
from penstock.views.segments.events import INCOMPLETE
from penstock.views.segments.writer import SegmentWriter


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

        A call over text that was cut before there was anything to show is no segment: its text is
        given back.
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
