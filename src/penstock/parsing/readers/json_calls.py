"""Calls in JSON: an object with a name and arguments, a list of them, or one after the other.

After a value stands its end marker. Where something else stands the calls are good all the same:
models drop the end marker in about one call of fourteen.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.errors import JSONParseError, ParseError
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.readers.base import OpenString, Verdict
from penstock.parsing.readers.envelope import (
    CALL,
    Check,
    Envelope,
    Shape,
    mended_calls,
    read_arguments,
    repair_body,
)
from penstock.parsing.readers.json_steps import (
    BrokenArgumentsError,
    BrokenJSONError,
    JSONFlow,
    JSONSteps,
    error_at,
)
from penstock.parsing.scanner import Scanner
from penstock.values.incremental_state import Change
from penstock.values.json_grammar import CLOSING_QUOTES

# Where broken JSON ends: where its brackets balance, those in strings not counted.


_OUTSIDE: Final = re.compile(r'["{}\[\]]')
_INSIDE: Final = {quote: re.compile(rf"[{quote}\\]") for quote in CLOSING_QUOTES.values()}


class Balance:
    """Passes over text in which *depth* brackets are open, and a string that *awaits* its quote.

    Any closing bracket closes any opening one: the text is broken, and only its end is wanted. Only
    ``"`` opens a string; an apostrophe may be one.
    """

    def __init__(self, depth: int, awaits: str) -> None:
        self._depth = depth
        self._quote = awaits if is_quote(awaits) else ""

    @property
    def is_even(self) -> bool:
        """Whether all brackets are closed."""
        return self._depth <= 0

    def pass_over(self, text: str, at: int) -> int:
        """Pass the text from *at* on, up to where it is even; tell where it stopped."""
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
    """Return whether *awaits* is what ends a string, and not what ends a comment, or nothing."""
    return awaits in _INSIDE


# A JSON value that holds calls: one object, a list of them, or an object around that list.
#
# The value is read in steps; each change goes to the envelope of the call that it is in,
# once the scanner stands right after the text that made it. Arguments that are JSON inside a
# string are read by a reader of their own, step by step too: what broke in there, broke the
# call at that place.


_LISTED = 2  # how deep calls are in a list that is a member of the value


class JSONValueReader:
    """Reads values that hold calls of *shape*; what stands around them is for its subclasses."""

    _steps: JSONSteps  # made when a value begins: most brackets of an answer begin none

    def __init__(self, end: str, shape: Shape = CALL) -> None:
        self.error: str | ParseError = ""
        self.end = end
        self._shape = shape
        self._envelope: Envelope | None = None  # of the call that is open
        self._base = 0  # how deep calls are in the value
        self._list = ""  # the key of the list that they are in
        self._depth = 0  # how many brackets of the value are open
        self._held = ""  # the end of the last piece of arguments in a string: a cut escape
        self._closed = 0  # how many calls of this body are complete
        self._closed_before = 0  # how many of them came before the value
        self._start = -1  # where in the answer the body begins
        self._check: Check | None = None  # what repaired objects have to pass

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        envelope = self._envelope
        if envelope is None or not envelope.is_streaming or self._held:
            return None
        if envelope.inner is None:
            return self._steps.run()
        return self._steps.run_inside(envelope.inner)

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now, decoded."""
        envelope = self._envelope
        if envelope is None or not envelope.is_streaming:
            return None
        return "".join((envelope.inner or self._steps).pieces)

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, which holds JSON that is broken, or not whole."""
        del ended
        if self._closed:
            # Those went out with their text; what is left continues where the next one begins.
            text = "[" + text.lstrip(" \t\r\n,;")
        calls = mended_calls(text, self._shape, self._check, self.end)
        envelope = self._envelope
        if calls and envelope is not None and not envelope.agrees_with(calls[0], self.open_text()):
            return []
        return calls

    # --- for subclasses ---

    def _new_envelope(self, calls: CallSink) -> Envelope:
        return Envelope(calls, self._base, self._shape)

    def _begin_value(self) -> None:
        self._steps = JSONSteps()
        self._closed_before = self._closed
        self._envelope = None
        self._base = self._depth = 0
        self._list = self._held = ""

    def _read_value(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read up to the next change; None tells to continue. Raises `NoCallError`."""
        begin = scanner.at
        changes, scanner.at = self._steps.step(scanner.text, begin, self._flow)
        self._follow(changes, begin, scanner, calls)
        is_stuck = scanner.at == begin and not changes
        return Verdict.MORE if is_stuck and not self._steps.complete else None

    def _note_error(self, exc: ParseError | NoCallError, scanner: Scanner) -> None:
        """Keep what is wrong, and where in the body."""
        if isinstance(exc, BrokenJSONError):
            place = scanner.offset + exc.place - max(self._start, 0)
            self.error = error_at(str(exc), place)
        else:
            self.error = exc if isinstance(exc, ParseError) else str(exc)

    # --- inside the value ---

    @property
    def _flow(self) -> JSONFlow:
        envelope = self._envelope
        if envelope is None:
            return JSONFlow.WAITS
        if envelope.inner is not None:
            return JSONFlow.NESTS
        return JSONFlow.STREAMS if envelope.is_streaming else JSONFlow.WAITS

    def _follow(self, changes: list[Change], begin: int, scanner: Scanner, calls: CallSink) -> None:
        for change in changes:
            envelope = self._find_envelope(change, calls)
            if envelope is None:
                continue
            if envelope.inner is not None and change.kind == "value":
                if not envelope.inner.awaits:
                    self._read_inner(envelope, "\n", scanner.at, scanner)  # that ends a word
                calls.note(*envelope.inner.take_relaxed())
                envelope.end_inner()
                self._held = ""
            if change.kind == "end" and len(change.path) == self._base:
                calls.note(*self._steps.take_relaxed())
            envelope.follow(change)
            if envelope.inner is not None and change.kind == "string":
                self._read_inner(envelope, change.text, begin, scanner)
            if change.kind == "end" and len(change.path) == self._base:
                self._closed += 1
                self._envelope = None

    def _find_envelope(self, change: Change, calls: CallSink) -> Envelope | None:
        """Return the envelope of the call that *change* is part of; None where it is in none."""
        path, kind = change.path, change.kind
        self._depth += (kind in ("object", "array")) - (kind == "end")
        if not path and kind != "end":
            self._base = int(kind == "array")
            if kind not in ("array", "object"):
                raise NoCallError("a value that is no object")
        elif len(path) == 1 and kind == "array" and self._begins_list(path[0]):
            self._base, self._list, self._envelope = _LISTED, str(path[0]), None
        if len(path) < self._base or (self._list and path[0] != self._list):
            is_list = kind == "end" and len(path) == self._base - 1
            if is_list and self._closed == self._closed_before:
                raise NoCallError("a list without calls")
            return None
        if len(path) == self._base and kind != "end":
            if kind != "object":
                raise NoCallError("a list of something else than objects")
            self._envelope = self._new_envelope(calls)
        return self._envelope

    def _begins_list(self, key: str | int) -> bool:
        is_unnamed = self._envelope is not None and not self._envelope.name
        return self._base == 0 and key in self._shape.lists and is_unnamed

    # --- inside a string that holds JSON ---

    def _read_inner(self, envelope: Envelope, piece: str, begin: int, scanner: Scanner) -> None:
        """Read more of the arguments; *piece* is what the text from *begin* on says.

        The scanner comes after it. Where the text is plain it is moved to and fro, so that each
        event claims what it was made of.
        """
        inner, end = envelope.inner, scanner.at
        assert inner is not None  # noqa: S101 - it was asked for
        is_plain = end - begin == len(piece)
        text, at = self._held + piece, 0

        def move(at: int) -> None:
            scanner.at = max(begin, end - (len(text) - at)) if is_plain else end

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
        behind = text[at:].lstrip() if inner.complete else ""
        if behind:
            move(len(text) - len(behind))
            raise BrokenArgumentsError("text behind the arguments", scanner.at)
        self._held = "" if inner.complete else text[at:]
        scanner.at = end


