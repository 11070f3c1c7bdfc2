"""Values of broken JSON: brackets, commas and colons that the model omitted are added.

The reader works like `RelaxedReader`, with a position in the text and a stack of open containers,
but where that one raises, this one has a rule. The rules, each noted when it is applied:

* **Closers.** Containers that are open at the end are closed. A closer of the wrong kind closes
  everything up to the nearest container of its kind, if there is one, else the innermost; also the
  innermost if a further member would otherwise be outside of every object.
* **Commas.** A missing one is added, an extra one dropped; a semicolon counts as one.
* **Colons.** A missing one is added after a quoted key; ``=`` and ``=>`` count as one. In a list,
  one after the first element makes the list an object; one after a later element makes that element
  a key of the object around the list, which was not closed.
* **Keys.** A number or literal is a key as text. A key without a value is dropped, since its value
  is not known. A value without a key gets the empty one. A word without a colon is dropped.
* **Braces.** A brace in place of a key is a doubled one, or, in an object of a list, the next
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
    OTHER_QUOTES,
    QUOTES,
    BrokenStringReader,
    LookAhead,
    StringRole,
    find_sentence_end,
    skip_blank,
)
from penstock.values.rjson.strict import StrictShortcut

# --- values without quotes ----------------------------------------------------------------------
#
# One word has its meaning in relaxed JSON, or is a hexadecimal number. Any other word, and one that
# is followed by more words on its line, is text (``New York``, ``12 px``), unless the next word is
# a key with its colon. Numbers and literals in a row are values with a missing comma.
#
# The last word of the text may be cut: the beginning of a literal is completed, since nothing else
# in JSON begins so; a number keeps its valid digits.

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
    """A bare value and where it ends; not `known` if nothing of it is valid."""

    value: Any
    end: int
    known: bool = True


class _Scalar(NamedTuple):
    """A number or literal, and the note about it if it is not strict JSON."""

    value: Any
    repair: Repair | None = None


def find_key(text: str, at: int, end: int) -> str:
    """Return the unquoted key at *at*, or `""`."""
    key = _KEY.match(text, at, end)
    return key.group() if key else ""


def take_word(text: str, at: int, end: int, notes: Repairs) -> Word | None:
    """Read the bare value at *at*; return None if no value begins there."""
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
    """Return *word* without a comment glued to it, which only a number or literal can have."""
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


# --- containers ---------------------------------------------------------------------------------

_TOKENS: Final = '"{}[],:-0123456789tfn'
_COLON: Final = re.compile(r":|=>?")
_FENCE: Final = "```"
_BEGINS_VALUE: Final = QUOTES + "{["
_MARKUP: Final = re.compile(r"[<>|]")
_NO_BEGINNING: Final = ")]};:=,&%^|!?+"
_WINDOW: Final = 64
_CLOSER_IN_STRING: Final = re.compile(r"[}\]][\"'][\s}\]]*\Z")


class _Frame:
    """An open container: its contents, the key that awaits a value, whether a comma was last."""

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


class BrokenJSONReader:
    """Reads values of broken text from `at` up to *end*; raises only if they nest too deep."""

    def __init__(self, text: str, notes: Repairs, *, at: int, end: int) -> None:
        self.at = at
        self._text = text
        self._end = end
        self._notes = notes
        self._open: list[_Frame] = []
        self._last_string = ""
        self._shortcut = StrictShortcut(text, end)
        self._ahead = LookAhead(text, end)
        self._strings = BrokenStringReader(text, end, self._ahead, notes)

    def read_container(self) -> Any:
        """Read the object or list that opens here."""
        taken = self._take_strict()
        if taken and not self._ahead.continues_with_member(taken[1]):
            value, self.at = taken
            return value
        root = self._push(self._text[self.at])
        self.at += 1
        return self._read(root)

    def read_members(self) -> Any:
        """Read the members that begin here as an object without its brace."""
        self._notes.note(Repair.OUTER_BRACES)
        return self._read(self._push("{"))

    def read_string(self) -> str:
        """Read the string that opens here as the root."""
        taken = self._strings.read(self.at, StringRole.ROOT, 0)
        self.at = taken.end
        return taken.value

    def _read(self, root: _Frame) -> Any:
        while True:
            while self._open:
                self._step()
            if root.is_list or not self._ahead.continues_with_member(self.at):
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
        """Skip a sentence before a value, a key, a comma or the end of the container."""
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
            # The colon of a key was read with it, so this is a second one, or one without a key.
            if frame.key is None:
                frame.key = ""
                self._notes.note(Repair.MISSING_KEY)
            else:
                self._notes.note(Repair.EXTRA_COLON)
        elif not items or frame.after_comma or not isinstance(items[-1], str):
            self._notes.note(Repair.EXTRA_COLON)
        elif len(items) == 1:
            self._notes.note(Repair.LIST_AS_OBJECT)
            frame.members = {}
            frame.key = items[0]
            if len(self._open) > 1:
                self._open[-2].replace_last(frame.members)
        elif len(self._open) > 1 and not self._open[-2].is_list:
            key = items.pop()
            self._pop(1)
            self._open[-1].key = key
        else:
            self._notes.note(Repair.EXTRA_COLON)

    # --- keys and values ---

    def _key(self, frame: _Frame, mark: str) -> None:
        if mark == "{":
            self._extra_brace(frame)
        elif mark == "[":
            self._value(frame, mark)
        elif mark in QUOTES:
            self._separate(frame)
            taken = self._strings.read(self.at, StringRole.KEY, len(self._open))
            self.at = taken.end
            frame.key = taken.value
            bare = taken.value.rstrip()
            lacks_quote = len(bare) > 1 and bare.endswith(":") and self._has_more(taken.end)
            if lacks_quote and not self._ahead.has_colon(taken.end):
                # `"key: "value"`: the quote that ended the key is the first one of the value.
                self._notes.note(Repair.MISSING_QUOTE)
                frame.key = bare[:-1]
                if frame.key.endswith(":"):
                    self._notes.doubt("two colons in a key")
                self.at = taken.end - 1
                return
            self._colon_after(taken.value)
        else:
            self._word_key(frame)

    def _has_more(self, at: int) -> bool:
        return self._text[at : self._end].strip() != ""

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
            if mark.isalpha() and self._text[self.at - 1] in QUOTES and key[-1:].isalnum():
                self._notes.doubt("a word glued to a key")

    def _extra_brace(self, frame: _Frame) -> None:
        """Process a brace in place of a key."""
        if frame.value and len(self._open) > 1 and self._open[-2].is_list:
            self._pop(1)
            return
        self._notes.note(Repair.EXTRA_OPENER)
        self.at += 1

    def _value(self, frame: _Frame, mark: str) -> None:
        self._separate(frame)
        role = StringRole.ELEMENT if frame.is_list else StringRole.MEMBER
        if mark in "{[":
            strict = self._take_strict()
            if strict is None:
                self._push(mark)
                self.at += 1
            else:
                value, self.at = strict
                frame.store(value, self._notes)
        elif mark in QUOTES:
            taken = self._strings.read(self.at, role, len(self._open))
            self.at = taken.end
            self._last_string = taken.value
            frame.store(taken.value, self._notes)
        else:
            self._bare_value(frame, role)

    def _take_strict(self) -> tuple[Any, int] | None:
        """Read a container that is strict JSON, if its last quote is not an inner one."""
        depth = len(self._open)
        taken = self._shortcut.take(self.at, depth)
        return taken if taken and self._ahead.fits_container_end(taken[1], depth) else None

    def _bare_value(self, frame: _Frame, role: StringRole) -> None:
        if self._text.endswith("|>", 0, self.at):
            self._notes.doubt("a word after a special token")
        word = take_word(self._text, self.at, self._end, self._notes)
        if word is None:  # such as a closing quote of another kind
            self._drop(self._text[self.at])
            self.at += 1
            return
        self.at = word.end
        is_quoted = False
        ends_in_quote = isinstance(word.value, str) and self._text.startswith('"', word.end)
        if ends_in_quote and self._ahead.closes_string(word.end + 1, role, len(self._open)):
            is_quoted = True
            self._notes.note(Repair.MISSING_OPENING)
            self.at += 1
            if "\\" in self._text[word.end - len(word.value) : word.end]:
                self._notes.doubt("escapes in a string without its opening quote")
        if isinstance(word.value, str):
            self._check_word(word.value, is_quoted=is_quoted)
        if word.known:
            frame.store(word.value, self._notes)

    def _check_word(self, word: str, *, is_quoted: bool) -> None:
        """Doubt a bare *word*, which was just read, if it may be something else than a value.

        With *is_quoted* it has a closing quote, so it is known where it ends.
        """
        if _MARKUP.search(word):
            self._notes.doubt("markup in the place of a value")
        if word.startswith((*OTHER_QUOTES, *_NO_BEGINNING)):
            self._notes.doubt("a sign in the place of a quote")
        after = self._skip()
        if not is_quoted and (not after or after in _BEGINS_VALUE):
            self._notes.doubt("a word that may be cut, or words before a value")

    def _separate(self, frame: _Frame) -> None:
        """Use up the comma before the next member or element, or note that it is missing."""
        if frame.value and not frame.after_comma and frame.key is None:
            self._notes.note(Repair.MISSING_COMMA)
            if self._last_string.rstrip().endswith(","):
                self._notes.doubt("a comma inside a string")
        frame.after_comma = False

    def _drop(self, junk: str) -> None:
        """Note that *junk* is dropped; only letters and digits put the value in doubt."""
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
        """Return how many containers *mark* closes; 0 if it replaces the innermost's closer."""
        closes_list = mark == "]"
        index = len(self._open) - 1
        while index >= 0 and self._open[index].is_list != closes_list:
            index -= 1
        levels = len(self._open) - index
        if index < 0:
            return 0
        leaves_object = index > 0 and not self._open[index - 1].is_list
        if levels > 1 and not leaves_object and self._ahead.continues_with_member(self.at + 1):
            return 0
        return levels

    def _close_all(self) -> None:
        last = self._open[-1]
        if last.after_comma:
            self._notes.note(Repair.TRAILING_COMMA)
        if (
            last.after_comma
            or not last.value
            or (last.is_list and not isinstance(last.items[-1], (dict, list)))
        ):
            self._notes.doubt("a container that may lack its end")
        for frame in self._open:
            self._drop_key(frame)
        self._pop(len(self._open))

    def _pop(self, count: int) -> None:
        """Close the innermost *count* containers, whose closers are missing."""
        if count:
            self._notes.note(Repair.UNCLOSED, count=count)
            if not self._open[-1].value:
                self._notes.doubt("a bracket that may be out of place")
            del self._open[-count:]
            if _CLOSER_IN_STRING.search(self._text, max(0, self.at - _WINDOW), self.at):
                self._notes.doubt("a closing bracket inside a string")

    # --- between tokens ---

    def _skip(self) -> str:
        start = self.at
        mark = self._text[start : min(start + 1, self._end)]
        if mark and mark in _TOKENS:
            return mark
        self.at = skip_blank(self._text, start, self._end, self._notes)
        return self._text[self.at : min(self.at + 1, self._end)]


