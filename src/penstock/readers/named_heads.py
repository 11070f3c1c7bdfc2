"""The heads of calls that are named outside of their arguments: dialects as data, and their reader.

A head is a marker, the name of the tool, and a marker; the arguments follow as JSON. Some dialects
have a section around the calls, some an id next to the name, some a word before it. A head is short
and has few possible characters, so other text is soon recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

from penstock.errors import ParseError
from penstock.parsing.body import MAX_BLANK, BodyReader, StreamingPart, Verdict
from penstock.parsing.call_sink import CallSink, NoCallError
from penstock.parsing.scanner import Scanner, skip_match
from penstock.readers.tagged.endings import Action, EndingJudgement, TokenEnding, read_value
from penstock.readers.tagged.strings import CollectedText, OpenValue, StreamedText, take_text
from penstock.tools import clean_name
from penstock.values.control_tokens import LAST_TURN_END, TURN_ENDS
from penstock.values.schema import Schema

MAX_NAME: Final = 256
"""The maximum length of a name or an id: longer than any API allows, too short for prose."""


BLANK: Final = re.compile(rf"\s{{0,{MAX_BLANK}}}")
"""White space between the parts of a call."""

OBJECT: Final = "{"
FENCE: Final = "```"

_NAME: Final = rf"[\w.:-]{{1,{MAX_NAME}}}"
_BEGUN: Final = re.compile(rf"\s{{0,{MAX_BLANK}}}(?:({_NAME})\s{{0,{MAX_BLANK}}})?")

_PREFIX: Final = "functions."
_COUNTER: Final = re.compile(r"\d+", re.ASCII)
_NUMBERED: Final = re.compile(r"[_.-]?\d+\Z", re.ASCII)
"""The number of a call after its name."""


class HeadDialect(Struct, frozen=True):
    """The markers of calls that are named outside of their arguments.

    A call begins with the marker *call*; its name ends with one of *arguments*, and the call with
    *call_end*, if there is one. If a marker of *arguments* is a brace, it is part of them. *wholes*
    end a call right after its name. *sections* and *section_ends* may be around calls, and with
    *silent* any other text in a section is dropped.

    *id* marks an id after the name, *name* a name after the id; with *ids* the name itself is an id
    that contains the name. *kind* is a word that may be in place of the name; then the name
    follows, and a fence. With *json*, calls may also be objects that have their name inside. *code*
    is followed by a program, up to the end of the turn. *new_id* is the format of ids for calls
    without one, with the number of the call.
    """

    call: str
    arguments: tuple[str, ...]
    call_end: str = ""
    wholes: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    section_ends: tuple[str, ...] = ()
    silent: bool = False
    id: str = ""
    name: str = ""
    ids: bool = False
    kind: str = ""
    json: bool = False
    code: str = ""
    new_id: str = ""

    @property
    def openers(self) -> tuple[str, ...]:
        """The markers that open a section, a call or a program."""
        return tuple(filter(None, (*self.sections, self.call, self.code)))

    @property
    def closers(self) -> tuple[str, ...]:
        """The markers that end a call or a section."""
        return tuple(filter(None, (self.call_end, *self.section_ends)))


class Head(Struct, frozen=True):
    """The *name* and the *id* in a head.

    Without *has_arguments* the call ends here; with *is_fenced* its arguments are in a code fence.
    """

    name: str
    id: str = ""
    has_arguments: bool = True
    is_fenced: bool = False


class _Place(Enum):
    """The next part of a head."""

    NAME = "the name, or the word in place of it"
    KIND = "the name or the arguments after that word"
    NAME_AFTER_KIND = "the name after that word"
    ID = "the id"


class HeadReader:
    """Reads one head of *dialect*."""

    def __init__(self, dialect: HeadDialect) -> None:
        self._dialect = dialect
        self._place = _Place.NAME
        self._name = ""
        self._id = ""  # that came before the name

    def read(self, scanner: Scanner) -> Head | None:
        """Continue; return None if more text is needed. Raises `NoCallError`."""
        while True:
            if self._place is _Place.KIND and not self._look_after_kind(scanner):
                return None
            if self._place is _Place.KIND:  # The word was the name of a tool.
                return Head(self._name)
            before = self._place, scanner.at
            head = self._take(scanner)
            if head is not None or before == (self._place, scanner.at):
                return head

    def _take(self, scanner: Scanner) -> Head | None:
        """Read the text up to the next marker; return None if the head continues.

        No marker begins like a name, so it has to be where the name ends. So nothing is
        searched, and text that is not a head costs no more than a name.
        """
        text = scanner.text
        begun = _BEGUN.match(text, scanner.at)
        assert begun is not None  # noqa: S101 - it matches nothing at all, too
        ends, at = self._ends(), begun.end()
        mark = next((end for end in ends if text.startswith(end, at)), "")
        if not mark and (at == len(text) or is_any_begun(text, at, ends)):
            return None
        is_new_call = mark == self._dialect.call
        may_lack_name = is_new_call or mark == self._dialect.name
        if not mark or (begun[1] is None and not may_lack_name):
            raise NoCallError("no name after the start marker")
        if is_new_call and begun[1] is not None and not self._dialect.ids:
            raise NoCallError("another call after the name")
        scanner.advance_to(at if mark == OBJECT else at + len(mark))
        return None if is_new_call else self._follow(begun[1], mark)

    def _follow(self, name: str, mark: str) -> Head | None:
        """Process the *name*, or the id, before *mark*."""
        dialect = self._dialect
        if self._place is _Place.ID:
            return Head(self._name, name)
        if mark == dialect.id:
            self._name, self._place = name, _Place.ID
            return None
        if mark == dialect.name:
            self._id = name or ""
            return None
        if mark in dialect.wholes:
            return Head(name, has_arguments=False)
        if self._place is _Place.NAME and name == dialect.kind:
            self._name, self._place = name, _Place.KIND
            return None
        return Head(name, self._id, is_fenced=mark == FENCE)

    def _ends(self) -> tuple[str, ...]:
        """Return the markers that may end the current part of the head."""
        dialect = self._dialect
        match self._place:
            case _Place.ID:
                return dialect.arguments
            case _Place.NAME_AFTER_KIND:
                return (FENCE, OBJECT, *dialect.wholes)
            case _:
                name = "" if self._id else dialect.name
                return (
                    *dialect.arguments,
                    *filter(None, (dialect.id, name, dialect.call, *dialect.wholes)),
                )

    def _look_after_kind(self, scanner: Scanner) -> bool:
        """Return whether enough text follows the word to decide what it is."""
        text, at = scanner.text, skip_blank(scanner.text, scanner.at)
        if at == len(text) or is_begun(text, at, self._dialect.call_end):
            return False
        if not text.startswith((OBJECT, self._dialect.call_end), at):
            self._place = _Place.NAME_AFTER_KIND
        return True


def skip_blank(text: str, at: int) -> int:
    """Return where the white space at *at* ends, at most `MAX_BLANK` characters of it."""
    return skip_match(BLANK, text, at)


def is_begun(text: str, at: int, marker: str) -> bool:
    """Return whether *text* ends at or after *at* in the middle of *marker*."""
    return 0 < len(text) - at < len(marker) and marker.startswith(text[at:])


def is_any_begun(text: str, at: int, ends: Iterable[str]) -> bool:
    """Return whether *text* ends at or after *at* in the middle of one of *ends*."""
    for end in ends:  # noqa: SIM110 - `any` takes twice as long
        if is_begun(text, at, end):
            return True
    return False


# `functions.` is optional, and the name may contain a colon: the last one separates the number.
def name_in_id(id: str, schemas: Mapping[str, Schema]) -> str:  # noqa: A002 - the field's name
    """Return the name in the id of a call, or an empty one if the id is only a counter.

    Such an id is ``functions.NAME:N`` (Kimi K2), and the first part may be missing.
    """
    if _COUNTER.fullmatch(id):
        return ""  # A counter is only an id. The arguments show which tool is meant.
    name = id.removeprefix(_PREFIX)
    before, colon, counter = name.rpartition(":")
    if colon and not (name in schemas and not _COUNTER.fullmatch(counter)):
        name = before
    if name in schemas:
        return name
    # The dot or the colon next to the name may be missing, doubled, or another separator.
    bare = name.strip(".:").removeprefix(_PREFIX.rstrip(".")).lstrip(".")
    candidates = (bare, _NUMBERED.sub("", bare), _NUMBERED.sub("", clean_name(id, schemas)))
    return next((known for known in candidates if known in schemas), name.strip(".:") or name)


# --- a program as a call ------------------------------------------------------------------------

TOOL: Final = "python"
"""The tool that runs programs."""

CODE: Final = "code"
"""Its argument with the program."""


class _ProgramEnding(TokenEnding):
    """The end of the turn; ``</s>`` is one only at the end of a response: elsewhere it is HTML."""

    def judge(self, text: str, at: int, value: OpenValue, *, final: bool) -> EndingJudgement:
        """Judge a token by what follows it."""
        if not text.startswith(LAST_TURN_END, at):
            return super().judge(text, at, value, final=final)
        return EndingJudgement(Action.MORE if _is_last(text, at) else Action.DATA)


_ENDING: Final = _ProgramEnding((), (*TURN_ENDS, LAST_TURN_END))


class CodeReader(BodyReader):
    """Reads a program, raw text up to the end of the turn, and calls `TOOL` with it."""

    def __init__(self) -> None:
        self.error: str | ParseError = "no program after its marker"
        self._code: OpenValue | None = None

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its call to *calls*."""
        if self._code is None:
            text, at = scanner.text, skip_blank(scanner.text, scanner.at)
            is_held = _ENDING.marks.find_held(text, at) == at
            if at == len(text) or is_held or _is_last(text, at):
                return Verdict.MORE
            if text.startswith(TURN_ENDS, at):
                return Verdict.BROKEN
        code = self._code or self._begin(calls)
        return self._close(code, calls) if read_value(code, _ENDING, scanner) else Verdict.MORE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Process the end of the text, which is the end of the turn."""
        if self._code is None and scanner.unread.strip() in ("", LAST_TURN_END):
            return Verdict.BROKEN
        code = self._code or self._begin(calls)
        if not scanner.startswith(LAST_TURN_END):
            take_text(code, scanner, len(scanner.text))
        code.close()
        return self._close(code, calls)

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._code

    def _begin(self, calls: CallSink) -> OpenValue:
        writer = calls.open(TOOL)
        if writer.streams(CODE):
            writer.open_text(CODE)
            self._code = StreamedText(_ENDING.marks, writer)
        else:
            self._code = CollectedText(marks=_ENDING.marks)
        return self._code

    def _close(self, code: OpenValue, calls: CallSink) -> Verdict:
        if isinstance(code, CollectedText) and calls.writer is not None:
            calls.writer.put(CODE, code.text)
        calls.close()
        return Verdict.DONE


def _is_last(text: str, at: int) -> bool:
    """Return whether `LAST_TURN_END` is at *at*, with only white space after it so far."""
    end = at + len(LAST_TURN_END)
    return text.startswith(LAST_TURN_END, at) and skip_blank(text, end) == len(text)
