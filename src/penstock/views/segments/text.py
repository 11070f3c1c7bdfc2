"""The text of an answer as segments: what a parser reads in it, and how it was written.

The parser says what is text, thinking and call; the segment of a call shows the text inside it, or
the one argument that matters. Every piece of text has its place: it is shown, or it rides on an
event as `raw`. Where an answer is cut inside a call, the call is shown up to the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec import structs

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
from penstock.formats.tool_readers import registered_tool
from penstock.parsing import Machine
from penstock.parsing.bodies.json_signatures import Signature
from penstock.views.segments.content import ContentSegment
from penstock.views.segments.events import REASONING, TEXT
from penstock.views.segments.openings import Opening, find_header, find_opening
from penstock.views.segments.raw_blocks import RawBlock
from penstock.views.segments.writer import SegmentWriter

_KINDS: Final[dict[type, str]] = {
    TextStart: TEXT,
    TextDelta: TEXT,
    ThinkingStart: REASONING,
    ThinkingDelta: REASONING,
}


class TextReader(Protocol):
    """What reads the text of an answer."""

    def feed(self, text: str) -> None:
        """Read more text."""

    def finish(self) -> None:
        """End the text here; more may follow, as a text of its own."""


class PlainText:
    """Reads nothing: all text is text."""

    def __init__(self, writer: SegmentWriter) -> None:
        self._writer = writer

    def feed(self, text: str) -> None:
        """Show *text* as it is."""
        self._writer.show(TEXT, text, text)

    def finish(self) -> None:
        """Do nothing: no text is held back."""


class ParsedText:
    """Reads text with the parser that *make* gives, one for every stretch of text.

    *signature* is what JSON begins with that is meant to be a call, where calls may be JSON.
    """

    def __init__(
        self, writer: SegmentWriter, make: Callable[[], Machine], signature: Signature | None
    ) -> None:
        self._writer = writer
        self._make = make
        self._signature = signature
        self._parser: Machine | None = None
        self._content: ContentSegment | None = None  # of the call that is open
        self._block: RawBlock | None = None  # that is open, whether a call in it is or not
        self._in_call = False

    def feed(self, text: str) -> None:
        """Read more text."""
        if self._parser is None:
            self._parser = self._make()
        for event in self._parser.feed(text):
            self._show(event)
        self._end_whole_block()

    def finish(self) -> None:
        """End the text: show what was held back, end what is open."""
        parser, self._parser = self._parser, None
        if parser is None:
            return
        self._show_end(parser.finish(), parser.rest)
        self._writer.end_shown()

    # --- events ---

    def _show(self, event: Event) -> None:
        match event:
            case ToolCallDelta():
                self._add_to_call(event)
            case TextDelta() | ThinkingDelta():
                self._show_text(_KINDS[type(event)], event.text, event.raw)
            case TextStart() | ThinkingStart():
                self._show_text(_KINDS[type(event)], "", event.raw)
            case ToolCallStart():
                self._start_call(event)
            case ToolCallEnd():
                self._end_call(event)
            case TextEnd() | ThinkingEnd():
                self._writer.end_shown()
            case _:
                pass  # a parser makes blocks only

    def _show_text(self, kind: str, text: str, raw: str) -> None:
        if self._block is not None:
            if self._block.takes(raw):
                return
            raw = self._leave_block(raw)
            text = text if len(text) < len(raw) else raw
        lead = raw[: len(raw) - len(text)]
        metadata = find_header(lead) if lead else None
        if metadata is not None:  # A segment of its own begins here, or has ended.
            self._writer.keep(lead)
            self._writer.open_shown(kind, metadata)
            raw = text
        self._writer.show(kind, text, raw)

    # --- calls ---

    def _start_call(self, event: ToolCallStart) -> None:
        self._in_call = True
        raw = event.raw
        if self._block is not None:
            if self._block.goes_on(raw):
                self._block.add(raw)
                return
            raw = self._leave_block(raw)
        opening = find_opening(raw) or Opening("json", "", "", raw, {})
        self._writer.keep(opening.lead)
        self._open(opening, event.name)

    def _open(self, opening: Opening, name: str) -> None:
        """Open the segment of a call of the tool *name* that has this *opening*."""
        writer, tool = self._writer, registered_tool(name)
        metadata = opening.metadata(name, tool)
        if tool.content and opening.is_tag:
            self._content = ContentSegment(writer, "", tool, metadata, patient=False)
            self._content.add("", opening.text + opening.inside)
            return
        id_ = writer.new_id()
        writer.start(id_, opening.segment_type(tool), metadata, opening.text)
        self._block = RawBlock(writer, id_, opening)
        self._block.add(opening.inside)

    def _add_to_call(self, event: ToolCallDelta) -> None:
        if self._content is not None:
            self._content.add(event.arguments, event.raw)
        elif self._block is not None:
            self._block.add(event.raw)

    def _end_call(self, event: ToolCallEnd) -> None:
        self._in_call = False
        if self._content is not None:
            text = self._content.end(event.call, event.raw)
            self._content = None
            self._writer.show(TEXT, text, text)
        elif self._block is not None:
            self._block.end_call(event.call, event.raw)
            if not event.call.complete and not self._block.break_off():
                self._cut_block()

    # --- the block that is open ---

    def _leave_block(self, raw: str) -> str:
        """End the open block, which may begin *raw* with its end; give the rest of *raw*."""
        if self._block is not None:
            raw = self._block.leave(raw)
            self._block = None
        return raw

    def _end_whole_block(self) -> None:
        """End the open block if nothing more can belong to it."""
        if self._block is not None and self._block.is_whole:
            self._leave_block("")

    # --- the end of the text ---

    def _show_end(self, events: Sequence[Event], rest: str) -> None:
        if not self._in_call and (
            self._show_cut_list(events, rest) or self._show_cut(events, rest)
        ):
            return
        for at, event in enumerate(events):
            if isinstance(event, ToolCallEnd) and not event.call.complete:
                tail = "".join(later.raw for later in events[at + 1 :]) + rest
                self._end_call(structs.replace(event, raw=event.raw + tail))
                self._cut_block()
                return
            self._show(event)
        self._writer.keep(self._leave_block(rest))

    def _show_cut_list(self, events: Sequence[Event], rest: str) -> bool:
        """Show a list that was cut between its calls: what is left is no text. Tell if it was."""
        held = "".join(event.raw for event in events) + rest
        is_cut = self._block is not None and self._block.is_open_behind(held)
        if is_cut:
            self._cut_block(held)
        return is_cut

    def _show_cut(self, events: Sequence[Event], rest: str) -> bool:
        """Show JSON that was cut before its call was known: it is no text. Tell if it was."""
        at = next((at for at, one in enumerate(events) if isinstance(one, TextDelta)), None)
        if self._signature is None or at is None:
            return False
        text = getattr(events[at], "text", "")
        inside = text + "".join(event.raw for event in events[at + 1 :]) + rest
        if not inside.startswith(("{", "[")) or not self._signature.judge(inside[0], inside, 1):
            return False
        lead = "".join(event.raw for event in events[: at + 1]).removesuffix(text)
        self._writer.keep(self._leave_block(lead))
        self._open(Opening("json", "", "", inside, {}), "")
        self._cut_block()
        return True

    def _cut_block(self, text: str = "") -> None:
        if self._block is not None:
            self._block.cut(text)
            self._block = None
