"""A section of calls that are named outside of their arguments, or one call, up to its end.

The head names the tool; then one JSON value holds the arguments, and its own grammar says where it
ends: a marker or a fence inside a string is data. After it stand the end markers of the call and
of its section; where they are missing the call is good all the same, and where they come late they
still belong to it (`named_ends`). Each call of a section is one of its own: what breaks or is cut
does not undo those before it, and is given back from the outermost marker that none of them used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final

from penstock.errors import JSONParseError, ParseError
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.readers.base import BodyReader, OpenString, Verdict
from penstock.parsing.readers.envelope import JSONArgumentReader, read_arguments, repair_body
from penstock.parsing.readers.json_calls import JSONCallReader
from penstock.parsing.readers.json_steps import BrokenJSONError, JSONFlow, JSONSteps
from penstock.parsing.readers.named_heads import (
    FENCE,
    OBJECT,
    CodeReader,
    Head,
    HeadDialect,
    HeadReader,
    is_begun,
    name_in_id,
    skip_blank,
)
from penstock.parsing.scanner import Scanner, markers
from penstock.values.coercion import coerce
from penstock.values.schema import Schema

__all__ = ["HeadDialect", "NamedCallReader", "NamedSyntax"]


# Arguments after a head: an object that streams, or a value that is read when it is whole.
#
# An object is written as it comes. Nothing at all, ``null`` and a text that holds the object
# are arguments too, and where the head has lost the tool's name, the keys of the object tell
# which tool is meant: those wait until the value is whole.


class WholeArguments:
    """Reads the arguments of the call of *name* and opens it once they are whole.

    Without a name the tool is the one that fits them best.
    """

    def __init__(self, name: str, id: str) -> None:  # noqa: A002 - the field's name
        self.error: str | ParseError = ""
        self.end = ""
        self._name = name
        self._id = id
        self._steps = JSONSteps()
        self._value: Any = None

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; `DONE` tells that the value is whole, and that the call is open."""
        try:
            while scanner.at < len(scanner.text) and not self._steps.complete:
                before = scanner.at
                if not self._step(scanner) and scanner.at == before:
                    return Verdict.MORE
            if not self._steps.complete:
                return Verdict.MORE
            self._write(read_arguments(self._value), calls)
        except (NoCallError, ParseError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            if isinstance(exc, BrokenJSONError):
                scanner.at = max(scanner.at, exc.at)
            return Verdict.BROKEN
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended inside the value."""
        del scanner, calls
        return Verdict.GIVE_UP

    def run(self) -> OpenString | None:
        """Return nothing: no string streams."""
        return None

    def open_text(self) -> str | None:
        """Return nothing: no string streams."""
        return None

    def _step(self, scanner: Scanner) -> bool:
        changes, scanner.at = self._steps.step(scanner.text, scanner.at, JSONFlow.WAITS)
        for change in changes:
            if not change.path and change.kind in ("value", "end"):
                self._value = change.value
        return bool(changes)

    def _write(self, arguments: dict[str, Any], calls: CallSink) -> None:
        name = self._name or find_fitting(arguments, calls.schemas)
        writer = calls.open(name, self._id)
        calls.note(*self._steps.take_relaxed())
        for key, value in arguments.items():
            writer.put_typed(key, value)


def find_fitting(arguments: dict[str, Any], schemas: Mapping[str, Schema]) -> str:
    """Return the name of the tool that *arguments* fit best.

    That is the one that declares most of the keys, less those that it does not; then the one that
    misses the fewest of what it requires, and of what it declares. Raises `NoCallError` where no
    tool declares any of them.
    """
    keys = arguments.keys()

    def fit(name: str) -> tuple[int, int, int]:
        schema = schemas[name]
        declared = schema.properties.keys()
        missing = len([key for key in schema.required if key not in keys])
        return len(keys & declared) - len(keys - declared), -missing, -len(declared - keys)

    best = max(schemas, key=fit, default="")
    if not best or (keys and not keys & schemas[best].properties.keys()):
        raise NoCallError("a call without a name, and no tool that fits its arguments")
    return best


# End markers that come late, after text that is between them and their call.
#
# Arguments end by themselves, so text may follow them before the end markers of the call and of
# its section do. The markers still belong to the call and are not content. Those of a section
# that gave no call are. Which of them are owed is what the readers of one answer have to tell
# each other.


class OwedEnds:
    """The end markers that belong to calls which have come out, and have not come themselves."""

    def __init__(self, dialect: HeadDialect) -> None:
        self._dialect = dialect
        self._call = False
        self._section = False

    def begin_section(self) -> None:
        """Note that a section has begun: nothing is owed to those before it."""
        self._call = self._section = False

    def begin_call(self) -> None:
        """Note that a call has begun: an end marker from here on is its own."""
        self._call = False

    def end_call(self, *, has_end: bool) -> None:
        """Note that a call has come out; *has_end* tells that its own end marker has come."""
        self._call = not has_end
        self._section = True

    def take(self, marker: str) -> bool:
        """Return whether *marker* is owed, which is then no more."""
        if marker == self._dialect.call_end:
            is_owed, self._call = self._call, False
        else:
            is_owed = self._section
            self.begin_section()
        return is_owed


class EndReader:
    """Stands for an end *marker* outside of calls: dropped where it is owed, text elsewhere."""

    def __init__(self, marker: str, owed: OwedEnds) -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self._marker = marker
        self._owed = owed

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say at once whether the marker belongs to a call."""
        del scanner, calls
        return Verdict.DONE if self._owed.take(self._marker) else Verdict.NOT_A_CALL

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say the same."""
        return self.read(scanner, calls)

    def run(self) -> None:
        """Give nothing: no string streams."""


# Calls in JSON after a marker that begins like JSON itself.


class NamedListReader(JSONCallReader):
    """Reads calls in JSON after *marker*, which may come again and begins like a list."""

    def __init__(self, marker: str) -> None:
        super().__init__("")
        self._marker = marker

    def _read_behind(self, scanner: Scanner) -> Verdict | None:
        text, at = scanner.text, skip_blank(scanner.text, scanner.at)
        if text.startswith(self._marker, at):
            return Verdict.DONE
        if is_begun(text, at, self._marker):
            return Verdict.MORE
        if text.startswith("[", at):
            item = skip_blank(text, at + 1)
            if not text.startswith(OBJECT, item):  # a bracket of the text that follows
                return Verdict.MORE if item == len(text) else Verdict.DONE
        return super()._read_behind(scanner)


MAX_ASIDE: Final = 4096
"""How much may be said in a silent section before its first call: past that it is not one."""

_LABEL: Final = re.compile(r"[A-Za-z]{0,16}")  # of a fence
_CUT: Final = "the call was cut"


class NamedCallReader:
    """Reads what *marker*, which opens a section or a call of *dialect*, leads."""

    def __init__(self, dialect: HeadDialect, marker: str, owed: OwedEnds) -> None:
        self.error: str | ParseError = ""
        self.end = dialect.call_end
        self._dialect = dialect
        self._owed = owed
        self._in_section = marker in dialect.sections
        self._section_end = (
            dialect.section_ends[dialect.sections.index(marker)] if self._in_section else ""
        )
        self._calls = 0  # that have come to their end
        self._start = -1  # where in the answer the text begins that no call has used
        self._payload = -1  # where the arguments begin
        self._aside = 0  # how much was passed in a silent section
        self._schemas: Mapping[str, Schema] = {}
        self._json: NamedListReader | None = None  # that reads calls with their name inside
        self._head: HeadReader | None = None
        self._said: Head | None = None  # what the head has said
        self._inside: JSONArgumentReader | WholeArguments | None = None
        self._is_whole = False  # the arguments are
        self._is_labelled = False  # the label of the fence may follow
        if self._in_section:
            owed.begin_section()
        else:
            self._begin_call()

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if self._start < 0:
            self._start = scanner.offset + scanner.at
            self._schemas = calls.schemas
        try:
            verdict = None
            while verdict is None:
                verdict = self._step(scanner, calls)
        except NoCallError as exc:
            self.error = str(exc)
            verdict = Verdict.NOT_A_CALL if self._is_half_tag else Verdict.BROKEN
        return self._broken(calls) if verdict is Verdict.BROKEN else verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: calls whose arguments are whole stand."""
        if self._json is not None:
            return self._told(self._json, self._json.finish(scanner, calls))
        if self._is_whole:
            self._pass_begun(scanner, self._tail_ends)
            self._end_call(scanner, calls, has_end=False)
        if self._calls and self._head is None and self._said is None:
            self._pass_begun(scanner, self._dialect.section_ends)
            return Verdict.DONE
        if self._is_half_tag:
            return Verdict.NOT_A_CALL
        scanner.at = len(scanner.text)
        self.error = _CUT
        return Verdict.GIVE_UP

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        reader = self._inside or self._json
        return None if reader is None else reader.run()

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now, decoded."""
        reader = self._inside or self._json
        return None if reader is None else reader.open_text()

    def _step(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take one step; None tells to continue."""
        if self._json is not None:
            return self._told(self._json, self._json.read(scanner, calls))
        if self._head is not None:
            return self._read_head(self._head, scanner, calls)
        if self._is_whole:
            return self._read_tail(scanner, calls)
        if self._inside is not None:
            return self._read_inside(self._inside, scanner, calls)
        if self._said is not None:
            return self._begin_arguments(self._said, scanner, calls)
        if self._dialect.silent and self._in_section:
            return self._skip_aside(scanner)
        return self._read_between(scanner)

    @property
    def _is_half_tag(self) -> bool:
        """Whether nothing has come but half a tag, which may well be prose."""
        return self._head is not None and self._dialect.call.endswith("=")

    def _told(self, reader: BodyReader, verdict: Verdict) -> Verdict:
        self.error = reader.error
        return verdict

    def _broken(self, calls: CallSink) -> Verdict:
        """Return back a call that broke; what went out of it has end markers still to come."""
        if calls.started:
            self._owed.end_call(has_end=False)
        elif self._calls and self._json is None:
            # What is given back begins with a start marker; whoever reads that one tells of it.
            self.end = ""
            return Verdict.NOT_A_CALL
        return Verdict.BROKEN

    # --- around calls ---

    def _read_between(self, scanner: Scanner) -> Verdict | None:
        """Take what follows a call, or the beginning of a section."""
        text, at = scanner.text, skip_blank(scanner.text, scanner.at)
        if not self._dialect.sections:
            return Verdict.DONE
        if at == len(text):
            return Verdict.MORE
        ends = self._dialect.section_ends if self._calls else ()
        if text.startswith(self._dialect.call, at):
            scanner.at = at
            if not self._in_section:
                return Verdict.DONE
            scanner.at += len(self._dialect.call)
            self._begin_call()
            return None
        for end in ends:
            if text.startswith(end, at):
                return self._end_section(scanner, end, at + len(end))
        if any(is_begun(text, at, marker) for marker in (self._dialect.call, *ends)):
            return Verdict.MORE
        return self._leave()

    def _skip_aside(self, scanner: Scanner) -> Verdict | None:
        """Pass what is said in a silent section, up to the next call or the end of it."""
        text, around = scanner.text, markers(self._dialect.call, *self._dialect.section_ends)
        room = len(text) if self._calls else MAX_ASIDE - self._aside + around.longest
        found = around.find(text, scanner.at, scanner.at + room)
        end = found.start() if found else around.find_held(text, scanner.at)
        begin, self._aside = scanner.at - self._aside, self._aside + end - scanner.at
        if not self._calls and self._aside > MAX_ASIDE:
            scanner.at = begin + MAX_ASIDE
            return self._leave()
        scanner.at = found.end() if found else end
        if found is None:
            return Verdict.MORE
        if found[0] != self._dialect.call:
            return self._end_section(scanner, found[0], found.end())
        self._begin_call()
        return None

    def _end_section(self, scanner: Scanner, end: str, behind: int) -> Verdict:
        """Go after the marker *end* of the section; without a call it is one of what broke."""
        self._section_end = end
        if self._calls:
            scanner.at = behind
            self._owed.begin_section()
        return self._leave()

    def _leave(self) -> Verdict:
        """Go where neither a call nor the end of the section stands, or where that has come."""
        if self._calls:
            return Verdict.DONE
        self.error = "a section without a call"
        self.end = self._section_end
        return Verdict.BROKEN

    # --- heads ---

    def _begin_call(self) -> None:
        self.error = ""
        self._head = HeadReader(self._dialect)
        self._owed.begin_call()

    def _read_head(self, reader: HeadReader, scanner: Scanner, calls: CallSink) -> Verdict | None:
        if self._dialect.json and scanner.offset + scanner.at == self._start:
            at = skip_blank(scanner.text, scanner.at)
            if scanner.text[at : at + 1] in ("[", OBJECT):
                self._json = NamedListReader(self._dialect.call)
                return None
        said = reader.read(scanner)
        if said is None:
            return Verdict.MORE
        name, id_ = said.name, said.id
        if self._dialect.ids:
            name, id_ = name_in_id(said.name, calls.schemas), said.name
        calls.name = name
        self._head = None
        self._said = Head(name, id_, said.has_arguments, said.is_fenced)
        self._is_labelled = said.is_fenced
        self._payload = scanner.offset + scanner.at
        if not said.has_arguments:
            self._open_empty(self._said, calls)
            self._end_call(scanner, calls, has_end=True)
        return None

    # --- arguments ---

    def _begin_arguments(self, said: Head, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Look at how the arguments begin, if there are any."""
        text, at = scanner.text, scanner.at
        if self._is_labelled:
            label = _LABEL.match(text, at)
            at = label.end() if label else at
            if at == len(text):
                return Verdict.MORE
            self._is_labelled = False
            scanner.at = at
        at = skip_blank(text, at)
        if at == len(text) or any(is_begun(text, at, end) for end in self._tail_ends):
            return Verdict.MORE
        if said.is_fenced and text.startswith(FENCE, at):
            # After the end of a fence no word follows: a fence that was opened twice.
            behind = at + len(FENCE)
            if behind == len(text):
                return Verdict.MORE
            if text[behind].isalpha():
                scanner.at, self._is_labelled = behind, True
                return None
        if text.startswith(self._tail_ends, at):
            self._open_empty(said, calls)
            self._is_whole = True
        elif text[at] == OBJECT and said.name:
            calls.open(said.name, said.id)
            self._inside = JSONArgumentReader(said.name, calls.schemas.get(said.name))
        else:
            self._inside = WholeArguments(said.name, said.id)
        return None

    @property
    def _tail_ends(self) -> tuple[str, ...]:
        """What may stand after the arguments: the end of the call, and of the fence."""
        is_fenced = self._said is not None and self._said.is_fenced
        return tuple(filter(None, (self._dialect.call_end, FENCE if is_fenced else "")))

    def _open_empty(self, said: Head, calls: CallSink) -> None:
        calls.open(said.name or find_fitting({}, calls.schemas), said.id)

    def _read_inside(
        self, inside: JSONArgumentReader | WholeArguments, scanner: Scanner, calls: CallSink
    ) -> Verdict | None:
        verdict = self._told(inside, inside.read(scanner, calls))
        if verdict is not Verdict.DONE:
            return verdict
        self._inside = None
        self._is_whole = True
        return None

    def _read_tail(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Look for the end marker after the arguments."""
        text, at = scanner.text, skip_blank(scanner.text, scanner.at)
        end, ends = self._dialect.call_end, self._tail_ends
        if at == len(text) or any(is_begun(text, at, each) for each in ends):
            return Verdict.MORE
        if end and text.startswith(end, at):
            scanner.at = at + len(end)
            self._end_call(scanner, calls, has_end=True)
        elif text.startswith(ends, at):
            scanner.at = at + len(FENCE)
        elif text[at] in "}]":  # models write too many
            scanner.at = at + 1
        else:
            self._end_call(scanner, calls, has_end=False)
        return None

    def _end_call(self, scanner: Scanner, calls: CallSink, *, has_end: bool) -> None:
        calls.close()
        self._owed.end_call(has_end=has_end)
        self._calls += 1
        self._said = self._inside = None
        self._is_whole = False
        self._start = scanner.offset + scanner.at

    def _pass_begun(self, scanner: Scanner, ends: tuple[str, ...]) -> None:
        """Pass half an end marker that the text ends with: it is not a content."""
        at = skip_blank(scanner.text, scanner.at)
        if any(is_begun(scanner.text, at, end) for end in ends):
            scanner.at = len(scanner.text)

    # --- repairing ---

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make the call of *text*, whose arguments are broken, or not whole."""
        if self._json is not None:
            return self._json.mend(text, ended=ended)
        if self._said is None:
            return []
        with suppress(NoCallError, JSONParseError):
            value, repairs, payload = repair_body(
                text[self._payload - self._start :], self._dialect.call_end
            )
            if not isinstance(value, dict):
                return []
            name = self._said.name or find_fitting(value, self._schemas)
            if name in self._schemas:
                return self._mended(RepairedCall(name, value, repairs, self._said.id, payload))
        return []

    def _mended(self, call: RepairedCall) -> list[RepairedCall]:
        """Return *call* if its tool accepts it: then the ends of its section are owed."""
        schema = self._schemas[call.name]
        if not schema.accepts(coerce(call.arguments, schema)):
            return []
        self._owed.end_call(has_end=True)
        return [call]


# Calls with the name outside and JSON inside: one reader, several dialects.
#
# A `HeadDialect` says how the markers look, as data. `NamedCallReader` reads a section of calls or
# a call by itself, `HeadReader` what names the tool; the arguments are read by the reader of
# any JSON object whose tool is known. `CodeReader` reads the one call that is no JSON at all,
# and `EndReader` the end markers that come late.


class NamedSyntax:
    """The syntax of one answer in *dialect*: its readers tell each other which ends are owed."""

    folds = False

    def __init__(self, dialect: HeadDialect) -> None:
        self.starts = (*dialect.openers, *dialect.closers)
        self._dialect = dialect
        self._owed = OwedEnds(dialect)
        self._numbers = count(1)

    @property
    def new_id(self) -> Callable[[], str] | None:
        """What gives an id to a call that brings none; None where any will do."""
        shown = self._dialect.new_id
        return (lambda: shown.format(next(self._numbers))) if shown else None

    def body(self, marker: str) -> BodyReader:
        """Return a fresh reader for what follows *marker*."""
        if marker in self._dialect.closers:
            return EndReader(marker, self._owed)
        if marker == self._dialect.code:
            return CodeReader()
        return NamedCallReader(self._dialect, marker, self._owed)
