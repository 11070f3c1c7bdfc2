"""A segment that shows the text inside a call as it stands, markup and all.

One block of text may hold several calls, such as a list of them: it stays one segment, whose calls
are all invoked. What may turn out to be the closing tag is held back; the tag itself is not shown.
A call that broke has a closing tag all the same: its block goes on up to there, and is no text.
"""

from __future__ import annotations

import re

from penstock.messages import ToolCall
from penstock.parsing.bodies.json_balance import Balance
from penstock.views.segments.events import INCOMPLETE
from penstock.views.segments.openings import Opening
from penstock.views.segments.writer import SegmentWriter


class RawBlock:
    """Shows the text of the open segment *id*, behind its *opening*."""

    def __init__(self, writer: SegmentWriter, id: str, opening: Opening) -> None:  # noqa: A002
        self._writer = writer
        self._id = id
        self._closing = opening.closing
        self._depth = opening.depth  # of brackets that are open around every call
        self._calls: list[ToolCall] = []
        self._in_call = True
        self._is_broken = False  # only the closing tag ends it now
        self._held = ""  # what may be the closing tag, or a beginning of it

    @property
    def is_whole(self) -> bool:
        """Whether nothing more can belong to the block: it ends with its call."""
        return not self._in_call and self._depth == 0 and not self._is_broken

    def add(self, text: str) -> None:
        """Show more, up to what may be the closing tag."""
        self._in_call = True
        self._show(text)

    def end_call(self, call: ToolCall, text: str) -> None:
        """Note that *call* has ended, behind *text*."""
        self._show(text)
        self._calls.append(call)
        self._in_call = False

    def break_off(self) -> bool:
        """Note that the call broke; tell whether the block goes on, up to a closing tag."""
        self._is_broken = self._closing is not None
        return self._is_broken

    def takes(self, text: str) -> bool:
        """Show *text* if the call broke, and the block goes on behind it; tell whether it did."""
        if not self._is_broken or self._find_closing(text) is not None:
            return False
        self._show(text)
        return True

    def goes_on(self, text: str) -> bool:
        """Tell whether *text*, which another call begins with, has that call in this block."""
        if self._depth == 0:
            return not text
        return text.lstrip().startswith(",") and self._find_end(text) is None

    def is_open_behind(self, text: str) -> bool:
        """Tell whether the block goes on even behind *text*, which follows a call."""
        return self._find_end(text) is None

    def leave(self, text: str) -> str:
        """End the segment; give what of *text* does not belong to it any more.

        A list that goes on with something else than a call ends there: its calls are good.
        """
        if self._is_broken:
            return self._leave_broken(text)
        end = self._find_end(text)
        if end is None:
            end = 0
        self._show(text[:end])
        self._writer.end(self._id, {}, self._held, self._calls)
        return text[end:]

    def cut(self, text: str = "") -> None:
        """End the segment where its text was cut, or broke, behind *text*."""
        shown, self._held = self._held + text, ""
        self._writer.add(self._id, shown, shown)
        self._writer.end(self._id, {INCOMPLETE: True}, calls=self._calls)

    def _leave_broken(self, text: str) -> str:
        found = self._find_closing(text)
        if found is None:
            self.cut()
            return text
        whole, self._held = found.string, ""
        shown = whole[: found.start()]
        self._writer.add(self._id, shown, shown)
        self._writer.end(self._id, {INCOMPLETE: True}, found[0], self._calls)
        return whole[found.end() :]

    def _find_closing(self, text: str) -> re.Match[str] | None:
        return None if self._closing is None else self._closing.find(self._held + text)

    def _show(self, text: str) -> None:
        text = self._held + text
        shown = len(text) if self._closing is None else self._closing.find_held(text)
        self._held = text[shown:]
        if shown:
            self._writer.add(self._id, text[:shown], text[:shown])

    def _find_end(self, text: str) -> int | None:
        """Find where in *text*, which follows a call, the block ends; None where it does not."""
        balance = Balance(self._depth, "")
        end = balance.pass_over(text, 0)
        return end if balance.is_even else None
