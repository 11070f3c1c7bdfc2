"""Reads the containers of broken JSON: closes, separates and pairs what the model omitted.

The same machine as `RelaxedReader`, a place in the text and a stack of open containers, but where
that one raises, this one has a rule. The rules, each noted when it is applied:

* **Closers.** What is open at the end is closed. A closer of the wrong kind closes everything up to
  the nearest container of its kind, if there is one, else the innermost; also the innermost if a
  further member would otherwise be left outside every object.
* **Commas.** A missing one is added, an extra one dropped, a semicolon is one.
* **Colons.** A missing one is added after a quoted key; ``=`` and ``=>`` are one. One in a list
  makes the list an object if it follows the first element; if it follows a later one, that element
  is a key of the object around, and the list was not closed.
* **Keys.** A number or literal is a key as text. A key without a value is dropped: what it should
  be is not known. A value without a key gets the empty one. A word without a colon is dropped.
* **Braces.** A brace where a key should be is a doubled one, or, in an object of a list, the next
  element of that list.

The root may be closed and opened again: ``{"a": 1}, "b": 2}`` is one object.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from penstock.errors import JSONParseError
from penstock.values.json_grammar import (
    LITERALS,
    MAX_DEPTH,
    NUMBER,
    PYTHON_LITERALS,
    RELAXED_LITERALS,
    RELAXED_NUMBER,
    read_number,
)
from penstock.values.rjson.escapes import decode_escapes
from penstock.values.rjson.notes import Repair, Repairs
from penstock.values.rjson.repair_strings import (
    CLOSING,
    QUOTES,
    LookAhead,
    StringMender,
    StringRole,
    find_sentence_end,
    skip_blank,
)
from penstock.values.rjson.strict import StrictShortcut

# Reads what broken JSON has without quotes: numbers, literals, words and runs of words.
#
# One word is what it is in relaxed JSON, or a hexadecimal number. A word that is not one of these,
# or that more words follow on its line, is text (``New York``, ``12 px``), unless the next word
# is a key with its colon. Numbers and literals that follow each other are values with a comma
# missing.
#
# Where the text ends in a word, the word may be cut: the beginning of a literal is completed,
# since nothing else in JSON begins so; a number keeps the digits that make it one.


_WORD: Final = r"(?:[^\s,;:{}\[\]\"'`<]|<(?![|\uff5c])|(?<=\w)'(?=\w)|:(?=//|[0-9\\]))"
_FIRST: Final = re.compile(rf"{_WORD}+")
_NEXT: Final = rf"[ \t]++(?!//|/\*|\#|=)(?![\w$.\-]++\s*+:)({_WORD}+)"
_MORE: Final = re.compile(_NEXT)
_TEXT: Final = re.compile(rf"{_WORD}+(?:{_NEXT})+")
_KEY: Final = re.compile(r"(?:[^\s,;:={}\[\]\"'`<]|<(?![|\uff5c]))+")
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


_TOKENS: Final = '"{}[],:-0123456789tfn'
_COLON: Final = re.compile(r":|=>?")
_FENCE: Final = "```"


class _Frame:
    """An open container: what it holds, the key that waits for a value, a comma just seen."""

    __slots__ = ("after_comma", "items", "key", "last_key", "members")

    def __init__(self, members: dict[str, Any] | None, items: list[Any]) -> None:
        self.members = members
        self.items = items
        self.key: str | None = None
        self.last_key = ""
        self.after_comma = False

    @property
    def is_list(self) -> bool:
        return self.members is None

    @property
    def value(self) -> Any:
        return self.items if self.members is None else self.members

    def store(self, value: Any, notes: Repairs) -> None:
        self.after_comma = False
        if self.members is None:
            self.items.append(value)
            return
        if self.key is None:
            notes.note(Repair.MISSING_KEY)
        key = self.key or ""
        if key in self.members:
            notes.note(Repair.DUPLICATE_KEY, key)
            notes.doubt("a repeated key in broken JSON")
        self.members[key] = value
        self.last_key = key
        self.key = None

    def replace_last(self, value: Any) -> None:
        if self.members is None:
            self.items[-1] = value
        else:
            self.members[self.last_key] = value


def _is_leaf(value: Any) -> bool:
    return not isinstance(value, (dict, list))


class Mender:
    """Reads values out of broken text, from `at` on and up to *end*; never raises but for depth."""

    def __init__(self, text: str, notes: Repairs, *, at: int, end: int) -> None:
        self.at = at
        self._text = text
        self._end = end
        self._notes = notes
        self._open: list[_Frame] = []
        self._shortcut = StrictShortcut(text, end)
        self._ahead = LookAhead(text, end)
        self._strings = StringMender(text, end, self._ahead, notes)

    def read_container(self) -> Any:
        """Read the object or list that opens here."""
        taken = self._take_strict()
        if taken and not self._ahead.goes_on_with_member(taken[1]):
            value, self.at = taken
            return value
        root = self._push(self._text[self.at])
        self.at += 1
        return self._read(root)

    def read_members(self) -> Any:
        """Read the members that begin here as an object, whose brace is not there."""
        self._notes.note(Repair.OUTER_BRACES)
        return self._read(self._push("{"))

    def read_string(self) -> str:
        """Read the string that opens here as the root."""
        taken = self._strings.take(self.at, StringRole.ROOT, 0)
        self.at = taken.end
        return taken.value

    def _read(self, root: _Frame) -> Any:
        while True:
            while self._open:
                self._step()
            if root.is_list or not self._ahead.goes_on_with_member(self.at):
                return root.value
            self._notes.note(Repair.EARLY_CLOSER)
            self._open.append(root)

    # --- one step ---

    def _step(self) -> None:
        mark = self._skip()
        frame = self._open[-1]
        fenced = mark == "`" and self._text.startswith(_FENCE, self.at)
        if not mark or (fenced and not self._awaits_value(frame)):
            self._close_all()
        elif mark in "}]":
            self._close(mark)
        elif mark in ",;":
            self._comma(frame, mark)
        elif mark == ":":
            self._colon(frame)
        elif self._skip_prose(frame):
            pass
        elif frame.is_list or frame.key is not None:
            self._value(frame, mark)
        else:
            self._key(frame, mark)

    def _skip_prose(self, frame: _Frame) -> bool:
        """Skip a sentence in front of a value, a key, a comma or the end of the container."""
        end = find_sentence_end(self._text, self.at, self._end)
        if end < 0 or not self._ahead.resumes(end, is_done=not self._awaits_value(frame)):
            return False
        self._notes.note(Repair.FOREIGN_WORDS, self._text[self.at : end])
        self.at = end
        return True

    def _awaits_value(self, frame: _Frame) -> bool:
        return frame.key is not None or (frame.is_list and frame.after_comma)

    def _comma(self, frame: _Frame, mark: str) -> None:
        self.at += 1
        if frame.key is not None:
            self._drop_key(frame)
        elif frame.after_comma or not frame.value:
            self._notes.note(Repair.EXTRA_COMMA)
        elif mark == ";":
            self._notes.note(Repair.SEMICOLON)
        frame.after_comma = bool(frame.value)

    def _colon(self, frame: _Frame) -> None:
        self.at += 1
        items = frame.items
        if frame.members is not None:
            # After a key its colon is taken, so this is a second one, or one without a key.
            if frame.key is None:
                frame.key = ""
                self._notes.note(Repair.MISSING_KEY)
            else:
                self._notes.note(Repair.EXTRA_COLON)
        elif not items or frame.after_comma or not isinstance(items[-1], str):
            self._notes.note(Repair.EXTRA_COLON)
        elif len(items) == 1:
            self._make_object(frame)
        elif len(self._open) > 1 and not self._open[-2].is_list:
            key = items.pop()
            self._pop(1)
            self._open[-1].key = key
        else:
            self._notes.note(Repair.EXTRA_COLON)

    def _make_object(self, frame: _Frame) -> None:
        self._notes.note(Repair.LIST_AS_OBJECT)
        frame.members = {}
        frame.key = frame.items[0]
        if len(self._open) > 1:
            self._open[-2].replace_last(frame.members)

    # --- keys and values ---

    def _key(self, frame: _Frame, mark: str) -> None:
        if mark == "{":
            self._extra_brace(frame)
        elif mark == "[":
            self._value(frame, mark)
        elif mark in QUOTES:
            self._separate(frame)
            taken = self._strings.take(self.at, StringRole.KEY, len(self._open))
            self.at = taken.end
            frame.key = taken.value
            self._colon_after(taken.value)
        else:
            self._word_key(frame)

    def _word_key(self, frame: _Frame) -> None:
        word = find_key(self._text, self.at, self._end)
        start = self.at
        self.at += len(word) or 1
        if word and self._ahead.ends_bare_key(self.at):
            self._notes.note(Repair.MISSING_OPENING)
            self.at += 1
        after = self._skip()
        if word and after in (":", "="):
            self._separate(frame)
            self._notes.note(Repair.UNQUOTED_KEY, word)
            frame.key = word
            self._colon_after(word)
        else:
            self._drop(self._text[start : start + max(len(word), 1)])

    def _colon_after(self, key: str) -> None:
        mark = self._skip()
        if mark == '"' and self._ahead.ends_bare_key(self.at):
            self._notes.note(Repair.DOUBLED_QUOTE)
            self.at += 1
            mark = self._skip()
        prose_end = find_sentence_end(self._text, self.at, self._end) if mark.isalpha() else -1
        if prose_end >= 0 and self._ahead.has_colon(prose_end):
            self._notes.note(Repair.FOREIGN_WORDS, self._text[self.at : prose_end])
            self.at = prose_end
            mark = self._skip()
        colon = _COLON.match(self._text, self.at, self._end)
        if colon:
            self.at = colon.end()
            if mark == "=":
                self._notes.note(Repair.EQUALS_SIGN)
        elif mark and mark not in ",;}]":
            self._notes.note(Repair.MISSING_COLON, key)

    def _extra_brace(self, frame: _Frame) -> None:
        """Take a brace where a key should be."""
        if frame.value and len(self._open) > 1 and self._open[-2].is_list:
            self._pop(1)
            return
        self._notes.note(Repair.EXTRA_OPENER)
        self.at += 1

    def _value(self, frame: _Frame, mark: str) -> None:
        self._separate(frame)
        role = StringRole.ELEMENT if frame.is_list else StringRole.MEMBER
        if mark in "{[":
            self._container(frame, mark)
        elif mark in QUOTES:
            taken = self._strings.take(self.at, role, len(self._open))
            self.at = taken.end
            frame.store(taken.value, self._notes)
        else:
            self._bare_value(frame, role)

    def _container(self, frame: _Frame, mark: str) -> None:
        taken = self._take_strict()
        if taken:
            value, self.at = taken
            frame.store(value, self._notes)
        else:
            self._push(mark)
            self.at += 1

    def _take_strict(self) -> tuple[Any, int] | None:
        """Take a container that is not broken, if its last quote was not an inner one."""
        depth = len(self._open)
        taken = self._shortcut.take(self.at, depth)
        return taken if taken and self._ahead.fits_container_end(taken[1], depth) else None

    def _bare_value(self, frame: _Frame, role: StringRole) -> None:
        word = take_word(self._text, self.at, self._end, self._notes)
        if word is None:  # a closing quote of another kind, and the like
            self._drop(self._text[self.at])
            self.at += 1
            return
        self.at = word.end
        ends_in_quote = isinstance(word.value, str) and self._text.startswith('"', word.end)
        if ends_in_quote and self._ahead.closes_string(word.end + 1, role, len(self._open)):
            self._notes.note(Repair.MISSING_OPENING)
            self.at += 1
        if word.known:
            frame.store(word.value, self._notes)

    def _separate(self, frame: _Frame) -> None:
        """Use up the comma before what comes now, or note that it is missing."""
        if frame.value and not frame.after_comma and frame.key is None:
            self._notes.note(Repair.MISSING_COMMA)
        frame.after_comma = False

    def _drop(self, junk: str) -> None:
        """Note that *junk* is dropped; of punctuation alone nothing is lost."""
        self._notes.note(Repair.JUNK, junk)
        if junk in QUOTES or any(map(str.isalnum, junk)):
            self._notes.doubt("a word out of place")

    def _drop_key(self, frame: _Frame) -> None:
        if frame.key is not None:
            self._notes.note(Repair.MISSING_VALUE, frame.key)
            frame.key = None

    # --- opening and closing ---

    def _push(self, mark: str) -> _Frame:
        if len(self._open) == MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} containers"
            raise JSONParseError(message, text=self._text, position=self.at)
        frame = _Frame({} if mark == "{" else None, [])
        if self._open:
            self._open[-1].store(frame.value, self._notes)
        self._open.append(frame)
        return frame

    def _close(self, mark: str) -> None:
        self._drop_key(self._open[-1])
        levels = self._levels_closed_by(mark)
        if self._open[-1].after_comma:
            self._notes.note(Repair.TRAILING_COMMA)
        if levels == 0:
            self._notes.note(Repair.WRONG_CLOSER)
        else:
            self._pop(levels - 1)
        self._open.pop()
        self.at += 1

    def _levels_closed_by(self, mark: str) -> int:
        """Return how many containers *mark* closes; 0 if it stands for the innermost's closer."""
        closes_list = mark == "]"
        index = len(self._open) - 1
        while index >= 0 and self._open[index].is_list != closes_list:
            index -= 1
        levels = len(self._open) - index
        if index < 0:
            return 0
        leaves_object = index > 0 and not self._open[index - 1].is_list
        if levels > 1 and not leaves_object and self._ahead.goes_on_with_member(self.at + 1):
            return 0
        return levels

    def _close_all(self) -> None:
        last = self._open[-1]
        if last.after_comma:
            self._notes.note(Repair.TRAILING_COMMA)
        if last.after_comma or not last.value or (last.is_list and _is_leaf(last.items[-1])):
            self._notes.doubt("a container that may lack its end")
        for frame in self._open:
            self._drop_key(frame)
        self._pop(len(self._open))

    def _pop(self, count: int) -> None:
        """Close the innermost *count* containers, whose closers are missing."""
        if count:
            self._notes.note(Repair.UNCLOSED, count=count)
            del self._open[-count:]

    # --- between tokens ---

    def _skip(self) -> str:
        start = self.at
        mark = self._text[start : min(start + 1, self._end)]
        if mark and mark in _TOKENS:
            return mark
        self.at = skip_blank(self._text, start, self._end, self._notes)
        return self._text[self.at : min(self.at + 1, self._end)]


