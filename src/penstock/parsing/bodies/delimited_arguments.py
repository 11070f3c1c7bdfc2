"""Arguments between braces, ``{k:v,…}``, as delimited calls have them, read as they arrive.

Each step reads up to the next thing that matters: the end of a string, of a word, of a container.
A string argument between marks goes out as it comes; any other value goes out when it is closed.
What is held back is what may begin a mark, and a bare key until its colon: at most `MAX_KEY`
characters. Containers that are open stand in a list, so depth is a number with a limit.

No mark of a call can stand outside of strings: a model that forgets a closing brace breaks its call
there, and what follows is not swallowed.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Final

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import NoCallError, Run
from penstock.parsing.bodies.delimited_values import (
    Container,
    Delimiters,
    OpenString,
    read_word,
)
from penstock.parsing.bodies.plausible import fits, may_end_here
from penstock.parsing.scanner import Scanner
from penstock.values.grammar import MAX_DEPTH
from penstock.values.schema import Schema

MAX_KEY: Final = 256
"""How many characters a bare key may have: prose behind a brace is not held back for long."""

_BLANK: Final = re.compile(r"\s*+")


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
        self._string: OpenString | None = None  # a key or a value
        self._word: list[str] | None = None  # the pieces of a bare value

    def step(self, scanner: Scanner) -> bool:
        """Take a step; tell whether there was text enough for it.

        Raises `NoCallError` for what arguments cannot have at this place.
        """
        if self._string is not None:
            return self._read_string(self._string, scanner)
        if self._word is not None:
            return self._read_word(self._word, scanner)
        blank = _BLANK.match(scanner.text, scanner.at)
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

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        return self._string.run() if self._string is not None else None

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now."""
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
            self._string = OpenString(closing)
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
            self._string = OpenString(closing)
        else:
            self._writer.open_text(self._key)
            self._string = OpenString(closing, self._writer)

    def _read_string(self, string: OpenString, scanner: Scanner) -> bool:
        if not string.read(scanner):
            return False
        self._close_string(string)
        return True

    def _close_string(self, string: OpenString) -> None:
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
