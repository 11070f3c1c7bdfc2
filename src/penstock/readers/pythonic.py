"""Calls as Python writes them: ``[tide_at(port="Leith", hours=6), list_berths()]``.

The text is read token by token: a name and its parenthesis open a call, and every value is a
literal, whose end `LiteralReader` finds. A string that coercion does not change is emitted as it
arrives, also if several are adjacent. Each call is independent: an error after it does not undo it.

The text that distinguishes a name from a value (a name and ``(``, a key and ``=``) is held back
until it is complete, and has a limited length; all other text is consumed as it arrives. So when an
error is found, the same text was emitted before it at any split.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final

from penstock.errors import ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.body import (
    CALL_CUT,
    MAX_BLANK,
    BodyReader,
    ChoosingReader,
    OpenString,
    Verdict,
)
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.repair import last_text
from penstock.parsing.scanner import Scanner, skip_match
from penstock.readers.json_calls import JSONCallReader, JSONValueReader, UnclosedJSONReader
from penstock.readers.plausible import may_end_here, without_turn_end_in
from penstock.readers.python_slips import read_slips
from penstock.readers.signed_json import LeadingJSONReader
from penstock.values.python_literals import MORE, Gap, LiteralReader
from penstock.values.schema import Schema

MAX_NAME: Final = 256
"""The maximum length of the name of a tool or of an argument."""


NAME: Final = rf"\w[\w.:-]{{0,{MAX_NAME - 1}}}+"
"""The name of a tool or an argument, as a pattern: Python's names, and ``.``, ``:`` and ``-``."""

_BLANK: Final = rf"[ \t\r\n]{{0,{MAX_BLANK}}}+"
_BLANKS: Final = re.compile(_BLANK)
# vLLM matches calls with one backtracking pattern and guards it with a timeout, and parses each
# delta with `ast`. Here names, keys and literals are read piece by piece.
_CALL: Final = re.compile(rf"({NAME}){_BLANK}\(")
_KEY: Final = re.compile(rf"({NAME})(?<![.:-]){_BLANK}=")
_NAME_BEGINS: Final = re.compile(rf"{NAME}{_BLANK}")
_VALUE: Final = (
    r"[)\"'\[{(#\d.+-]|[A-Za-z]{1,2}[\"']|(?:True|False|None|true|false|null)(?=[^\w.:-])"
)
_ARGUMENT: Final = rf"{_BLANK}(?:{_VALUE}|{NAME}{_BLANK}=[^=])"
_LEADING_CALL: Final = re.compile(rf"{_BLANK}({NAME}){_BLANK}\((?={_ARGUMENT})")
_LEADING_CALL_BEGINS: Final = re.compile(
    rf"{_BLANK}(?:{NAME}{_BLANK}(?:\({_BLANK}(?:{NAME}{_BLANK}=?)?)?)?"
)
"""Without a marker, code may begin like this: ``[run(step) for step in steps]`` is not a call."""

_NEAR: Final = r"[ \t\r\n]{0,16}+"
_SIMPLE: Final = re.compile(
    rf"{_NEAR}({NAME})(?<![.:-]){_NEAR}={_NEAR}"
    r'(?:"(?P<json>[^"\\]*+(?:\\["\\nrt][^"\\]*+)*)"'
    r"|'(?P<plain>[^'\\]*+)'"
    rf"|(?P<word>True|False|None)|(?P<digits>0|[1-9][0-9]{{0,14}}+)){_NEAR}(?:,|(?=\)))"
)
"""A whole argument whose value is a string with the escapes of JSON, a number or a word."""

_WORDS: Final[dict[str, bool | None]] = {"True": True, "False": False, "None": None}

_GLUED: Final = re.compile(rf"\w{{0,{MAX_NAME}}}+[\"'=]")
_GLUED_BEGINS: Final = re.compile(rf"\w{{0,{MAX_NAME}}}+")
"""What follows a call if a quote in an argument ended its string: ``f(a="x", b=1)", c=2)``."""