MAX_BLANK: Final = 256
"""How much white space may stand between a value and its end marker, or the next value."""

_BLANK: Final = re.compile(rf"[ \t\r\n]{{0,{MAX_BLANK}}}")
_BETWEEN: Final = ",;}]"  # separators, and the surplus brackets that models write


class JSONCallReader(JSONValueReader):
    """Reads the calls of one body; *end* is its end marker, empty where it has none."""

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if self._start < 0:
            self._start = scanner.offset + scanner.at
            self._begin_value()
        while scanner.at < len(scanner.text):
            is_whole = self._steps.complete
            verdict = self._read_behind(scanner) if is_whole else self._read_on(scanner, calls)
            if verdict is not None:
                return verdict
        return Verdict.MORE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: a value that is whole stands without its end marker."""
        del calls
        if not self._steps.complete:
            self.error = "the call was cut"
            scanner.at = len(scanner.text)
            return Verdict.GIVE_UP  # What looks like a call in it may are in a string.
        if self.end.lstrip().startswith(scanner.unread.lstrip()):
            scanner.at = len(scanner.text)  # the piece of a cut marker is not a content
        return Verdict.DONE

    def _read_on(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        try:
            return self._read_value(scanner, calls)
        except (ParseError, NoCallError) as exc:
            self._note_error(exc, scanner)
            if isinstance(exc, BrokenJSONError):
                scanner.at = max(scanner.at, exc.at)
            return Verdict.BROKEN

    def _read_behind(self, scanner: Scanner) -> Verdict | None:
        """Look for the end marker or another value; None tells to continue."""
        text, begin = scanner.text, scanner.at
        blank = _BLANK.match(text, begin)
        at = blank.end() if blank else begin
        if at == len(text):
            return Verdict.MORE
        # An end marker may itself begin with white space: a fence stands on its own line.
        end = max(begin, at - len(self.end) + len(self.end.lstrip()))
        if self.end and text.startswith(self.end, end):
            scanner.at = end + len(self.end)
            return Verdict.DONE
        if self.end and self.end.startswith(text[end : end + len(self.end)]):
            return Verdict.MORE
        if text[at] in _BETWEEN:
            scanner.at = at + 1
            return None
        if text[at] in "{[":
            scanner.at = at
            self._begin_value()
            return None
        return Verdict.UNTERMINATED


# Calls in JSON whose name is a key: ``[{"NAME": {arguments}}, …]``.


class KeyEnvelope(Envelope):
    """Follows an object of one member, which is the call: its key the name, its value the rest."""

    def follow(self, change: Change) -> None:
        """Take a change at or below the object; raise `NoCallError` where it can be no call."""
        path = change.path[self._base :]
        if self.inner is not None and change.kind == "string":
            self._begin_inner(change.text)
        elif path:
            self._note_key(str(path[0]))
            self._follow_arguments(change, path)
        elif change.kind == "end":
            self._close()

    def _note_key(self, key: str) -> None:
        if not key or (self.name and key != self.name):
            raise NoCallError("an object with other keys than the one name")
        self.name = key


class KeyedJSONReader(JSONCallReader):
    """Reads calls whose name is a key; *end* is their end marker."""

    def _new_envelope(self, calls: CallSink) -> Envelope:
        return KeyEnvelope(calls, self._base)

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, which holds JSON that is broken, or not whole."""
        del ended
        if self._closed:
            text = "[" + text.lstrip(" \t\r\n,;")
        try:
            value, repairs, text = repair_body(text, self.end)
            calls = [_read_call(item, repairs, text) for item in _items(value)]
        except (JSONParseError, NoCallError):
            return []
        envelope = self._envelope
        if calls and envelope is not None and not envelope.agrees_with(calls[0], self.open_text()):
            return []
        return calls


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _read_call(item: Any, repairs: list[str], text: str) -> RepairedCall:
    if not isinstance(item, dict) or len(item) != 1:
        raise NoCallError("something else than an object with one key")
    ((name, arguments),) = item.items()
    if not name:
        raise NoCallError("a call without a name")
    return RepairedCall(name, read_arguments(arguments), list(repairs), written=text)


