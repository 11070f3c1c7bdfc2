"""Calls as one tag each, with the argument that matters as its body: files, patches, commands.

``<write_file path="…">body</write_file>``: the body is content exactly as it stands, whatever
markup it holds, up to the first closing tag; a body with unmatched tags of such calls is none.
Attributes are the other arguments: what is known of files and commands, and whatever else the
tool's schema declares. A tag that asks for a path and has none is prose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.errors import ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import Run, Verdict
from penstock.parsing.bodies.closers import FirstCloser
from penstock.parsing.bodies.open_strings import PlainString, read_value
from penstock.parsing.bodies.opening_tags import attributes_of, known_name, take_opening
from penstock.parsing.bodies.piped_tools import EDIT_FILE, RUN_BASH, WRITE_FILE, PipedTool
from penstock.parsing.bodies.plausible import has_loose_tags
from penstock.parsing.bodies.rereading import read_call, without_begun
from penstock.parsing.bodies.turn_ends import without_turn_end
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.scanner import Scanner
from penstock.values.schema import Schema

FILE_TOOLS: Final[Mapping[str, PipedTool]] = {
    "write_file": WRITE_FILE,
    "edit_file": EDIT_FILE,
    "run_bash": RUN_BASH,
}
"""The tools that have a tag of their own, and what their body is."""

REQUIRED: Final = "path"
"""What a tag has to say, where its tool knows it."""


class FileTagReader:
    """Reads what follows *marker*, ``<write_file`` or the like, up to its closing tag."""

    def __init__(self, marker: str) -> None:
        self.error: str | ParseError = ""
        self.end = f"</{marker[1:].lower()}>"
        self._marker = marker
        self._tool = FILE_TOOLS[marker[1:].lower()]
        self._name = ""
        self._given: dict[str, Any] = {}  # what the attributes say
        self._schemas: Mapping[str, Schema] = {}
        self._closer = FirstCloser(marker[1:])
        self._content: PlainString | None = None

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if not self._name:
            verdict = self._read_tag(scanner, calls)
            if verdict is not None:
                return verdict
        if scanner.at == len(scanner.text):
            return Verdict.MORE
        content = self._content or self._begin(calls)
        if not read_value(content, self._closer, scanner):
            return Verdict.MORE
        if has_loose_tags(content.gone_out(), FILE_TOOLS):
            calls.doubt(f"it is not clear where the call of `{self._name}` ends")
        calls.close()
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: the call has not."""
        del calls
        if not self._name:
            return Verdict.PROSE
        if self._content is not None:
            read_value(self._content, self._closer, scanner, final=True)
        scanner.at = len(scanner.text)
        self.error = "the call was cut"
        return Verdict.TEXT

    def run(self) -> Run | None:
        """Give the content, which streams."""
        return None if self._content is None else self._content.run()

    def open_text(self) -> str | None:
        """Give what has gone out of the content."""
        return None if self._content is None else self._content.gone_out()

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make the call of *text*, whose closing tag is missing."""
        del ended
        if self._content is None or not without_turn_end(self._content.gone_out()).strip():
            return []  # The content may have been cut.
        whole = without_begun(without_turn_end(text), self.end) + self.end
        call = read_call(FileTagReader(self._marker), whole, self._schemas)
        return [] if call is None else [Mended(call.name, call.arguments, ["closed the call"])]

    def _read_tag(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Read the opening tag; None tells that the body follows."""
        tag = take_opening(self._marker, scanner)
        if isinstance(tag, Verdict):
            return tag
        name = known_name(self._marker[1:], calls.schemas)
        if name is None:
            return Verdict.PROSE
        self._given = self._read_attributes(attributes_of(tag), calls.schemas[name])
        if REQUIRED in self._tool.metadata and REQUIRED not in self._given:
            return Verdict.PROSE
        self._name = calls.name = name
        self._schemas = calls.schemas
        if not tag.empty:
            return None
        self._begin(calls).close(self.end)
        calls.close()
        return Verdict.DONE

    def _read_attributes(self, attributes: dict[str, str], schema: Schema) -> dict[str, Any]:
        """Read what the tag says of the content, and what else the tool declares."""
        given: dict[str, Any] = dict(self._tool.read_attributes(attributes))
        for name, text in attributes.items():
            key = known_name(name, schema.properties)
            if key is not None and key not in (*self._tool.metadata, self._tool.content):
                given[key] = text
        return given

    def _begin(self, calls: Calls) -> PlainString:
        writer: ArgumentWriter = calls.open(self._name)
        for key, value in self._given.items():
            writer.put(key, value)
        writer.open_text(self._tool.content)
        self._content = PlainString(self._closer.marks, writer)
        return self._content