# --- the value in a response --------------------------------------------------------------------
#
# Where the value begins, by the first rule that applies:
#
# 1. The text is one string, open or closed: the string.
# 2. The text begins with an object or a list: there. If all its quotes are escaped
#    (``{\"a\": 1}``), one level of escapes is removed first; if only its line breaks are, those.
# 3. It begins with a quoted key and a colon: the members of an object without its braces.
# 4. A code fence holds a value: there, and the last fence of the text ends it.
# 5. Prose holds something that looks like an object or a list: the first such place. ``[1]`` and
#    ``{}`` may be a footnote or a placeholder, so they count only if nothing better is found.
# 6. The text is a string with broken quotes, a hexadecimal number or a cut number.
#
# Values in a row, with only white space and commas between them, become a list. An empty object
# glued to the next is dropped: some servers start their arguments with one. Prose before and after
# is dropped. Each search is one pass of one pattern, and no place is tried twice, so the time is
# linear for any text.

_SCALAR: Final = r"(?:[-+]?[0-9.]++(?:[eE][-+]?[0-9]*+)?|true|false|null|True|False|None)"
_STRONG: Final = (
    rf"\{{\s*+(?:[{QUOTES}]|[\w$.\-]{{1,64}}+[\"']?\s*+:|\{{\s*+[{QUOTES}]|/[/*]|\\+\"|\Z)"
    rf"|\[\s*+(?:[{QUOTES}]|\{{|\[\s*+[{QUOTES}\[{{0-9\-]|{_SCALAR}\s*+,|/[/*]|\Z)"
)
_WEAK: Final = rf"\{{\s*+[}},]|\[\s*+(?:[\],\[]|{_SCALAR}|[-+a-zA-Z]*+\Z)"

