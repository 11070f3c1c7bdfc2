"""Which part of a call's text is the arguments, and which is what stands around them.

A delta of a call says twice what it brings: as JSON, and as the text that the model wrote. The
values of the JSON are looked for in the text. Where they stand is an argument; what is left between
them is markup if it has a tag in it, and otherwise the punctuation of the arguments themselves. So
an ``<b>`` in a value is a value, and ``<parameter=city>`` is not.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from json import JSONDecoder
from typing import Any, Final

from penstock import _json
from penstock.errors import JSONParseError

Piece = tuple[str, bool]
"""Some text, and whether it is of the arguments."""

_TAG: Final = re.compile(
    r"<\|(?:open|close)\|>[^<>]*<\|sep\|>"  # a tag of several tokens
    r"|\]<\][^<>]*\[>\[(?:<[^<>]*>)?"  # a tag with a token before it
    r"|<[^<>]*>"
    r"|\[/?[A-Z_]{3,}\]"
)
"""What marks a place in any of the formats."""

MAX_OBJECTS: Final = 16
"""At how many braces of a text an object is looked for."""

_DECODER: Final = JSONDecoder()
_BRACE: Final = re.compile(r"[^{}]*\{\s*")
_FIRST_KEY: Final = re.compile(r'\{("[^"\\]*)')
_INSIDE: Final = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_SCALAR: Final = re.compile(r'[^\s{}\[\],:"]+')
_OUTSIDE: Final = re.compile(r"[\s{}\[\],:]+")
_COLON: Final = re.compile(r"\s*:")


class ArgumentText:
    """Reads the deltas of one call, in order."""

    __slots__ = ("_escape", "_has_begun", "_is_in_string")

    def __init__(self) -> None:
        self._is_in_string = False
        self._has_begun = False  # something of the text has been read
        self._escape = ""  # a backslash whose character has not come yet

    def pieces(self, said: str, raw: str) -> list[Piece]:
        """Cut *raw*, which a delta with the JSON text *said* consumed, into pieces.

        The braces around all arguments are markup: in most formats they are of the call's own text.
        """
        if raw and not self._has_begun:
            self._has_begun = True
            if brace := _opening(said, raw):
                return [(brace, False), *self.pieces(said, raw[len(brace) :])]
        is_plain = '"' not in said and "\\" not in said
        if self._is_in_string and is_plain and not self._escape:
            return [(raw, True)] if raw else []
        was_in_string = self._is_in_string
        values = self.values(self._escape + said)
        if was_in_string and self._is_in_string and len(values) <= 1:
            return [(raw, True)] if raw else []  # All of it is of one value, however it is escaped.
        return cut_at(raw, values) if raw else []

    def values(self, said: str) -> list[str]:
        """Give the values in *said*."""
        return [*self._values(said)]

    def _values(self, said: str) -> Iterator[str]:
        """Give the values in *said*, whole or the part of them that is there; keys are none."""
        self._escape = ""
        at, end = 0, len(said)
        while at < end:
            if self._is_in_string:
                at = yield from self._string(said, at)
            elif said[at] == '"':
                self._is_in_string = True
                at += 1
            elif found := _SCALAR.match(said, at):
                yield found[0]
                at = found.end()
            else:
                found = _OUTSIDE.match(said, at)
                at = at + 1 if found is None else found.end()

    def _string(self, said: str, at: int) -> Generator[str, None, int]:
        found = _INSIDE.match(said, at)
        inside, end = ("", at) if found is None else (found[0], found.end())
        if said[end : end + 1] == "\\":
            self._escape, end = "\\", end + 1
        elif end < len(said):
            self._is_in_string, end = False, end + 1
        if inside and (self._is_in_string or not _COLON.match(said, end)):
            yield inside
        return end


def _opening(said: str, raw: str) -> str:
    """Give what of *raw* stands before the first key that is *said*, if that ends in a brace."""
    key, brace = _FIRST_KEY.match(said), _BRACE.match(raw)
    return "" if key is None or brace is None or key[1] in brace[0] else brace[0]


def cut_at(raw: str, values: list[str]) -> list[Piece]:
    """Cut *raw* at the *values* that stand in it, in their order; those not found are left out."""
    pieces: list[Piece] = []
    at = 0
    for start, end in _places(raw, values):
        pieces += [*between(raw[at:start]), (raw[start:end], True)]
        at = end
    return [*pieces, *between(raw[at:])]


def cut_out(raw: str, values: list[str]) -> list[Piece]:
    """Cut *raw* as `cut_at` does; what stands before the first and behind the last is markup."""
    places = [*_places(raw, values)]
    if not places:
        return [(raw, False)]
    start, end = places[0][0], places[-1][1]
    return [(raw[:start], False), *cut_at(raw[start:end], values), (raw[end:], False)]


def _places(raw: str, values: list[str]) -> Iterator[tuple[int, int]]:
    at = 0
    for value in values:
        start, end = _find(raw, value, at)
        if start >= 0:
            yield start, end
            at = end


def between(text: str) -> list[Piece]:
    """Cut what stands between values: its tags are markup, and so are blanks beside them."""
    if not text:
        return []
    pieces: list[Piece] = []
    at = 0
    for tag in _TAG.finditer(text):
        pieces += [*_words(text[at : tag.start()]), (tag[0], False)]
        at = tag.end()
    return [*pieces, *_words(text[at:])] if pieces else [(text, True)]


def _words(text: str) -> list[Piece]:
    return [(text, bool(text.strip()))] if text else []


def cut_head(raw: str, values: list[str]) -> list[Piece]:
    """Cut *raw*, which stands behind a name: in it there are *values*, in quotes or at its end."""
    pieces: list[Piece] = []
    at = 0
    for value in values:
        start, end = _find_quoted(raw, value, at)
        if start >= 0:
            pieces += [(raw[at:start], False), (raw[start:end], True)]
            at = end
    return [piece for piece in (*pieces, (raw[at:], False)) if piece[0]]


def find_object(raw: str, value: Any) -> tuple[int, int]:
    """Find where *raw* says *value*, an object, as JSON: what stands in its braces."""
    at = raw.find("{")
    for _ in range(MAX_OBJECTS):
        if at < 0:
            break
        with suppress(ValueError, RecursionError):
            found, end = _DECODER.raw_decode(raw, at)
            if found == value:
                return at + 1, end - 1
        at = raw.find("{", at + 1)
    return -1, -1


def _find_quoted(raw: str, value: str, at: int) -> tuple[int, int]:
    for form in _forms(value):
        for quote in "\"'":
            start = raw.find(f"{quote}{form}{quote}", at)
            if start >= 0:
                return start + 1, start + 1 + len(form)
        if raw.endswith(form) and len(raw) - len(form) >= at:
            return len(raw) - len(form), len(raw)
    return _find(raw, value, at)


def _forms(value: str) -> Iterator[str]:
    """Give how *value*, a piece of JSON, may stand in other text: unescaped, or ``True``."""
    yield from filter(None, dict.fromkeys((_unescaped(value), value, value.capitalize())))


def _find(raw: str, value: str, at: int) -> tuple[int, int]:
    """Find *value*, a piece of JSON, as it may stand in other text too."""
    for form in _forms(value):
        start = raw.find(form, at)
        if start >= 0:
            return start, start + len(form)
    return -1, -1


def _unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    try:
        text = _json.decode(f'"{value}"')
    except JSONParseError:
        return value
    return text if isinstance(text, str) else value


def values_in(arguments: Any) -> list[str]:
    """List the values of a call's *arguments*, in their order, as they may stand in text."""
    found: list[str] = []
    waiting = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(reversed(value.values()))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        else:
            text = _json.encode_wire(value).decode()
            found.append(text[1:-1] if isinstance(value, str) else text)
    return [text for text in found if text]
