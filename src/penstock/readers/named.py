"""Calls that are named outside of their arguments: a head with the name, then a JSON value.

A `HeadDialect` describes the markers as data. The grammar of JSON decides where the arguments end:
a marker or a fence inside a string is data. The end markers of the call and of its section follow;
if they are missing, the call is complete all the same, and if they come late, they still belong to
it (`OwedEnds`). Each call of a section is independent: one that breaks or is cut does not undo
those before it, and it is text from the outermost marker that no call has used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final

from penstock.errors import JSONParseError
from penstock.parsing.body import CALL_CUT, BodyReader, StreamingPart, Syntax, Verdict
from penstock.parsing.call_shape import parse_arguments
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.scanner import Scanner, markers, skip_match
from penstock.readers.envelope import JSONSteps, repair_body
from penstock.readers.json_arguments import JSONArgumentReader
from penstock.readers.json_calls import EARLY_END, SURPLUS, JSONCallReader, precedes_member
from penstock.readers.loose_bodies import NOTE, read_body
from penstock.readers.named_heads import (
    FENCE,
    OBJECT,
    CodeReader,
    Head,
    HeadDialect,
    HeadReader,
    is_any_begun,
    is_begun,
    name_in_id,
    skip_blank,
)
from penstock.tools import clean_name
from penstock.values.coercion import coerce
from penstock.values.control_tokens import has_control_token, without_turn_end
from penstock.values.incremental_state import Change
from penstock.values.schema import Schema

__all__ = ["HeadDialect", "NamedCallReader", "NamedSyntax"]


# --- arguments ----------------------------------------------------------------------------------


class WholeArguments(JSONArgumentReader):
    """Reads arguments that are not an object after a name, and opens the call at their end.

    They may be ``null`` or the JSON of an object in a string. Where the head has lost the name of
    the tool, it is the tool that fits the arguments best.
    """

    def __init__(self, name: str, id: str) -> None:  # noqa: A002 - the field's name
        super().__init__(name, None)
        self._id = id
        self._value: Any = None

    def _follow(self, change: Change, calls: CallSink) -> None:
        del calls
        if not change.path and change.kind in ("value", "end"):
            self._value = change.value

    def _complete(self, steps: JSONSteps, calls: CallSink) -> None:
        arguments = parse_arguments(self._value)
        name = self._name or find_fitting(arguments, calls.schemas)
        writer = calls.open(name, self._id)
        calls.note(*steps.take_relaxed())
        for key, value in arguments.items():
            writer.put_typed(key, value)


def find_fitting(arguments: dict[str, Any], schemas: Mapping[str, Schema]) -> str:
    """Return the name of the tool that *arguments* fit best.

    That is the one that declares most of the keys, minus those that it does not declare; then the
    one with the fewest required properties missing, and the fewest declared ones. Raises
    `NoCallError` if no tool declares any of them.
    """
    keys = arguments.keys()

    def fit(name: str) -> tuple[int, int, int]:
        schema = schemas[name]
        declared = schema.properties.keys()
        missing = len([key for key in schema.required if key not in keys])
        return len(keys & declared) - len(keys - declared), -missing, -len(declared - keys)

    best = max(schemas, key=fit, default="")
    if not best or (keys and not keys & schemas[best].properties.keys()):
        raise NoCallError("the call has no name, and no tool fits its arguments")
    return best


# --- late end markers ---------------------------------------------------------------------------


class OwedEnds:
    """The end markers that are still to come for calls that were emitted.

    The JSON of the arguments ends without a marker, so text may be between it and the end markers
    of the call and of its section. Those markers belong to the call and are not text; the end
    marker of a section without calls is text. The readers of one response share this object.
    """

    def __init__(self, dialect: HeadDialect) -> None:
        self._dialect = dialect
        self._call = False
        self._section = False

    def begin_section(self) -> None:
        """Begin a section: forget the end markers of earlier ones."""
        self._call = self._section = False

    def begin_call(self) -> None:
        """Begin a call: an end marker from here on is its own."""
        self._call = False

    def end_call(self, *, has_end: bool) -> None:
        """Note that a call was emitted; with *has_end*, its own end marker was read."""
        self._call = not has_end
        self._section = True

    def take(self, marker: str) -> bool:
        """Return whether *marker* is expected, and expect it no more."""
        if marker == self._dialect.call_end:
            is_owed, self._call = self._call, False
        else:
            is_owed = self._section
            self.begin_section()
        return is_owed


class EndReader(BodyReader):
    """Reads an end *marker* outside of calls: it is dropped if it is owed, and text otherwise."""

    def __init__(self, marker: str, owed: OwedEnds) -> None:
        self._marker = marker
        self._owed = owed

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Return whether the marker belongs to a call."""
        del scanner, calls
        return Verdict.DONE if self._owed.take(self._marker) else Verdict.NOT_A_CALL


