"""Calls in JSON: an object with a name and arguments, a list of them, or one after the other.

A value is followed by its end marker. Calls without it are complete, too: models omit the end
marker in about one call of fourteen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from penstock import _json
from penstock.errors import ParseError
from penstock.parsing.body import CALL_CUT, MAX_BLANK, BodyReader, OpenString, Verdict
from penstock.parsing.call_shape import CALL, CallShape
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.scanner import Scanner, skip_match
from penstock.readers.envelope import (
    BrokenArgumentsError,
    BrokenJSONError,
    Check,
    Envelope,
    JSONFlow,
    JSONSteps,
    error_at,
    is_definition,
    repair_json_calls,
)
from penstock.readers.loose_bodies import read_loose
from penstock.values.control_tokens import without_turn_end
from penstock.values.incremental_state import Change
from penstock.values.json_grammar import CLOSING_QUOTES
from penstock.values.schema import Schema

# --- the end of a call --------------------------------------------------------------------------

MAX_MEMBER_NAME: Final = 64
"""How long a key may be that shows that an object ended too early; names of arguments are shorter.
"""

EARLY_END: Final = "the object ends before its last member"

_SPACE: Final = rf"[ \t\r\n]{{0,{MAX_BLANK}}}"
BLANK: Final = re.compile(_SPACE)
_QUOTED: Final = "[\"']"
_NAME: Final = rf"[^\"'\\\r\n]{{0,{MAX_MEMBER_NAME}}}"


def _member_after(closing: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of a member after brackets of *closing*, and of its beginning."""
    between = rf"[{closing} \t\r\n]{{0,{MAX_BLANK}}}"
    # Without a comma the key has to be on the same line: prose may begin with a quotation.
    near = rf"[{closing} \t]{{0,{MAX_BLANK}}}"
    key, cut_key = rf"{_QUOTED}{_NAME}{_QUOTED}{_SPACE}", rf"{_QUOTED}{_NAME}(?:{_QUOTED}{_SPACE})?"
    return (
        re.compile(rf"(?:{between},{_SPACE}|{near}(?=\")){key}:"),
        re.compile(rf"{between}(?:,{_SPACE}(?:{cut_key})?)?|{near}(?=\"){cut_key}"),
    )


_AFTER_OBJECT: Final = _member_after(r"}\]")
_AFTER_ITEM: Final = _member_after("}")  # A bracket ends the list, which may be a member itself.


# A key whose opening quote is missing, or was swapped with the bracket before it.
_GLUED_KEY: Final = re.compile(rf"[\w\-]{{1,{MAX_MEMBER_NAME}}}{_QUOTED}{_SPACE}:")
_GLUED_KEY_BEGINS: Final = re.compile(rf"[\w\-]{{1,{MAX_MEMBER_NAME}}}(?:{_QUOTED}{_SPACE})?")


# Models close an object too early: `{"name": "f"}, "arguments": {...}}`. Without this check that is
# a complete call, which lacks what follows.
def precedes_member(text: str, at: int, *, nested: bool = False) -> bool | None:
    """Return whether a member follows the object that ends at *at*; None if more text is needed.

    With *nested* the object is in a list; after the end of the list, members are those of another
    object.
    """
    if at < len(text) and text[at] not in ',}]" \t\r\n':
        if _GLUED_KEY.match(text, at):
            return True
        return None if _GLUED_KEY_BEGINS.fullmatch(text, at) else False
    member, beginning = _AFTER_ITEM if nested else _AFTER_OBJECT
    if member.match(text, at):
        return True
    return None if beginning.fullmatch(text, at) else False


# --- the end of broken JSON ---------------------------------------------------------------------


_OUTSIDE: Final = re.compile(r'["{}\[\]]')
_INSIDE: Final = {quote: re.compile(rf"[{quote}\\]") for quote in CLOSING_QUOTES.values()}


