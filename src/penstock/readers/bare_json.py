"""Bare JSON that is a call: at the start of a line, or at the beginning of a code fence.

A bracket counts only there, and only if a key of a call follows; `BareEnvelope` decides whether the
object is a call. Objects one after the other, with white space or a comma between them, are several
calls; surplus closing brackets are dropped. The first object of a list decides whether it is a list
of calls; other objects in such a list are dropped and reported. The lines of a fence that begins
with a call are not text.

The syntax follows the fences of one response, so each response has its own.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from msgspec import structs

from penstock.parsing.body import BodyReader, ChoosingReader, Syntax, Verdict
from penstock.parsing.call_shape import ANY_CALL
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.scanner import Scanner, skip_match
from penstock.readers.envelope import Envelope, NameRule, NotMeantError, is_definition
from penstock.readers.json_calls import BLANK, SURPLUS, JSONCallReader
from penstock.readers.signed_json import NO_CALL, CallSignature, SignedJSONReader
from penstock.values.incremental_state import Change

# --- calls and data -----------------------------------------------------------------------------

BARE: Final = structs.replace(ANY_CALL, lists=("tool_calls",))
"""The keys of a bare call; a list under ``tools`` holds definitions."""

_DESCRIPTION: Final = "description"
_SCHEMA_KEYS: Final = frozenset(
    {_DESCRIPTION, "type", "properties", "required", "additionalProperties", "title", "$schema"}
)


class BareEnvelope(Envelope):
    """Follows one object and makes a call of it, if it names a known tool and has arguments.

    A definition of a tool has both, too, but also a description, or its arguments are a JSON
    Schema. So members of the arguments that a JSON Schema may have wait for one that it has not;
    then the call opens. Raises `NotMeantError` as soon as the object is known not to be a call;
    with *skips* (inside a list of calls) the object is skipped and reported at its end.
    """

    def __init__(self, calls: CallSink, base: int, *, skips: bool = False) -> None:
        super().__init__(calls, base, BARE, NameRule.KNOWN)
        self._members: dict[str, Any] = {}  # of the arguments, that a JSON Schema may have
        self._skips = skips
        self._reason = ""  # why the object is skipped

    def follow(self, change: Change) -> None:
        """Process a change at or below the object; raise `NoCallError` if it cannot be a call."""
        is_end = change.kind == "end" and len(change.path) == self._base
        if not self._reason:
            try:
                super().follow(change)
            except NotMeantError as exc:
                if not self._skips or self._writer is not None:
                    raise
                self._reason = str(exc)
        if self._reason and is_end:
            self._calls.report(self._reason)

    def _follow_field(self, key: str, change: Change, *, is_held: bool) -> None:
        if key == _DESCRIPTION:
            raise NotMeantError("a definition of a tool: it has a description")
        super()._follow_field(key, change, is_held=is_held)

    def _begin_arguments(self) -> None:
        """Wait: they may be a JSON Schema."""

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
            self._check_arguments(arguments)
            self._open()

    def _check_arguments(self, arguments: dict[str, Any]) -> None:
        if is_definition(arguments, self._calls.schemas[self.name]):
            raise NotMeantError("a definition of a tool: its arguments are a JSON Schema")

    def _close(self) -> None:
        if not self.name or not self.has_arguments:
            raise NotMeantError("the object has no name of a tool, or no arguments")
        super()._close()


def check_call(fields: dict[str, Any]) -> None:
    """Raise `NoCallError` if *fields* are those of a definition, or have no arguments."""
    arguments = [fields[key] for key in BARE.arguments if key in fields]
    is_schema = any(isinstance(value, dict) and is_definition(value) for value in arguments)
    if _DESCRIPTION in fields or is_schema or not arguments:
        raise NoCallError("a definition of a tool, or no arguments")


# --- code fences --------------------------------------------------------------------------------
#
# A run of at least three backticks at the start of a line is a fence. Fences are followed through
# the whole response: JSON further down in one is text, and a line that looks like an opening closes
# the open fence.

FENCE: Final = "```"

MAX_LABEL: Final = 64
"""The maximum length of a fence's label, and of its backticks."""

_TICKS: Final = re.compile(rf"`{{0,{MAX_LABEL}}}")
_LABEL: Final = re.compile(rf"[^`\n]{{0,{MAX_LABEL}}}")
_BLANK_IN_LINE: Final = re.compile(rf"[ \t\r]{{0,{MAX_LABEL}}}")
_ITEM: Final = re.compile(r"[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]{1,8})+")
_ONE_WORD: Final = re.compile(r"[^\s`{\[]{0,32}[ \t]{0,32}(?=[{\[])")


class BareOpening(NamedTuple):
    """A line of backticks with a label, and the bracket after it."""

    is_fence: bool
    bracket: int = -1
    """Where a value begins, or -1."""
    is_inline: bool = False
    """Whether it begins on the line of the fence."""