# --- calls --------------------------------------------------------------------------------------


class NamedListReader(JSONCallReader):
    """Reads calls that have their name in the JSON, after *marker*, which may be repeated."""

    def __init__(self, marker: str) -> None:
        super().__init__("")
        self._marker = marker

    def _read_after(self, scanner: Scanner) -> Verdict | None:
        text, at = scanner.text, skip_blank(scanner.text, scanner.at)
        if text.startswith(self._marker, at):
            return Verdict.DONE
        if is_begun(text, at, self._marker):
            return Verdict.MORE
        if text.startswith("[", at):
            item = skip_blank(text, at + 1)
            if not text.startswith(OBJECT, item):  # a bracket of the text after the calls
                return Verdict.MORE if item == len(text) else Verdict.DONE
        return super()._read_after(scanner)


MAX_ASIDE: Final = 4096
"""How much text a silent section may have before its first call; with more it is not a section."""

_LABEL: Final = re.compile(r"[A-Za-z]{0,16}")  # of a fence


class NamedCallReader(BodyReader):
    """Reads the section or the call of *dialect* that *marker* opens."""

    is_repairable = True

    def __init__(self, dialect: HeadDialect, marker: str, owed: OwedEnds) -> None:
        self.end = dialect.call_end
        self._dialect = dialect
        self._owed = owed
        self._in_section = marker in dialect.sections
        self._section_end = (
            dialect.section_ends[dialect.sections.index(marker)] if self._in_section else ""
        )
        self._calls = 0  # how many are complete
        self._start = -1  # the position of the text that no call has used
        self._payload = -1  # the position of the arguments
        self._aside = 0  # how much text of a silent section was skipped
        self._schemas: Mapping[str, Schema] = {}
        self._json: NamedListReader | None = None  # reads calls with their name inside
        self._head_reader: HeadReader | None = None
        self._head: Head | None = None  # the head that was read
        self._tail_ends: tuple[str, ...] = ()  # after its arguments: the end of call and fence
        self._inside: JSONArgumentReader | WholeArguments | None = None
        self._is_whole = False  # the arguments are complete
        self._is_labelled = False  # the label of a fence may follow
        if self._in_section:
            owed.begin_section()
        else:
            self._begin_call()

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        if self._start < 0:
            self._start = scanner.position
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
        """Process the end of the text: calls with complete arguments are complete."""
        if self._json is not None:
            return self._relay(self._json, self._json.finish(scanner, calls))
        if self._is_whole:
            scanner.advance_to(skip_match(SURPLUS, scanner.text, scanner.at))
            self._pass_begun(scanner, self._tail_ends)
            self._end_call(scanner, calls, has_end=False)
        if self._calls and self._head_reader is None and self._head is None:
            self._pass_begun(scanner, self._dialect.section_ends)
            return Verdict.DONE
        if self._is_half_tag:
            return Verdict.NOT_A_CALL
        scanner.skip_all()
        self.error = CALL_CUT
        return Verdict.GIVE_UP

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._inside or self._json

    def _step(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read one part; return None to continue."""
        if self._json is not None:
            return self._relay(self._json, self._json.read(scanner, calls))
        if self._head_reader is not None:
            return self._read_head(self._head_reader, scanner, calls)
        if self._is_whole:
            return self._read_tail(scanner, calls)
        if self._inside is not None:
            return self._read_inside(self._inside, scanner, calls)
        if self._head is not None:
            return self._begin_arguments(self._head, scanner, calls)
        if self._dialect.silent and self._in_section:
            return self._skip_aside(scanner)
        return self._read_between(scanner)

    @property
    def _is_half_tag(self) -> bool:
        """Whether only half a tag was read, which may be prose."""
        return self._head_reader is not None and self._dialect.call.endswith("=")

    def _broken(self, calls: CallSink) -> Verdict:
        """Return the verdict on a call that broke; if it was emitted, its end markers are owed."""
        if calls.started:
            self._owed.end_call(has_end=False)
        elif self._calls and self._json is None:
            # The text begins with a start marker, and its reader reports the error.
            self.end = ""
            return Verdict.NOT_A_CALL
        return Verdict.BROKEN

    # --- around calls ---

    def _read_between(self, scanner: Scanner) -> Verdict | None:
        """Read the text after a call, or the beginning of a section."""
        text, at = scanner.text, skip_blank(scanner.text, scanner.at)
        if not self._dialect.sections:
            return Verdict.DONE
        if at == len(text):
            return Verdict.MORE
        ends = self._dialect.section_ends if self._calls else ()
        if text.startswith(self._dialect.call, at):
            scanner.advance_to(at)
            if not self._in_section:
                return Verdict.DONE
            scanner.skip(len(self._dialect.call))
            self._begin_call()
            return None
        for end in ends:
            if text.startswith(end, at):
                return self._end_section(scanner, end, at + len(end))
        if is_any_begun(text, at, (self._dialect.call, *ends)):
            return Verdict.MORE
        return self._leave()

    def _skip_aside(self, scanner: Scanner) -> Verdict | None:
        """Skip the text of a silent section, up to the next call or the end of the section."""
        text, around = scanner.text, markers(self._dialect.call, *self._dialect.section_ends)
        room = len(text) if self._calls else MAX_ASIDE - self._aside + around.longest
        found = around.find(text, scanner.at, scanner.at + room)
        end = found.start() if found else around.find_held(text, scanner.at)
        begin, self._aside = scanner.at - self._aside, self._aside + end - scanner.at
        if not self._calls and self._aside > MAX_ASIDE:
            scanner.advance_to(begin + MAX_ASIDE)
            return self._leave()
        scanner.advance_to(found.end() if found else end)
        if found is None:
            return Verdict.MORE
        if found[0] != self._dialect.call:
            return self._end_section(scanner, found[0], found.end())
        self._begin_call()
        return None

    def _end_section(self, scanner: Scanner, end: str, after: int) -> Verdict:
        """Process the marker *end* of the section; without calls, the section is broken."""
        self._section_end = end
        if self._calls:
            scanner.advance_to(after)
            self._owed.begin_section()
        return self._leave()

    def _leave(self) -> Verdict:
        """Return the verdict at the end of the section, or at other text."""
        if self._calls:
            return Verdict.DONE
        self.error = "the section has no calls"
        self.end = self._section_end
        return Verdict.BROKEN

    # --- heads ---

    def _begin_call(self) -> None:
        self.error = ""
        self._head_reader = HeadReader(self._dialect)
        self._owed.begin_call()

    def _read_head(self, reader: HeadReader, scanner: Scanner, calls: CallSink) -> Verdict | None:
        if self._dialect.json and scanner.position == self._start:
            at = skip_blank(scanner.text, scanner.at)
            if scanner.text[at : at + 1] in ("[", OBJECT):
                self._json = NamedListReader(self._dialect.call)
                return None
        head = reader.read(scanner)
        if head is None:
            return Verdict.MORE
        name, id_ = head.name, head.id
        if self._dialect.ids:
            name, id_ = name_in_id(head.name, calls.schemas), head.name
        calls.name = name
        lacks_name = bool(self._dialect.name) and not head.id
        if lacks_name and calls.schemas and calls.find_schema(name) is None:
            raise NoCallError("the id and the name of the call are not separate")
        self._head_reader = None
        self._head = Head(name, id_, head.has_arguments, head.is_fenced)
        ends = (self._dialect.call_end, FENCE if head.is_fenced else "")
        self._tail_ends = tuple(filter(None, ends))
        self._is_labelled = head.is_fenced
        self._payload = scanner.position
        if not head.has_arguments:
            self._open_empty(self._head, calls)
            self._end_call(scanner, calls, has_end=True)
        return None

    # --- arguments ---

    def _begin_arguments(self, head: Head, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Choose the reader of the arguments by their first characters."""
        text, at = scanner.text, scanner.at
        if self._is_labelled:
            at = skip_match(_LABEL, text, at)
            if at == len(text):
                return Verdict.MORE
            self._is_labelled = False
            scanner.advance_to(at)
        at = skip_blank(text, at)
        if at == len(text) or is_any_begun(text, at, self._tail_ends):
            return Verdict.MORE
        if head.is_fenced and text.startswith(FENCE, at):
            # The end of a fence has no label, so with one the fence was opened twice.
            after = at + len(FENCE)
            if after == len(text):
                return Verdict.MORE
            if text[after].isalpha():
                scanner.advance_to(after)
                self._is_labelled = True
                return None
        if text.startswith(self._tail_ends, at):
            self._open_empty(head, calls)
            self._is_whole = True
        elif text[at] == OBJECT and head.name:  # Anything but an object is read when complete.
            calls.open(head.name, head.id)
            self._inside = JSONArgumentReader(head.name, calls.find_schema(head.name))
        else:
            self._inside = WholeArguments(head.name, head.id)
        return None

    def _open_empty(self, head: Head, calls: CallSink) -> None:
        schema = calls.find_schema(head.name)
        if schema is not None and schema.required:
            raise NoCallError("the arguments are missing")  # They may follow the end marker.
        calls.open(head.name or find_fitting({}, calls.schemas), head.id)

    def _read_inside(
        self, inside: JSONArgumentReader | WholeArguments, scanner: Scanner, calls: CallSink
    ) -> Verdict | None:
        verdict = self._relay(inside, inside.read(scanner, calls))
        if verdict is not Verdict.DONE:
            return verdict
        self._inside = None
        self._is_whole = True
        return None

    def _read_tail(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Look for the end marker after the arguments."""
        text, at = scanner.text, skip_blank(scanner.text, scanner.at)
        end, ends = self._dialect.call_end, self._tail_ends
        if end and text.startswith(end, at):
            scanner.advance_to(at + len(end))
            self._end_call(scanner, calls, has_end=True)
        elif at == len(text) or is_any_begun(text, at, ends):
            return Verdict.MORE
        elif text.startswith(ends, at):
            scanner.advance_to(at + len(FENCE))
        elif text[at] in ",}]" or text[at].isalnum():
            is_early = precedes_member(text, at)
            if is_early:
                self.error = EARLY_END
                return Verdict.BROKEN
            if is_early is None:
                return Verdict.MORE
            if text[at] in "}]":
                scanner.advance_to(at + 1)  # models write surplus ones
            else:
                self._end_call(scanner, calls, has_end=False)
        else:
            self._end_call(scanner, calls, has_end=False)
        return None

    def _end_call(self, scanner: Scanner, calls: CallSink, *, has_end: bool) -> None:
        calls.close()
        self._owed.end_call(has_end=has_end)
        self._calls += 1
        self._head = self._inside = None
        self._is_whole = False
        self._start = scanner.position

    def _pass_begun(self, scanner: Scanner, ends: tuple[str, ...]) -> None:
        """Skip part of an end marker at the end of the text: it is not text."""
        at = skip_blank(scanner.text, scanner.at)
        if is_any_begun(scanner.text, at, ends):
            scanner.skip_all()

    # --- repairing ---

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make the call of *text*, whose arguments are broken or incomplete."""
        if self._json is not None:
            return self._json.repair(text, ended=ended)
        if self._head is None:
            return []
        inside = text[self._payload - self._start :]
        with suppress(NoCallError, JSONParseError):
            value, repairs, payload = repair_body(inside, self._dialect.call_end)
            if not isinstance(value, dict):
                return []
            name = self._head.name or find_fitting(value, self._schemas)
            schema = self._schemas.get(name)
            if schema is not None and schema.accepts(coerce(value, schema)):
                self._owed.end_call(has_end=True)
                return [RepairedCall(name, value, repairs, self._head.id, payload)]
        return [] if ended else self._repair_mapping(self._head, inside)

    def _repair_mapping(self, head: Head, inside: str) -> list[RepairedCall]:
        """Make the call of arguments that are a mapping of YAML, which Kimi models also write."""
        bare = without_turn_end(inside).strip().removesuffix(self._dialect.call_end).strip()
        if not _MAPPING.match(bare) or has_control_token(bare):
            return []
        name = clean_name(head.name, self._schemas, folds=True)
        arguments = read_body(bare, name, self._schemas)
        if arguments is None:
            return []
        self._owed.end_call(has_end=True)
        return [RepairedCall(name, arguments, [NOTE], head.id)]


_MAPPING: Final = re.compile(r"[A-Za-z_][\w.-]{0,127}:\s")


class NamedSyntax(Syntax):
    """The syntax of one response in *dialect*; its readers share the end markers that are owed."""

    starts: tuple[str, ...] = ()

    def __init__(self, dialect: HeadDialect) -> None:
        self.starts = (*dialect.openers, *dialect.closers)
        self._dialect = dialect
        self._owed = OwedEnds(dialect)
        self._numbers = count(1)

    def copy(self) -> NamedSyntax:
        """Return a syntax for another response."""
        return NamedSyntax(self._dialect)

    def make_ids(self) -> Callable[[], str] | None:
        """Return a function that creates ids for calls without one; None if any id will do."""
        shown = self._dialect.new_id
        return (lambda: shown.format(next(self._numbers))) if shown else None

    def body(self, marker: str) -> BodyReader:
        """Return a new reader for the text after *marker*."""
        if marker in self._dialect.closers:
            return EndReader(marker, self._owed)
        if marker == self._dialect.code:
            return CodeReader()
        return NamedCallReader(self._dialect, marker, self._owed)
