"""Which part of a call's text is the arguments, and which is what stands around them.

A delta of a call says twice what it brings: as JSON, and as the text that the model wrote. The
values of the JSON are looked for in the text. Where they stand is an argument; what is left between
them is markup if it has a tag in it, and otherwise the punctuation of the arguments themselves. So
an ``<b>`` in a value is a value, and ``<parameter=city>`` is not.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
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

_INSIDE: Final = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_SCALAR: Final = re.compile(r'[^\s{}\[\],:"]+')
_OUTSIDE: Final = re.compile(r"[\s{}\[\],:]+")
_COLON: Final = re.compile(r"\s*:")


class ArgumentText:
    """Reads the deltas of one call, in order."""

    __slots__ = ("_escape", "_is_in_string")

    def __init__(self) -> None:
        self._is_in_string = False
        self._escape = ""  # a backslash whose character has not come yet

    def pieces(self, said: str, raw: str) -> list[Piece]:
        """Cut *raw*, which a delta with the JSON text *said* consumed, into pieces."""
        is_plain = '"' not in said and "\\" not in said
        if self._is_in_string and is_plain and not self._escape:
            return [(raw, True)] if raw else []
        values = [*self._values(self._escape + said)]
        return cut_at(raw, values) if raw else []

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


def _find(raw: str, value: str, at: int) -> tuple[int, int]:
    """Find *value*, a piece of JSON, as it may stand in other text too: unescaped, or ``True``."""
    for form in dict.fromkeys((_unescaped(value), value, value.capitalize())):
        start = raw.find(form, at) if form else -1
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