# Used to find the end of a call whose JSON broke: brackets are counted outside of strings, so a
# marker in a string does not end the segment.
class Balance:
    """Skips the rest of broken JSON: *depth* brackets are open, and perhaps a string.

    *awaits* is the quote of that string. The JSON ends where its brackets balance, not counting
    those in strings. Any closing bracket closes any opening one, since only the end matters. Only
    ``"`` opens a string: an apostrophe may be part of a word.
    """

    def __init__(self, depth: int, awaits: str) -> None:
        self._depth = depth
        self._quote = awaits if is_quote(awaits) else ""

    @property
    def is_even(self) -> bool:
        """Whether all brackets are closed."""
        return self._depth <= 0

    def find_end(self, text: str, at: int) -> int:
        """Return where the brackets balance in the text from *at* on, or the end of the text."""
        while self._depth > 0:
            pattern = _INSIDE[self._quote] if self._quote else _OUTSIDE
            found = pattern.search(text, at)
            if found is None:
                return len(text)
            at = found.end()
            mark = found[0]
            if mark == "\\":
                if at == len(text):
                    return found.start()
                at += 1
            elif self._quote or mark == '"':
                self._quote = "" if self._quote else mark
            else:
                self._depth += 1 if mark in "{[" else -1
        return at


def is_quote(awaits: str) -> bool:
    """Return whether *awaits* is a closing quote: it may be the end of a comment, or empty."""
    return awaits in _INSIDE


# --- values that hold calls ---------------------------------------------------------------------

MAX_AT_ONCE: Final = 16 * 1024
"""How long a value may be to be read at once; for a longer one the steps cost little more."""

_LISTED: Final = 2  # the depth of calls in a list that is a member of the value


class PlainCall(NamedTuple):
    """A call that is complete and strict JSON."""

    name: str
    id: str
    arguments: dict[str, Any]


def _find_item_end(text: str, at: int) -> int:
    """Return where the next object after *at* ends, in a list of strict JSON."""
    found = _json.decode_strict_at(text, text.index("{", at), MAX_AT_ONCE)
    assert found is not None  # noqa: S101 - the list was decoded
    return found[1]