MAX_ESCAPED_LEVELS: Final = 3
"""How many levels of escapes are removed from a value whose quotes are all escaped."""

_PLACE: Final = re.compile(_STRONG)
_WEAK_PLACE: Final = re.compile(_WEAK)
_BEGINS: Final = re.compile(rf"\s*+(?:{_STRONG}|{_WEAK})")
_FOOTNOTE: Final = re.compile(rf"(?:\[\s*+{_SCALAR}?\s*+\]|\{{\s*+\}})[\s.:,]*+[^\W0-9]")
_FINDING_NEXT: Final = re.compile(rf"[\s,;]*+(?={_STRONG}|{_WEAK})")
_FENCED: Final = re.compile(rf"^[ \t]*+```[^\n`]{{0,32}}+\n\s*+(?={_STRONG}|{_WEAK})", re.MULTILINE)
_FINDING_FENCE: Final = "\n```"
_ESCAPED: Final = re.compile(r'[{\[](?:[\s{\[]|\\[nrt])*\\+"')
_ODD_ESCAPE: Final = re.compile(r'(?<!\\)(?:\\\\)*\\[^"\\/nrtu]')
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
    """Return whether *text*, the content of a string, looks like an object or a list."""
    return _ENCODED.match(text) is not None


def read_broken(text: str, notes: Repairs) -> Any:
    """Return the value in *text*, which `loads` refuses; note the repairs.

    Raises `JSONParseError` if the text has no value, or one nested too deep.
    """
    start = skip_blank(text, 0, len(text), notes)
    if _STRING_ROOT.match(text, start):
        return BrokenJSONReader(text, notes, at=start, end=len(text)).read_string()
    for _ in range(MAX_ESCAPED_LEVELS):
        if not _ESCAPED.match(text, start):
            break
        notes.note(Repair.ESCAPED_TEXT)
        text, start = decode_escapes(text[start:]), 0
        if _ODD_ESCAPE.search(text):
            notes.doubt("a backslash that may not have been escaped")
    if _ESCAPED_SPACE.match(text, start):
        notes.note(Repair.ESCAPED_SPACE)
        # In a string a raw line break is data, so nothing changes there.
        text = _ANY_ESCAPE.sub(lambda escape: _SPACE.get(escape[1], escape[0]), text)
    if _BEGINS.match(text, start) and not _FOOTNOTE.match(text, start):
        value = _read_values(text, start, len(text), notes)
        if notes.has(Repair.ESCAPED_TEXT) and notes.has(Repair.RAW_CONTROL) and "\\" in text:
            notes.doubt("some escapes that were escaped once more, and some that were not")
        return value
    if LookAhead(text, len(text)).begins_member(start):
        reader = BrokenJSONReader(text, notes, at=start, end=len(text))
        value = reader.read_members()
        _note_text_after(text, reader.at, len(text), notes)
        return value
    return _read_in_prose(text, start, notes)


