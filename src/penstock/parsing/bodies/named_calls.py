"""A section of calls that are named outside of their arguments, or one call, up to its end.

The head names the tool; then one JSON value holds the arguments, and its own grammar says where it
ends: a marker or a fence inside a string is data. Behind it stand the end markers of the call and
of its section; where they are missing the call is good all the same, and where they come late they
still belong to it (`named_ends`). Each call of a section is one of its own: what breaks or is cut
does not undo those before it, and is given back from the outermost marker that none of them used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from penstock.errors import JSONParseError, ParseError
from penstock.parsing.bodies.base import Body, NoCallError, Run, Verdict
from penstock.parsing.bodies.json_arguments import JSONArgumentReader
from penstock.parsing.bodies.json_mending import repair_body
from penstock.parsing.bodies.named_arguments import WholeArguments, find_fitting
from penstock.parsing.bodies.named_ends import OwedEnds
from penstock.parsing.bodies.named_heads import (
    FENCE,
    OBJECT,
    Dialect,
    Head,
    HeadReader,
    is_begun,
    name_in_id,
    skip_blank,
)
from penstock.parsing.bodies.named_lists import NamedListReader
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.scanner import Scanner, markers
from penstock.values.coercion import coerce
from penstock.values.schema import Schema

MAX_ASIDE: Final = 4096
"""How much may be said in a silent section before its first call: past that it is none."""

_LABEL: Final = re.compile(r"[A-Za-z]{0,16}")  # of a fence
_CUT: Final = "the call was cut"


class NamedCallReader:
    """Reads what *marker*, which opens a section or a call of *dialect*, leads."""

    def __init__(self, dialect: Dialect, marker: str, owed: OwedEnds) -> None:
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

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
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
            verdict = Verdict.PROSE if self._is_half_tag else Verdict.BROKEN
        return self._broken(calls) if verdict is Verdict.BROKEN else verdict

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
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
            return Verdict.PROSE
        scanner.at = len(scanner.text)
        self.error = _CUT
        return Verdict.TEXT

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        reader = self._inside or self._json
        return None if reader is None else reader.run()

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now, decoded."""
        reader = self._inside or self._json
        return None if reader is None else reader.open_text()

    def _step(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Take one step; None tells to go on."""
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

    def _told(self, reader: Body, verdict: Verdict) -> Verdict:
        self.error = reader.error
        return verdict

    def _broken(self, calls: Calls) -> Verdict:
        """Give back a call that broke; what went out of it has end markers still to come."""
        if calls.started:
            self._owed.end_call(has_end=False)
        elif self._calls and self._json is None:
            # What is given back begins with a start marker; whoever reads that one tells of it.
            self.end = ""
            return Verdict.PROSE
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
        """Go behind the marker *end* of the section; without a call it is one of what broke."""
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

    def _read_head(self, reader: HeadReader, scanner: Scanner, calls: Calls) -> Verdict | None:
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

    def _begin_arguments(self, said: Head, scanner: Scanner, calls: Calls) -> Verdict | None:
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
            # Behind the end of a fence no word follows: a fence that was opened twice.
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
        """What may stand behind the arguments: the end of the call, and of the fence."""
        is_fenced = self._said is not None and self._said.is_fenced
        return tuple(filter(None, (self._dialect.call_end, FENCE if is_fenced else "")))

    def _open_empty(self, said: Head, calls: Calls) -> None:
        calls.open(said.name or find_fitting({}, calls.schemas), said.id)

    def _read_inside(
        self, inside: JSONArgumentReader | WholeArguments, scanner: Scanner, calls: Calls
    ) -> Verdict | None:
        verdict = self._told(inside, inside.read(scanner, calls))
        if verdict is not Verdict.DONE:
            return verdict
        self._inside = None
        self._is_whole = True
        return None

    def _read_tail(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Look for the end marker behind the arguments."""
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

    def _end_call(self, scanner: Scanner, calls: Calls, *, has_end: bool) -> None:
        calls.close()
        self._owed.end_call(has_end=has_end)
        self._calls += 1
        self._said = self._inside = None
        self._is_whole = False
        self._start = scanner.offset + scanner.at

    def _pass_begun(self, scanner: Scanner, ends: tuple[str, ...]) -> None:
        """Pass half an end marker that the text ends with: it is no content."""
        at = skip_blank(scanner.text, scanner.at)
        if any(is_begun(scanner.text, at, end) for end in ends):
            scanner.at = len(scanner.text)

    # --- mending ---

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
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
                return self._mended(Mended(name, value, repairs, self._said.id, payload))
        return []

    def _mended(self, call: Mended) -> list[Mended]:
        """Give *call* if its tool accepts it: then the ends of its section are owed."""
        schema = self._schemas[call.name]
        if not schema.accepts(coerce(call.arguments, schema)):
            return []
        self._owed.end_call(has_end=True)
        return [call]