class JSONValueReader(BodyReader):
    """Reads values that hold calls of *shape*: an object, a list, or an object around a list.

    The value is read in steps, and each change is passed to the envelope of its call while the
    scanner is right after the text of the change. Arguments that are JSON in a string have a reader
    of their own (`Envelope.inner`); an error in them is an error of the call at the same place.
    Subclasses read the text around the values.
    """

    is_repairable = True

    _steps: JSONSteps  # created when a value begins: most brackets of a response begin none

    def __init__(self, end: str, shape: CallShape = CALL) -> None:
        self.end = end
        self._shape = shape
        self._envelope: Envelope | None = None  # of the open call
        self._base = 0  # the depth of calls in the value
        self._list = ""  # the key of their list
        self._depth = 0  # how many brackets of the value are open
        self._held = ""  # the end of the last piece of arguments in a string: a cut escape
        self._closed = 0  # how many calls of this body are complete
        self._closed_before = 0  # how many of them came before the value
        self._start = -1  # the position of the body in the response
        self._check: Check | None = None  # applied to repaired objects
        self._is_read = False  # the value was read at once, without steps
        self._plain: PlainCall | None = None  # was read at once, until the text after it is known
        self._schemas: Mapping[str, Schema] = {}  # of the tools
        self._ending: list[Change] = []  # the end of a call, until the text after it is known
        self._ends_early = False  # a member follows the end of the call

    def open_string(self) -> OpenString | None:
        """Return the string that is streaming, if there is one."""
        envelope = self._envelope
        if envelope is None or self._held:
            return None
        if envelope.inner is not None:
            is_streaming = envelope.is_streaming
            return self._steps.nested_string(envelope.inner) if is_streaming else None
        steps = self._steps
        return steps.streaming_string() if envelope.is_streaming else steps.waiting_string()

    def open_text(self) -> str | None:
        """Return the text that was emitted of the streaming string, decoded."""
        envelope = self._envelope
        if envelope is None or not envelope.is_streaming:
            return None
        return "".join((envelope.inner or self._steps).pieces)

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, which is broken or incomplete JSON."""
        del ended
        if self._closed:
            # Complete calls were emitted with their text; the rest begins with the next one.
            text = "[" + text.lstrip(" \t\r\n,;")
        calls = repair_json_calls(text, self._shape, self._schemas, self._check, self.end)
        envelope = self._envelope
        if calls and envelope is not None and not envelope.agrees_with(calls[0], self.open_text()):
            return []
        return calls

    # --- for subclasses ---

    def _new_envelope(self, calls: CallSink) -> Envelope:
        return Envelope(calls, self._base, self._shape)

    def _begin_value(self) -> None:
        self._steps = JSONSteps()
        self._is_read = self._ends_early = False
        self._closed_before = self._closed
        self._envelope = None
        self._base = self._depth = 0
        self._list = self._held = ""

    def _read_value(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read up to the next change; return None to continue. Raises `NoCallError`."""
        begin = scanner.at
        changes = self._ending
        if not changes:
            changes, end = self._steps.step(scanner.text, begin, self._flow)
            scanner.advance_to(end)
        if self._ends_call(changes):
            is_early = precedes_member(scanner.text, scanner.at, nested=self._base > 0)
            if is_early:
                self._ending, self._ends_early = [], True
                raise BrokenJSONError(EARLY_END, scanner.at)
            if is_early is None:
                self._ending = changes
                return Verdict.MORE
            self._ending = []
        self._follow(changes, begin, scanner, calls)
        is_stuck = scanner.at == begin and not changes
        return Verdict.MORE if is_stuck and not self._steps.complete else None

    def _ends_call(self, changes: list[Change]) -> bool:
        """Return whether *changes* end the open call."""
        return self._envelope is not None and any(
            change.kind == "end" and len(change.path) == self._base for change in changes
        )

    @property
    def _is_complete(self) -> bool:
        """Whether the value is complete, and the text after it does not belong to it."""
        if self._is_read:
            return self._plain is None
        return self._steps.complete and not (self._ending or self._ends_early)

    def _settle(self, scanner: Scanner, calls: CallSink) -> None:
        """End the call that waits for the text after it: there is none, or other text."""
        call, self._plain = self._plain, None
        if call is not None:
            self._emit(call, calls)
        changes, self._ending = self._ending, []
        if changes:
            self._follow(changes, scanner.at, scanner, calls)

    def _note_error(self, exc: ParseError | NoCallError, scanner: Scanner) -> None:
        """Keep the error, with its position in the body."""
        if isinstance(exc, BrokenJSONError):
            place = scanner.offset + exc.place - max(self._start, 0)
            self.error = error_at(str(exc), place)
        else:
            self.error = exc if isinstance(exc, ParseError) else str(exc)

    # --- a value that is read at once ---

    def _read_at_once(self, scanner: Scanner, calls: CallSink) -> bool:
        """Read a value that is complete and strict JSON all at once; return whether it was.

        Most calls are, and in steps a short one costs four times as much. Anything unusual, and a
        call that has to stream, is left to the steps, which find the same calls in the same text.
        """
        text = scanner.text
        at = self._find_value(scanner)
        if at < 0 or not calls.is_whole or not text.startswith(("{", "["), at):
            return False
        found = _json.decode_strict_at(text, at, MAX_AT_ONCE)
        if found is None:
            return False
        value, end = found
        plain = self._find_plain(value, calls.schemas)
        if plain and isinstance(value, dict):
            is_early = precedes_member(text, end)
            if is_early:
                return False
            scanner.advance_to(end)
            if is_early is None:
                (self._plain,) = plain
            else:
                self._emit(plain[0], calls)
        else:
            for call in plain:
                # Each call claims its own text, so the end of each is needed.
                at = _find_item_end(text, at)
                scanner.advance_to(at)
                self._emit(call, calls)
        if plain:
            scanner.advance_to(end)
            self._is_read = True
        return self._is_read

    def _emit(self, call: PlainCall, calls: CallSink) -> None:
        calls.open(call.name, call.id).put_members(call.arguments)
        calls.close()
        self._closed += 1

    def _find_value(self, scanner: Scanner) -> int:
        """Return where the value begins; -1 if that was read before."""
        return skip_match(BLANK, scanner.text, scanner.at)

    def _find_plain(self, value: Any, schemas: Mapping[str, Schema]) -> list[PlainCall]:
        """Return the calls that *value* is; none if it holds anything but plain calls."""
        plain: list[PlainCall] = []
        for item in value if isinstance(value, list) else [value]:
            call = self._shape_plain(item)
            if call is None or call.name not in schemas:
                return []
            if is_definition(call.arguments, schemas[call.name]):
                return []
            plain.append(call)
        return plain

    def _shape_plain(self, item: Any) -> PlainCall | None:
        """Return the call that *item* is, if it has the usual keys in the usual order alone."""
        shape, name, id_ = self._shape, "", ""
        if not isinstance(item, dict) or not item:
            return None
        *fields, (key, arguments) = item.items()
        if shape.keyed:
            name, is_plain = key, not fields
        else:
            is_plain = key in shape.arguments
            for field, value in fields:
                if field in shape.names and not name and isinstance(value, str):
                    name = value
                elif field in shape.ids and not id_ and isinstance(value, str):
                    id_ = value
                else:
                    return None
        if not is_plain or not isinstance(arguments, dict):
            return None
        return PlainCall(name, id_, arguments)

    # --- inside the value ---

    @property
    def _flow(self) -> JSONFlow:
        envelope = self._envelope
        if envelope is None:
            return JSONFlow.WAITS
        if envelope.inner is not None:
            return JSONFlow.NESTS
        return JSONFlow.STREAMS if envelope.is_streaming else JSONFlow.WAITS

    def _take_notes(self) -> Iterable[str]:
        """Return what was not strict JSON in the call that ends."""
        return self._steps.take_relaxed()

    def _follow(self, changes: list[Change], begin: int, scanner: Scanner, calls: CallSink) -> None:
        for change in changes:
            envelope = self._find_envelope(change, calls)
            if envelope is None:
                continue
            if envelope.inner is not None and change.kind == "value":
                if not envelope.inner.awaits:
                    self._read_inner(envelope, "\n", scanner.at, scanner)  # ends a word
                calls.note(*envelope.inner.take_relaxed())
                envelope.end_inner()
                self._held = ""
            if change.kind == "end" and len(change.path) == self._base:
                calls.note(*self._take_notes())
            envelope.follow(change)
            if envelope.inner is not None and change.kind == "string":
                self._read_inner(envelope, change.text, begin, scanner)
            if change.kind == "end" and len(change.path) == self._base:
                self._closed += 1
                self._envelope = None

    def _find_envelope(self, change: Change, calls: CallSink) -> Envelope | None:
        """Return the envelope of the call that *change* belongs to, if any."""
        path, kind = change.path, change.kind
        self._depth += (kind in ("object", "array")) - (kind == "end")
        if not path and kind != "end":
            self._base = int(kind == "array")
            if kind not in ("array", "object"):
                raise NoCallError("the value is not an object or a list")
        elif self._base == 0 and len(path) == 1 and kind == "array":
            is_unnamed = self._envelope is not None and not self._envelope.name
            if is_unnamed and path[0] in self._shape.lists:
                self._base, self._list, self._envelope = _LISTED, str(path[0]), None
        if len(path) < self._base or (self._list and path[0] != self._list):
            is_list = kind == "end" and len(path) == self._base - 1
            if is_list and self._closed == self._closed_before:
                raise NoCallError("the list holds no calls")
            return None
        if len(path) == self._base and kind != "end":
            if kind != "object":
                raise NoCallError("the list holds a value that is not an object")
            self._schemas = calls.schemas
            self._envelope = self._new_envelope(calls)
        return self._envelope

    def _read_inner(self, envelope: Envelope, piece: str, begin: int, scanner: Scanner) -> None:
        """Read more of the arguments in a string; *piece* is the decoded text from *begin* on.

        The scanner is after that text. Where it is plain, the scanner is moved back for each
        change, so that each event claims its own text.
        """
        inner, end = envelope.inner, scanner.at
        assert inner is not None  # noqa: S101 - checked by the caller
        is_plain = end - begin == len(piece)
        text, at = self._held + piece, 0

        def move(at: int) -> None:
            scanner.advance_to(max(begin, end - (len(text) - at)) if is_plain else end)

        try:
            while at < len(text) and not inner.complete:
                before = at
                flow = JSONFlow.STREAMS if envelope.is_streaming else JSONFlow.WAITS
                changes, at = inner.step(text, before, flow)
                move(at)
                for change in changes:
                    envelope.follow_inner(change)
                if at == before and not changes:
                    break
        except BrokenJSONError as exc:
            move(exc.at)
            place = scanner.at + (min(exc.place - exc.at, 0) if is_plain else 0)
            raise BrokenArgumentsError(str(exc), scanner.at, place) from exc
        rest = text[at:].lstrip() if inner.complete else ""
        if rest:
            move(len(text) - len(rest))
            raise BrokenArgumentsError("text after the arguments", scanner.at)
        self._held = "" if inner.complete else text[at:]
        scanner.advance_to(end)


