"""Calls that are spelled out, ``call:NAME{k:v,…}``, with marks around the call and its strings.

The header follows the start marker at once, so a call is soon known to be one. The arguments are
read as they arrive (`delimited_arguments`); after their closing brace the call stands, whether its
end marker follows or not. A name without arguments is a call only if the end marker follows.

Text that ends inside a call is all text: where a string is open, what looks like another call may
be a part of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final

from msgspec import Struct

from penstock.errors import JSONParseError, ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.readers.base import OpenString, Translated, Verdict
from penstock.parsing.readers.plausible import fits, may_end_here, without_turn_end
from penstock.parsing.scanner import Markers, Scanner, markers
from penstock.values import rjson
from penstock.values.json_grammar import LITERALS, MAX_DEPTH, NUMBER, read_number
from penstock.values.schema import Schema
from penstock.values.schema.keywords import type_of

# The values of delimited calls: strings that stream, bare words, objects and lists.
#
# A string runs to the first mark that closes it; nothing in it is escaped. That holds for the
# plain quotes, too, that models write instead. A bare word is what it is in JSON, unless its
# schema wants text: ``1.50`` stays as it is where a string is wanted.


class Delimiters(Struct, frozen=True):
    """The marks of one format: *start* and *end* of a call, *quote* on both sides of a string."""

    start: str
    end: str
    quote: str

    @property
    def key_ends(self) -> Markers:
        """What ends a bare key: a colon, or something that shows that it is not a key."""
        return markers(":", ",", "{", "}", "[", "]", self.start, self.end, self.quote)

    @property
    def word_ends(self) -> Markers:
        """What ends a bare value, be it a mark that cannot are in one."""
        return markers(",", "}", "]", self.start, self.end, self.quote)

    def closing_at(self, text: str, at: int) -> str | None:
        """Return what closes the string that opens at *at*: the same mark again, or a plain quote.

        It is empty where no string opens, and None where only more text can tell.
        """
        if text[at] in "\"'":
            return text[at]
        window = text[at : at + len(self.quote)]
        if window == self.quote:
            return window
        return None if self.quote.startswith(window) else ""

    def are_paired_in(self, text: str) -> bool:
        """Return whether each mark of a call in *text* has its partner."""
        is_open = False
        marks, at = markers(self.start, self.end), 0
        while (found := marks.find(text, at)) is not None:
            if (found[0] == self.start) == is_open:
                return False
            is_open = not is_open
            at = found.end()
        return not is_open


class DelimitedString:
    """A string up to *closing*; with a *writer* it goes out as it comes."""

    __slots__ = ("_marks", "_pieces", "_writer", "streams")

    def __init__(self, closing: str, writer: ArgumentWriter | None = None) -> None:
        self.streams = writer is not None
        self._marks = markers(closing)
        self._pieces: list[str] = []
        self._writer = writer

    @property
    def text(self) -> str:
        """What has come of it."""
        return "".join(self._pieces)

    def read(self, scanner: Scanner) -> bool:
        """Take the text up to the closing mark, and that; return whether it was there."""
        text, at = scanner.text, scanner.at
        found = self._marks.find(text, at)
        self.take(scanner, found.start() if found else self._marks.find_held(text, at))
        if found is None:
            return False
        scanner.at = found.end()
        return True

    def close(self) -> str:
        """End it; return all that it says."""
        text = self.text
        if self._writer is not None:
            self._writer.close_text(text)
        return text

    def take(self, scanner: Scanner, end: int) -> None:
        """Take the text up to *end*."""
        piece = scanner.text[scanner.at : end]
        if not piece:
            return
        scanner.at = end
        self._pieces.append(piece)
        if self._writer is not None:
            self._writer.add_text(piece)

    def run(self) -> OpenString | None:
        """Return the string as a run, if it goes out as it comes."""
        if self._writer is None:
            return None
        return OpenString(_special(self._marks.literals[0][0]), self._pieces, self._translate)

    def _translate(self, text: str) -> Translated | None:
        """Read a piece that does not hold the closing mark; what may begin it is left."""
        if self._marks.find(text) is not None:
            return None
        text = text[: self._marks.find_held(text)]
        return text, encode_basestring(text)[1:-1], len(text)


@lru_cache(maxsize=64)
def _special(first: str) -> re.Pattern[str]:
    """Return what is not plain: what may begin the closing mark, or strict JSON escapes."""
    return re.compile(rf'[{re.escape(first)}"\\\x00-\x1f]')


class Container:
    """An object or a list inside an argument, as far as it has come."""

    __slots__ = ("_schema", "key", "value")

    def __init__(self, bracket: str, schema: Schema | None) -> None:
        self.value: dict[str, Any] | list[Any] = {} if bracket == "{" else []
        self.key = ""  # of the member that is being read
        self._schema = schema

    @property
    def closing(self) -> str:
        """The bracket that closes it."""
        return "}" if isinstance(self.value, dict) else "]"

    def child(self) -> Schema | None:
        """Return the schema of the value that comes next, where one is known."""
        if self._schema is None:
            return None
        if isinstance(self.value, dict):
            return self._schema.property(self.key)
        return self._schema.item(len(self.value))

    def add(self, value: Any) -> None:
        """Take the value of the member or item that has come; of a repeated key the last counts."""
        if isinstance(self.value, dict):
            self.value[self.key] = value
        else:
            self.value.append(value)


def read_word(word: str, schema: Schema | None) -> Any:
    """Return what a bare *word* says: a literal of JSON, or its text.

    It is text, too, where *schema* wants a string and not what the literal is.
    """
    value = _literal(word)
    if schema is None or isinstance(value, str):
        return value
    is_text = "string" in schema.types and type_of(value) not in schema.types
    return word if is_text else value


def _literal(word: str) -> Any:
    """Read a literal; one that JSON could not write again (``1e999``) stays a word."""
    if word in LITERALS:
        return LITERALS[word]
    if NUMBER.fullmatch(word) is None:
        return word
    try:
        number = read_number(word)
    except ValueError:
        return word
    return number if math.isfinite(number) else word


# Arguments between braces, ``{k:v,…}``, as delimited calls have them, read as they arrive.
#
# Each step reads up to the next thing that matters: the end of a string, of a word, of a
# container. A string argument between marks goes out as it comes; any other value goes out when
# it is closed. What is held back is what may begin a mark, and a bare key until its colon: at
# most `MAX_KEY` characters. Containers that are open are in a list, so depth is a number with
# a limit.
#
# No mark of a call can stand outside of strings: a model that forgets a closing brace breaks
# its call there, and what follows is not swallowed.


MAX_KEY: Final = 256
"""How many characters a bare key may have: prose after a brace is not held back for long."""

_DELIMITED_ARGUMENTS_BLANK: Final = re.compile(r"\s*+")


class _Place(Enum):
    """What is to come next."""

    KEY = "a key, or the end of the object"
    COLON = "the colon behind a key"
    VALUE = "a value, or the end of the list"
    BEHIND = "a comma, or the end of the container"


class ArgumentsReader:
    """Reads what follows the opening brace, up to the closing one; writes it to *writer*."""

    def __init__(self, marks: Delimiters, writer: ArgumentWriter) -> None:
        self.ended = False
        self._marks = marks
        self._key_ends = marks.key_ends
        self._word_ends = marks.word_ends
        self._writer = writer
        self._key = ""  # of the argument that is being read
        self._open: list[Container] = []  # inside that argument, the innermost last
        self._place = _Place.KEY
        self._string: DelimitedString | None = None  # a key or a value
        self._word: list[str] | None = None  # the pieces of a bare value

    def step(self, scanner: Scanner) -> bool:
        """Take a step; return whether there was text enough for it.

        Raises `NoCallError` for what arguments cannot have at this place.
        """
        if self._string is not None:
            return self._read_string(self._string, scanner)
        if self._word is not None:
            return self._read_word(self._word, scanner)
        blank = _DELIMITED_ARGUMENTS_BLANK.match(scanner.text, scanner.at)
        scanner.at = blank.end() if blank else scanner.at
        if scanner.at == len(scanner.text):
            return False
        match self._place:
            case _Place.KEY:
                return self._begin_key(scanner)
            case _Place.COLON:
                return self._pass_colon(scanner)
            case _Place.VALUE:
                return self._begin_value(scanner)
            case _Place.BEHIND:
                return self._read_behind(scanner)

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return self._string.run() if self._string is not None else None

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now."""
        string = self._string
        return string.text if string is not None and string.streams else None

    def flush(self, scanner: Scanner) -> None:
        """Let the string that is open take what was held back: the text ends here."""
        if self._string is not None:
            self._string.take(scanner, len(scanner.text))

    def close(self, scanner: Scanner) -> None:
        """End the arguments where the text ends: close what is open.

        Raises `NoCallError` where the text ends inside a mark or a key, or in what cannot end here.
        """
        if scanner.at < len(scanner.text):
            raise NoCallError("half a mark, or half a key")
        if self._string is not None and self._place is _Place.VALUE:
            if not may_end_here(self._string.text, self._marks.start, self._marks.end):
                raise NoCallError("it is not clear where a string ends")
            self._close_string(self._string)
        elif self._word is not None:
            self._close_word(self._word)
        elif self._string is not None or self._place is _Place.COLON or self._is_value_due:
            raise NoCallError("a key without a value")
        while self._open:
            self._take(self._open.pop().value)
        self.ended = True

    @property
    def _is_value_due(self) -> bool:
        return self._place is _Place.VALUE and not self._in_list

    # --- keys ---

    def _begin_key(self, scanner: Scanner) -> bool:
        text, at = scanner.text, scanner.at
        if text[at] == "}":
            return self._close_container(scanner)
        closing = self._marks.closing_at(text, at)
        if closing is None:
            return False
        if closing:
            scanner.at += len(closing)
            self._string = DelimitedString(closing)
            return True
        return self._read_key(scanner)

    def _read_key(self, scanner: Scanner) -> bool:
        """Read a bare key, up to its colon."""
        text, at = scanner.text, scanner.at
        found = self._key_ends.find(text, at, at + MAX_KEY + 1)
        if found is None:
            if len(text) - at > MAX_KEY:
                raise NoCallError(f"a key of more than {MAX_KEY} characters")
            return False
        key = text[at : found.start()].rstrip()
        if found[0] != ":" or not key:
            raise NoCallError("something else than a key and a value")
        scanner.at = found.start()
        self._name(key)
        return True

    def _name(self, key: str) -> None:
        """Let the value that comes next be that of *key*."""
        if self._open:
            self._open[-1].key = key
        else:
            self._key = key
        self._place = _Place.COLON

    def _pass_colon(self, scanner: Scanner) -> bool:
        if scanner.text[scanner.at] != ":":
            raise NoCallError("a key without a colon")
        scanner.at += 1
        self._place = _Place.VALUE
        return True

    # --- values ---

    def _begin_value(self, scanner: Scanner) -> bool:
        text, at = scanner.text, scanner.at
        if text[at] in "{[":
            scanner.at += 1
            self._open_container(text[at])
            return True
        if text[at] == "]" and self._in_list:
            return self._close_container(scanner)
        closing = self._marks.closing_at(text, at)
        if closing is None:
            return False
        if closing:
            scanner.at += len(closing)
            self._open_string(closing)
        else:
            self._word = []
        return True

    def _open_string(self, closing: str) -> None:
        if self._open or not self._writer.streams(self._key):
            self._string = DelimitedString(closing)
        else:
            self._writer.open_text(self._key)
            self._string = DelimitedString(closing, self._writer)

    def _read_string(self, string: DelimitedString, scanner: Scanner) -> bool:
        if not string.read(scanner):
            return False
        self._close_string(string)
        return True

    def _close_string(self, string: DelimitedString) -> None:
        if not self._marks.are_paired_in(string.text):
            raise NoCallError("a mark of a call inside a string")
        text = string.close()
        self._string = None
        if self._place is _Place.KEY:
            self._name(text)
        elif string.streams:
            self._place = _Place.BEHIND
        else:
            self._take(text)

    def _read_word(self, word: list[str], scanner: Scanner) -> bool:
        text, at = scanner.text, scanner.at
        found = self._word_ends.find(text, at)
        scanner.at = found.start() if found else self._word_ends.find_held(text, at)
        word.append(text[at : scanner.at])
        if found is None:
            return False
        if len(found[0]) > 1:
            raise NoCallError("a mark inside a bare value")
        self._close_word(word)
        return True

    def _close_word(self, word: list[str]) -> None:
        self._word = None
        text = "".join(word).strip()
        if not fits(text, self._schema()) or text.startswith(":"):
            raise NoCallError("a bare value that is something else")
        self._take(read_word(text, self._schema()))

    def _take(self, value: Any) -> None:
        """Put a value that is whole where it belongs."""
        self._place = _Place.BEHIND
        if self._open:
            self._open[-1].add(value)
        else:
            self._writer.put(self._key, value)

    def _schema(self) -> Schema | None:
        return self._open[-1].child() if self._open else self._writer.child(self._key)

    # --- containers ---

    @property
    def _in_list(self) -> bool:
        return bool(self._open) and self._open[-1].closing == "]"

    def _open_container(self, bracket: str) -> None:
        if len(self._open) + 1 >= MAX_DEPTH:
            raise NoCallError(f"containers nested more than {MAX_DEPTH} deep")
        self._open.append(Container(bracket, self._schema()))
        self._expect_next()

    def _read_behind(self, scanner: Scanner) -> bool:
        if scanner.text[scanner.at] != ",":
            return self._close_container(scanner)
        scanner.at += 1
        self._expect_next()
        return True

    def _expect_next(self) -> None:
        self._place = _Place.VALUE if self._in_list else _Place.KEY

    def _close_container(self, scanner: Scanner) -> bool:
        """Read the bracket that closes the innermost container."""
        closing = self._open[-1].closing if self._open else "}"
        if scanner.text[scanner.at] != closing:
            raise NoCallError(f"something else than a comma or `{closing}` behind a value")
        scanner.at += 1
        if self._open:
            self._take(self._open.pop().value)
        else:
            self.ended = True
        return True


