"""Bare JSON that is a call: at the start of a line, or where a code fence begins.

A bracket is looked at only there, and only if a key of a call comes first; `BareEnvelope` says
whether it is a call. Objects one after the other, with white space or a comma between them, are
several calls; closing brackets that close nothing are dropped. The first object of a list says
whether it is one of calls: in such a list what is not a call is dropped, and told of, and the calls
after it still come. The lines of a fence that begins with a call are not text.

The syntax knows the fences of its answer: there is one for each answer.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.readers.base import Verdict
from penstock.parsing.readers.envelope import CALL, Envelope, NotMeantError, Shape
from penstock.parsing.readers.json_calls import NEXT, find_next, find_surplus_end
from penstock.parsing.readers.json_steps import BrokenJSONError, JSONFlow, JSONSteps
from penstock.parsing.readers.signed_json import NO_CALL, CallSignature, SignedJSONReader
from penstock.parsing.scanner import Scanner
from penstock.values.incremental_state import Change
from penstock.values.schema import Schema

# Whether a bare JSON object is a call of a known tool, and not data that looks like one.
#
# It is if it names a known tool and has arguments. A definition of a tool has both too: a
# description stands beside the name, or what should be arguments is a JSON Schema. Members of
# the arguments that a schema could have wait, until one comes that a schema has not: then the
# call opens.


BARE: Final = Shape(
    names=frozenset({"name", "tool", "function", "tool_name"}),
    wrappers=frozenset({"tool"}),
    holders=frozenset({"function"}),
    lists=frozenset({"tool_calls"}),
)
"""Where the parts of a bare call may stand."""

_DESCRIPTION: Final = "description"
_SCHEMA_KEYS: Final = frozenset(
    {_DESCRIPTION, "type", "properties", "required", "additionalProperties", "title", "$schema"}
)


class BareEnvelope(Envelope):
    """Follows one object and makes a call of it, if it is one.

    Raises `NotMeantError` as soon as that is known not to be so. With *skips* the object is in
    a list of calls: then it is passed over, and told of when it has ended.
    """

    def __init__(self, calls: CallSink, base: int, *, skips: bool = False) -> None:
        super().__init__(calls, base, BARE)
        self._has_arguments = False
        self._members: dict[str, Any] = {}  # of the arguments, that a schema could have too
        self._skips = skips
        self._reason = ""  # why the object is passed over

    def follow(self, change: Change) -> None:
        """Take a change at or below the object; raise `NoCallError` where it can be no call."""
        is_end = change.kind == "end" and len(change.path) == self._base
        if not self._reason:
            try:
                super().follow(change)
            except NotMeantError as exc:
                if not self._skips or self._writer is not None:
                    raise
                self._reason = str(exc)
        if self._reason and is_end:
            self._calls.tell(self._reason)

    def _note(self, key: str, change: Change, *, is_held: bool) -> None:
        if key == _DESCRIPTION:
            raise NotMeantError("a definition, for it has a description")
        super()._note(key, change, is_held=is_held)

    def _take_name(self, name: str) -> None:
        if name not in self._calls.schemas:
            raise NotMeantError(f"no tool is called {name!r}")
        super()._take_name(name)

    def _follow_all(self, change: Change) -> None:
        self._has_arguments = True
        super()._follow_all(change)

    def _begin_arguments(self) -> None:
        """Wait: they may be a schema."""

    def _follow_argument(self, key: str, change: Change) -> None:
        if self._writer is None and self.name:
            if key in _SCHEMA_KEYS and key not in self._calls.schemas[self.name].properties:
                if change.kind in ("value", "end"):
                    self._members[key] = change.value
                return
            self._waiting.append(self._members)
            self._open()
        super()._follow_argument(key, change)

    def _end_arguments(self, arguments: dict[str, Any]) -> None:
        super()._end_arguments(arguments)
        if self.name:
            self._admit(arguments)
            self._open()

    def _admit(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if is_definition(arguments, self._calls.schemas[self.name]):
            raise NotMeantError("a definition, for its arguments are a schema")
        return arguments

    def _close(self) -> None:
        if not self.name or not self._has_arguments:
            raise NotMeantError("an object without a tool's name or without arguments")
        super()._close()


def is_definition(arguments: dict[str, Any], schema: Schema | None = None) -> bool:
    """Return whether *arguments* are a JSON Schema.

    And no arguments of a tool with this *schema*.
    """
    if arguments.get("type") != "object" or not isinstance(arguments.get("properties"), dict):
        return False
    return schema is None or not {"type", "properties"} <= schema.properties.keys()


def check_call(call: dict[str, Any]) -> None:
    """Raise `NoCallError` for a whole object that is a definition, or has no arguments."""
    arguments = [value for key, value in call.items() if key in BARE.arguments]
    held = call.get("function")
    if isinstance(held, dict):
        arguments += [value for key, value in held.items() if key in BARE.arguments]
    is_described = _DESCRIPTION in call or (isinstance(held, dict) and _DESCRIPTION in held)
    is_schema = any(isinstance(value, dict) and is_definition(value) for value in arguments)
    if is_described or is_schema or not arguments:
        raise NoCallError("a definition, or no arguments")


# The code fences of an answer: what opens one, what closes it, and what it begins with.
#
# Only a run of three backticks or more that begins its line is a fence. Fences have to be
# followed through the whole answer: JSON further down in one is text, and a line that would
# open a fence closes the one that is open.


FENCE: Final = "```"

MAX_LABEL: Final = 64
"""How long the label of a fence may be, and how many backticks it may have."""

MAX_BLANK: Final = 256
"""How much white space may stand between the opening line and the JSON after it."""

_TICKS: Final = re.compile(rf"`{{0,{MAX_LABEL}}}")
_LABEL: Final = re.compile(rf"[^`\n]{{0,{MAX_LABEL}}}")
_BLANK: Final = re.compile(rf"[ \t\r\n]{{0,{MAX_BLANK}}}")
_BLANK_IN_LINE: Final = re.compile(rf"[ \t\r]{{0,{MAX_LABEL}}}")
_ITEM: Final = re.compile(r"[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]{1,8})+")
_ONE_WORD: Final = re.compile(r"[^\s`{\[]{0,32}[ \t]{0,32}(?=[{\[])")


class BareOpening(NamedTuple):
    """A line of backticks and a label, and the bracket after it."""

    is_fence: bool
    bracket: int = -1
    """Where a value begins, if one does."""
    is_inline: bool = False
    """Whether it begins on the line of the fence itself."""


class Fences:
    """Where the fences of one answer are."""

    def __init__(self) -> None:
        self.ticks = 0  # how many backticks opened the fence that is open; none outside of one
        self.is_hidden = (
            False  # its opening line is not a text, so its closing line is not one either
        )

    def open(self, ticks: int) -> None:
        """Note that a fence was opened, with so many backticks."""
        self.ticks = ticks
        self.is_hidden = False

    def close(self) -> None:
        """Note that the fence is closed."""
        self.ticks = 0


def begins_item(line: str) -> bool:
    """Return whether *line* is nothing but the mark of an item in a list, or several: ``1. -``."""
    return _ITEM.fullmatch(line) is not None


def find_ticks_end(text: str, at: int) -> int:
    """Find where the backticks at *at* end."""
    found = _TICKS.match(text, at)
    return found.end() if found else at


def find_line_end(text: str, at: int) -> int:
    """Find where the blanks at *at* end; a newline stands there, or something else."""
    found = _BLANK_IN_LINE.match(text, at)
    return found.end() if found else at


def find_blank_end(text: str, at: int) -> int:
    """Find where the white space at *at* ends."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def judge_opening(text: str, at: int) -> BareOpening | None:
    """Look at the rest of a line that begins with backticks; None tells that more text will tell.

    A backtick in it says that the line is not a fence, but code inside a line of text.
    """
    word = _ONE_WORD.match(text, at)
    if word is not None:
        return BareOpening(is_fence=True, bracket=word.end(), is_inline=True)
    label = _LABEL.match(text, at)
    end = label.end() if label else at
    if end == len(text):
        return None
    if text[end] != "\n":
        return BareOpening(is_fence=text[end] != "`")
    begin = find_blank_end(text, end + 1)
    if begin == len(text):
        return None
    return BareOpening(is_fence=True, bracket=begin if text[begin] in "{[" else -1)