# Calls in JSON that a marker opens and none closes: they end with their JSON.
#
# What comes after is text, so a separator counts only where another value follows it; surplus
# brackets are dropped, for models write them.


NEXT: Final = "{"
"""What begins another call after the first value; any other text is content."""

_JSON_UNCLOSED_BLANK: Final = rf"[ \t\r\n]{{0,{MAX_BLANK}}}"
_SURPLUS: Final = re.compile(rf"(?:{_JSON_UNCLOSED_BLANK}[}}\]])+")
_JSON_UNCLOSED_BETWEEN: Final = re.compile(
    rf"{_JSON_UNCLOSED_BLANK}(?:[,;]{_JSON_UNCLOSED_BLANK})?"
)


def find_surplus_end(text: str, at: int) -> int:
    """Find where the closing brackets at *at* end that close nothing; white space may part them."""
    found = _SURPLUS.match(text, at)
    return found.end() if found else at


def find_next(text: str, at: int) -> int:
    """Find what follows at *at*, after white space and a separator: a value, text, or nothing."""
    found = _JSON_UNCLOSED_BETWEEN.match(text, at)
    return found.end() if found else at


class UnclosedJSONReader(JSONCallReader):
    """Reads the calls after a marker, which may end with the *bracket* that begins them.

    With *leading* the marker counts only where the answer begins with it.
    """

    def __init__(self, shape: Shape = CALL, *, bracket: str = "", leading: bool = False) -> None:
        super().__init__("", shape)
        self._bracket = bracket
        self._leading = leading

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if self._start < 0:
            if self._leading and not calls.is_first:
                return Verdict.NOT_A_CALL
            self._begin(scanner, calls)
        return super().read(scanner, calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: after a marker alone nothing was meant."""
        if self._start < 0:
            return Verdict.NOT_A_CALL
        return super().finish(scanner, calls)

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, which the bracket of the marker begins."""
        return super().mend(text if self._closed else self._bracket + text, ended=ended)

    def _begin(self, scanner: Scanner, calls: CallSink) -> None:
        self._start = scanner.offset + scanner.at - len(self._bracket)
        self._begin_value()
        if self._bracket:
            changes, _ = self._steps.step(self._bracket, 0, JSONFlow.WAITS)
            self._follow(changes, scanner.at, scanner, calls)

    def _read_behind(self, scanner: Scanner) -> Verdict | None:
        """Look for another value; None tells to continue."""
        text = scanner.text
        scanner.at = find_surplus_end(text, scanner.at)
        at = find_next(text, scanner.at)
        if at == len(text):
            return Verdict.MORE
        if text[at] != NEXT:
            return Verdict.UNTERMINATED
        scanner.at = at
        self._begin_value()
        return None