class Fences:
    """The open code fence of one response, if there is one."""

    def __init__(self) -> None:
        self.ticks = 0  # how many backticks opened the open fence; 0 outside of one
        self.is_hidden = False  # its opening line is not text, so its closing line is not either

    def open(self, ticks: int) -> None:
        """Open a fence of so many backticks."""
        self.ticks = ticks
        self.is_hidden = False

    def close(self) -> None:
        """Close the fence."""
        self.ticks = 0


def begins_item(line: str) -> bool:
    """Return whether *line* consists of marks of list items: ``1. -``."""
    return _ITEM.fullmatch(line) is not None


def judge_opening(text: str, at: int) -> BareOpening | None:
    """Judge the rest of a line that begins with backticks; return None if more text is needed.

    A backtick in it means that the line is not a fence, but begins with inline code.
    """
    word = _ONE_WORD.match(text, at)
    if word is not None:
        return BareOpening(is_fence=True, bracket=word.end(), is_inline=True)
    end = skip_match(_LABEL, text, at)
    if end == len(text):
        return None
    if text[end] != "\n":
        return BareOpening(is_fence=text[end] != "`")
    begin = skip_match(BLANK, text, end + 1)
    if begin == len(text):
        return None
    return BareOpening(is_fence=True, bracket=begin if text[begin] in "{[" else -1)


ENVELOPE_KEYS: Final = (
    "name", "tool", "function", "tool_name", "tool_calls", "arguments", "parameters", "id"
)  # fmt: skip
"""The first key of a bare call is one of these, or `type` with the value `function`."""


def _beginnings() -> list[str]:
    found = []
    for opening in ('{"', "{'", '[{"', "[{'"):
        quote = opening[-1]
        found += [f"{opening}{key}{quote}:" for key in ENVELOPE_KEYS]
        found.append(f"{opening}type{quote}:{quote}function{quote}")
    return found


SIGNATURE: Final = CallSignature(_beginnings())
"""The beginnings of bare JSON that may be a call."""


_PLAIN_OPENING: Final = re.compile(r"[A-Za-z0-9_+#.-]{0,32}\n[^\s{\[`]")


def pass_fence(fences: Fences, scanner: Scanner, calls: CallSink) -> bool:
    """Open or close an ordinary fence, if the marker that was passed is one; return whether it is.

    `BareCallReader` judges these lines alike, at twice the cost. Most fences are of this kind: the
    line has three backticks and perhaps a label, and the code does not begin with a bracket.
    """
    text, at = scanner.text, scanner.at
    if fences.ticks:
        is_plain = text.startswith("\n", at) and not fences.is_hidden
        is_plain = is_plain and fences.ticks == len(FENCE)
    else:
        is_plain = _PLAIN_OPENING.match(text, at) is not None
    if not is_plain or scanner.read_since_call() != FENCE:
        return False
    if not calls.is_first and calls.line().strip():
        return False
    if fences.ticks:
        fences.close()
    else:
        fences.open(len(FENCE))
    return True


class BareCalls(Syntax):
    """The syntax of bare calls, for one response.

    With *listed*, a fence may follow the mark of a list item.
    """

    starts: tuple[str, ...] = ("{", "[", FENCE)
    unless = NO_CALL

    def __init__(self, *, listed: bool = False) -> None:
        self.fences = Fences()
        self._listed = listed

    def copy(self) -> BareCalls:
        """Return a syntax for another response."""
        return BareCalls(listed=self._listed)

    def body(self, marker: str) -> BareCallReader:
        """Return a new reader for the text after *marker*."""
        return BareCallReader(marker, self.fences, listed=self._listed)


