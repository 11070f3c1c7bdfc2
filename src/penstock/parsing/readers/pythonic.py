"""Calls as Python writes them: ``[tide_at(port="Leith", hours=6), list_berths()]``.

The text is read from token to token: a name and its parenthesis open a call, every value is a
literal, and `LiteralReader` says where it ends. A string that its schema leaves alone goes out as
it comes, also where several stand side by side. Each call is one of its own: what breaks after it
does not undo it.

What tells a name from a value (a name and ``(``, a key and ``=``) is held back until it is whole,
and is of a limited length; all else is consumed as it comes. So when a mistake is found, the same
text has gone out before it at any cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from penstock.errors import ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.readers.base import BodyReader, OpenString, Repairable, Verdict
from penstock.parsing.readers.json_calls import JSONCallReader
from penstock.parsing.readers.plausible import last_text, may_end_here, without_turn_end_in
from penstock.parsing.scanner import Scanner
from penstock.values.python_literals import MORE, Gap, LiteralReader

MAX_NAME: Final = 256
"""How many characters the name of a tool or of an argument may have."""

MAX_BLANK: Final = 256
"""How much white space may stand after a name, or between the calls and their end marker."""

NAME: Final = rf"\w[\w.:-]{{0,{MAX_NAME - 1}}}+"
"""What names a tool or an argument, as a pattern: Python's names, and what others allow in one."""

_BLANK: Final = rf"[ \t\r\n]{{0,{MAX_BLANK}}}+"
_BLANKS: Final = re.compile(_BLANK)
_CALL: Final = re.compile(rf"({NAME}){_BLANK}\(")
_KEY: Final = re.compile(rf"({NAME}){_BLANK}=")
_NAME_BEGINS: Final = re.compile(rf"{NAME}{_BLANK}")
_LEADING_CALL: Final = re.compile(rf"{_BLANK}({NAME}){_BLANK}\(")
_LEADING_CALL_BEGINS: Final = re.compile(rf"{_BLANK}(?:{NAME}{_BLANK})?")

Step = Callable[[Scanner, CallSink], Verdict | None]
"""Reads one thing; None tells to continue, and who continues is the reader's `_step`."""


