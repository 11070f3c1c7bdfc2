r"""Finds the JSON value in a model's answer, and has it mended.

Where the value begins, by the first rule that applies:

1. The text is one string, open or closed: the string.
2. The text begins with an object or a list: there. (One whose quotes are all escaped,
   ``{\"a\": 1}``, loses one level of escapes first; one whose line breaks alone are, those.)
3. It begins with a quoted key and a colon: the members of an object without its braces.
4. A code fence holds a value: there, and the last fence of the text ends it.
5. Prose holds an object or a list that looks like one: the first such place. ``[1]`` and ``{}`` may
   be a footnote and a figure of speech, so they count only where nothing better is found.
6. The text is a string with broken quotes, a hexadecimal number or a cut number.

Values in a row, with nothing but white space and commas between them, become a list; an empty
object glued in front of the next is what some servers start their arguments with, and is dropped.
Prose before and after is dropped. Each search is one pass of one pattern, and no place is tried
twice: time is linear whatever the text.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.errors import JSONParseError
from penstock.values.rjson.escapes import decode_escapes
from penstock.values.rjson.mending import CLOSING, QUOTES, LookAhead, Mender, skip_blank, take_word
from penstock.values.rjson.repairs import Repair, Repairs

_SCALAR: Final = r"(?:[-+]?[0-9.]++(?:[eE][-+]?[0-9]*+)?|true|false|null|True|False|None)"
_STRONG: Final = (
    rf"\{{\s*+(?:[{QUOTES}]|[\w$.\-]{{1,64}}+[\"']?\s*+:|\{{\s*+[{QUOTES}]|/[/*]|\\+\"|\Z)"
    rf"|\[\s*+(?:[{QUOTES}]|\{{|\[\s*+[{QUOTES}\[{{0-9\-]|{_SCALAR}\s*+,|/[/*]|\Z)"
)
_WEAK: Final = rf"\{{\s*+[}},]|\[\s*+(?:[\],\[]|{_SCALAR}|[-+a-zA-Z]*+\Z)"

MAX_ESCAPED_LEVELS: Final = 3
"""How many levels of escapes are taken off a value whose quotes are all escaped."""

_PLACE: Final = re.compile(_STRONG)
_WEAK_PLACE: Final = re.compile(_WEAK)
_BEGINS: Final = re.compile(rf"\s*+(?:{_STRONG}|{_WEAK})")
_FOOTNOTE: Final = re.compile(rf"(?:\[\s*+{_SCALAR}?\s*+\]|\{{\s*+\}})[\s.:,]*+[^\W0-9]")
_NEXT: Final = re.compile(rf"[\s,;]*+(?={_STRONG}|{_WEAK})")
_FENCED: Final = re.compile(rf"^[ \t]*+```[^\n`]{{0,32}}+\n\s*+(?={_STRONG}|{_WEAK})", re.MULTILINE)
_FENCE: Final = "\n```"
_ESCAPED: Final = re.compile(r'[{\[](?:[\s{\[]|\\[nrt])*\\+"')
_ESCAPED_SPACE: Final = re.compile(r"[{\[]\s*+\\[nrt]")
_ANY_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_SPACE: Final = {"n": "\n", "r": "\r", "t": "\t"}
_ENCODED: Final = re.compile(
    rf"[\s\"\\]*+(?:\{{\s*+(?:[}}{QUOTES}]|\\+\")|\[\s*+[\]{{\[0-9{QUOTES}\-])"
)
_STRING_ROOT: Final = re.compile(
    r"\"[^\"\\]*+(?:\\.[^\"\\]*+)*(?:\\?\Z|\"\s*+\Z)|'[^'\\]*+(?:\\.[^'\\]*+)*(?:'\s*+\Z)",
    re.DOTALL,
)


def holds_value(text: str) -> bool:
    """Tell whether *text*, the content of a string, looks like an object or a list of its own."""
    return _ENCODED.match(text) is not None


def mend(text: str, notes: Repairs) -> Any:
    """Return the value in *text*, which `loads` refuses; note what was mended.

    Raises `JSONParseError` where there is none, or one nested too deep.
    """
    start = skip_blank(text, 0, len(text), notes)
    if _STRING_ROOT.match(text, start):
        return _mend_string(text, start, notes)
    for _ in range(MAX_ESCAPED_LEVELS):
        if not _ESCAPED.match(text, start):
            break
        notes.note(Repair.ESCAPED_TEXT)
        text, start = decode_escapes(text[start:]), 0
    if _ESCAPED_SPACE.match(text, start):
        notes.note(Repair.ESCAPED_SPACE)
        # In a string a raw line break is data, so it is all the same there.
        text = _ANY_ESCAPE.sub(lambda escape: _SPACE.get(escape[1], escape[0]), text)
    if _BEGINS.match(text, start) and not _FOOTNOTE.match(text, start):
        return _mend_values(text, start, len(text), notes)
    if LookAhead(text, len(text)).begins_member(start):
        return _mend_members(text, start, notes)
    return _mend_within_prose(text, start, notes)


def _mend_within_prose(text: str, start: int, notes: Repairs) -> Any:
    fenced = _FENCED.search(text, start)
    if fenced:
        notes.note(Repair.FENCE)
        end = text.rfind(_FENCE, fenced.end())
        return _mend_values(text, fenced.end(), end if end >= 0 else len(text), notes)
    place = _PLACE.search(text, start) or _WEAK_PLACE.search(text, start)
    if place:
        notes.note(Repair.TEXT_BEFORE)
        return _mend_values(text, place.start(), len(text), notes)
    if _is_quoted(text, start):
        return _mend_string(text, start, notes)
    return _mend_scalar(text, start, notes)


def _mend_values(text: str, start: int, end: int, notes: Repairs) -> Any:
    mender = Mender(text, notes, at=start, end=end)
    values = [mender.read_container()]
    glued = values[0] == {} and text.startswith("{", mender.at)
    while after := _NEXT.match(text, mender.at, end):
        mender.at = after.end()
        values.append(mender.read_container())
    _note_text_after(text, mender.at, end, notes)
    if glued and len(values) > 1:
        notes.note(Repair.EMPTY_SEED)
        values.pop(0)
    if len(values) == 1:
        return values[0]
    notes.note(Repair.CONCATENATED, count=len(values))
    return values


def _mend_members(text: str, start: int, notes: Repairs) -> Any:
    mender = Mender(text, notes, at=start, end=len(text))
    value = mender.read_members()
    _note_text_after(text, mender.at, len(text), notes)
    return value


def _mend_string(text: str, start: int, notes: Repairs) -> str:
    return Mender(text, notes, at=start, end=len(text)).read_string()


def _is_quoted(text: str, start: int) -> bool:
    last = text[start:].rstrip()[1:][-1:]
    return bool(last) and last in CLOSING.get(text[start], "") and not text.startswith("```", start)


def _mend_scalar(text: str, start: int, notes: Repairs) -> Any:
    end = len(text.rstrip())
    found = Repairs()
    word = take_word(text, start, end, found)
    if word and word.known and word.end == end and not isinstance(word.value, str):
        notes.add(found)
        return word.value
    raise JSONParseError("no JSON value in the text", text=text, position=start)


def _note_text_after(text: str, at: int, end: int, notes: Repairs) -> None:
    if skip_blank(text, at, end, notes) < end:
        notes.note(Repair.TEXT_AFTER)
