"""Segments between sentinels: ``[[SEG_START {json}]]``, a body, ``[[SEG_END]]``.

The header is strict JSON and ends by its own grammar: ``]]`` inside one of its strings is data. Its
type says what the body is: text or a thought, which are shown, or a call of a tool that is known.
Of a file or a command the body is the one string that streams; of any other tool it holds the
arguments (see `sentinel_insides`). A header that says nothing of the kind is text. So is one after
which the answer ends: a segment begins with its first character.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock.errors import JSONParseError, ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.output import Kind
from penstock.parsing.readers.base import OpenString, Verdict, read_call, without_begun
from penstock.parsing.readers.envelope import find_tool, read_arguments_call_shapes, repair_body
from penstock.parsing.readers.plausible import has_loose_tags, without_turn_end
from penstock.parsing.readers.sentinel_content import (
    CUT,
    END,
    MAX_BLANK,
    Inside,
    Skipped,
    StringInside,
    ToolInside,
    read_json,
)
from penstock.parsing.readers.tagged.strings import FirstCloser, PlainString, read_value
from penstock.parsing.readers.tagged.tags import (
    attributes_of_opening_tags,
    known_name,
    take_opening,
)
from penstock.parsing.readers.tagged.tool_tag_values import (
    EDIT_FILE,
    RUN_BASH,
    WRITE_FILE,
    PipedTool,
)
from penstock.parsing.reasoning import Channel
from penstock.parsing.scanner import Scanner
from penstock.values import rjson
from penstock.values.incremental import IncrementalJSON
from penstock.values.rjson.repair_strings import CONTROL_TOKEN
from penstock.values.schema import Schema

# Calls as one tag each, with the argument that matters as its body: files, patches, commands.
#
# ``<write_file path="…">body</write_file>``: the body is content exactly as it stands, whatever
# markup it holds, up to the first closing tag; a body with unmatched tags of such calls is
# none. Attributes are the other arguments: what is known of files and commands, and whatever
# else the tool's schema declares. A tag that asks for a path and has none is prose.


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

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
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

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: the call has not."""
        del calls
        if not self._name:
            return Verdict.NOT_A_CALL
        if self._content is not None:
            read_value(self._content, self._closer, scanner, final=True)
        scanner.at = len(scanner.text)
        self.error = "the call was cut"
        return Verdict.GIVE_UP

    def run(self) -> OpenString | None:
        """Return the content, which streams."""
        return None if self._content is None else self._content.run()

    def open_text(self) -> str | None:
        """Return what has gone out of the content."""
        return None if self._content is None else self._content.gone_out()

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make the call of *text*, whose closing tag is missing."""
        del ended
        if self._content is None or not without_turn_end(self._content.gone_out()).strip():
            return []  # The content may have been cut.
        whole = without_begun(without_turn_end(text), self.end) + self.end
        call = read_call(FileTagReader(self._marker), whole, self._schemas)
        return (
            [] if call is None else [RepairedCall(call.name, call.arguments, ["closed the call"])]
        )

    def _read_tag(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read the opening tag; None tells that the body follows."""
        tag = take_opening(self._marker, scanner)
        if isinstance(tag, Verdict):
            return tag
        name = known_name(self._marker[1:], calls.schemas)
        if name is None:
            return Verdict.NOT_A_CALL
        self._given = self._read_attributes(attributes_of_opening_tags(tag), calls.schemas[name])
        if REQUIRED in self._tool.metadata and REQUIRED not in self._given:
            return Verdict.NOT_A_CALL
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

    def _begin(self, calls: CallSink) -> PlainString:
        writer: ArgumentWriter = calls.open(self._name)
        for key, value in self._given.items():
            writer.put(key, value)
        writer.open_text(self._tool.content)
        self._content = PlainString(self._closer.marks, writer)
        return self._content


START: Final = "[[seg_start"
"""What opens a header, in any case."""

MAX_HEADER: Final = 1024 * 1024
"""How many characters a header may have: it may hold all arguments of a call."""

_BLANK: Final = re.compile(rf"[ \t\r\n]{{0,{MAX_BLANK}}}")

