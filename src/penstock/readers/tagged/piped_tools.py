"""Tools with one long text: a file, a patch or a command, and facts about it.

The text is passed on exactly as written. ``<tool name="write_file">`` has it as an argument (see
`tool_tag`); ``<write_file path="…">text</write_file>`` has a tag of its own, which `FileTagReader`
reads: the text ends at the first closing tag of that name, and attributes are the other arguments.
A tag without a path that its tool requires is prose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.body import CALL_CUT, BodyReader, StreamingPart, Verdict, without_begun
from penstock.parsing.call_shape import find_name
from penstock.parsing.call_sink import CallSink, RepairedCall, read_call
from penstock.parsing.scanner import Scanner
from penstock.readers.plausible import (
    ends_with_loose_tag,
    fits,
    has_loose_tags,
    is_misspelled,
)
from penstock.readers.tagged.damaged_tags import DamagedTags
from penstock.readers.tagged.endings import FirstTagEnding, read_value
from penstock.readers.tagged.strings import StreamedText
from penstock.readers.tagged.tags import take_opening
from penstock.values.control_tokens import without_turn_end
from penstock.values.schema import Schema


class PipedTool(Struct, frozen=True):
    """A tool whose argument *content* is passed on exactly as written, while it arrives.

    Between *start_marker* and *end_marker*, where a model writes them, even a closing tag is
    content. The arguments *metadata* are facts about it; they may be attributes of the call's tag.
    A tool without *content* is any other tool: its arguments are read by their schema.
    """

    content: str = ""
    start_marker: str = ""
    end_marker: str = ""
    metadata: tuple[str, ...] = ()

    def find_metadata(self, name: str) -> str | None:
        """Return the metadata that *name* means, itself or as an alias."""
        name = _ALIASES.get(name.lower(), name)
        return name if name in self.metadata else None

    def read_attributes(self, attributes: dict[str, str]) -> dict[str, str | bool | int]:
        """Read the metadata among the attributes of a tag; invalid values are dropped."""
        found: dict[str, str | bool | int] = {}
        for name, text in attributes.items():
            known = self.find_metadata(name)
            value = None if known is None else read_metadata(known, text)
            if known is not None and value is not None:
                found.setdefault(known, value)
        return found


GENERIC: Final = PipedTool()
"""Any tool: no argument of it is special."""

WRITE_FILE: Final = PipedTool("content", "__START_CONTENT__", "__END_CONTENT__", ("path",))
EDIT_FILE: Final = PipedTool("patch", "__START_PATCH__", "__END_PATCH__", ("path",))
RUN_BASH: Final = PipedTool("command", metadata=("background", "timeout_seconds"))

_ALIASES: Final = {"timeoutseconds": "timeout_seconds"}
_FLAGS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_COUNT: Final = re.compile(r"\+?([0-9]{1,18})(?![0-9])")


def read_metadata(name: str, text: str) -> str | bool | int | None:
    """Read the metadata *name*: a flag, a count or text; None if it is invalid or empty."""
    text = text.strip()
    match name:
        case "background":
            return _FLAGS.get(text.lower())
        case "timeout_seconds":
            found = _COUNT.match(text)
            return (int(found[1]) or None) if found else None
        case _:
            return text or None


FILE_TOOLS: Final[Mapping[str, PipedTool]] = {
    "write_file": WRITE_FILE,
    "edit_file": EDIT_FILE,
    "run_bash": RUN_BASH,
}
"""The tools that have a tag of their own."""

_DAMAGED: Final = DamagedTags((f"</{name}>" for name in FILE_TOOLS), ())
_NEXT: Final = re.compile(rf"<(?:{'|'.join(FILE_TOOLS)})[\s>]")

_COMMAND: Final = re.compile(rf"</?{RUN_BASH.content}>")
"""A tag of `morph_xml`: then the text is not all a command."""

_FIELD: Final = re.compile(r"(?P<key>\w+)(?:[ ]*(?P<sign>:)|[ ](?!-))")
"""The beginning of a field of `yaml_xml`; ``command -v`` is a command of the shell."""

REQUIRED: Final = "path"
"""The attribute that a tag must have, if its tool knows it."""


class FileTagReader(BodyReader):
    """Reads what follows *marker*, ``<write_file`` or the like, up to its closing tag."""

    is_repairable = True

    def __init__(self, marker: str) -> None:
        self.end = f"</{marker[1:].lower()}>"
        self._marker = marker
        self._tool = FILE_TOOLS[marker[1:].lower()]
        self._name = ""
        self._given: dict[str, Any] = {}  # the arguments in the attributes
        self._schemas: Mapping[str, Schema] = {}
        self._ending = FirstTagEnding(marker[1:])
        self._content: StreamedText | None = None

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        if not self._name:
            verdict = self._read_tag(scanner, calls)
            if verdict is not None:
                return verdict
        if scanner.is_at_end:
            return Verdict.MORE
        content = self._content or self._begin(calls)
        if not read_value(content, self._ending, scanner):
            return Verdict.MORE
        is_loose = has_loose_tags(content.text, FILE_TOOLS) or _DAMAGED.are_in(content.text)
        if is_loose or (self._tool is RUN_BASH and self._has_fields(content.text)):
            calls.doubt(f"it is not clear where the call of `{self._name}` ends")
        calls.close()
        return Verdict.DONE

    def _has_fields(self, text: str) -> bool:
        """Return whether *text* is not all a command: it has elements, or damaged YAML fields."""
        if _COMMAND.search(text) is not None:
            return True
        lines, schema = text.strip().split("\n"), self._schemas[self._name]
        first, last = _FIELD.match(lines[0]), _FIELD.match(lines[-1])
        if last is not None and last["key"] in schema.properties and last["sign"]:
            return True
        if first is None:
            return False
        is_key = first["key"] in schema.properties or is_misspelled(first["key"], schema)
        return is_key and (bool(first["sign"]) or first["key"] == self._tool.content)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: the call has no closing tag."""
        del calls
        if not self._name:
            return Verdict.NOT_A_CALL
        if self._content is not None:
            read_value(self._content, self._ending, scanner, final=True)
        scanner.skip_all()
        self.error = CALL_CUT
        return Verdict.GIVE_UP

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._content

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Add the missing closing tag."""
        del ended
        written = "" if self._content is None else without_turn_end(self._content.text).strip()
        if not written or self._content is None or self._tool.content.startswith(written):
            return []  # The content, or the key of a YAML field, may have been cut.
        whole = without_begun(without_turn_end(text), self.end) + self.end
        if _NEXT.search(self._content.text):
            return []  # The next call of the response may be inside.
        if ends_with_loose_tag(whole.removesuffix(self.end)):
            return []  # It may be the closing tag.
        call = read_call(FileTagReader(self._marker), whole, self._schemas)
        if call is None:
            return []
        return [RepairedCall(call.name, call.arguments, [*call.repairs, "closed the call"])]

    def _read_tag(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read the opening tag; None if the body follows."""
        tag = take_opening(self._marker, scanner)
        if isinstance(tag, Verdict):
            return tag
        name = find_name(self._marker[1:], calls.schemas)
        if name is None:
            return Verdict.NOT_A_CALL
        attributes, properties = tag.quoted_attributes, calls.schemas[name].properties
        self._given = dict(self._tool.read_attributes(attributes))
        for attribute, text in attributes.items():
            key = find_name(attribute, properties)
            if key is not None and key not in (*self._tool.metadata, self._tool.content):
                if not fits(text, properties[key]):
                    return Verdict.NOT_A_CALL
                self._given[key] = text
        if REQUIRED in self._tool.metadata and REQUIRED not in self._given:
            return Verdict.NOT_A_CALL
        self._name = calls.name = name
        self._schemas = calls.schemas
        if not tag.empty:
            return None
        self._begin(calls).close()
        calls.close()
        return Verdict.DONE

    def _begin(self, calls: CallSink) -> StreamedText:
        writer: ArgumentWriter = calls.open(self._name)
        for key, value in self._given.items():
            writer.put(key, value)
        writer.open_text(self._tool.content)
        self._content = StreamedText(self._ending.marks, writer)
        return self._content
