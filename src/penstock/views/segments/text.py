"""The text of a response as segments.

The parser finds text, reasoning and calls. The content of a call's segment is the text inside the
call, or the one argument that matters. Every piece of text is content of a segment or `raw` of an
event. If a response is cut inside a call, the segment has the call up to the cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct, structs

from penstock.errors import JSONParseError
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
from penstock.formats.tool_tag import RegisteredTool, registered_tool
from penstock.messages import ToolCall
from penstock.parsing import Engine
from penstock.parsing.scanner import markers
from penstock.readers.json_calls import Balance
from penstock.readers.signed_json import CallSignature
from penstock.readers.tagged.piped_tools import PipedTool
from penstock.readers.tagged.tags import MAX_GAP
from penstock.values.incremental import IncrementalJSON
from penstock.values.rxml.markup import opening_at
from penstock.views.segments.events import INCOMPLETE, REASONING, RUN_BASH, TEXT, TOOL_CALL
from penstock.views.segments.writer import ContentSegment, SegmentWriter

# --- openings and closings ---
#
# A call in text starts with a tag, a sentinel's header, or JSON. Its events have the name and the
# arguments; how it was written is in their `raw`. Its segment has the text inside, and the metadata
# of its opening.

_OPENING: Final = re.compile(
    r"(?ai)\[\[seg_end\]\]|(?P<header>\[\[seg_start)|(?P<json>[\[{])"
    r"|<(?P<tag>tool|write_file|edit_file|run_bash)(?=[\s/>])"
)

_BORDER: Final = re.compile(r"(?ai)\[\[seg_(?:end\]\]|(?P<header>start))")


class ClosingTag:
    """The end of a call: *literal* in any case, then optional white space and *end*, if any."""

    def __init__(self, literal: str, end: str = "") -> None:
        gap = rf"\s{{0,{MAX_GAP}}}" if end else ""
        whole = rf"(?ai){re.escape(literal)}{gap}"
        self.find = re.compile(whole + re.escape(end)).search
        self._last = re.compile(rf"{whole}(?:{re.escape(end)})?\Z")
        self._size = len(literal) + len(end) + (MAX_GAP if end else 0)
        self._beginnings = markers(literal, fold=True)

    def find_held(self, text: str) -> int:
        """Return where the closing, or a possible start of it, begins at the end of *text*."""
        found = self._last.search(text, max(0, len(text) - self._size))
        return self._beginnings.find_held(text) if found is None else found.start()


_TAG: Final = ClosingTag("</tool", ">")
_SENTINEL: Final = ClosingTag("[[seg_end]]")


_LIST: Final = re.compile(r"""\s*(?:\[|(\{\s*["'](?:tool_calls|tools)["']))""")

# Aliases of segment types in a sentinel's header.
_TYPES: Final = {"tool": TOOL_CALL, "run_terminal_cmd": RUN_BASH}

_SHOWN: Final = (TEXT, REASONING)


class OpeningTag(Struct, frozen=True):
    """The opening of a call in a piece of text.

    *lead* is the markup before it, *text* the opening itself and *inside* what follows it. *fields*
    are its attributes or the fields of a header; *closing* ends the call.
    """

    kind: str
    lead: str
    text: str
    inside: str
    fields: dict[str, Any]
    closing: ClosingTag | None = None

    @property
    def depth(self) -> int:
        """How many brackets are open around each call: JSON may be a list of calls."""
        found = _LIST.match(self.inside) if self.kind == "json" else None
        return 0 if found is None else 2 if found[1] else 1

    @property
    def is_tag(self) -> bool:
        """Whether it is a tag, with arguments in tags inside."""
        return self.kind in ("tool", "file")

    def segment_type(self, tool: RegisteredTool) -> str:
        """Return the type of the segment of a call of *tool*."""
        if self.kind == "sentinel":
            return _segment_type(self.fields)
        return tool.segment_type if self.is_tag else TOOL_CALL

    def metadata(self, name: str, tool: RegisteredTool) -> dict[str, Any]:
        """Return the metadata of a call of *tool*, whose name is *name*."""
        if self.kind == "json":
            return {}
        if self.kind == "sentinel":
            return {key: value for key, value in self.fields.items() if key != "type"}
        metadata: dict[str, Any] = {}
        if self.kind == "tool":
            metadata["tool_name"] = self.fields.get("name", name)
        if isinstance(tool.reader, PipedTool):
            metadata |= tool.reader.read_attributes(self.fields)
        return metadata


def find_opening(raw: str) -> OpeningTag | None:
    """Find the first opening of a call in *raw*."""
    found, end = _OPENING.search(raw), 0
    while found:
        at, end = found.start(), found.end()
        if found["json"]:
            return OpeningTag("json", raw[:at], "", raw[at:], {})
        tag = opening_at(raw, at) if found["tag"] else None
        if tag is not None:
            kind = "tool" if found["tag"].lower() == "tool" else "file"
            text, inside = raw[at : tag.end], raw[tag.end :]
            return OpeningTag(kind, raw[:at], text, inside, tag.quoted_attributes, _TAG)
        if found["header"]:
            end, fields = read_header(raw, end)
            if _segment_type(fields) not in _SHOWN:  # These are markup before the call.
                return OpeningTag("sentinel", raw[:at], raw[at:end], raw[end:], fields, _SENTINEL)
        found = _OPENING.search(raw, end)
    return None


def _segment_type(fields: dict[str, Any]) -> str:
    kind = str(fields.get("type", "")).strip().lower()
    return _TYPES.get(kind, kind)


def read_header(raw: str, at: int) -> tuple[int, dict[str, Any]]:
    """Parse the JSON of a sentinel's header from *at*; return its end and its fields."""
    reader = IncrementalJSON()
    at = raw.find("{", at)
    try:
        while at < len(raw) and not reader.complete:
            before = at
            _, at = reader.advance(raw, at)
            if at == before:
                break
    except JSONParseError:
        return len(raw), {}
    end = raw.find("]]", at)
    fields = reader.value if isinstance(reader.value, dict) else {}
    return (len(raw) if end == -1 else end + 2), fields


def find_header(lead: str) -> dict[str, Any] | None:
    """Return the metadata of a header of text or reasoning; None if *lead* has no header.

    After the end of such a segment, plain text continues without metadata.
    """
    metadata: dict[str, Any] | None = None
    found = _BORDER.search(lead)
    while found:
        at = found.end()
        metadata = {}
        if found["header"]:
            at, fields = read_header(lead, at)
            metadata = {key: value for key, value in fields.items() if key != "type"}
        found = _BORDER.search(lead, at)
    return metadata


class RawBlock:
    """The open segment *id* with the text inside a call, markup included, after its *opening*.

    One block may contain several calls, such as a list: it is one segment, and all its calls are
    invoked. Text that may be the start of the closing tag is held; the tag itself is not content. A
    broken call has a closing tag too: its block continues up to there.
    """

    def __init__(self, writer: SegmentWriter, id: str, opening: OpeningTag) -> None:  # noqa: A002
        self._writer = writer
        self._id = id
        self._closing = opening.closing
        self._depth = opening.depth  # of open brackets around every call
        self._calls: list[ToolCall] = []
        self._in_call = True
        self._is_broken = False  # Only the closing tag ends it.
        self._held = ""  # the closing tag, or a possible start of it

    @property
    def is_whole(self) -> bool:
        """Whether the block ends with its call."""
        return not self._in_call and self._depth == 0 and not self._is_broken

    def add(self, text: str) -> None:
        """Add content, up to a possible closing tag."""
        self._in_call = True
        self._show(text)

    def end_call(self, call: ToolCall, text: str) -> None:
        """Note that *call* has ended after *text*."""
        self._show(text)
        self._calls.append(call)
        self._in_call = False

    def break_off(self) -> bool:
        """Note that the call is broken; return whether the block continues up to a closing tag."""
        self._is_broken = self._closing is not None
        return self._is_broken

    def takes(self, text: str) -> bool:
        """Add *text* if the call is broken and the block continues; return whether it does."""
        if not self._is_broken or self._find_closing(text) is not None:
            return False
        self._show(text)
        return True

    def continues_with(self, text: str) -> bool:
        """Return whether a call that starts with *text* is in this block."""
        if self._depth == 0:
            return not text
        return text.lstrip().startswith(",") and self._find_end(text) is None

    def is_open_after(self, text: str) -> bool:
        """Return whether the block continues after *text*, which follows a call."""
        return self._find_end(text) is None

    def leave(self, text: str) -> str:
        """End the segment; return the part of *text* after it.

        A list that continues with something other than a call ends there; its calls are valid.
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
        """End the segment where its text was cut or broken, after *text*."""
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
        """Return where the block ends in *text*, which follows a call; None if it does not."""
        balance = Balance(self._depth, "")
        end = balance.find_end(text, 0)
        return end if balance.is_even else None


_KINDS: Final[dict[type, str]] = {
    TextStart: TEXT,
    TextDelta: TEXT,
    ThinkingStart: REASONING,
    ThinkingDelta: REASONING,
}


class SegmentTextReader(Protocol):
    """A reader of the text of a response."""

    def feed(self, text: str) -> None:
        """Read more text."""

    def finish(self) -> None:
        """End the text; a new one may follow."""


class PlainText:
    """Does not parse: all text is text."""

    def __init__(self, writer: SegmentWriter) -> None:
        self._writer = writer

    def feed(self, text: str) -> None:
        """Emit *text*."""
        self._writer.show(TEXT, text, text)

    def finish(self) -> None:
        """Do nothing: no text is held."""


class ParsedText:
    """Parses text with the parser that *make* returns, a new one for each text.

    *signature* is the start of JSON that is a call, if calls may be JSON.
    """

    def __init__(
        self, writer: SegmentWriter, make: Callable[[], Engine], signature: CallSignature | None
    ) -> None:
        self._writer = writer
        self._make = make
        self._signature = signature
        self._parser: Engine | None = None
        self._content: ContentSegment | None = None  # of the open call
        self._block: RawBlock | None = None  # the open one, also between its calls
        self._in_call = False

    def feed(self, text: str) -> None:
        """Read more text."""
        if self._parser is None:
            self._parser = self._make()
        for event in self._parser.feed(text):
            self._show(event)
        if self._block is not None and self._block.is_whole:
            self._leave_block("")

    def finish(self) -> None:
        """End the text: emit what was held, end what is open."""
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
                pass  # A parser emits only blocks.

    def _show_text(self, kind: str, text: str, raw: str) -> None:
        if self._block is not None:
            if self._block.takes(raw):
                return
            raw = self._leave_block(raw)
            text = text if len(text) < len(raw) else raw
        lead = raw[: len(raw) - len(text)]
        metadata = find_header(lead) if lead else None
        if metadata is not None:  # A segment with a header starts here, or has ended.
            self._writer.keep(lead)
            self._writer.open_shown(kind, metadata)
            raw = text
        self._writer.show(kind, text, raw)

    # --- calls ---

    def _start_call(self, event: ToolCallStart) -> None:
        self._in_call = True
        raw = event.raw
        if self._block is not None:
            if self._block.continues_with(raw):
                self._block.add(raw)
                return
            raw = self._leave_block(raw)
        opening = find_opening(raw) or OpeningTag("json", "", "", raw, {})
        self._writer.keep(opening.lead)
        self._open(opening, event.name)

    def _open(self, opening: OpeningTag, name: str) -> None:
        """Start the segment of a call of the tool *name* with this *opening*."""
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

    # --- the open block ---

    def _leave_block(self, raw: str) -> str:
        """End the open block, whose end may be in *raw*; return the rest of *raw*."""
        if self._block is not None:
            raw = self._block.leave(raw)
            self._block = None
        return raw

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
        """Emit a list that was cut between its calls, if there is one; return whether it was."""
        held = "".join(event.raw for event in events) + rest
        is_cut = self._block is not None and self._block.is_open_after(held)
        if is_cut:
            self._cut_block(held)
        return is_cut

    def _show_cut(self, events: Sequence[Event], rest: str) -> bool:
        """Emit JSON that was cut before its call was recognised; return whether there was any."""
        deltas = [(at, e.text) for at, e in enumerate(events) if isinstance(e, TextDelta)]
        if self._signature is None or not deltas:
            return False
        at, text = deltas[0]
        inside = text + "".join(event.raw for event in events[at + 1 :]) + rest
        if not inside.startswith(("{", "[")) or not self._signature.judge(inside[0], inside, 1):
            return False
        lead = "".join(event.raw for event in events[: at + 1]).removesuffix(text)
        self._writer.keep(self._leave_block(lead))
        self._open(OpeningTag("json", "", "", inside, {}), "")
        self._cut_block()
        return True

    def _cut_block(self, text: str = "") -> None:
        if self._block is not None:
            self._block.cut(text)
            self._block = None