_SHOWN: Final[dict[str, Kind]] = {"text": "text", "reasoning": "thinking"}
_TOOL_TYPES: Final = frozenset({"tool", "tool_call"})
_STRINGS: Final = {
    "write_file": ("write_file", "content"),
    "edit_file": ("edit_file", "patch"),
    "run_bash": ("run_bash", "command"),
    "run_terminal_cmd": ("run_bash", "command"),
}
"""Types whose body is one string: the tool that is called, and the argument that it is."""

_ARGUMENTS: Final = ("arguments", "parameters")
_SCALARS: Final = (str, int, float)


_DAMAGED: Final = re.compile(rf"\[\[SEG_|\]\]\s*\Z|{CONTROL_TOKEN}", re.IGNORECASE)
"""What a body without an end marker may not hold: what is left of one, or a token of the turn."""


class SentinelReader:
    """Reads what follows ``[[SEG_START``: the header, and the body of a call."""

    enters: Channel | None
    """The channel that the header opens; only the header of text or of a thought has one."""

    def __init__(self) -> None:
        self.error: str | ParseError = ""
        self.end = END
        self._header = HeaderReader()
        self._inside: Inside | None = None  # none before the body has begun
        self._schemas: Mapping[str, Schema] = {}

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if self._inside is None:
            verdict = self._read_header(scanner, calls)
            if self._inside is None:
                return verdict
        verdict = self._inside.read(scanner, calls)
        self.error = self._inside.error
        return verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: a segment is cut, unless its JSON was whole."""
        self.error = CUT
        if self._inside is None:
            scanner.at = len(scanner.text)
            return Verdict.GIVE_UP if self._header.begun else Verdict.NOT_A_CALL
        verdict = self._inside.finish(scanner, calls)
        self.error = self._inside.error or self.error
        return verdict

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return self._inside.run() if self._inside is not None else None

    def _read_header(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on in the header; when the text after it begins, open what it announces."""
        self._schemas = calls.schemas
        verdict = self._header.read(scanner)
        self.error = self._header.error
        if verdict is not Verdict.DONE:
            return verdict
        if scanner.at == len(scanner.text):
            return Verdict.MORE
        if scanner.text[scanner.at] == "]":  # A bracket too many, or the first of the body?
            self.error = "a header with too many brackets"
            return Verdict.BROKEN
        try:
            self._inside = self._begin(self._header.fields, calls)
        except (NoCallError, JSONParseError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            return Verdict.GIVE_UP
        return Verdict.DONE

    def _begin(self, fields: dict[str, Any], calls: CallSink) -> Inside | None:
        """Open what the header announces; None tells that it is a channel."""
        kind = _kind_of(fields)
        if kind in _SHOWN:
            self.enters = Channel(_SHOWN[kind], (END,))
            return None
        calls.name = name = _tool_of(kind, fields, calls.schemas)
        if not name:
            return ToolInside("")
        given, inside = _announced(kind, name, fields)
        writer = calls.open(name)
        for key, value in given.items():
            writer.put(key, value)
        return inside

    # --- repairing ---

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now, decoded."""
        return self._inside.open_text() if self._inside is not None else None

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make the call of a segment whose JSON is broken, or that has no end."""
        del ended
        try:
            fields, body, repairs = self._mended_header(text)
            is_json = _kind_of(fields) in _TOOL_TYPES and body.lstrip().startswith(("{", "["))
            if is_json:
                mended = repair_body(body, END)
                body, repairs = _json.encode(mended.value).decode(), repairs + mended.repairs
        except (NoCallError, JSONParseError):
            return []
        if not is_json and _DAMAGED.search(without_begun(body, END)):
            return []
        header = _json.encode(fields).decode()
        whole = f"{header}]]{without_begun(body, END)}{END}"
        call = read_call(SentinelReader(), whole, self._schemas)
        if call is None:
            return []
        notes = repairs or ["closed the segment"]
        return [RepairedCall(call.name, call.arguments, notes, written=text if is_json else "")]

    def _mended_header(self, text: str) -> tuple[dict[str, Any], str, list[str]]:
        """Return what the header says, what comes after it, and what was repaired in it."""
        if self._header.ended:
            return self._header.fields, text[self._header.size :], []
        written, closing, body = text.partition("]]")
        mended = rjson.repair(written, guess=False)
        if not closing or not isinstance(mended.value, dict):
            raise NoCallError("a header that cannot be mended")
        return mended.value, body, mended.repairs


class HeaderReader:
    """Reads the header up to its ``]]``; `fields` is what it says."""

    def __init__(self) -> None:
        self.error: str | ParseError = ""
        self.begun = False  # its JSON has
        self.ended = False
        self.fields: dict[str, Any] = {}
        self.size = 0  # how much of the text it has taken
        self._json = IncrementalJSON()

    def read(self, scanner: Scanner) -> Verdict:
        """Read on; DONE tells that the header has ended."""
        before = scanner.at
        verdict = None if self.begun else self._find_object(scanner)
        if verdict is None and not self._json.complete:
            verdict = self._read_object(scanner, before)
        if verdict is None and not self.ended:
            verdict = self._find_end(scanner)
        self.size += scanner.at - before
        return Verdict.DONE if verdict is None else verdict

    def _find_object(self, scanner: Scanner) -> Verdict | None:
        """Look for the brace that tells a header from prose; None tells to continue."""
        at = _skip_blank(scanner)
        if at == len(scanner.text):
            return Verdict.MORE
        if scanner.text[at] != "{":
            return Verdict.NOT_A_CALL
        scanner.at = at
        self.begun = True
        return None

    def _read_object(self, scanner: Scanner, begin: int) -> Verdict | None:
        """Read the JSON, and no more of the text than a header may have."""
        limit = begin + MAX_HEADER - self.size
        try:
            read_json(self._json, scanner, limit, start=scanner.offset + begin - self.size)
        except JSONParseError as exc:
            self.error = exc
            return Verdict.BROKEN
        if self._json.complete:
            self.fields = self._json.value
            return None
        if len(scanner.text) < limit:
            return Verdict.MORE
        scanner.at = limit
        self.error = f"a header of more than {MAX_HEADER} characters"
        return Verdict.BROKEN

    def _find_end(self, scanner: Scanner) -> Verdict | None:
        at, text = _skip_blank(scanner), scanner.text
        if text.startswith("]]", at):
            scanner.at = at + 2
            self.ended = True
            return None
        if at == len(text) or text[at:] == "]":
            return Verdict.MORE
        self.error = "a header that does not end behind its JSON"
        return Verdict.BROKEN


def _skip_blank(scanner: Scanner) -> int:
    blank = _BLANK.match(scanner.text, scanner.at)
    return blank.end() if blank else scanner.at


# --- what a header says ---


def _kind_of(fields: dict[str, Any]) -> str:
    """Return the type in lower case; raise `NoCallError` where it is not one that we know."""
    kind = fields.get("type")
    if isinstance(kind, str):
        kind = kind.strip().lower()
        if kind in _SHOWN or kind in _TOOL_TYPES or kind in _STRINGS:
            return kind
    raise NoCallError("a header without a type that is known")


def _tool_of(kind: str, fields: dict[str, Any], schemas: Mapping[str, Schema]) -> str:
    """Return the name of the tool that is called, as it is known; empty where the body has it."""
    if kind in _STRINGS:
        return find_tool(_STRINGS[kind][0], schemas)
    for key in ("tool_name", "name"):
        name = fields.get(key)
        if isinstance(name, str) and name.strip():
            return find_tool(name, schemas)
    return ""


def _announced(kind: str, tool: str, fields: dict[str, Any]) -> tuple[dict[str, Any], Inside]:
    """Return the arguments that the header holds, and who reads the body."""
    if kind in _TOOL_TYPES:
        arguments = read_arguments_call_shapes({key: fields.get(key) for key in _ARGUMENTS})
        return (arguments, Skipped()) if arguments is not None else ({}, ToolInside(tool))
    key = _STRINGS[kind][1]
    if key == "command":
        said = {name: str(value) for name, value in fields.items() if isinstance(value, _SCALARS)}
        return dict(RUN_BASH.read_attributes(said)), StringInside(key, _command_of(fields))
    path = fields.get("path")
    return ({"path": path} if isinstance(path, str) else {}), StringInside(key)


def _command_of(fields: dict[str, Any]) -> str:
    """Return the command that the header holds, for a body that holds none."""
    for key in ("command", "cmd"):
        command = fields.get(key)
        if isinstance(command, str) and command:
            return command
    return ""