MAX_BLANK: Final = 256
"""How much white space may stand around the name, and between a call and its end marker."""

MAX_NAME: Final = 256
"""How many characters a name may have."""

_SPACE: Final = rf"\s{{0,{MAX_BLANK}}}+"
_HEADER: Final = re.compile(rf"{_SPACE}call:{_SPACE}(\w[\w.:-]{{0,{MAX_NAME - 1}}}+){_SPACE}")
_HALF_HEADER: Final = re.compile(rf"{_SPACE}(?:c|ca|cal|call|call:{_SPACE})?")
_SURPLUS: Final = re.compile(rf"{_SPACE}[}}\]]")
_BLANK: Final = re.compile(_SPACE)


class DelimitedReader:
    """Reads one call whose start marker has come."""

    def __init__(self, marks: Delimiters) -> None:
        self.error: str | ParseError = ""
        self.end = marks.end
        self._marks = marks
        self._arguments: ArgumentsReader | None = None  # none before the header was read
        self._closed = False  # the call is: its end marker follows
        self._schemas: Mapping[str, Schema] = {}

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if self._arguments is None:
            verdict = self._read_header(scanner, calls)
            if verdict is not None:
                return verdict
        if not self._closed:
            verdict = self._read_arguments(scanner, calls)
            if verdict is not None:
                return verdict
        return self._read_behind(scanner)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: a call that is closed stands without its end marker."""
        del calls
        if self._closed:
            scanner.at = len(scanner.text)  # the piece of a cut marker is not a content
            return Verdict.DONE
        if self._arguments is not None:
            self._arguments.flush(scanner)
        scanner.at = len(scanner.text)
        self.error = "the call was cut"
        return Verdict.GIVE_UP

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return self._arguments.run() if self._arguments is not None else None

    # --- the parts of a call ---

    def _read_header(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read up to the brace that opens the arguments; None tells to continue."""
        text, at = scanner.text, scanner.at
        self._schemas = calls.schemas
        header = _HEADER.match(text, at)
        if header is None:
            if _HALF_HEADER.fullmatch(text, at):
                return Verdict.MORE
            self.error = "no `call:` and name behind the start marker"
            return Verdict.BROKEN
        at = header.end()
        window = text[at : at + len(self.end)]
        if window.startswith("{"):
            scanner.at = at + 1
            self._arguments = ArgumentsReader(self._marks, calls.open(header[1]))
            return None
        if window == self.end:
            scanner.at = at + len(self.end)
            calls.open(header[1])
            calls.close()
            return Verdict.DONE
        if self.end.startswith(window):
            return Verdict.MORE
        self.error = "a name that is none, or no arguments behind it"
        return Verdict.BROKEN

    def _read_arguments(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read up to the brace that closes the arguments, and close the call."""
        arguments = self._arguments
        assert arguments is not None  # noqa: S101 - the header has come
        try:
            while not arguments.ended:
                if not arguments.step(scanner):
                    return Verdict.MORE
        except NoCallError as exc:
            self.error = str(exc)
            return Verdict.BROKEN
        calls.close()
        self._closed = True
        return None

    def _read_behind(self, scanner: Scanner) -> Verdict:
        """Look for the end marker; brackets that models write too many are dropped."""
        text = scanner.text
        while surplus := _SURPLUS.match(text, scanner.at):
            scanner.at = surplus.end()
        blank = _BLANK.match(text, scanner.at)
        at = blank.end() if blank else scanner.at
        window = text[at : at + len(self.end)]
        if window == self.end:
            scanner.at = at + len(self.end)
            return Verdict.DONE
        return Verdict.MORE if self.end.startswith(window) else Verdict.UNTERMINATED

    # --- repairing ---

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now."""
        return self._arguments.open_text() if self._arguments is not None else None

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make a call of *text*.

        Close what is open, or repair the JSON that was written instead.
        """
        text = without_turn_end(text)
        header = _HEADER.match(text)
        if header is None:
            return []
        name, inside = header[1], text[header.end() :]
        try:
            return [RepairedCall(name, self._close(name, inside), ["closed the call"])]
        except NoCallError:
            return [] if ended else self._mend_json(name, inside)

    def _close(self, name: str, inside: str) -> dict[str, Any]:
        """Return the arguments of a call that is valid as far as it goes."""
        writer = ArgumentWriter(self._schemas.get(name), _forget)
        if not inside:
            return writer.arguments
        if not inside.startswith("{"):
            raise NoCallError("no arguments")
        arguments = ArgumentsReader(self._marks, writer)
        scanner = Scanner()
        scanner.push(inside[1:])
        while not arguments.ended and arguments.step(scanner):
            pass
        arguments.close(scanner)
        return writer.arguments

    def _mend_json(self, name: str, inside: str) -> list[RepairedCall]:
        """Repair arguments without any mark.

        With marks it is certain where strings end, and repairing that guesses at quotes would join
        what they part.
        """
        if self._marks.quote in inside or not inside.startswith("{"):
            return []
        try:
            arguments, repairs = rjson.repair(inside)
        except JSONParseError:
            return []
        return [RepairedCall(name, arguments, repairs)] if isinstance(arguments, dict) else []


def _forget(piece: str) -> None:
    del piece