class BareCallReader(SignedJSONReader):
    """Reads the bare calls that a bracket or a fence begins.

    With *listed*, a fence may follow the mark of a list item (``1.``, ``-``).
    """

    def __init__(self, marker: str, fences: Fences, *, listed: bool = False) -> None:
        super().__init__(marker, BARE, SIGNATURE)
        self._marker = marker
        self._fences = fences
        self._listed = listed
        self._begins_line: bool | None = None  # only blanks are before the marker on its line
        self._ticks = 0  # of the fence around the calls
        self._is_inline = False  # the calls begin on the line of their fence
        self._check = check_call

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        return self._leave(super().read(scanner, calls), calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Process the end of the text: the line that closes a fence may lack its newline."""
        is_last_line = not scanner.unread.strip(" \t\r\n`")
        if not self._has_begun and self._marker == FENCE:
            is_closing = self._fences.is_hidden and self._fences.ticks and is_last_line
            if is_closing:
                scanner.skip_all()
            return Verdict.DONE if is_closing else Verdict.NOT_A_CALL
        verdict = super().finish(scanner, calls)
        if verdict is Verdict.DONE and self._ticks and is_last_line:
            scanner.skip_all()
        return self._leave(verdict, calls)

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, without the lines of its fence."""
        if not self._has_begun:
            return []
        if self._ticks and not self._closed:
            text = text[text.index(self._bracket) + 1 :].rstrip().rstrip("`")
        return super().repair(text, ended=ended)

    def _leave(self, verdict: Verdict, calls: CallSink) -> Verdict:
        """Decide whether the lines of the fence around the calls are text."""
        if verdict is not Verdict.MORE and self._ticks:
            self._fences.is_hidden = self._closed > 0 or calls.started
        return verdict

    def _new_envelope(self, calls: CallSink) -> BareEnvelope:
        return BareEnvelope(calls, self._base, skips=self._closed > self._closed_before)

    # --- before the value ---

    def _judge(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        if self._marker != FENCE:
            verdict = Verdict.NOT_A_CALL if self._fences.ticks else super()._judge(scanner, calls)
            is_first = verdict is not Verdict.NOT_A_CALL and self._is_first(scanner, calls)
            return verdict if is_first else Verdict.NOT_A_CALL
        text = scanner.text
        at = skip_match(_TICKS, text, scanner.at)
        if not self._is_first(scanner, calls) or at - scanner.at >= MAX_LABEL:
            return Verdict.NOT_A_CALL
        if at == len(text):
            return Verdict.MORE
        ticks = len(FENCE) + at - scanner.at
        if self._fences.ticks:
            return self._judge_closing(ticks, at, scanner)
        return self._judge_opening(ticks, at, scanner)

    def _is_first(self, scanner: Scanner, calls: CallSink) -> bool:
        """Return whether the marker begins its line."""
        if self._begins_line is None:
            before = scanner.read_since_call()[: -len(self._marker)]  # white space that `trim` took
            is_first = calls.is_first or "\n" in before or not calls.line().strip()
            # Inside a fence only blanks may precede its end.
            if not is_first and self._listed and self._marker == FENCE and not self._fences.ticks:
                is_first = begins_item(calls.line() + before)
            self._begins_line = is_first
        return self._begins_line

    def _judge_closing(self, ticks: int, at: int, scanner: Scanner) -> Verdict:
        """Judge a line inside a fence: backticks alone close it."""
        end = skip_match(_BLANK_IN_LINE, scanner.text, at)
        if end == len(scanner.text):
            return Verdict.MORE
        if ticks < self._fences.ticks or scanner.text[end] != "\n":
            return Verdict.NOT_A_CALL
        self._fences.close()
        if not self._fences.is_hidden:
            return Verdict.NOT_A_CALL
        scanner.advance_to(end + 1)
        return Verdict.DONE

    def _judge_opening(self, ticks: int, at: int, scanner: Scanner) -> Verdict | None:
        """Judge a line outside of fences: it may open one, which may begin with a call."""
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
        scanner.advance_to(opening.bracket + 1)
        return None

    # --- after the value ---

    def _read_after(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Look for another value, or for the line that closes the fence."""
        text = scanner.text
        scanner.advance_to(skip_match(SURPLUS, text, scanner.at))
        at = skip_match(BLANK, text, scanner.at)
        if self._ticks and text.startswith("`", at):
            return self._read_closing(at, scanner)
        if text[at : at + 1] in (",", ";"):
            at = skip_match(BLANK, text, at + 1)
        if at == len(text):
            return Verdict.MORE
        is_signed = text[at] in "{[" and SIGNATURE.judge(text[at], text, at + 1)
        if is_signed is None:
            return Verdict.MORE
        if not is_signed:
            return Verdict.DONE
        self._bracket = text[at]
        scanner.advance_to(at + 1)
        self._begin(scanner, calls)
        return None

    def _read_closing(self, begin: int, scanner: Scanner) -> Verdict:
        """Close the fence around the calls if the backticks at *begin* do."""
        text = scanner.text
        at = skip_match(_TICKS, text, begin)
        end = at if self._is_inline else skip_match(_BLANK_IN_LINE, text, at)
        if end == len(text):
            return Verdict.MORE
        is_line = self._is_inline or text[end] == "\n"
        if is_line and at - begin >= self._ticks:
            scanner.advance_to(end if self._is_inline else end + 1)
            self._fences.close()
        return Verdict.DONE


JSON_START: Final = "<tool_call>"
"""The marker of a JSON call where another format was prompted."""

_JSON_END: Final = "</tool_call>"


class JSONInsteadReader(ChoosingReader):
    """Reads what follows ``<tool_call>``: JSON is a call, anything else was not meant as one."""

    def __init__(self) -> None:
        self.end = _JSON_END

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Choose by the first character, then continue with the reader."""
        if self._chosen is None:
            at = skip_match(BLANK, scanner.text, scanner.at)
            if at == len(scanner.text):
                return Verdict.MORE
            if scanner.text[at] not in "{[":
                return Verdict.NOT_A_CALL
        return super().read(scanner, calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: a marker alone is text."""
        return Verdict.NOT_A_CALL if self._chosen is None else super().finish(scanner, calls)

    def _choose(self, scanner: Scanner) -> BodyReader | None:
        del scanner
        return JSONCallReader(_JSON_END)
