"""What a call over text begins and ends with: a tag, a sentinel's header, or JSON.

The events of a call say what is called with what; how it was written is in their `raw`. A segment
shows what stands inside, and its metadata is what the opening says about it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

from penstock.errors import JSONParseError
from penstock.formats.tool_readers import RegisteredTool
from penstock.parsing.bodies.closers import MAX_GAP
from penstock.parsing.bodies.opening_tags import attributes_of
from penstock.parsing.bodies.piped_tools import PipedTool
from penstock.parsing.scanner import markers
from penstock.values.incremental import IncrementalJSON
from penstock.values.rxml.markup import opening_at
from penstock.views.segments.events import REASONING, RUN_BASH, TEXT, TOOL_CALL

_OPENING: Final = re.compile(
    r"(?ai)\[\[seg_end\]\]|(?P<header>\[\[seg_start)|(?P<json>[\[{])"
    r"|<(?P<tag>tool|write_file|edit_file|run_bash)(?=[\s/>])"
)

_BORDER: Final = re.compile(r"(?ai)\[\[seg_(?:end\]\]|(?P<header>start))")


class Closing:
    """What ends a call: *literal* in any case, and behind it, and white space, *end* if any."""

    def __init__(self, literal: str, end: str = "") -> None:
        gap = rf"\s{{0,{MAX_GAP}}}" if end else ""
        whole = rf"(?ai){re.escape(literal)}{gap}"
        self.find = re.compile(whole + re.escape(end)).search
        self._last = re.compile(rf"{whole}(?:{re.escape(end)})?\Z")
        self._size = len(literal) + len(end) + (MAX_GAP if end else 0)
        self._beginnings = markers(literal, fold=True)

    def find_held(self, text: str) -> int:
        """Find where the end of *text* begins that is the closing, or may become it."""
        found = self._last.search(text, max(0, len(text) - self._size))
        return self._beginnings.find_held(text) if found is None else found.start()


_TAG: Final = Closing("</tool", ">")
_SENTINEL: Final = Closing("[[seg_end]]")


_LIST: Final = re.compile(r"""\s*(?:\[|(\{\s*["'](?:tool_calls|tools)["']))""")

_TYPES: Final = {"tool": TOOL_CALL, "run_terminal_cmd": RUN_BASH}
"""Other words for types of segments, in a sentinel's header."""

_SHOWN: Final = (TEXT, REASONING)


class Opening(Struct, frozen=True):
    """What opens a call in a piece of text.

    *lead* is the markup before it, *text* the opening itself and *inside* what follows it. *fields*
    are its attributes, or what a header says; *closing* is what ends the call.
    """

    kind: str
    lead: str
    text: str
    inside: str
    fields: dict[str, Any]
    closing: Closing | None = None

    @property
    def depth(self) -> int:
        """How many brackets are open around each call: JSON may be a list of them."""
        found = _LIST.match(self.inside) if self.kind == "json" else None
        return 0 if found is None else 2 if found[1] else 1

    @property
    def is_tag(self) -> bool:
        """Whether it is a tag, inside which arguments are marked."""
        return self.kind in ("tool", "file")

    def segment_type(self, tool: RegisteredTool) -> str:
        """Give the type of the segment that shows a call of *tool* as it is written."""
        if self.kind == "sentinel":
            return _type_of(self.fields)
        return tool.segment_type if self.is_tag else TOOL_CALL

    def metadata(self, name: str, tool: RegisteredTool) -> dict[str, Any]:
        """Give what the opening says of a call of *tool*, whose name is *name*."""
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


def find_opening(raw: str) -> Opening | None:
    """Find the first opening of a call in *raw*."""
    found, end = _OPENING.search(raw), 0
    while found:
        at, end = found.start(), found.end()
        if found["json"]:
            return Opening("json", raw[:at], "", raw[at:], {})
        tag = opening_at(raw, at) if found["tag"] else None
        if tag is not None:
            kind = "tool" if found["tag"].lower() == "tool" else "file"
            text, inside = raw[at : tag.end], raw[tag.end :]
            return Opening(kind, raw[:at], text, inside, attributes_of(tag), _TAG)
        if found["header"]:
            end, fields = read_header(raw, end)
            if _type_of(fields) not in _SHOWN:  # those are markup before the call
                return Opening("sentinel", raw[:at], raw[at:end], raw[end:], fields, _SENTINEL)
        found = _OPENING.search(raw, end)
    return None


def _type_of(fields: dict[str, Any]) -> str:
    said = str(fields.get("type", "")).strip().lower()
    return _TYPES.get(said, said)


def read_header(raw: str, at: int) -> tuple[int, dict[str, Any]]:
    """Read the JSON of a sentinel's header from *at* on; give its end, and what it says."""
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
    """Give what the header says that opens text or a thought; None where *lead* is no border.

    Behind the end of such a segment plain text goes on, about which nothing is said.
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
