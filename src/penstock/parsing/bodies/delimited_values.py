"""The values of delimited calls: strings that stream, bare words, objects and lists.

A string runs to the first mark that closes it; nothing in it is escaped. That holds for the plain
quotes, too, that models write instead. A bare word is what it is in JSON, unless its schema wants
text: ``1.50`` stays as it is where a string is wanted.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from msgspec import Struct

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import Run, Translated
from penstock.parsing.scanner import Markers, Scanner, markers
from penstock.values.grammar import LITERALS, NUMBER, read_number
from penstock.values.schema import Schema
from penstock.values.schema.keywords import type_of


class Delimiters(Struct, frozen=True):
    """The marks of one format: *start* and *end* of a call, *quote* on both sides of a string."""

    start: str
    end: str
    quote: str

    @property
    def key_ends(self) -> Markers:
        """What ends a bare key: a colon, or something that shows that it is no key."""
        return markers(":", ",", "{", "}", "[", "]", self.start, self.end, self.quote)

    @property
    def word_ends(self) -> Markers:
        """What ends a bare value, be it a mark that cannot stand in one."""
        return markers(",", "}", "]", self.start, self.end, self.quote)

    def closing_at(self, text: str, at: int) -> str | None:
        """Give what closes the string that opens at *at*: the same mark again, or a plain quote.

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


class OpenString:
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
        """Take the text up to the closing mark, and that; tell whether it was there."""
        text, at = scanner.text, scanner.at
        found = self._marks.find(text, at)
        self.take(scanner, found.start() if found else self._marks.find_held(text, at))
        if found is None:
            return False
        scanner.at = found.end()
        return True

    def close(self) -> str:
        """End it; give all that it says."""
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

    def run(self) -> Run | None:
        """Give the string as a run, if it goes out as it comes."""
        if self._writer is None:
            return None
        return Run(_special(self._marks.literals[0][0]), self._pieces, self._translate)

    def _translate(self, text: str) -> Translated | None:
        """Read a piece that does not hold the closing mark; what may begin it is left."""
        if self._marks.find(text) is not None:
            return None
        text = text[: self._marks.find_held(text)]
        return text, encode_basestring(text)[1:-1], len(text)


@lru_cache(maxsize=64)
def _special(first: str) -> re.Pattern[str]:
    """Give what is not plain: what may begin the closing mark, or strict JSON escapes."""
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
        """Give the schema of the value that comes next, where one is known."""
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
    """Give what a bare *word* says: a literal of JSON, or its text.

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
