"""Reads the containers of broken JSON: closes, separates and pairs what the model left out.

The same machine as `RelaxedReader`, a place in the text and a stack of open containers, but where
that one raises, this one has a rule. The rules, each noted when it is applied:

* **Closers.** What is open at the end is closed. A closer of the wrong kind closes everything up to
  the nearest container of its kind, if there is one, else the innermost; also the innermost if a
  further member would otherwise be left outside every object.
* **Commas.** A missing one is added, an extra one dropped, a semicolon is one.
* **Colons.** A missing one is added behind a quoted key; ``=`` and ``=>`` are one. One in a list
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
from typing import Any, Final

from penstock.errors import JSONParseError
from penstock.values.grammar import MAX_DEPTH
from penstock.values.rjson.mending.blanks import find_sentence_end, skip_blank
from penstock.values.rjson.mending.lookahead import QUOTES, LookAhead, Role
from penstock.values.rjson.mending.strings import StringMender
from penstock.values.rjson.mending.words import find_key, take_word
from penstock.values.rjson.repairs import Repair, Repairs
from penstock.values.rjson.strict import StrictShortcut

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
        taken = self._strings.take(self.at, Role.ROOT, 0)
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
            # Behind a key its colon is taken, so this is a second one, or one without a key.
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
            taken = self._strings.take(self.at, Role.KEY, len(self._open))
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
        role = Role.ELEMENT if frame.is_list else Role.MEMBER
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

    def _bare_value(self, frame: _Frame, role: Role) -> None:
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
