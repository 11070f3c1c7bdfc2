"""Calls in Python that Python cannot read: the slips of small models, which repair undoes.

LFM2 and its relatives leave quotes in a string unescaped (``'Baker's note'``), write a set for a
list, or zeros before a number. A quote ends its string only where what follows can be the end of
a value: another argument that the tool has, or the end of the call. Quotes inside are apostrophes,
or pairs around words; any other makes it unclear what was meant, and then there is no call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.parsing.call_sink import RepairedCall
from penstock.parsing.scanner import skip_match
from penstock.tools import clean_name
from penstock.values.python_literals import Atom
from penstock.values.schema import Schema

MAX_DEPTH: Final = 32
"""How deep the lists and dictionaries of a repaired value may nest."""

_BLANKS: Final = re.compile(r"\s*+")
_NAME: Final = re.compile(r"[A-Za-z_][\w.:-]{0,255}+")
_KEY: Final = re.compile(r"([A-Za-z_][\w-]{0,255}+)\s*+=(?!=)")
_ATOM: Final = re.compile(r"[+-]?[\w.]{1,64}+")
# `007`: Python refuses zeros before a number, models write them.
_ZEROS: Final = re.compile(r"(?<![\w.])0+(?=\d)")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
# After the last argument: the end of the list or of the text, or another call.
_END_OF_CALL: Final = r"\)\s*+(?:\]|\Z|,\s*+[A-Za-z_][\w.:-]*+\()"
_AFTER_ITEM: Final = re.compile(r"\s*+(?:\]|\)|\}|,\s*+[\"'\[{(\w+-])")
_AFTER_MEMBER: Final = re.compile(r"\s*+(?:\}|,\s*+[\"'])")
_AFTER_KEY: Final = re.compile(r"\s*+:")
_CURLY: Final = {'"': ("\u201c", "\u201d"), "'": ("\u2018", "\u2019")}
_CLOSERS: Final = {"[": "]", "(": ")", "{": "}"}


# `Baker's`, `they're`: the quote is between letters, and few letters follow it.
_APOSTROPHE: Final = re.compile(r"(?<=[A-Za-z])'(?=[a-z]{1,2}\b)")
# `x="`, `", ` or `("` inside a value look like the end of it and the beginning of the next one.
_SUSPECT: Final = re.compile(r"<\||\|>|\w\s*=\s*[\"']|[\"']\s*[,\])}:=(\[{]|[,\[{=(]\s*[\"']")


def _is_plausible(value: str, quote: str) -> bool:
    """Return whether the *quote*s inside of *value* may be part of it."""
    rest = _APOSTROPHE.sub("", value) if quote == "'" else value
    if quote not in rest:
        return not _SUSPECT.search(rest)
    pairs = rest.split(quote)
    # An odd number of quotes cannot be pairs around words.
    if len(pairs) % 2 == 0 or _SUSPECT.search(rest):
        return False
    outside, inside = pairs[::2], pairs[1::2]
    is_apart = all(piece[-1:] in ("", " ", "\n", "(") for piece in outside[:-1])
    is_over = all(piece[:1] in ("", " ", "\n", ".", "!", "?", ";") for piece in outside[1:])
    return is_apart and is_over and all(piece and piece == piece.strip() for piece in inside)


class _SlipError(Exception):
    """The text is not a call, or it is not clear which one."""


def read_slips(text: str, schemas: Mapping[str, Schema], *, fewest: int = 1) -> list[RepairedCall]:
    """Return the calls of *text*, a list of them or one; an empty list if they are not clear.

    With fewer than *fewest* slips, something else is damaged, which is not repaired here.
    """
    straight = _straighten(text)
    slips = _Slips(straight, schemas)
    slips.number += straight != text
    try:
        calls = slips.read()
    except _SlipError:
        return []
    return calls if slips.number >= fewest else []


def _straighten(text: str) -> str:
    """Return *text* with straight quotes in place of curly ones, if it has no others."""
    for quote, (opening, closing) in _CURLY.items():
        if opening in text and quote not in text and text.count(opening) == text.count(closing):
            text = text.replace(opening, quote).replace(closing, quote)
    return text


class _Slips:
    def __init__(self, text: str, schemas: Mapping[str, Schema]) -> None:
        self._text = text
        self._at = 0
        self._schemas = schemas
        self.number = 0  # of slips; other damage is not repaired here

    def read(self) -> list[RepairedCall]:
        """Read all calls up to the end of the text."""
        self._skip()
        is_list = self._take("[")
        calls = [self._read_call()]
        while self._take(","):
            if self._text.startswith("]", self._at):
                break
            calls.append(self._read_call())
        if is_list and not self._take("]"):
            raise _SlipError
        if self._at < len(self._text):
            raise _SlipError
        return calls

    def _read_call(self) -> RepairedCall:
        found = self._match(_NAME)
        name = clean_name(found[0], self._schemas)
        schema = self._schemas.get(name)
        if schema is None:
            raise _SlipError
        arguments: dict[str, Any] = {}
        if not self._take("("):
            if schema.required:
                raise _SlipError
            self.number += 1
            return RepairedCall(name, {}, ["added parentheses to a call"])
        while not self._take(")"):
            key = self._match(_KEY)[1]
            self._skip()
            if key in arguments or key not in schema.properties:
                raise _SlipError
            # A quote followed by `, KEY=` ends its string only if KEY may still come: code in a
            # value has keyword arguments, too.
            left = [one for one in schema.properties if one not in arguments and one != key]
            keys = "|".join(map(re.escape, left))
            another = rf"|,\s*+(?:{keys})\s*+=" if keys else ""
            arguments[key] = self._read_value(re.compile(rf"\s*+(?:{_END_OF_CALL}{another})"), 0)
            if not self._take(",") and not self._text.startswith(")", self._at):
                raise _SlipError
        return RepairedCall(name, arguments, ["repaired a Python call"])

    def _read_value(self, after: re.Pattern[str], depth: int) -> Any:
        """Read a value that *after* matches the text after."""
        first = self._text[self._at : self._at + 1]
        if depth > MAX_DEPTH:
            raise _SlipError
        if first in ("'", '"'):
            return self._read_string(first, after)
        if first in _CLOSERS and first:
            self._at += 1
            self._skip()
            is_dict = first == "{" and self._begins_member()
            self.number += first == "{" and not is_dict  # A set becomes a list: JSON has none.
            close = self._read_members if is_dict else self._read_items
            return close(_CLOSERS[first], depth + 1)
        found = self._match(_ATOM)
        sign = found[0][0] if found[0][0] in "+-" else ""
        atom = Atom(sign)
        try:
            digits, zeros = _ZEROS.subn("", found[0][len(sign) :])
            self.number += zeros
            atom.extend(digits, 0)
            return atom.read()
        except ValueError:
            raise _SlipError from None

    def _begins_member(self) -> bool:
        """Return whether a dictionary begins here, and not a set; an empty one does."""
        if self._text.startswith("}", self._at):
            return True
        first = self._text[self._at : self._at + 1]
        if first not in ("'", '"'):
            return False
        at = self._at
        try:
            self._read_string(first, re.compile(r"\s*+[:,}]"))
            return self._text.startswith(":", self._at)
        finally:
            self._at = at

    def _read_items(self, closer: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while not self._take(closer):
            items.append(self._read_value(_AFTER_ITEM, depth))
            if not self._take(",") and not self._text.startswith(closer, self._at):
                raise _SlipError
        return items

    def _read_members(self, closer: str, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while not self._take(closer):
            quote = self._text[self._at : self._at + 1]
            if quote not in ("'", '"') or not quote:
                raise _SlipError
            key = self._read_string(quote, _AFTER_KEY)
            if not self._take(":"):
                raise _SlipError
            members[key] = self._read_value(_AFTER_MEMBER, depth)
            if not self._take(",") and not self._text.startswith(closer, self._at):
                raise _SlipError
        return members

    def _read_string(self, quote: str, after: re.Pattern[str]) -> str:
        """Read a string up to the first *quote* after which its value can end."""
        text, begin = self._text, self._at + 1
        if text.startswith(quote * 3, self._at):
            raise _SlipError  # Quotes inside a triple-quoted string were no slip.
        at = text.find(quote, begin)
        while at != -1:
            is_escaped = (at - len(text[begin:at].rstrip("\\")) - begin) % 2
            if not is_escaped and after.match(text, at + 1):
                value = text[begin:at]
                if quote in value.replace(f"\\{quote}", ""):
                    self.number += 1
                    if not _is_plausible(value, quote):
                        raise _SlipError
                self._at = at + 1
                self._skip()
                decode = lambda found: _ESCAPES.get(found[1], found[0])  # noqa: E731
                return _ESCAPE.sub(decode, text[begin:at])
            at = text.find(quote, at + 1)
        raise _SlipError

    # --- tokens ---

    def _skip(self) -> None:
        self._at = skip_match(_BLANKS, self._text, self._at)

    def _take(self, token: str) -> bool:
        """Read *token* and the white space after it, if it is here."""
        if not self._text.startswith(token, self._at):
            return False
        self._at += len(token)
        self._skip()
        return True

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _SlipError
        self._at = found.end()
        self._skip()
        return found