class PythonCallReader:
    """Reads a list of calls after a start marker, up to *end*, which may be missing.

    With *lines* the brackets may be missing too: then white space parts the calls.
    """

    def __init__(self, end: str, *, lines: bool = False) -> None:
        self.error: str | ParseError = ""
        self.end = end
        self._lines = lines
        self._step: Step = self._begin
        self._gap = Gap()
        self._stands = False  # there are calls, and no more are needed
        self._name = ""
        self._writer: ArgumentWriter | None = None  # of the call that is open
        self._place: int | None = 0  # of the next argument, until one has come with its name
        self._key = ""
        self._literal: LiteralReader | None = None
        self._pieces: list[str] | None = None  # of the string that streams
        self._lawful: str | None = ""  # the text before what broke it; None: it ends inside a word

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        verdict = None
        try:
            while verdict is None:
                verdict = self._step(scanner, calls)
        except (ParseError, NoCallError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            # How much of a broken word was passed depends on the cut; where it ends does not.
            broken_at = self._literal.broken_at if self._literal is not None else None
            scanner.at = scanner.at if broken_at is None else broken_at
            self._lawful = scanner.read_since_call() if broken_at is None else None
            return Verdict.BROKEN
        return verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: calls that are whole stand without their end marker."""
        del calls
        if not self._stands:
            scanner.at = len(scanner.text)
            self.error = "the call was cut"
            return Verdict.BROKEN
        if self.end.startswith(scanner.unread.lstrip()):
            scanner.at = len(scanner.text)  # the piece of a cut marker is not a content
        return Verdict.DONE

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        if self._pieces is None or self._literal is None or self._literal.quoting is None:
            return None
        quoting = self._literal.quoting
        return OpenString(quoting.gate, self._pieces, quoting.translate)

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Close the call that is open, if the model *ended* in it, or wrote the end marker there.

        Nothing is made of text that is no Python: where a string was to end nobody can tell. Nor of
        a call whose last value has not come.
        """
        met_end = self.end != "" and self._lawful is not None and self._lawful.endswith(text)
        if self._writer is None or not (ended or met_end):
            return []
        arguments = dict(self._writer.arguments)
        try:
            if self._literal is not None:
                arguments[self._key] = self._close_literal(self._literal)
        except (ParseError, NoCallError):
            return []
        return [RepairedCall(self._name, arguments, ["closed an open call"])]

    def _close_literal(self, literal: LiteralReader) -> Any:
        """Close the value that is open; raise `NoCallError` where its end is not clear."""
        is_string = literal.quoting is not None
        value = without_turn_end_in(literal.close())
        text = last_text(value) if is_string else None
        if is_string and (text is None or not may_end_here(text, self.end)):
            raise NoCallError("it is not clear where a string ends")
        return value

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now."""
        return "".join(self._pieces) if self._pieces is not None else None

    # --- the list ---

    def _begin(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        del calls
        if not self._skip(scanner):
            return Verdict.MORE
        if scanner.text[scanner.at] == "[":
            scanner.at += 1
            self._lines = False
        elif not self._lines:
            raise NoCallError("no list of calls")
        self._step = self._read_call
        return None

    def _read_call(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Open the call that is to stand here."""
        if not self._skip(scanner):
            return Verdict.MORE
        found = _CALL.match(scanner.text, scanner.at)
        if found is not None:
            self._open(found, scanner, calls)
        elif _NAME_BEGINS.fullmatch(scanner.text, scanner.at):
            return Verdict.MORE
        else:
            raise NoCallError("no name and parenthesis where a call is to stand")
        return None

    def _open(self, found: re.Match[str], scanner: Scanner, calls: CallSink) -> None:
        scanner.at = found.end()
        self._name = found[1]
        self._writer = calls.open(self._name)
        self._stands = False
        self._place = 0
        self._step = self._read_argument

    def _read_between(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read what parts the calls of a list, or ends it."""
        del calls
        if not self._skip(scanner):
            return Verdict.MORE
        char = scanner.text[scanner.at]
        if char not in ",]":
            raise NoCallError("a list that goes on as none does")
        scanner.at += 1
        self._step = self._end_list if char == "]" else self._read_next
        return None

    def _read_next(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read what may follow a comma: another call, or the end of the list."""
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
        text, at = scanner.text, scanner.at
        if text[at] == ")":
            return self._close(scanner, calls)
        found = _KEY.match(text, at)
        if found is not None:
            scanner.at = found.end()
            self._key = found[1]
            self._place = None
        elif _NAME_BEGINS.fullmatch(text, at):
            return Verdict.MORE
        else:
            self._key = self._next_key(calls)
        self._literal = LiteralReader(depth=1)
        self._step = self._read_value
        return None

    def _next_key(self, calls: CallSink) -> str:
        """Return the name of an argument that has none: the next of those that the tool has."""
        schema = calls.schemas.get(self._name)
        keys = list(schema.properties) if schema is not None else []
        place = self._place
        if place is None or place >= len(keys):
            raise NoCallError("an argument without a name")
        self._place = place + 1
        return keys[place]

    def _read_value(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read on in the value; a string that streams is written piece by piece."""
        del calls
        literal, writer = self._literal, self._writer
        assert literal is not None  # noqa: S101 - a value has a reader
        assert writer is not None  # noqa: S101 - and stands in a call
        known = len(self._pieces or ())
        end = literal.step(scanner.text, scanner.at)
        if end == MORE:
            return Verdict.MORE
        scanner.at = end
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
        self._step = self._read_behind_value

    def _read_behind_value(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read the comma after a value, or the end of the call."""
        if not self._skip(scanner):
            return Verdict.MORE
        char = scanner.text[scanner.at]
        if char == ")":
            return self._close(scanner, calls)
        if char != ",":
            raise NoCallError(f"`{char}` behind a value")
        scanner.at += 1
        self._step = self._read_argument
        return None

    def _close(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        scanner.at += 1
        calls.close()
        self._writer = None
        self._stands = self._lines
        self._step = self._read_behind if self._lines else self._read_between
        return None

    # --- after the calls ---

    def _end_list(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        del scanner, calls
        self._stands = True
        self._step = self._read_behind
        return None

    def _read_behind(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Look for the end marker or, where lines are calls, for another call."""
        if not self.end:
            return Verdict.DONE
        text = scanner.text
        blank = _BLANKS.match(text, scanner.at)
        at = blank.end() if blank else scanner.at
        if at == len(text):
            return Verdict.MORE if at - scanner.at < MAX_BLANK else Verdict.UNTERMINATED
        if text.startswith(self.end, at):
            scanner.at = at + len(self.end)
            return Verdict.DONE
        if self.end.startswith(text[at:]):
            return Verdict.MORE
        if text[at] in (",;)]" if self._lines else ")]"):
            scanner.at = at + 1
            return None
        found = _CALL.match(text, at) if self._lines else None
        if found is not None:
            self._open(found, scanner, calls)
            return None
        is_name = self._lines and _NAME_BEGINS.fullmatch(text, at)
        return Verdict.MORE if is_name else Verdict.UNTERMINATED

    def _skip(self, scanner: Scanner) -> bool:
        """Pass white space and comments; return whether anything follows."""
        scanner.at = self._gap.skip(scanner.text, scanner.at)
        return scanner.at < len(scanner.text)


class LeadingCallReader(PythonCallReader):
    """Reads a list of calls that no marker opens but its bracket.

    It is one only where the answer begins with it, and its first name is that of a known tool.
    """

    def __init__(self, end: str = "") -> None:
        super().__init__(end)
        self._step = self._judge

    def _judge(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        if not calls.is_first:
            return Verdict.NOT_A_CALL
        found = _LEADING_CALL.match(scanner.text, scanner.at)
        if found is None:
            begins = _LEADING_CALL_BEGINS.fullmatch(scanner.text, scanner.at)
            return Verdict.MORE if begins else Verdict.NOT_A_CALL
        if found[1] not in calls.schemas:
            return Verdict.NOT_A_CALL
        self._open(found, scanner, calls)
        return None

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: what is not a call by now was not meant as one."""
        verdict = super().finish(scanner, calls)
        return Verdict.NOT_A_CALL if self._step == self._judge else verdict


# Calls in Python or in JSON after the same marker: the first characters tell.


_PYTHONIC_OR_JSON_BLANK: Final = r"[ \t\r\n]{0,256}"
_UNDECIDED: Final = re.compile(rf"{_PYTHONIC_OR_JSON_BLANK}(?:\[{_PYTHONIC_OR_JSON_BLANK})?")
_JSON: Final = re.compile(rf"{_PYTHONIC_OR_JSON_BLANK}(?:\[{_PYTHONIC_OR_JSON_BLANK})?\{{")


class PythonOrJSONReader:
    """Reads calls up to *end*, in JSON if an object comes first."""

    def __init__(self, end: str) -> None:
        self.error: str | ParseError = "the call was cut"
        self.end = end
        self._body: BodyReader | None = None  # who reads, once it is known

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; first find out who does."""
        body = self._body or self._choose(scanner)
        if body is None:
            return Verdict.MORE
        verdict = body.read(scanner, calls)
        self.error = body.error
        return verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended."""
        if self._body is None:
            return Verdict.BROKEN
        verdict = self._body.finish(scanner, calls)
        self.error = self._body.error
        return verdict

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return self._body.run() if self._body is not None else None

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make calls of *text*, if the one who read it can."""
        return self._body.mend(text, ended=ended) if isinstance(self._body, Repairable) else []

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now."""
        return self._body.open_text() if isinstance(self._body, Repairable) else None

    def _choose(self, scanner: Scanner) -> BodyReader | None:
        if _UNDECIDED.fullmatch(scanner.text, scanner.at):
            return None
        is_json = _JSON.match(scanner.text, scanner.at)
        self._body = JSONCallReader(self.end) if is_json else PythonCallReader(self.end)
        return self._body
