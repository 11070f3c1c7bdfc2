"""What comes before the arguments of a call that is named outside of them, as data and its reader.

All these dialects write a head and then the arguments as JSON: a marker, the tool's name, a marker.
Some have a section around the calls, some an id beside the name, some a word before it. A head is
short and has few characters to choose from, so a text that is not one is soon known to be none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from json.encoder import encode_basestring
from typing import Final

from msgspec import Struct

from penstock.errors import ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.call_sink import CallSink, NoCallError
from penstock.parsing.readers.base import OpenString, Translated, Verdict
from penstock.parsing.readers.plausible import LAST_TURN_END, TURN_ENDS
from penstock.parsing.scanner import Scanner, markers
from penstock.values.schema import Schema

MAX_NAME: Final = 256
"""How long a name or an id may be: any that an interface allows, and no prose."""

MAX_BLANK: Final = 256
"""How much white space may stand between the parts of a call."""

BLANK: Final = re.compile(rf"\s{{0,{MAX_BLANK}}}")
"""White space between the parts of a call."""

OBJECT: Final = "{"
FENCE: Final = "```"

_NAME: Final = rf"[\w.:-]{{1,{MAX_NAME}}}"
_BEGUN: Final = re.compile(rf"\s{{0,{MAX_BLANK}}}(?:({_NAME})\s{{0,{MAX_BLANK}}})?")

_PREFIX: Final = "functions."
_COUNTER: Final = re.compile(r"\d+", re.ASCII)


class HeadDialect(Struct, frozen=True):
    """How calls look that are named outside of their arguments.

    A call begins with the marker *call*; its name ends where *arguments* begin, and the call with
    *call_end*, if there is one. Where *arguments* is a brace, they begin with it. *wholes* end a
    call right after its name. *sections* and *section_ends* may stand around calls, and
    with *silent* nothing else that is in there is said to anybody.

    *id* marks an id after the name; with *ids* the name itself is an id that holds the name.
    *kind* is a word that may stand where the name does, and then the name follows, and a fence.
    With *json* calls may also be objects that have their name inside. After *code* stands a
    program, up to the end of the turn. *new_id* shows an id as the models take it, for a call that
    has none: the place in it takes the number of the call.
    """

    call: str
    arguments: tuple[str, ...]
    call_end: str = ""
    wholes: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    section_ends: tuple[str, ...] = ()
    silent: bool = False
    id: str = ""
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
    """The *name* that a head says, and the *id* beside it.

    Without *has_arguments* nothing follows it; *is_fenced* tells that the arguments are in a
    fence.
    """

    name: str
    id: str = ""
    has_arguments: bool = True
    is_fenced: bool = False


class _Place(Enum):
    """What is to come next in a head."""

    NAME = "the name, or a word that stands in its place"
    KIND = "the name, or the arguments, behind such a word"
    NAME_BEHIND_KIND = "the name"
    ID = "the id"


class HeadReader:
    """Reads one head of *dialect*."""

    def __init__(self, dialect: HeadDialect) -> None:
        self._dialect = dialect
        self._place = _Place.NAME
        self._name = ""

    def read(self, scanner: Scanner) -> Head | None:
        """Read on; None for more text. Raises `NoCallError`."""
        while True:
            if self._place is _Place.KIND and not self._look_behind_kind(scanner):
                return None
            if self._place is _Place.KIND:  # The word was the name of a tool.
                return Head(self._name)
            before = self._place, scanner.at
            head = self._take(scanner)
            if head is not None or before == (self._place, scanner.at):
                return head

    def _take(self, scanner: Scanner) -> Head | None:
        """Take the text up to the next marker; None where the head continues.

        No marker begins like a name, so it stands where the name ends: nothing is looked for
        after that, and what is not a head costs no more than a name.
        """
        text = scanner.text
        begun = _BEGUN.match(text, scanner.at)
        assert begun is not None  # noqa: S101 - it matches nothing at all, too
        ends, at = self._ends(), begun.end()
        mark = next((end for end in ends if text.startswith(end, at)), "")
        if not mark and (at == len(text) or any(is_begun(text, at, end) for end in ends)):
            return None
        is_new_call = mark == self._dialect.call
        if not mark or (begun[1] is None and not is_new_call):
            raise NoCallError("no name behind the start marker")
        scanner.at = at if mark == OBJECT else at + len(mark)
        return None if is_new_call else self._follow(begun[1], mark)

    def _follow(self, name: str, mark: str) -> Head | None:
        """Note the *name*, or the id, that *mark* has ended."""
        dialect = self._dialect
        if self._place is _Place.ID:
            return Head(self._name, name)
        if mark == dialect.id:
            self._name, self._place = name, _Place.ID
            return None
        if mark in dialect.wholes:
            return Head(name, has_arguments=False)
        if self._place is _Place.NAME and name == dialect.kind:
            self._name, self._place = name, _Place.KIND
            return None
        return Head(name, is_fenced=mark == FENCE)

    def _ends(self) -> tuple[str, ...]:
        """Return what may end the part of the head that is being read."""
        dialect = self._dialect
        match self._place:
            case _Place.ID:
                return dialect.arguments
            case _Place.NAME_BEHIND_KIND:
                return (FENCE, OBJECT, *dialect.wholes)
            case _:
                restart = dialect.call if dialect.ids else ""
                ends = (dialect.id, restart, *dialect.wholes)
                return (*dialect.arguments, *filter(None, ends))

    def _look_behind_kind(self, scanner: Scanner) -> bool:
        """Return whether it is known what follows the word that may be none."""
        text, at = scanner.text, skip_blank(scanner.text, scanner.at)
        if at == len(text) or is_begun(text, at, self._dialect.call_end):
            return False
        if not text.startswith((OBJECT, self._dialect.call_end), at):
            self._place = _Place.NAME_BEHIND_KIND
        return True


def skip_blank(text: str, at: int) -> int:
    """Skip white space from *at* on, as much as may stand between the parts of a call."""
    found = BLANK.match(text, at)
    return found.end() if found else at


def is_begun(text: str, at: int, marker: str) -> bool:
    """Return whether *text* ends at or after *at* in the middle of *marker*."""
    return 0 < len(text) - at < len(marker) and marker.startswith(text[at:])


def name_in_id(id: str, schemas: Mapping[str, Schema]) -> str:  # noqa: A002 - the field's name
    """Return the name that a call's id holds; empty where it is nothing but a counter.

    Such an id is ``functions.NAME:N``, and the first part of it may be missing.
    """
    if _COUNTER.fullmatch(id):
        return ""
    name = id.removeprefix(_PREFIX)
    before, colon, counter = name.rpartition(":")
    if colon and not (name in schemas and not _COUNTER.fullmatch(counter)):
        name = before
    if name in schemas:
        return name
    # What is glued to a tool's name, where the dot or the colon beside it is missing or doubled.
    bare = name.strip(".:").removeprefix(_PREFIX.rstrip(".")).lstrip(".")
    uncounted = bare.rstrip("0123456789")
    return next(
        (known for known in (bare, uncounted) if known in schemas), name.strip(".:") or name
    )


# A program that is the whole call: raw text after its marker, up to the end of the turn.
#
# It is verbatim: nothing in it is markup but the token that ends the turn, and that is not a part
# of it. ``</s>`` is such a token only as the last thing of the answer; elsewhere it is HTML.


TOOL: Final = "python"
"""The tool that runs programs."""

CODE: Final = "code"
"""The argument of it that is the program."""

_ENDS: Final = markers(*TURN_ENDS, LAST_TURN_END)
_SPECIAL: Final = re.compile(r'[<"\\\x00-\x1f]')


class CodeReader:
    """Reads a program and calls `TOOL` with it."""

    def __init__(self) -> None:
        self.error: str | ParseError = "no program behind its marker"
        self.end = ""
        self._writer: ArgumentWriter | None = None
        self._streams = False
        self._pieces: list[str] = []

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if self._writer is None:
            text, at = scanner.text, skip_blank(scanner.text, scanner.at)
            if at == len(text) or _ENDS.find_held(text, at) == at or _is_last(text, at):
                return Verdict.MORE
            if text.startswith(TURN_ENDS, at):
                return Verdict.BROKEN
            self._begin(calls)
        return self._read_code(scanner, calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended, and the turn with it."""
        if self._writer is None:
            if scanner.unread.strip() in ("", LAST_TURN_END):
                return Verdict.BROKEN
            self._begin(calls)
        if not scanner.text.startswith(LAST_TURN_END, scanner.at):
            self._add(scanner, len(scanner.text))
        return self._close(calls)

    def run(self) -> OpenString | None:
        """Return the program as a run."""
        return OpenString(_SPECIAL, self._pieces, _translate) if self._streams else None

    def _begin(self, calls: CallSink) -> None:
        self._writer = calls.open(TOOL)
        self._streams = self._writer.streams(CODE)
        if self._streams:
            self._writer.open_text(CODE)

    def _read_code(self, scanner: Scanner, calls: CallSink) -> Verdict:
        text = scanner.text
        while found := _ENDS.find(text, scanner.at):
            self._add(scanner, found.start())
            if found[0] != LAST_TURN_END:
                return self._close(calls)
            if _is_last(text, found.start()):
                return Verdict.MORE
            self._add(scanner, found.end())
        self._add(scanner, _ENDS.find_held(text, scanner.at))
        return Verdict.MORE

    def _add(self, scanner: Scanner, end: int) -> None:
        """Take the text up to *end* as part of the program."""
        assert self._writer is not None  # noqa: S101 - the program has begun
        piece = scanner.text[scanner.at : end]
        if not piece:
            return
        scanner.at = end
        self._pieces.append(piece)
        if self._streams:
            self._writer.add_text(piece)

    def _close(self, calls: CallSink) -> Verdict:
        assert self._writer is not None  # noqa: S101 - the program has begun
        code = "".join(self._pieces)
        if self._streams:
            self._writer.close_text(code)
        else:
            self._writer.put(CODE, code)
        self._streams = False
        calls.close()
        return Verdict.DONE


def _is_last(text: str, at: int) -> bool:
    """Return whether the token that ends an answer is at *at*, and nothing after it so far."""
    end = at + len(LAST_TURN_END)
    return text.startswith(LAST_TURN_END, at) and skip_blank(text, end) == len(text)


def _translate(text: str) -> Translated | None:
    """Read a piece without any token that ends a turn; what may begin one is left."""
    if _ENDS.find(text) is not None:
        return None
    text = text[: _ENDS.find_held(text)]
    return text, encode_basestring(text)[1:-1], len(text)
