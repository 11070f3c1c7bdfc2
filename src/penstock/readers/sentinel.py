"""Segments between sentinels: ``[[SEG_START {json}]]``, a body, ``[[SEG_END]]``.

The header is strict JSON and ends by its own grammar: ``]]`` inside one of its strings is data. Its
type decides what the body is: text or reasoning, which are shown, or a call of a known tool. Any
other header is text, and so is one after which the response ends: a segment begins with its first
character.

The body of a file or a command is one string, all text up to the end marker in any case of its
letters. For other tools it has the arguments. JSON ends by its own grammar, so an end marker inside
a JSON string is data: one object is read as it arrives; a list, or an object that has to name the
tool, when it is whole. Anything else is elements, which end at the first end marker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock.errors import JSONParseError, ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.body import (
    MAX_BLANK,
    BodyReader,
    Channel,
    Kind,
    StreamingPart,
    Verdict,
    without_begun,
)
from penstock.parsing.call_shape import ANY_CALL, find_tool, list_calls, parse_arguments, parse_call
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall, read_call
from penstock.parsing.scanner import Scanner, markers, skip_match
from penstock.readers.envelope import MISNAMED, error_at, repair_body
from penstock.readers.json_arguments import JSONArgumentReader
from penstock.readers.json_calls import BLANK, EARLY_END, precedes_member
from penstock.readers.plausible import ends_with_loose_tag
from penstock.readers.tagged.damaged_tags import DamagedTags
from penstock.readers.tagged.piped_tools import GENERIC, RUN_BASH
from penstock.readers.tagged.strings import CollectedText, OpenValue, StreamedText, take_text
from penstock.readers.tagged.tag_arguments import Owner, TaggedArguments
from penstock.values import rjson
from penstock.values.control_tokens import CONTROL_TOKEN, without_turn_end
from penstock.values.incremental import IncrementalJSON
from penstock.values.schema import Schema

END: Final = "[[seg_end]]"
"""The marker that ends a segment, in any case."""

HALF_END: Final = END.removesuffix("]]")
"""What a damaged end marker leaves before the whole one."""

END_MARKERS: Final = markers(END, fold=True)

START: Final = "[[seg_start"
"""The marker that opens a header, in any case."""


_BODY_MARKERS: Final = markers(END, START, fold=True)
MAX_TYPE: Final = 128
"""How much of a header inside content is searched for its type."""

_AFTER_JSON: Final = re.compile(rf"[ \t\r\n}}\]]{{0,{MAX_BLANK}}}")  # surplus brackets are dropped
_ALL_BLANK: Final = re.compile(r"[ \t\r\n]*+")

SEGMENT_CUT: Final = "the segment was cut"
"""The error of a segment in which the response ends."""

MAX_HEADER: Final = 1024 * 1024
"""How many characters a header may have: it may hold all arguments of a call."""

_SHOWN: Final[dict[str, Kind]] = {"text": "text", "reasoning": "thinking"}
_TOOL_TYPES: Final = frozenset({"tool", "tool_call"})
_STRINGS: Final = {
    "write_file": ("write_file", "content"),
    "edit_file": ("edit_file", "patch"),
    "run_bash": ("run_bash", "command"),
    "run_terminal_cmd": ("run_bash", "command"),
}
"""Types whose body is one string: the tool, and the argument that the string is."""

_CALL_TYPE: Final = re.compile(
    rf'(?i)"type"\s*:\s*"(?:{"|".join((*sorted(_TOOL_TYPES), *_STRINGS))})"'
)

_ARGUMENTS: Final = ("arguments", "parameters")
# Arguments may be in the header beside the type, or under one key.
_SCALARS: Final = (str, int, float)


_DAMAGED_MARKERS: Final = DamagedTags((), ("[[SEG_START", "[[SEG_END]]"))
_DAMAGED: Final = re.compile(rf"\[\[SEG_|\]\]\s*\Z|{CONTROL_TOKEN}", re.IGNORECASE)
"""What a body without an end marker may not hold: part of one, or a control token."""


class SentinelReader(BodyReader):
    """Reads what follows ``[[SEG_START``: the header, and the body of a call."""

    is_repairable = True

    enters: Channel | None = None
    """The channel that the header of text or reasoning opens."""

    def __init__(self, *, repairs: bool = False) -> None:
        self.end = END
        self._repairs = repairs  # the text was refused
        self._header = _HeaderReader()
        self._body: BodyReader | None = None  # none before the body has begun
        self._schemas: Mapping[str, Schema] = {}

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        if self._body is None:
            verdict = self._read_header(scanner, calls)
            if self._body is None:
                return verdict
        return self._relay(self._body, self._body.read(scanner, calls))

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: a segment is cut, unless its JSON was whole."""
        self.error = SEGMENT_CUT
        if self._body is None:
            scanner.skip_all()
            return Verdict.GIVE_UP if self._header.begun else Verdict.NOT_A_CALL
        verdict = self._body.finish(scanner, calls)
        self.error = self._body.error or self.error
        return verdict

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._body

    def _read_header(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Continue with the header; when the text after it begins, open what it announces."""
        self._schemas = calls.schemas
        verdict = self._header.read(scanner)
        self.error = self._header.error
        if verdict is not Verdict.DONE:
            return verdict
        if scanner.is_at_end:
            return Verdict.MORE
        if scanner.text[scanner.at] == "]":  # A bracket too many, or the first of the body?
            self.error = "a header with too many brackets"
            return Verdict.BROKEN
        try:
            self._body = self._begin(self._header.fields, calls)
        except (NoCallError, JSONParseError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            return Verdict.GIVE_UP
        return Verdict.DONE

    def _begin(self, fields: dict[str, Any], calls: CallSink) -> BodyReader | None:
        """Open what the header announces; return None for a channel."""
        kind = _parse_kind(fields)
        if kind in _SHOWN:
            self.enters = Channel(_SHOWN[kind], (END,))
            return None
        calls.name = name = _find_tool_name(kind, fields, calls.schemas)
        if not name:
            return _ToolBody("")
        given, inside = _open_body(kind, name, fields, repairs=self._repairs)
        schema = calls.find_schema(name)
        if kind in _STRINGS and schema and not given and "path" in schema.required:
            raise NoCallError("a header without a path")
        writer = calls.open(name)
        for key, value in given.items():
            writer.put(key, value)
        return inside

    # --- repairing ---

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Repair the JSON of a segment, or add its end."""
        try:
            fields, body, repairs = self._repair_header(text)
            is_json = _parse_kind(fields) in _TOOL_TYPES and body.lstrip().startswith(("{", "["))
            if is_json and START in body.lower():
                return []  # The JSON of another segment may be in it.
            if is_json:
                repaired = repair_body(body, END)
                body, repairs = _json.encode(repaired.value).decode(), repairs + repaired.repairs
        except (NoCallError, JSONParseError):
            return []
        if not is_json:
            body = without_turn_end(body)
            is_blank = not body.strip() and "arguments" not in fields
            bare = without_begun(body, END)
            is_open = not ended and body != body.rstrip()  # White space may not be part of it.
            if is_blank or is_open or _DAMAGED.search(bare) or ends_with_loose_tag(bare):
                return []  # The content may have been cut.
        header = _json.encode(fields).decode()
        whole = f"{header}]]{without_begun(body, END)}{END}"
        call = read_call(SentinelReader(repairs=True), whole, self._schemas)
        if call is None:
            return []
        notes = repairs or ["closed the segment"]
        return [RepairedCall(call.name, call.arguments, notes, written=text if is_json else "")]

    def _repair_header(self, text: str) -> tuple[dict[str, Any], str, list[str]]:
        """Return what the header says, what comes after it, and what was repaired in it."""
        if self._header.ended:
            return self._header.fields, text[self._header.size :], []
        written, closing, body = text.partition("]]")
        repaired = rjson.repair(written, guess=False)
        if not closing or not isinstance(repaired.value, dict):
            raise NoCallError("a header that cannot be repaired")
        return repaired.value, body, repaired.repairs


class _HeaderReader:
    """Reads the header up to its ``]]`` into `fields`."""

    def __init__(self) -> None:
        self.error: str | ParseError = ""
        self.begun = False  # its JSON has
        self.ended = False
        self.fields: dict[str, Any] = {}
        self.size = 0  # how much of the text it has taken
        self._json = IncrementalJSON()

    def read(self, scanner: Scanner) -> Verdict:
        """Continue; return `DONE` at the end of the header."""
        before = scanner.at
        verdict = None if self.begun else self._find_object(scanner)
        if verdict is None and not self._json.complete:
            verdict = self._read_object(scanner, before)
        if verdict is None and not self.ended:
            verdict = self._find_end(scanner)
        self.size += scanner.at - before
        return Verdict.DONE if verdict is None else verdict

    def _find_object(self, scanner: Scanner) -> Verdict | None:
        """Find the brace that distinguishes a header from prose; return None to continue."""
        at = skip_match(BLANK, scanner.text, scanner.at)
        if at == len(scanner.text):
            return Verdict.MORE
        if scanner.text[at] != "{":
            return Verdict.NOT_A_CALL
        scanner.advance_to(at)
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
        scanner.advance_to(limit)
        self.error = f"a header of more than {MAX_HEADER} characters"
        return Verdict.BROKEN

    def _find_end(self, scanner: Scanner) -> Verdict | None:
        text, at = scanner.text, skip_match(BLANK, scanner.text, scanner.at)
        if text.startswith("]]", at):
            scanner.advance_to(at + 2)
            self.ended = True
            return None
        if at == len(text) or text[at:] == "]":
            return Verdict.MORE
        self.error = "a header that does not end after its JSON"
        return Verdict.BROKEN


# --- the fields of a header ---


def _parse_kind(fields: dict[str, Any]) -> str:
    """Return the type in lower case; raise `NoCallError` if it is unknown."""
    kind = fields.get("type")
    if isinstance(kind, str):
        kind = kind.strip().lower()
        if kind in _SHOWN or kind in _TOOL_TYPES or kind in _STRINGS:
            return kind
    raise NoCallError("a header without a type that is known")


def _find_tool_name(kind: str, fields: dict[str, Any], schemas: Mapping[str, Schema]) -> str:
    """Return the name of the tool as declared; empty if the body has it."""
    if kind in _STRINGS:
        return find_tool(_STRINGS[kind][0], schemas)
    for key in ("tool_name", "name"):
        name = fields.get(key)
        if isinstance(name, str) and name.strip():
            return find_tool(name, schemas)
    return ""


def _open_body(
    kind: str, tool: str, fields: dict[str, Any], *, repairs: bool
) -> tuple[dict[str, Any], BodyReader]:
    """Return the arguments in the header, and the reader of the body."""
    if kind in _TOOL_TYPES:
        given = next((fields[key] for key in _ARGUMENTS if fields.get(key) is not None), None)
        if given is None:
            return {}, _ToolBody(tool, repairs=repairs)
        return parse_arguments(given), _SkippedBody()
    key = _STRINGS[kind][1]
    if key == "command":
        said = {name: str(value) for name, value in fields.items() if isinstance(value, _SCALARS)}
        return dict(RUN_BASH.read_attributes(said)), _StringBody(key, _find_command(fields))
    path = fields.get("path")
    return ({"path": path} if isinstance(path, str) else {}), _StringBody(key)


def _find_command(fields: dict[str, Any]) -> str:
    """Return the command in the header, for a body without one."""
    for key in ("command", "cmd"):
        command = fields.get(key)
        if isinstance(command, str) and command:
            return command
    return ""


# --- bodies: each reads up to and including the end marker, into the call that is open ---


class _SkippedBody(BodyReader):
    """A body without a meaning: the arguments are in the header."""

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Skip all text up to the end marker."""
        found = END_MARKERS.find(scanner.text, scanner.at)
        if found is None:
            scanner.advance_to(END_MARKERS.find_held(scanner.text, scanner.at))
            return Verdict.MORE
        scanner.advance_to(found.end())
        calls.close()
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: the segment has no end."""
        del calls
        scanner.skip_all()
        self.error = SEGMENT_CUT
        return Verdict.GIVE_UP


class _StringBody(BodyReader):
    """All text up to the end marker, as the string *key*.

    With *instead*, which may be empty, white space alone means *instead*.
    """

    def __init__(self, key: str, instead: str | None = None) -> None:
        self._key = key
        self._instead = instead
        self._value: OpenValue | None = None

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read up to and after the end marker."""
        text, at = scanner.text, scanner.at
        found = _BODY_MARKERS.find(text, at)
        opens = True if found is None else _opens_call(text, found.end())
        while found is not None and opens is False:
            found = _BODY_MARKERS.find(text, found.end())
            opens = True if found is None else _opens_call(text, found.end())
        end = found.start() if found else _BODY_MARKERS.find_held(text, at)
        if self._value is not None or self._begins(text[at:end]):
            take_text(self._value or self._open(calls), scanner, end)
        if found is None:
            return Verdict.MORE
        if opens is None:
            return Verdict.MORE
        if found[0].lower() == START:
            self.error = "another segment begins inside the content"
            return Verdict.BROKEN
        value = self._value
        if value is not None:
            value.close()
            if isinstance(value, CollectedText):
                _get_writer(calls).put(self._key, value.text)
            is_half = value.text.rstrip("] \r\n").lower().endswith(HALF_END)
            if is_half or _DAMAGED_MARKERS.are_in(value.text.upper()):
                calls.doubt("it is not clear where the content ends")
        elif self._instead:
            _get_writer(calls).put(self._key, self._instead)
        scanner.advance_to(found.end())
        calls.close()
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: the string takes what was held back."""
        take_text(self._value or self._open(calls), scanner, len(scanner.text))
        scanner.skip_all()
        self.error = SEGMENT_CUT
        return Verdict.GIVE_UP

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._value

    def _begins(self, text: str) -> bool:
        """Return whether the string begins with *text*, or more has to come."""
        return self._instead is None or len(text) > MAX_BLANK or bool(text.strip())

    def _open(self, calls: CallSink) -> OpenValue:
        writer = _get_writer(calls)
        if writer.streams(self._key):
            writer.open_text(self._key)
            self._value = StreamedText(_BODY_MARKERS, writer)
        else:  # Coercion may change the string: it is written when it is whole.
            self._value = CollectedText()
        return self._value


def _opens_call(text: str, end: int) -> bool | None:
    """Return whether the marker before *end* ends the content; None if it is undecided.

    An end marker does, and the header of a call: then the end marker was forgotten. Any other
    header is part of the content.
    """
    if text[end - 1] == "]":
        return True
    window = text[end : end + MAX_TYPE]
    bare = window.lstrip(" \t\r\n")
    if bare and bare[0] != "{":
        return False
    if _CALL_TYPE.search(bare):
        return True
    return None if len(window) < MAX_TYPE and "}" not in window else False


def _get_writer(calls: CallSink) -> ArgumentWriter:
    assert calls.writer is not None  # noqa: S101 - the header has opened the call
    return calls.writer


class _ToolBody(BodyReader):
    """The arguments of the tool *name*, as JSON or elements.

    Without a name the body must be JSON that has one.
    """

    def __init__(self, name: str, *, repairs: bool = False) -> None:
        self._name = name
        self._repairs = repairs
        self._body: BodyReader | None = None  # none while white space comes before it

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Choose the reader of the body by how it begins, and read on."""
        if self._body is None:
            scanner.take_match(_ALL_BLANK)
            window = scanner.peek(len(END)).lower()
            if END.startswith(window) and window != END:
                return Verdict.MORE
            self._body = self._begin(window, calls)
            if self._body is None:
                self.error = "a call without a name"
                return Verdict.BROKEN
        return self._relay(self._body, self._body.read(scanner, calls))

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text; arguments in JSON may be whole."""
        if self._body is None:
            self._body = _SkippedBody()
        return self._relay(self._body, self._body.finish(scanner, calls))

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._body

    def _begin(self, window: str, calls: CallSink) -> BodyReader | None:
        """Return the reader of a body that begins with *window*; None if it cannot be a call."""
        if window == END or window[0] not in "{[":
            return _TaggedBody(self._name, repairs=self._repairs) if self._name else None
        if not self._name:
            return _JSONBody(_NamedCalls())
        schema = calls.schemas[self._name]
        return _JSONBody(JSONArgumentReader(self._name, schema, several=True))


class _TaggedBody(_SkippedBody):
    """Arguments of the tool *name* as elements, which are read when the segment has ended."""

    def __init__(self, name: str, *, repairs: bool) -> None:
        self._name = name
        self._repairs = repairs
        self._pieces: list[str] = []
        self._arguments: TaggedArguments | None = None  # once they are read

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Collect all text up to the end marker, then read it."""
        text, at = scanner.text, scanner.at
        found = END_MARKERS.find(text, at)
        scanner.advance_to(found.start() if found else END_MARKERS.find_held(text, at))
        self._pieces.append(text[at : scanner.at])
        if found is None:
            return Verdict.MORE
        owner = Owner(self._name, calls.schemas[self._name], GENERIC, {})
        arguments = TaggedArguments(owner, _get_writer(calls), repairs=self._repairs)
        self._arguments = arguments
        inside = Scanner()
        inside.push("".join(self._pieces) + "</tool>")
        if arguments.read(inside, calls) is not Verdict.DONE:
            self.error = arguments.error or "arguments that do not end"
            return Verdict.BROKEN
        scanner.advance_to(found.end())
        arguments.close(calls)
        return Verdict.DONE

    def open_text(self) -> str | None:
        """Return what was emitted of a string that does not end."""
        return None if self._arguments is None else self._arguments.open_text()


class _JSONBody(BodyReader):
    """JSON that *value* reads, and the end marker after it.

    The call is complete even if something else follows.
    """

    def __init__(self, value: JSONArgumentReader | _NamedCalls) -> None:
        self._value = value
        self._ended = False  # the value has

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        if not self._ended:
            verdict = self._value.read(scanner, calls)
            self.error = self._value.error
            if verdict is not Verdict.DONE:
                return verdict
            self._ended = True
        return self._read_end(scanner, calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: a whole value is complete without its end marker."""
        is_whole = self._ended or self._value.finish(scanner, calls) is Verdict.DONE
        scanner.skip_all()
        if is_whole:
            return self._close(calls, Verdict.DONE)
        self.error = SEGMENT_CUT
        return Verdict.GIVE_UP

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return None if self._ended else self._value

    def _read_end(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Look for the end marker after the value."""
        after = scanner.match(_AFTER_JSON)
        between = after[0] if after else ""
        at = scanner.at + len(between)
        window = scanner.text[at : at + len(END)].lower()
        if window == END:
            scanner.advance_to(at + len(END))
            return self._close(calls, Verdict.DONE)
        if END.startswith(window):
            return Verdict.MORE
        is_early = precedes_member(scanner.text, scanner.at)
        if is_early:
            self.error = EARLY_END
            return Verdict.BROKEN
        if is_early is None:
            return Verdict.MORE
        scanner.skip(len(between.rstrip()))
        return self._close(calls, Verdict.UNTERMINATED)

    def _close(self, calls: CallSink, verdict: Verdict) -> Verdict:
        try:
            self._value.close(calls)
        except (NoCallError, JSONParseError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            return Verdict.BROKEN
        return verdict


class _NamedCalls(BodyReader):
    """One call, or a list of calls, that name their tools; read when the JSON is whole."""

    def __init__(self) -> None:
        self._json = IncrementalJSON(lenient=True)
        self._start = -1  # where the JSON begins in the response

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read up to the end of the JSON."""
        del calls
        if self._start < 0:
            self._start = scanner.position
        try:
            read_json(self._json, scanner, len(scanner.text), start=self._start)
        except JSONParseError as exc:
            self.error = exc
            return Verdict.BROKEN
        return Verdict.DONE if self._json.complete else Verdict.MORE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Return whether the JSON is whole."""
        del scanner, calls
        return Verdict.DONE if self._json.complete else Verdict.GIVE_UP

    def close(self, calls: CallSink) -> None:
        """Write the calls; raise `NoCallError` or `JSONParseError` if there are none."""
        relaxed = self._json.take_relaxed()
        items = list_calls(self._json.value, ANY_CALL)
        found = [parse_call(item, ANY_CALL) for item in items]
        if any(call.misnamed for call in found):
            raise NoCallError(MISNAMED)
        names = [find_tool(call.name, calls.schemas) for call in found]
        for name, call in zip(names, found, strict=True):
            calls.write(name, call.arguments or {}, *relaxed)


def read_json(json: IncrementalJSON, scanner: Scanner, limit: int, *, start: int) -> None:
    """Read the text before *limit* into *json*, which begins at *start* in the response.

    Raise `JSONParseError` with the position in the JSON.
    """
    text = scanner.text if len(scanner.text) <= limit else scanner.text[:limit]
    moves = True
    try:
        while moves and not json.complete:
            changes, end = json.advance(text, scanner.at)
            moves = end > scanner.at or bool(changes)
            scanner.advance_to(end)
    except JSONParseError as exc:
        scanner.advance_to(
            max(scanner.at, exc.position)
        )  # How far it came before depends on the cut.
        raise error_at(exc.reason, scanner.offset + exc.position - start) from exc
