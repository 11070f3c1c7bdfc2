"""Calls as ``call:NAME{k:v,…}``, with marks around the call and its strings (Gemma 4).

The header follows the start marker at once, so a call is soon known to be one. The arguments are
read as they arrive; after their closing brace the call is complete, with or without its end marker.
A name without arguments is a call only if the end marker follows.

If the response ends inside a call, all of it is text: what looks like another call may be part of
an open string.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from msgspec import Struct

from penstock.errors import JSONParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.body import (
    CALL_CUT,
    MAX_BLANK,
    BodyReader,
    StreamingPart,
    ValueReader,
    Verdict,
)
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.scanner import Scanner, markers, skip_match
from penstock.readers.json_calls import EARLY_END, MAX_MEMBER_NAME
from penstock.readers.loose_bodies import read_loose
from penstock.readers.plausible import fits, is_misspelled, may_end_here
from penstock.readers.tagged.strings import CollectedText, OpenValue, StreamedText, take_text
from penstock.values import rjson
from penstock.values.control_tokens import without_turn_end
from penstock.values.json_grammar import (
    LITERALS,
    MAX_DEPTH,
    NUMBER,
    PYTHON_LITERALS,
    read_number,
)
from penstock.values.schema import Schema
from penstock.values.schema_keywords import json_type

# Values: strings that stream, bare words, objects and lists.
#
# A string ends at the first mark that closes it; nothing in it is escaped, not even between the
# plain quotes that models write instead. A bare word is read as JSON, unless its schema demands a
# string: ``1.50`` stays as written then.


class Delimiters(Struct, frozen=True):
    """The marks of one format: *start* and *end* of a call, *quote* on both sides of a string."""

    start: str
    end: str
    quote: str

    # Inside of containers Gemma 4 also writes strings in plain quotes, at every level.
    def closing_at(self, text: str, at: int) -> str | None:
        """Return the mark that closes the string at *at*: the same mark, or a plain quote.

        It is empty if no string opens there, and None if more text is needed.
        """
        # Gemma 4 has marks around strings, but writes plain quotes inside containers.
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


class Container:
    """An object or a list inside an argument, so far."""

    __slots__ = ("key", "schema", "value")

    def __init__(self, bracket: str, schema: Schema | None) -> None:
        self.value: dict[str, Any] | list[Any] = {} if bracket == "{" else []
        self.key = ""  # of the member that is being read
        self.schema = schema

    @property
    def closing(self) -> str:
        """The bracket that closes it."""
        return "}" if isinstance(self.value, dict) else "]"

    def child(self) -> Schema | None:
        """Return the schema of the value that comes next, where one is known."""
        if self.schema is None:
            return None
        if isinstance(self.value, dict):
            return self.schema.property(self.key)
        return self.schema.item(len(self.value))

    def add(self, value: Any) -> None:
        """Add a member or an item; of a repeated key the last counts."""
        if isinstance(self.value, dict):
            self.value[self.key] = value
        else:
            self.value.append(value)


# A bare value ends at a comma or a closing bracket. One that is not a JSON literal, or whose schema
# is a string, is its trimmed text. vLLM's reader of FunctionGemma reads only escaped strings and
# loses all bare values.
def read_word(word: str, schema: Schema | None) -> Any:
    """Read a bare *word*: a literal of JSON, or text.

    A literal is text, too, if *schema* allows a string and not the type of the literal.
    """
    value = _literal(word)
    if schema is None or isinstance(value, str):
        return value
    is_text = "string" in schema.types and json_type(value) not in schema.types
    return word if is_text else value


def _literal(word: str) -> Any:
    """Read a literal; one that JSON cannot write (``1e999``) stays a word."""
    if word in LITERALS:
        return LITERALS[word]
    if word in PYTHON_LITERALS:
        return PYTHON_LITERALS[word]
    if NUMBER.fullmatch(word) is None:
        return word
    try:
        number = read_number(word)
    except ValueError:
        return word
    return number if math.isfinite(number) else word


_RUINED: Final = re.compile(r"[\"'`()#]|/[/*]|<!|:(?!//)")


def _is_ruined(value: object, schema: Schema | None) -> bool:
    """Return whether a bare *value* that may be something else than a string has markup in it."""
    if not isinstance(value, str) or schema is None or schema.free or schema.types == {"string"}:
        return False
    return _RUINED.search(value) is not None


# Arguments between braces, ``{k:v,…}``, read as they arrive.
#
# Each step reads up to the end of a string, of a word or of a container. A string argument between
# marks is emitted as it arrives; any other value when it is closed. What may begin a mark is held
# back, and a bare key until its colon: at most `MAX_KEY` characters. Open containers are a list, so
# depth is a number with a limit.
#
# No mark of a call can be outside of strings: a model that forgets a closing brace breaks its call
# there, and later calls are still found.


_NO_KEY: Final = re.compile(r"[<>|\n\"{}\[\]]|[.!?]\s")
"""What a bare key does not have: markup, or a sentence before it."""

_KEY: Final = re.compile(r"[\w$.\-/@]+")
"""A bare key that its schema does not have: no markup, no comment, and no words before it."""

_MARKUP: Final = re.compile(r"\A:|\n|</?\w|<\|\x22|\x22\|>|\A[^\W\d_][\w']*(?: [\w']+)+[.!?:]\Z")
"""What a bare value does not have: it lost the mark before it, or is a sentence."""

MAX_KEY: Final = 256
"""How many characters a bare key may have: prose after a brace is not held back for long."""

_ANY_BLANK: Final = re.compile(r"\s*+")


class _Place(Enum):
    """What is to come next."""

    KEY = "a key, or the end of the object"
    COLON = "the colon after a key"
    VALUE = "a value, or the end of the list"
    AFTER = "a comma, or the end of the container"


class ArgumentsReader(ValueReader):
    """Reads what follows the opening brace, up to the closing one; writes it to *writer*."""

    def __init__(self, marks: Delimiters, writer: ArgumentWriter) -> None:
        self.ended = False
        self._marks = marks
        # A bare key ends at its colon, or at something that shows that it is not a key.
        others = (marks.start, marks.end, marks.quote)
        self._key_ends = markers(":", ",", "{", "}", "[", "]", *others)
        self._word_ends = markers(",", "}", "]", *others)
        self._writer = writer
        self._key = ""  # of the argument that is being read
        self._open: list[Container] = []  # inside that argument, the innermost last
        self._place = _Place.KEY
        self._string: OpenValue | None = None  # a key or a value
        self._closing = markers()  # of that string
        self._word: list[str] | None = None  # the pieces of a bare value

    def step(self, scanner: Scanner) -> bool:
        """Take a step; return whether there was text enough for it.

        Raises `NoCallError` for what arguments cannot have at this place.
        """
        if self._string is not None:
            return self._read_string(self._string, scanner)
        if self._word is not None:
            return self._read_word(self._word, scanner)
        scanner.take_match(_ANY_BLANK)
        if scanner.is_at_end:
            return False
        match self._place:
            case _Place.KEY:
                return self._begin_key(scanner)
            case _Place.COLON:
                return self._pass_colon(scanner)
            case _Place.VALUE:
                return self._begin_value(scanner)
            case _Place.AFTER:
                return self._read_after(scanner)

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._string

    def flush(self, scanner: Scanner) -> None:
        """Add what was held back to the open string: the text ends here."""
        if self._string is not None:
            take_text(self._string, scanner, len(scanner.text))

    def close(self, scanner: Scanner) -> None:
        """Close everything that is open at the end of the text.

        Raise `NoCallError` if the text ends inside a mark or a key, or where nothing may end.
        """
        if not scanner.is_at_end:
            raise NoCallError("half a mark, or half a key")
        if self._string is not None and self._place is _Place.VALUE:
            if not may_end_here(self._string.text, self._marks.start, self._marks.end):
                raise NoCallError("it is not clear where a string ends")
            self._close_string(self._string)
        elif self._word is not None:
            self._close_word(self._word)
        elif (
            self._string is not None
            or self._place is _Place.COLON
            or (self._place is _Place.VALUE and not self._in_list)
        ):
            raise NoCallError("a key without a value")
        while self._open:
            self._take(self._open.pop().value)
        self.ended = True

    # --- keys ---

    def _begin_key(self, scanner: Scanner) -> bool:
        text, at = scanner.text, scanner.at
        if text[at] == "}":
            return self._close_container(scanner)
        closing = self._marks.closing_at(text, at)
        if closing is None:
            return False
        if closing:
            scanner.skip(len(closing))
            self._string, self._closing = CollectedText(), markers(closing)
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
            raise NoCallError("expected a key and a value")
        schema = self._open[-1].schema if self._open else self._writer.schema
        if _NO_KEY.search(key) or is_misspelled(key, schema):
            raise NoCallError("a damaged key")
        is_other = schema is not None and schema.properties and key not in schema.properties
        if is_other and _KEY.fullmatch(key) is None:
            raise NoCallError("a damaged key")
        scanner.advance_to(found.start())
        self._name(key)
        return True

    def _name(self, key: str) -> None:
        """Use *key* for the next value."""
        if self._open:
            self._open[-1].key = key
        else:
            self._key = key
        self._place = _Place.COLON

    def _pass_colon(self, scanner: Scanner) -> bool:
        if scanner.text[scanner.at] != ":":
            raise NoCallError("a key without a colon")
        scanner.skip(1)
        self._place = _Place.VALUE
        return True

    # --- values ---

    def _begin_value(self, scanner: Scanner) -> bool:
        text, at = scanner.text, scanner.at
        if text[at] in "{[":
            scanner.skip(1)
            self._open_container(text[at])
            return True
        if text[at] == "]" and self._in_list:
            return self._close_container(scanner)
        closing = self._marks.closing_at(text, at)
        if closing is None:
            return False
        if closing:
            scanner.skip(len(closing))
            self._open_string(closing)
        else:
            self._word = []
        return True

    def _open_string(self, closing: str) -> None:
        self._closing = markers(closing)
        if self._open or not self._writer.streams(self._key):
            self._string = CollectedText()
        else:
            self._writer.open_text(self._key)
            self._string = StreamedText(self._closing, self._writer)

    def _read_string(self, string: OpenValue, scanner: Scanner) -> bool:
        text, at = scanner.text, scanner.at
        found = self._closing.find(text, at)
        take_text(string, scanner, found.start() if found else self._closing.find_held(text, at))
        if found is None:
            return False
        scanner.advance_to(found.end())
        self._close_string(string)
        return True

    def _close_string(self, string: OpenValue) -> None:
        if not self._marks.are_paired_in(string.text):
            raise NoCallError("a mark of a call inside a string")
        if string.text.endswith(self._marks.quote[:3]):
            raise NoCallError("half a mark at the end of a string")
        string.close()
        text, self._string = string.text, None
        if self._place is _Place.KEY:
            self._name(text)
        elif isinstance(string, StreamedText):
            self._place = _Place.AFTER
        else:
            self._take(text)

    def _read_word(self, word: list[str], scanner: Scanner) -> bool:
        text, at = scanner.text, scanner.at
        found = self._word_ends.find(text, at)
        scanner.advance_to(found.start() if found else self._word_ends.find_held(text, at))
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
        if not text and self._in_list:
            raise NoCallError("an empty value in a list")
        schema = self._schema()
        value = read_word(text, schema)
        is_mark = _MARKUP.search(text) or text.startswith(self._marks.quote[:2])
        if is_mark or not fits(text, schema) or _is_ruined(value, schema):
            raise NoCallError("a bare value that is something else")
        self._take(value)

    def _take(self, value: Any) -> None:
        """Add a whole value to the innermost container, or write it."""
        self._place = _Place.AFTER
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

    def _read_after(self, scanner: Scanner) -> bool:
        if scanner.text[scanner.at] != ",":
            return self._close_container(scanner)
        scanner.skip(1)
        self._expect_next()
        return True

    def _expect_next(self) -> None:
        self._place = _Place.VALUE if self._in_list else _Place.KEY

    def _close_container(self, scanner: Scanner) -> bool:
        """Read the bracket that closes the innermost container."""
        closing = self._open[-1].closing if self._open else "}"
        if scanner.text[scanner.at] != closing:
            raise NoCallError(f"expected a comma or `{closing}` after a value")
        scanner.skip(1)
        if self._open:
            self._take(self._open.pop().value)
        else:
            self.ended = True
        return True


MAX_NAME: Final = 256
"""How many characters a name may have."""

_SPACE: Final = rf"\s{{0,{MAX_BLANK}}}+"
_HEADER: Final = re.compile(rf"{_SPACE}call:{_SPACE}(\w[\w.:-]{{0,{MAX_NAME - 1}}}+){_SPACE}")
_BARE_HEADER: Final = re.compile(rf"{_SPACE}(\w[\w.:-]{{0,{MAX_NAME - 1}}}+){_SPACE}(?=\{{)")
"""A header without ``call:``, which only a repair reads."""

_HALF_HEADER: Final = re.compile(rf"{_SPACE}(?:c|ca|cal|call|call:{_SPACE})?")
_SURPLUS: Final = re.compile(rf"{_SPACE}[}}\]]")
_BLANK: Final = re.compile(_SPACE)

# A member after the brace shows that the brace came too early, as in JSON.
_CLOSING: Final = rf"[}}\]\s]{{0,{MAX_BLANK}}}"
_MEMBER_NAME: Final = rf"[\"'\w$.\-/@]{{1,{MAX_MEMBER_NAME}}}"
_GLUED_NAME: Final = rf"[\w$]{{1,{MAX_MEMBER_NAME}}}{_SPACE}"
_MEMBER: Final = re.compile(rf"{_CLOSING},{_SPACE}{_MEMBER_NAME}{_SPACE}:|{_GLUED_NAME}:")
_MEMBER_BEGINS: Final = re.compile(
    rf"{_CLOSING}(?:,{_SPACE}(?:{_MEMBER_NAME}{_SPACE})?)?|{_GLUED_NAME}"
)


class DelimitedReader(BodyReader):
    """Reads one call whose start marker has come."""

    is_repairable = True

    def __init__(self, marks: Delimiters) -> None:
        self.end = marks.end
        self._marks = marks
        self._arguments: ArgumentsReader | None = None  # none before the header was read
        self._closed = False  # the call is: its end marker follows
        self._schemas: Mapping[str, Schema] = {}

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        if self._arguments is None:
            verdict = self._read_header(scanner, calls)
            if verdict is not None:
                return verdict
        if not self._closed:
            verdict = self._read_arguments(scanner, calls)
            if verdict is not None:
                return verdict
        return self._read_after(scanner)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: a closed call is complete without its end marker."""
        if self._arguments is not None and self._arguments.ended and not self._closed:
            calls.close()
            self._closed = True
        if self._closed:
            scanner.skip_all()  # the piece of a cut marker is not a content
            return Verdict.DONE
        if self._arguments is not None:
            self._arguments.flush(scanner)
        scanner.skip_all()
        self.error = CALL_CUT
        return Verdict.GIVE_UP

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._arguments

    # --- the parts of a call ---

    def _read_header(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read up to the brace that opens the arguments; return None to continue."""
        text, at = scanner.text, scanner.at
        self._schemas = calls.schemas
        header = _HEADER.match(text, at)
        if header is None:
            if _HALF_HEADER.fullmatch(text, at):
                return Verdict.MORE
            self.error = "no `call:` and name after the start marker"
            return Verdict.BROKEN
        at = header.end()
        window = text[at : at + len(self.end)]
        if window.startswith("{"):
            scanner.advance_to(at + 1)
            self._arguments = ArgumentsReader(self._marks, calls.open(header[1]))
            return None
        if window == self.end:
            scanner.advance_to(at + len(self.end))
            calls.open(header[1])
            calls.close()
            return Verdict.DONE
        if self.end.startswith(window):
            return Verdict.MORE
        self.error = "an invalid name, or no arguments after it"
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
        if scanner.match(_MEMBER):
            self.error = EARLY_END
            return Verdict.BROKEN
        if _MEMBER_BEGINS.fullmatch(scanner.text, scanner.at):
            return Verdict.MORE
        calls.close()
        self._closed = True
        return None

    def _read_after(self, scanner: Scanner) -> Verdict:
        """Find the end marker; surplus brackets that models write are dropped."""
        text = scanner.text
        # Like JSON calls, complete arguments need no end marker.
        while surplus := _SURPLUS.match(text, scanner.at):
            scanner.advance_to(surplus.end())
        at = skip_match(_BLANK, text, scanner.at)
        window = text[at : at + len(self.end)]
        if window == self.end:
            scanner.advance_to(at + len(self.end))
            return Verdict.DONE
        return Verdict.MORE if self.end.startswith(window) else Verdict.UNTERMINATED

    # --- repairing ---

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make a call of *text*.

        Close what is open, or repair the JSON that was written instead.
        """
        text = without_turn_end(text)
        header = _HEADER.match(text) or (None if ended else _BARE_HEADER.match(text))
        if header is None:
            return [] if ended else self._repair_loose(text)
        name, inside = header[1], text[header.end() :]
        try:
            return [RepairedCall(name, self._close(name, inside), ["closed an open call"])]
        except NoCallError:
            if ended:
                return []
            return self._repair_json(name, inside) or self._repair_loose(name + inside)

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
        if arguments.ended and scanner.match(_MEMBER):
            raise NoCallError(EARLY_END)
        arguments.close(scanner)
        return writer.arguments

    def _repair_loose(self, text: str) -> list[RepairedCall]:
        """Read a body in the form of another format, whose strings may be between our marks."""
        bare = text.strip().removesuffix(self.end)
        if '"' not in bare.replace(self._marks.quote, ""):
            bare = bare.replace(self._marks.quote, '"')
        return read_loose(bare, self._schemas)

    def _repair_json(self, name: str, inside: str) -> list[RepairedCall]:
        """Repair arguments without any mark.

        With marks it is certain where strings end, and a repair that guesses quotes would join
        separate strings.
        """
        if self._marks.quote in inside or not inside.startswith("{"):
            return []
        try:
            arguments, repairs = rjson.repair(inside, guess=False)
        except JSONParseError:
            return []
        return [RepairedCall(name, arguments, repairs)] if isinstance(arguments, dict) else []


def _forget(piece: str) -> None:
    del piece
