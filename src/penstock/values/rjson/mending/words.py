"""Reads what broken JSON has without quotes: numbers, literals, words and runs of words.

One word is what it is in relaxed JSON, or a hexadecimal number. A word that is none of these, or
that more words follow on its line, is text (``New York``, ``12 px``), unless the next word is a key
with its colon. Numbers and literals that follow each other are values with a comma missing.

Where the text ends in a word, the word may be cut: the beginning of a literal is completed, since
nothing else in JSON begins so; a number keeps the digits that make it one.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from penstock.values.grammar import (
    LITERALS,
    NUMBER,
    PYTHON_LITERALS,
    RELAXED_LITERALS,
    RELAXED_NUMBER,
    read_number,
)
from penstock.values.rjson.repairs import Repair, Repairs

_WORD: Final = r"(?:[^\s,;:{}\[\]\"'`<]|<(?![|\uff5c])|(?<=\w)'(?=\w)|:(?=//|[0-9\\]))"
_FIRST: Final = re.compile(rf"{_WORD}+")
_NEXT: Final = rf"[ \t]++(?!//|/\*|\#|=)(?![\w$.\-]++\s*+:)({_WORD}+)"
_MORE: Final = re.compile(_NEXT)
_TEXT: Final = re.compile(rf"{_WORD}+(?:{_NEXT})+")
_KEY: Final = re.compile(r"(?:[^\s,;:={}\[\]\"'`<]|<(?![|\uff5c]))++")
_COMMENT_OPENS: Final = re.compile(r"//|/\*|\#")
_HEX: Final = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]{1,1000})")
_CUT_NUMBER: Final = re.compile(rf"({RELAXED_NUMBER.pattern}|[+-])(?:[eE][+-]?)?")


class Word(NamedTuple):
    """A bare value, and where it ends; not `known` if nothing of it can be kept."""

    value: Any
    end: int
    known: bool = True


class _Scalar(NamedTuple):
    """A number or literal, and what is to be said of it if it is not strict JSON."""

    value: Any
    repair: Repair | None = None


def find_key(text: str, at: int, end: int) -> str:
    """Return the unquoted key at *at*, or `""`."""
    key = _KEY.match(text, at, end)
    return key.group() if key else ""


def take_word(text: str, at: int, end: int, notes: Repairs) -> Word | None:
    """Take the bare value at *at*, or nothing where none can begin."""
    first = _FIRST.match(text, at, end)
    if not first:
        return None
    token = _before_comment(first.group())
    stop = at + len(token)
    if stop == end and (cut := _read_cut(token, end, notes)):
        return cut
    scalar = _read_scalar(token)
    second = _MORE.match(text, stop, end)
    if second and not (scalar and _read_scalar(second.group(1))):
        return _take_text(text, at, end, notes)
    if scalar is None:
        notes.note(Repair.BARE_WORD, token)
        return Word(token, stop)
    if scalar.repair:
        notes.note(scalar.repair, token)
    return Word(scalar.value, stop)


def _before_comment(word: str) -> str:
    """Return *word* without the comment glued to it, which only a number or literal can have."""
    scalar = _COMMENT_OPENS.split(word, maxsplit=1)[0]
    return scalar if scalar and _read_scalar(scalar) else word


def _take_text(text: str, at: int, end: int, notes: Repairs) -> Word:
    words = _TEXT.match(text, at, end)
    stop = words.end() if words else end
    notes.note(Repair.UNQUOTED_TEXT, text[at:stop])
    return Word(text[at:stop], stop)


def _read_scalar(token: str) -> _Scalar | None:
    if token in PYTHON_LITERALS:
        return _Scalar(PYTHON_LITERALS[token], Repair.PYTHON_LITERAL)
    if token in LITERALS:
        return _Scalar(LITERALS[token])
    if hexadecimal := _HEX.fullmatch(token):
        return _Scalar(int("".join(hexadecimal.groups()), 16), Repair.ODD_NUMBER)
    if not RELAXED_NUMBER.fullmatch(token):
        return None
    try:
        value = read_number(token)
    except ValueError:  # too many digits: as text it is at least exact
        return None
    return _Scalar(value, None if NUMBER.fullmatch(token) else Repair.ODD_NUMBER)


def _read_cut(token: str, end: int, notes: Repairs) -> Word | None:
    """Read the last word of the text as one that was cut, if it looks so."""
    for literal, value in RELAXED_LITERALS.items():
        if literal != token and literal.startswith(token):
            notes.note(Repair.CUT_LITERAL, token)
            return Word(value, end)
    number = _CUT_NUMBER.fullmatch(token)
    if number is None or RELAXED_NUMBER.fullmatch(token):
        return None
    notes.note(Repair.CUT_NUMBER, token)
    scalar = _read_scalar(number.group(1))
    return Word(scalar.value, end) if scalar else Word(None, end, known=False)