Step = Callable[[Scanner, CallSink], Verdict | None]
"""Reads one part; returns None to continue with the reader's `_step`."""


class PythonCallReader(BodyReader):
    """Reads a list of calls after a start marker, up to *end*, which may be missing.

    With *lines* the brackets may be missing, too: then white space separates the calls.
    """

    is_repairable = True

    def __init__(self, end: str, *, lines: bool = False) -> None:
        self.end = end
        self._lines = lines
        self._step: Step = self._begin
        self._gap = Gap()
        self._is_complete = False  # the calls are complete without any more text
        self._name = ""
        self._writer: ArgumentWriter | None = None  # of the call that is open
        self._place: int | None = 0  # of the next argument, until one has a name
        self._key = ""
        self._literal: LiteralReader | None = None
        self._pieces: list[str] | None = None  # of the string that streams
        self._closed = 0  # how many calls are complete
        self._schemas: Mapping[str, Schema] = {}
        self._valid: str | None = ""  # the text before the error; None if that is inside a word

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        verdict = None
        self._schemas = calls.schemas
        try:
            while verdict is None:
                verdict = self._step(scanner, calls)
        except (ParseError, NoCallError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            # How much of a broken word was read depends on the chunks; where it ends does not.
            broken_at = self._literal.broken_at if self._literal is not None else None
            if broken_at is not None:
                scanner.advance_to(broken_at)
            self._valid = scanner.read_since_call() if broken_at is None else None
            return Verdict.BROKEN
        return verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Process the end of the text: complete calls do not need their end marker."""
        if self._step == self._read_call_end:
            self._close(calls)
        if not self._is_complete:
            scanner.skip_all()
            self.error = CALL_CUT
            return Verdict.BROKEN
        if self.end.startswith(scanner.unread.lstrip()):
            scanner.skip_all()  # part of the marker, not text
        return Verdict.DONE

    def open_string(self) -> OpenString | None:
        """Return the string that is streaming, if there is one."""
        if self._pieces is None or self._literal is None or self._literal.quoting is None:
            return None
        quoting = self._literal.quoting
        return OpenString(quoting.gate, self._pieces, quoting.translate, known=quoting.known)

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Close the open call, if the model *ended* inside it, or wrote the end marker there.

        Of text that is not Python only known slips are repaired, because the end of a string cannot
        be known; a call whose last value is missing is not.
        """
        met_end = self.end != "" and self._valid is not None and self._valid.endswith(text)
        if self._writer is None or not (ended or met_end):
            return self._read_slips(text)
        is_in_string = self._literal is not None and self._literal.quoting is not None
        if not is_in_string and "#" in text.rpartition("\n")[2]:
            return []  # What looks like a comment may be the rest of a string.
        arguments = dict(self._writer.arguments)
        try:
            if self._literal is not None:
                arguments[self._key] = self._close_literal(self._literal)
        except (ParseError, NoCallError):
            return []
        # `f(a="ls)"`: the bracket that is missing may be the one in the string.
        if (last_text(arguments) or "").endswith(")") and not is_in_string:
            return []
        return [RepairedCall(self._name, arguments, ["closed an open call"])]

    def _read_slips(self, text: str) -> list[RepairedCall]:
        """Make calls of *text*, which broke, if all of it is between the markers."""
        if not self.end or self._closed:
            return []
        return read_slips(text.strip().removesuffix(self.end).strip(), self._schemas)

    def _close_literal(self, literal: LiteralReader) -> Any:
        """Close the open value; raise `NoCallError` if its end is not certain."""
        is_string = literal.quoting is not None
        value = without_turn_end_in(literal.close())
        text = last_text(value) if is_string else None
        if is_string and (text is None or not may_end_here(text, self.end)):
            raise NoCallError("the end of a string is not certain")
        return value

    def open_text(self) -> str | None:
        """Return the text that was emitted of the streaming string."""
        return "".join(self._pieces) if self._pieces is not None else None

    # --- the list ---

    def _begin(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        del calls
        if not self._skip(scanner):
            return Verdict.MORE
        if scanner.text[scanner.at] == "[":
            scanner.skip(1)
            self._lines = False
        elif not self._lines:
            raise NoCallError("no list of calls after the marker")
        self._step = self._read_call
        return None

    def _read_call(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Open the next call."""
        if not self._skip(scanner):
            return Verdict.MORE
        found = scanner.match(_CALL)
        if found is not None:
            self._open(found, scanner, calls)
        elif _NAME_BEGINS.fullmatch(scanner.text, scanner.at):
            return Verdict.MORE
        else:
            raise NoCallError("a call needs a name and a parenthesis")
        return None

    def _open(self, found: re.Match[str], scanner: Scanner, calls: CallSink) -> None:
        scanner.advance_to(found.end())
        self._name = found[1]
        self._writer = calls.open(self._name)
        self._is_complete = False
        self._place = 0
        self._step = self._read_argument

    def _read_between(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read the comma between two calls, or the end of the list."""
        del calls
        if not self._skip(scanner):
            return Verdict.MORE
        char = scanner.text[scanner.at]
        if char not in ",]":
            raise NoCallError("no comma or bracket after a call")
        scanner.skip(1)
        self._step = self._end_list if char == "]" else self._read_next
        return None

    def _read_next(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read another call after a comma, or the end of the list."""
        if not self._skip(scanner):
            return Verdict.MORE
        if scanner.text[scanner.at] != "]":
            return self._read_call(scanner, calls)
        return self._read_between(scanner, calls)

    # --- the arguments ---

    def _read_argument(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read the name of an argument, if it has one, or the end of the call."""
        if not self._skip(scanner):
            return Verdict.MORE
        if calls.is_whole and not calls.is_muted and self._writer is not None:
            self._take_simple(scanner, self._writer)
            if not self._skip(scanner):
                return Verdict.MORE
        text, at = scanner.text, scanner.at
        if text[at] == ")":
            scanner.skip(1)
            self._step = self._read_call_end
            return None
        found = _KEY.match(text, at)
        if found is not None:
            scanner.advance_to(found.end())
            self._key = found[1]
            self._place = None
        elif _NAME_BEGINS.fullmatch(text, at):
            return Verdict.MORE
        else:
            self._key = self._next_key(calls)
        self._literal = LiteralReader(depth=1)
        self._step = self._read_value
        return None

    def _take_simple(self, scanner: Scanner, writer: ArgumentWriter) -> None:
        """Take arguments that have come whole; token by token they take three times as long."""
        while (found := scanner.take_match(_SIMPLE)) is not None:
            self._place = None
            json, key = found["json"], found[1]
            value: Any = found["plain"]
            if json is not None:
                value = scanstring(json + '"', 0, False)[0] if "\\" in json else json
            elif found["digits"] is not None:
                value = int(found["digits"])
            elif value is None:
                value = _WORDS[found["word"]]
            writer.put_members({key: value})

    # A positional argument gets the name of the schema's property at its position, if the tool is
    # known and has that many; otherwise the call is broken.
    def _next_key(self, calls: CallSink) -> str:
        """Return the name of a positional argument: the next property of the tool."""
        schema = calls.find_schema(self._name)
        keys = list(schema.properties) if schema is not None else []
        # Positional arguments take the schema's properties in their order, if the tool is known.
        place = self._place
        if place is None or place >= len(keys):
            raise NoCallError("a positional argument without a property in the schema")
        self._place = place + 1
        return keys[place]

    def _read_value(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Continue with the value; write a streaming string piece by piece."""
        del calls
        literal, writer = self._literal, self._writer
        assert literal is not None  # noqa: S101 - a value has a reader
        assert writer is not None  # noqa: S101 - and is in a call
        known = len(self._pieces or ())
        end = literal.step(scanner.text, scanner.at)
        if end == MORE:
            return Verdict.MORE
        scanner.advance_to(end)
        if self._pieces is None and literal.text is not None and writer.streams(self._key):
            self._pieces = literal.text
            writer.open_text(self._key)
        for piece in (self._pieces or ())[known:]:
            writer.add_text(piece)
        if literal.complete:
            self._end_value(literal, writer)
        return None

    def _end_value(self, literal: LiteralReader, writer: ArgumentWriter) -> None:
        if self._pieces is not None:
            writer.close_text(literal.value)
        else:
            writer.put_typed(self._key, literal.value)
        self._literal = self._pieces = None
        self._step = self._read_after_value

    def _read_after_value(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read the comma after a value, or the end of the call."""
        del calls
        if not self._skip(scanner):
            return Verdict.MORE
        char = scanner.text[scanner.at]
        if char == ")":
            scanner.skip(1)
            self._step = self._read_call_end
            return None
        if char != ",":
            raise NoCallError(f"unexpected `{char}` after a value")
        scanner.skip(1)
        self._step = self._read_argument
        return None

    def _read_call_end(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Close the call, unless text is glued to its end: a string ended too early then."""
        if _GLUED_BEGINS.fullmatch(scanner.text, scanner.at):
            return Verdict.MORE
        if _GLUED.match(scanner.text, scanner.at):
            raise NoCallError("text after the end of a call")
        self._close(calls)
        return None

    def _close(self, calls: CallSink) -> None:
        calls.close()
        self._closed += 1
        self._writer = None
        self._is_complete = self._lines
        self._step = self._read_after if self._lines else self._read_between

    # --- after the calls ---

    def _end_list(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        del scanner, calls
        self._is_complete = True
        self._step = self._read_after
        return None

    def _read_after(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Look for the end marker or, if lines are calls, for another call."""
        if not self.end:
            return Verdict.DONE
        text = scanner.text
        at = skip_match(_BLANKS, text, scanner.at)
        if at == len(text):
            return Verdict.MORE if at - scanner.at < MAX_BLANK else Verdict.UNTERMINATED
        if text.startswith(self.end, at):
            scanner.advance_to(at + len(self.end))
            return Verdict.DONE
        if self.end.startswith(text[at:]):
            return Verdict.MORE
        if text[at] in (",;)]" if self._lines else ")]"):
            scanner.advance_to(at + 1)
            return None
        found = _CALL.match(text, at) if self._lines else None
        if found is not None:
            self._open(found, scanner, calls)
            return None
        is_name = self._lines and _NAME_BEGINS.fullmatch(text, at)
        return Verdict.MORE if is_name else Verdict.UNTERMINATED

    def _skip(self, scanner: Scanner) -> bool:
        """Skip white space and comments; return whether anything follows."""
        scanner.advance_to(self._gap.skip(scanner.text, scanner.at))
        return not scanner.is_at_end


class LeadingCallReader(PythonCallReader):
    """Reads a list of calls that only its bracket opens.

    It has to be at the beginning of the response, and its first name has to be a known tool. A call
    is complete only once it is known that no code follows it. If the list is *alone*, nothing else
    may be on the line of its end.
    """

    def __init__(self, end: str = "", *, alone: bool = False) -> None:
        super().__init__(end)
        self._step = self._judge
        self._alone = alone
        self._is_code = False

    def _judge(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        if not self._is_possible(calls):
            return Verdict.NOT_A_CALL
        found = scanner.match(_LEADING_CALL)
        if found is None:
            begins = _LEADING_CALL_BEGINS.fullmatch(scanner.text, scanner.at)
            return Verdict.MORE if begins else Verdict.NOT_A_CALL
        if calls.find_schema(found[1]) is None:
            return Verdict.NOT_A_CALL
        self._open(found, scanner, calls)
        return None

    def _is_possible(self, calls: CallSink) -> bool:
        """Return whether a list may begin here."""
        return calls.is_first

    def _close(self, calls: CallSink) -> None:
        del calls
        self._step = self._confirm

    def _confirm(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Close the call if a comma follows it, or the end of the list."""
        if not self._skip(scanner):
            return Verdict.MORE
        text, at = scanner.text, scanner.at
        if self._alone and text[at] == "]" and _LIST_END_BEGUN.fullmatch(text, at):
            return Verdict.MORE
        if _KEYWORD_BEGUN.fullmatch(text, at):
            return Verdict.MORE
        after_list = self._alone and _AFTER_LIST.match(text, at)
        if after_list or _OPERATION.match(text, at):
            self._is_code = True
            raise NoCallError("code follows a call")
        self._end_call(calls)
        return None

    def _end_call(self, calls: CallSink) -> None:
        calls.close()
        self._closed += 1
        self._writer = None
        self._step = self._read_between

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Close the open call, unless it turned out to be code."""
        return [] if self._is_code else super().repair(text, ended=ended)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Process the end of the text: a list without its first name was not meant as calls."""
        if self._step in (self._confirm, self._read_call_end):
            self._end_call(calls)
            self._is_complete = scanner.take_match(_CLOSING_BRACKET) is not None
        verdict = super().finish(scanner, calls)
        return Verdict.NOT_A_CALL if self._step == self._judge else verdict


# What follows a call in code: ``[run(step) for step in steps]``, ``[run(1).out]``, ``[run(1)][0]``.
_OPERATION: Final = re.compile(r"(?:for|async|if|or|and|in|is|not)\b|[.\[+*/%=!&|^-]")
_KEYWORD_BEGUN: Final = re.compile(r"[a-z]{1,5}")
_LIST_END_BEGUN: Final = re.compile(r"\][ \t]{0,64}")
_AFTER_LIST: Final = re.compile(r"\](?:[ \t]{1,64}[^\s<\])}]|[.\[(])")
_CLOSING_BRACKET: Final = re.compile(r"\s{0,256}\]")


_UNDECIDED: Final = re.compile(rf"{_BLANK}(?:\[{_BLANK})?")
_JSON: Final = re.compile(rf"{_BLANK}(?:\[{_BLANK})?\{{")


# LFM2 writes Python calls, or a JSON array between the same markers.
class PythonOrJSONReader(ChoosingReader):
    """Reads calls up to *end*: as JSON if an object comes first, else as Python."""

    def __init__(self, end: str) -> None:
        self.end = end

    def _choose(self, scanner: Scanner) -> BodyReader | None:
        if _UNDECIDED.fullmatch(scanner.text, scanner.at):
            return None
        if scanner.match(_JSON):
            return JSONCallReader(self.end)
        return self._make_python_reader()

    def _make_python_reader(self) -> BodyReader:
        return PythonCallReader(self.end, lines=True)


# Sarashina writes a Python list of dicts. Its marker is a special token that servers usually strip,
# so a bare list counts too, where it begins the response.
class _DictReader(JSONValueReader):
    """Reads dicts instead of calls, as Sarashina writes them.

    Relaxed JSON has the grammar of these dicts, so single quotes and the like are not noted.
    """

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, unless a quote was missing or doubled.

        In single quotes such a quote may be an apostrophe.
        """
        calls = super().repair(text, ended=ended)
        notes = (note for call in calls for note in call.repairs if "quote" in note)
        return calls if all(note.endswith("single quotes") for note in notes) else []

    def _take_notes(self) -> tuple[str, ...]:
        self._steps.take_relaxed()
        return ()


class DictListReader(_DictReader, LeadingJSONReader):
    """Reads a list of dicts that begins the response."""


class MarkedDictReader(_DictReader, UnclosedJSONReader):
    """Reads a dict, or a list of dicts, after its marker."""