ENVELOPE_KEYS: Final = (
    "name", "tool", "function", "tool_name", "tool_calls", "arguments", "parameters", "id"
)  # fmt: skip
"""What the first key of a bare call may be; `type` may be too, with the value `function`."""


def _beginnings() -> list[str]:
    found = []
    for opening in ('{"', "{'", '[{"', "[{'"):
        quote = opening[-1]
        found += [f"{opening}{key}{quote}:" for key in ENVELOPE_KEYS]
        found.append(f"{opening}type{quote}:{quote}function{quote}")
    return found


SIGNATURE: Final = CallSignature(_beginnings())
"""How bare JSON begins that may be a call."""


class BareCalls:
    """The syntax of bare calls, for one answer."""

    starts: tuple[str, ...] = ("{", "[", FENCE)
    folds = False
    unless = NO_CALL

    def __init__(self) -> None:
        self.fences = Fences()

    def body(self, marker: str) -> BareCallReader:
        """Return a fresh reader for what follows *marker*."""
        return BareCallReader(marker, self.fences)


class BareCallReader(SignedJSONReader):
    """Reads what a bracket or a fence begins: bare calls, or nothing."""

    def __init__(self, marker: str, fences: Fences) -> None:
        super().__init__(marker, BARE, SIGNATURE)
        self._marker = marker
        self._fences = fences
        self._begins_line: bool | None = None
        self._ticks = 0  # of the fence around the calls
        self._is_inline = False  # the calls begin on the line of their fence
        self._check = check_call

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        return self._leave(super().read(scanner, calls), calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: the line that closes a fence may lack its end."""
        is_last_line = not scanner.unread.strip(" \t\r\n`")
        if not self._has_begun and self._marker == FENCE:
            is_closing = self._fences.is_hidden and self._fences.ticks and is_last_line
            scanner.at = len(scanner.text) if is_closing else scanner.at
            return Verdict.DONE if is_closing else Verdict.NOT_A_CALL
        verdict = super().finish(scanner, calls)
        if verdict is Verdict.DONE and self._ticks and is_last_line:
            scanner.at = len(scanner.text)
        return self._leave(verdict, calls)

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, without the lines of its fence."""
        if not self._has_begun:
            return []
        if self._ticks and not self._closed:
            text = text[text.index(self._bracket) + 1 :].rstrip().rstrip("`")
        return super().mend(text, ended=ended)

    def _leave(self, verdict: Verdict, calls: CallSink) -> Verdict:
        """Note what became of the fence around the calls, which may continue after them."""
        if verdict is not Verdict.MORE and self._ticks:
            self._fences.is_hidden = self._closed > 0 or calls.started
        return verdict

    def _new_envelope(self, calls: CallSink) -> BareEnvelope:
        return BareEnvelope(calls, self._base, skips=self._closed > self._closed_before)

    # --- before the value ---

    def _judge(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        if self._marker == FENCE:
            return self._judge_fence(scanner, calls)
        verdict = Verdict.NOT_A_CALL if self._fences.ticks else super()._judge(scanner, calls)
        if verdict is Verdict.NOT_A_CALL or not self._stands_first(scanner, calls):
            return Verdict.NOT_A_CALL
        return verdict

    def _stands_first(self, scanner: Scanner, calls: CallSink) -> bool:
        """Return whether nothing but blanks comes before the marker on its line."""
        if self._begins_line is None:
            before = scanner.read_since_call()[: -len(self._marker)]  # what `trim` took along
            is_first = calls.is_first or "\n" in before
            self._begins_line = is_first or not calls.line().strip()
        return self._begins_line

    def _judge_fence(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        text = scanner.text
        at = find_ticks_end(text, scanner.at)
        if not self._stands_first(scanner, calls) or at - scanner.at >= MAX_LABEL:
            return Verdict.NOT_A_CALL
        if at == len(text):
            return Verdict.MORE
        ticks = len(FENCE) + at - scanner.at
        if self._fences.ticks:
            return self._judge_closing(ticks, at, scanner)
        return self._judge_opening(ticks, at, scanner)

    def _judge_closing(self, ticks: int, at: int, scanner: Scanner) -> Verdict:
        """Look at a line inside a fence: backticks alone close it."""
        end = find_line_end(scanner.text, at)
        if end == len(scanner.text):
            return Verdict.MORE
        if ticks < self._fences.ticks or scanner.text[end] != "\n":
            return Verdict.NOT_A_CALL
        self._fences.close()
        if not self._fences.is_hidden:
            return Verdict.NOT_A_CALL
        scanner.at = end + 1
        return Verdict.DONE

    def _judge_opening(self, ticks: int, at: int, scanner: Scanner) -> Verdict | None:
        """Look at a line outside of fences: it may open one, and a call may begin that."""
        text = scanner.text
        opening = judge_opening(text, at)
        if opening is None:
            return Verdict.MORE
        is_signed: bool | None = False
        if opening.bracket >= 0:
            is_signed = SIGNATURE.judge(text[opening.bracket], text, opening.bracket + 1)
        if is_signed is None:
            return Verdict.MORE
        if opening.is_fence:
            self._fences.open(ticks)
        if not is_signed:
            return Verdict.NOT_A_CALL
        self._bracket = text[opening.bracket]
        self._ticks, self._is_inline = ticks, opening.is_inline
        scanner.at = opening.bracket + 1
        return None

    # --- after the value ---

    def _read_behind(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Look for another value, or for the line that closes the fence."""
        text = scanner.text
        scanner.at = find_surplus_end(text, scanner.at)
        at = find_blank_end(text, scanner.at)
        if self._ticks and text.startswith("`", at):
            return self._read_closing(at, scanner)
        if text[at : at + 1] in (",", ";"):
            at = find_blank_end(text, at + 1)
        if at == len(text):
            return Verdict.MORE
        if text[at] not in "{[":
            return Verdict.DONE
        is_signed = SIGNATURE.judge(text[at], text, at + 1)
        if is_signed is None:
            return Verdict.MORE
        if not is_signed:
            return Verdict.DONE
        self._bracket = text[at]
        scanner.at = at + 1
        self._begin(scanner, calls)
        return None

    def _read_closing(self, begin: int, scanner: Scanner) -> Verdict:
        """Look whether the backticks at *begin* close the fence around the calls."""
        text = scanner.text
        at = find_ticks_end(text, begin)
        end = at if self._is_inline else find_line_end(text, at)
        if end == len(text):
            return Verdict.MORE
        is_line = self._is_inline or text[end] == "\n"
        if is_line and at - begin >= self._ticks:
            scanner.at = end if self._is_inline else end + 1
            self._fences.close()
        return Verdict.DONE


# Bare calls where every fence counts: the one that begins an item of a list, too.


class ListedCalls(BareCalls):
    """The syntax of bare calls, for one answer with lists in it."""

    def body(self, marker: str) -> BareCallReader:
        """Return a fresh reader for what follows *marker*."""
        return ListedCallReader(marker, self.fences)


class ListedCallReader(BareCallReader):
    """Reads what a bracket or a fence begins, with the mark of an item before it or not."""

    def _stands_first(self, scanner: Scanner, calls: CallSink) -> bool:
        if super()._stands_first(scanner, calls):
            return True
        if self._marker != FENCE or self._fences.ticks:  # Only blanks may stand before its end.
            return False
        before = scanner.read_since_call()[: -len(self._marker)]  # what `trim` took along
        return begins_item(calls.line() + before)


# Calls in JSON that no marker opens: an answer begins with them, or a fence of code does.
#
# They are calls only if the first of them names a known tool; then the others of the same list,
# or row, are calls whatever their names. Until the first name has come nothing can be shown, so
# it has to come soon: an answer that is other JSON streams on.


MAX_UNNAMED: Final = 1024
"""Within how many characters the first call has to name its tool, or begin its arguments."""

_JSON_LEADING_BLANK: Final = re.compile(r"[ \t\r\n]{0,256}")
_ANY: Final = CallSignature(())


class KnownEnvelope(Envelope):
    """An envelope whose name has to be that of a known tool; raises `NotMeantError` otherwise."""

    has_arguments = False

    def _take_name(self, name: str) -> None:
        if name not in self._calls.schemas:
            raise NotMeantError(f"no tool is called {name!r}")
        super()._take_name(name)

    def _follow_all(self, change: Change) -> None:
        self.has_arguments = True
        super()._follow_all(change)


class WrappedEnvelope(KnownEnvelope):
    """An envelope that sees nothing but what is in a wrapper of its shape."""

    def follow(self, change: Change) -> None:
        """Take a change at or below the object; raise `NoCallError` where it can be no call."""
        path = change.path[self._base :]
        if not path or path[0] in self._shape.wrappers:
            super().follow(change)


class LeadingJSONReader(SignedJSONReader):
    """Reads the calls of *shape* that *bracket* begins, where nothing was said before.

    Where the shape has wrappers, an object is a call only in one of them.
    """

    def __init__(self, bracket: str, shape: Shape = CALL) -> None:
        super().__init__(bracket, shape, _ANY)
        self._is_marked = False  # a marker opened the calls: any name will do
        self._is_sure = False  # the first call has named its tool, or begun its arguments
        self._lead = 0  # how much text is between the start marker and the value

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        verdict = super().read(scanner, calls)
        waits = verdict is Verdict.MORE and self._has_begun and not self._is_sure
        return (
            Verdict.NOT_A_CALL if waits and self._is_late(scanner, len(scanner.text)) else verdict
        )

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: the piece of a cut marker is not a content."""
        verdict = super().finish(scanner, calls)
        if verdict is Verdict.DONE and self.end.startswith(scanner.unread.lstrip()):
            scanner.at = len(scanner.text)
        if verdict is Verdict.NOT_A_CALL and self._has_begun and self._is_marked:
            self.error = "the call was cut"
            return Verdict.GIVE_UP
        return verdict

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, without what led to its value."""
        return super().mend(text if self._closed else text[self._lead :], ended=ended)

    def _new_envelope(self, calls: CallSink) -> Envelope:
        if self._base == 0 and self._shape.wrappers:
            return WrappedEnvelope(calls, self._base, self._shape)
        is_first = not self._closed and not self._is_marked
        return (KnownEnvelope if is_first else Envelope)(calls, self._base, self._shape)

    # --- before the value ---

    def _judge(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        del scanner
        return None if calls.is_first else Verdict.NOT_A_CALL

    def _enter(self, scanner: Scanner, at: int) -> Verdict | None:
        """Enter the value that begins at *at*, after white space."""
        at = _find_blank_end(scanner.text, at)
        if at == len(scanner.text):
            return Verdict.MORE
        if scanner.text[at] not in "{[":
            self.error = "no JSON behind the marker"
            return Verdict.BROKEN if self._is_marked else Verdict.NOT_A_CALL
        self._bracket = scanner.text[at]
        self._lead = at + 1 - scanner.at
        scanner.at = at + 1
        return None

    # --- inside the value ---

    def _follow(self, changes: list[Change], begin: int, scanner: Scanner, calls: CallSink) -> None:
        super()._follow(changes, begin, scanner, calls)
        envelope = self._envelope
        if self._is_sure or envelope is None:
            return
        if not isinstance(envelope, KnownEnvelope):
            self._is_sure = True
        elif envelope.name or envelope.has_arguments:
            self._is_sure = True
            if self._is_late(scanner, scanner.at):
                raise NotMeantError("a name that comes late")

    def _read_on(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        verdict = super()._read_on(scanner, calls)
        is_broken = verdict is Verdict.NOT_A_CALL or self._balance is not None
        return Verdict.BROKEN if is_broken and self._is_marked else verdict

    def _is_late(self, scanner: Scanner, at: int) -> bool:
        return scanner.offset + at - self._start > MAX_UNNAMED

    # --- after the value ---

    def _read_behind(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Look for the end marker or another value; None tells that one begins."""
        text = scanner.text
        scanner.at = find_surplus_end(text, scanner.at)
        verdict = self._read_end(scanner) if self.end else None
        if verdict is not None:
            return verdict
        at = find_next(text, scanner.at)
        if at == len(text):
            return Verdict.MORE
        if text[at] != NEXT:
            return Verdict.UNTERMINATED
        self._bracket = NEXT
        scanner.at = at + 1
        self._begin(scanner, calls)
        return None

    def _read_end(self, scanner: Scanner) -> Verdict | None:
        text, at = scanner.text, _find_blank_end(scanner.text, scanner.at)
        if text.startswith(self.end, at):
            scanner.at = at + len(self.end)
            return Verdict.DONE
        return Verdict.MORE if self.end.startswith(text[at : at + len(self.end)]) else None


class LabelledJSONReader(LeadingJSONReader):
    """Reads JSON after a *marker* that is one only with the *label* after it, up to *end*.

    Any tool may be called so, unless only *known* ones may. A marker that is a bracket may also
    begin the answer, as ever. Markers are read in two parts where one begins with another: only
    the text that follows tells which it is.
    """

    def __init__(self, marker: str, label: str, end: str = "", *, known: bool = False) -> None:
        super().__init__(marker)
        self.end = end
        self._label = label
        self._known = known

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, without the end marker."""
        bare = text.rstrip()
        if self.end and bare.endswith(self.end):
            text = bare.removesuffix(self.end)
        return super().mend(text, ended=ended)

    def _judge(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        begin = _find_blank_end(scanner.text, scanner.at)
        end = begin + len(self._label)
        begun = scanner.text[begin:end]
        if not self._label.startswith(begun):
            return super()._judge(scanner, calls) if self._bracket in "{[" else Verdict.NOT_A_CALL
        if begun != self._label:
            return Verdict.MORE
        self._is_marked = not self._known
        return self._enter(scanner, end)


def _find_blank_end(text: str, at: int) -> int:
    found = _JSON_LEADING_BLANK.match(text, at)
    return found.end() if found else at


# An answer as a member of JSON: ``{"response": "…"}`` in place of a call.
#
# A model that was held to JSON says what it has to say in a string. That string is the text of
# the answer: it is shown decoded, as it comes. The rest of the object says nothing.


RESPONSE: Final = "response"
"""The key of the text."""

_SIGNATURE: Final = CallSignature((f'{{"{RESPONSE}":"',))


class ResponseReader(LeadingJSONReader):
    """Reads leading calls as ever; or else an object that holds the text of the answer."""

    _response: JSONSteps | None = None  # reads the object, once it is known to be one

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and say what it says to *calls*."""
        if self._response is None and not self._has_begun and calls.is_first:
            is_response = _SIGNATURE.judge(self._bracket, scanner.text, scanner.at)
            if is_response is None:
                return Verdict.MORE
            if is_response:
                self._response = JSONSteps()
                self._response.step(self._bracket, 0, JSONFlow.WAITS)
        if self._response is None:
            return super().read(scanner, calls)
        return self._read_response(self._response, scanner, calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: so has what was said of the answer."""
        if self._response is None:
            return super().finish(scanner, calls)
        is_broken = not self._response.awaits and bool(scanner.unread.strip())
        scanner.at = len(scanner.text)
        return Verdict.NOT_A_CALL if is_broken else Verdict.DONE

    def _read_response(self, response: JSONSteps, scanner: Scanner, calls: CallSink) -> Verdict:
        """Show the string; where the object breaks, the text from there on is text."""
        moves = True
        try:
            while moves and scanner.at < len(scanner.text) and not response.complete:
                begin = scanner.at
                changes, scanner.at = response.step(scanner.text, begin, JSONFlow.STREAMS)
                for change in changes:
                    if change.path == (RESPONSE,) and change.kind == "string":
                        calls.say(change.text)
                moves = scanner.at > begin or bool(changes)
        except BrokenJSONError:
            return Verdict.NOT_A_CALL
        return Verdict.DONE if response.complete else Verdict.MORE