# --- calls after a marker -----------------------------------------------------------------------


SURPLUS: Final = re.compile(rf"(?:{_SPACE}[}}\]])+")
"""Closing brackets that close nothing: models write them."""
SEPARATOR: Final = re.compile(rf"{_SPACE}(?:[,;]{_SPACE})?")
_DROPPED: Final = " \t\r\n,;}]"  # at the end of the text
_BETWEEN: Final = ",;}]"  # separators and surplus brackets


class JSONCallReader(JSONValueReader):
    """Reads the calls of one body; *end* is its end marker, or empty."""

    def __init__(self, end: str, shape: CallShape = CALL) -> None:
        super().__init__(end, shape)
        self._ends: tuple[str, ...] = (end,) if end else ()

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*: broken JSON, or a body in another form between the markers."""
        calls = super().repair(text, ended=ended)
        bare = text.strip().removesuffix(self.end)
        if calls or (ended and self.end) or self._closed or bare[:1] == '"':
            return calls
        if not self.end:  # Only whole JSON shows where the call ends.
            bare = without_turn_end(bare).strip()
            if bare[:1] not in ("{", "[") or bare[-1:] not in ("}", "]"):
                return []
        return read_loose(bare, self._schemas)

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        self._schemas = calls.schemas
        if self._start < 0:
            self._start = scanner.position
            if not self._read_at_once(scanner, calls):
                self._begin_value()
        while not scanner.is_at_end:
            if self._plain is not None:
                verdict = self._check_plain(scanner, calls)
            elif self._is_complete:
                verdict = self._read_after(scanner)
            else:
                verdict = self._read_on(scanner, calls)
            if verdict is not None:
                return verdict
        return Verdict.MORE

    def _check_plain(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Emit the call that was read at once if it ends here; return None to continue."""
        is_early = precedes_member(scanner.text, scanner.at)
        if is_early is None:
            return Verdict.MORE
        if is_early:
            self._note_error(BrokenJSONError(EARLY_END, scanner.at), scanner)
            return Verdict.BROKEN
        self._settle(scanner, calls)
        return None

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Process the end of the text: a complete value does not need its end marker."""
        self._settle(scanner, calls)
        if not self._is_complete:
            self.error = CALL_CUT
            scanner.skip_all()
            return Verdict.GIVE_UP  # Markers in it may be in a string.
        rest = scanner.unread.lstrip(_DROPPED)
        if not rest or any(end.lstrip().startswith(rest) for end in self._ends):
            scanner.skip_all()  # part of the marker, not text
        return Verdict.DONE

    def _read_on(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        try:
            return self._read_value(scanner, calls)
        except (ParseError, NoCallError) as exc:
            self._note_error(exc, scanner)
            if isinstance(exc, BrokenJSONError):
                scanner.advance_to(max(scanner.at, exc.at))
            return Verdict.BROKEN

    def _read_after(self, scanner: Scanner) -> Verdict | None:
        """Look for the end marker or another value; return None to continue."""
        at, end = self._find_end(scanner)
        if end == "":
            return Verdict.MORE
        if end is not None:
            scanner.advance_to(at + len(end))
            return Verdict.DONE
        if scanner.text[at] in _BETWEEN:
            scanner.advance_to(at + 1)  # Separators and surplus brackets are dropped.
            return None
        if scanner.text[at] in "{[" and self._may_continue:
            scanner.advance_to(at)
            self._begin_value()
            return None
        return self._leave()

    def _find_end(self, scanner: Scanner) -> tuple[int, str | None]:
        """Return the position after white space, and the end marker there.

        The marker is None if other text follows, and empty if more text is needed.
        """
        text, begin = scanner.text, scanner.at
        at = skip_match(BLANK, text, begin)
        if at == len(text):
            return at, ""
        for end in self._ends:
            # An end marker may begin with white space: Gemma's fence is on a line of its own.
            start = max(begin, at - len(end) + len(end.lstrip()))
            found = text[start : start + len(end)]
            if end.startswith(found):
                return start, end if found == end else ""
        return at, None

    _may_continue = True
    """Whether another value may follow the first one."""

    def _leave(self) -> Verdict:
        """Return the verdict on calls that other text follows."""
        return Verdict.UNTERMINATED


def find_next_object(scanner: Scanner) -> int | None:
    """Skip surplus brackets; return where another object begins after an optional separator.

    Returns -1 if other text follows, and None if more text is needed.
    """
    text = scanner.text
    scanner.advance_to(skip_match(SURPLUS, text, scanner.at))
    at = skip_match(SEPARATOR, text, scanner.at)
    if at == len(text):
        return None
    return at if text[at] == "{" else -1


class UnclosedJSONReader(JSONCallReader):
    """Reads calls after a marker that has no end marker: they end with their JSON.

    The marker may end with the *bracket* that begins them. With *leading*, it counts only at the
    beginning of the response.
    """

    def __init__(
        self, shape: CallShape = CALL, *, bracket: str = "", leading: bool = False
    ) -> None:
        super().__init__("", shape)
        self._bracket = bracket
        self._leading = leading

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        if self._start < 0:
            if self._leading and not calls.is_first:
                return Verdict.NOT_A_CALL
            self._begin(scanner, calls)
        return super().read(scanner, calls)

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, which follows the bracket of the marker."""
        return super().repair(text if self._closed else self._bracket + text, ended=ended)

    def _begin(self, scanner: Scanner, calls: CallSink) -> None:
        self._start = scanner.offset + scanner.at - len(self._bracket)
        if self._read_at_once(scanner, calls):
            return
        self._begin_value()
        if self._bracket:
            changes, _ = self._steps.step(self._bracket, 0, JSONFlow.WAITS)
            self._follow(changes, scanner.at, scanner, calls)

    def _find_value(self, scanner: Scanner) -> int:
        """Return where the value begins: with the bracket of the marker, if it has one."""
        at = scanner.at - len(self._bracket)
        if self._bracket and at >= 0 and scanner.text.startswith(self._bracket, at):
            return at
        return super()._find_value(scanner)

    def _read_after(self, scanner: Scanner) -> Verdict | None:
        """Look for another value; return None to continue."""
        at = find_next_object(scanner)
        if at is None:
            return Verdict.MORE
        if at == -1:
            return Verdict.UNTERMINATED
        scanner.advance_to(at)
        self._begin_value()
        return None