def _read_in_prose(text: str, start: int, notes: Repairs) -> Any:
    fenced = _FENCED.search(text, start)
    if fenced:
        notes.note(Repair.FENCE)
        end = text.rfind(_FINDING_FENCE, fenced.end())
        return _read_values(text, fenced.end(), end if end >= 0 else len(text), notes)
    place = _PLACE.search(text, start) or _WEAK_PLACE.search(text, start)
    if place:
        notes.note(Repair.TEXT_BEFORE)
        return _read_values(text, place.start(), len(text), notes)
    last = text[start:].rstrip()[1:][-1:]
    is_quoted = bool(last) and last in CLOSING.get(text[start], "")
    if is_quoted and not text.startswith(_FENCE, start):
        return BrokenJSONReader(text, notes, at=start, end=len(text)).read_string()
    end = len(text.rstrip())
    found = Repairs()
    word = take_word(text, start, end, found)
    if word and word.known and word.end == end and not isinstance(word.value, str):
        notes.add(found)
        return word.value
    raise JSONParseError("no JSON value in the text", text=text, position=start)


def _read_values(text: str, start: int, end: int, notes: Repairs) -> Any:
    reader = BrokenJSONReader(text, notes, at=start, end=end)
    values = [reader.read_container()]
    is_glued = values[0] == {} and text.startswith("{", reader.at)
    while after := _FINDING_NEXT.match(text, reader.at, end):
        reader.at = after.end()
        values.append(reader.read_container())
    _note_text_after(text, reader.at, end, notes)
    if is_glued and len(values) > 1:
        notes.note(Repair.EMPTY_SEED)
        values.pop(0)
    if len(values) == 1:
        return values[0]
    notes.note(Repair.CONCATENATED, count=len(values))
    return values


_MORE_OF_VALUE: Final = re.compile(r"[}\]\s]*+(?:,\s*+[\"'\d\[{-]|[\w\-]{1,64}[\"']\s*+:)")


def _note_text_after(text: str, at: int, end: int, notes: Repairs) -> None:
    if skip_blank(text, at, end, notes) < end:
        notes.note(Repair.TEXT_AFTER)
        if _MORE_OF_VALUE.match(text, at, end):
            notes.doubt("text after the value that may be a part of it")