# Finds the JSON value in a model's answer, and has it repaired.
#
# Where the value begins, by the first rule that applies:
#
# 1. The text is one string, open or closed: the string. 2. The text begins with an object or a
# list: there. (One whose quotes are all escaped, ``{\"a\": 1}``, loses one level of escapes
# first; one whose line breaks alone are, those.) 3. It begins with a quoted key and a colon:
# the members of an object without its braces. 4. A code fence holds a value: there, and the
# last fence of the text ends it. 5. Prose holds an object or a list that looks like one: the
# first such place. ``[1]`` and ``{}`` may be a footnote and a figure of speech, so they count
# only where nothing better is found. 6. The text is a string with broken quotes, a hexadecimal
# number or a cut number.
#
# Values in a row, with nothing but white space and commas between them, become a list; an empty
# object glued in front of the next is what some servers start their arguments with, and is
# dropped. Prose before and after is dropped. Each search is one pass of one pattern, and no
# place is tried twice: time is linear whatever the text.


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
_FINDING_NEXT: Final = re.compile(rf"[\s,;]*+(?={_STRONG}|{_WEAK})")
_FENCED: Final = re.compile(rf"^[ \t]*+```[^\n`]{{0,32}}+\n\s*+(?={_STRONG}|{_WEAK})", re.MULTILINE)
_FINDING_FENCE: Final = "\n```"
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
    """Return whether *text*, the content of a string, looks like an object or a list of its own."""
    return _ENCODED.match(text) is not None


def mend(text: str, notes: Repairs) -> Any:
    """Return the value in *text*, which `loads` refuses; note what was repaired.

    Raises `JSONParseError` where there is not one, or one nested too deep.
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
        end = text.rfind(_FINDING_FENCE, fenced.end())
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
    while after := _FINDING_NEXT.match(text, mender.at, end):
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
