"""The reader of relaxed JSON: what `rjson.loads` accepts beyond strict JSON.

The reader keeps a position in the text and a stack of open containers. Compiled patterns match
whole strings, words and runs of white space, and the text is never sliced to its end, so the time
is linear. One step reads one member or element. A container is stored in its parent when it opens,
and a comma is required unless the innermost container is empty.

Beyond strict JSON it accepts (spec/protocols.md 1.5 and part 3): unquoted keys, bare words as
strings, single and smart quotes, trailing commas, Python's literals, ``.5``, ``+1``, ``1.`` and
``007``, raw control characters in strings, a leading byte order mark, and comments: ``//`` and
``#`` up to the end of the line or of the text, ``/* */``. A comment opens where a word could begin
or where a number or literal has just ended (``1// one``), never inside a word (``a//b``).

It refuses anything structurally broken, an unknown escape, a number or literal with something
glued to it (``12px``, ``truex``), and a number or literal as a key. A key that only begins like a
literal (``nullable``) is a word.

The lenient dialect of `IncrementalJSON` is the same grammar, and feeding it the whole text would
do. It was measured: it takes five times as long for a list of 200 objects with a trailing comma and
three times as long for a call with 18 KB of code, because `StrictShortcut` reads the unbroken parts
here; and it neither finds repeated keys nor counts what was relaxed.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.errors import JSONParseError
from penstock.values import json_grammar
from penstock.values.rjson.escapes import decode_escapes, find_bad_escape, note_foreign_quotes
from penstock.values.rjson.notes import Repair, Repairs
from penstock.values.rjson.strict import StrictShortcut

_COMMENT: Final = r"//[^\n\r]*+|#[^\n\r]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/"
_BLANK: Final = re.compile(rf"(?:[{json_grammar.WHITESPACE}]++|{_COMMENT})*")
_BLANK_BEGINS: Final = json_grammar.WHITESPACE + "/#"
_COMMENT_OPENS: Final = re.compile(r"//|/\*|#")
_GLUED: Final = re.compile(rf"(?!//|/\*|#)[{json_grammar.WORD_CHARACTERS}]")
_CONTROL: Final = re.compile("[\x00-\x1f]")
_BODIES: Final = {
    opening: re.compile(rf"[^{closing}\\]*+(?:\\.[^{closing}\\]*+)*", re.DOTALL)
    for opening, closing in json_grammar.CLOSING_QUOTES.items()
}


class RelaxedReader:
    """Reads one value of relaxed JSON text; with *notes*, notes what was not strict."""

    def __init__(self, text: str, *, last_wins: bool = False, notes: Repairs | None = None) -> None:
        self._text = text
        self._at = 0
        self._last_wins = last_wins
        self._notes = notes
        self._open: list[dict[str, Any] | list[Any]] = []
        self._shortcut = StrictShortcut(text, len(text))

    def read(self) -> Any:
        """Return the one value of the text; raise `JSONParseError` for anything else."""
        if self._text.startswith(json_grammar.BYTE_ORDER_MARK):
            self._at = 1
            self._note(Repair.BYTE_ORDER_MARK)
        value = self._value()
        while self._open:
            top = self._open[-1]
            if isinstance(top, dict):
                self._member(top)
            elif not self._closed(top, "]"):
                top.append(self._value())
        if self._skip():
            raise self._error("text after the value")
        return value

    # --- containers ---

    def _member(self, members: dict[str, Any]) -> None:
        if self._closed(members, "}"):
            return
        start = self._at
        key = self._key()
        if key in members:
            if not self._last_wins:
                raise self._error(f"the key `{key}` is repeated", start)
            self._note(Repair.DUPLICATE_KEY, key)
        if self._skip() != ":":
            raise self._error("expected `:` after the key")
        self._at += 1
        members[key] = self._value()

    def _closed(self, container: dict[str, Any] | list[Any], closer: str) -> bool:
        """Read the comma between two members, or the closer; return whether it was the closer."""
        mark = self._skip()
        if container and mark != closer:
            if mark != ",":
                raise self._error(f"expected `,` or `{closer}`")
            self._at += 1
            mark = self._skip()
            if mark == closer:
                self._note(Repair.TRAILING_COMMA)
        if mark != closer:
            return False
        self._at += 1
        self._open.pop()
        return True

    def _opened(self, container: dict[str, Any] | list[Any]) -> Any:
        # The root is not strict, or this reader would not be used.
        taken = self._shortcut.take(self._at, len(self._open)) if self._open else None
        if taken:
            value, self._at = taken
            return value
        if len(self._open) == json_grammar.MAX_DEPTH:
            raise self._error(f"nested deeper than {json_grammar.MAX_DEPTH} containers")
        self._open.append(container)
        self._at += 1
        return container

    # --- values and keys ---

    def _value(self) -> Any:
        mark = self._skip()
        if mark == "{":
            return self._opened({})
        if mark == "[":
            return self._opened([])
        if mark in json_grammar.CLOSING_QUOTES:
            return self._string(mark)
        number = json_grammar.RELAXED_NUMBER.match(self._text, self._at)
        return self._number(number.group()) if number else self._word_value()

    def _number(self, token: str) -> int | float:
        start = self._at
        self._at += len(token)
        if _GLUED.match(self._text, self._at):
            raise self._error("a number with something glued to it", start)
        if self._notes and not json_grammar.NUMBER.fullmatch(token):
            self._note(Repair.ODD_NUMBER, token)
        try:
            return json_grammar.read_number(token)
        except ValueError as exc:
            raise self._error(str(exc), start) from exc

    def _word_value(self) -> str | bool | None:
        word = self._word("a value")
        # A literal ends where a comment opens (`true//yes`), any other word continues (`a//b`).
        literal = _COMMENT_OPENS.split(word, maxsplit=1)[0]
        if literal in json_grammar.RELAXED_LITERALS:
            self._at += len(literal)
            if literal in json_grammar.PYTHON_LITERALS:
                self._note(Repair.PYTHON_LITERAL, literal)
            return json_grammar.RELAXED_LITERALS[literal]
        if word.startswith(tuple(json_grammar.LITERALS)):
            raise self._error("a literal with something glued to it")
        self._at += len(word)
        self._note(Repair.BARE_WORD, word)
        return word

    def _key(self) -> str:
        mark = self._text[self._at : self._at + 1]
        if mark in json_grammar.CLOSING_QUOTES:
            return self._string(mark)
        word = self._word("a key")
        if word in json_grammar.RELAXED_LITERALS or json_grammar.RELAXED_NUMBER.match(word):
            raise self._error(f"a key must be a string or a word, not `{word[:40]}`")
        self._at += len(word)
        self._note(Repair.UNQUOTED_KEY, word)
        return word

    def _word(self, wanted: str) -> str:
        word = json_grammar.WORD.match(self._text, self._at)
        if word:
            return word.group()
        ended = self._at == len(self._text)
        raise self._error(f"expected {wanted}, not the end" if ended else f"expected {wanted}")

    def _string(self, opening: str) -> str:
        start = self._at + 1
        body = _BODIES[opening].match(self._text, start)
        end = body.end() if body else start
        if self._text[end : end + 1] != json_grammar.CLOSING_QUOTES[opening]:
            raise self._error("the string is not closed")
        self._at = end + 1
        content = self._text[start:end]
        if self._notes:
            self._note_string(opening, content, self._notes)
        if "\\" not in content:
            return content
        bad = find_bad_escape(content)
        if bad >= 0:
            raise self._error("unknown escape", start + bad)
        return decode_escapes(content)

    # --- between tokens ---

    def _skip(self) -> str:
        """Skip white space and comments; return the next character, or `""` at the end."""
        start = self._at
        mark = self._text[start : start + 1]
        if mark and mark not in _BLANK_BEGINS:
            return mark
        blank = _BLANK.match(self._text, start)
        self._at = blank.end() if blank else start
        if self._text.startswith("/*", self._at):
            raise self._error("the comment is not closed")
        if self._notes and _COMMENT_OPENS.search(self._text, start, self._at):
            self._note(Repair.COMMENT)
        return self._text[self._at : self._at + 1]

    def _note(self, kind: Repair, example: str = "") -> None:
        if self._notes:
            self._notes.note(kind, example)

    @staticmethod
    def _note_string(opening: str, content: str, notes: Repairs) -> None:
        if opening != '"':
            notes.note(Repair.SINGLE_QUOTES if opening == "'" else Repair.SMART_QUOTES)
        if _CONTROL.search(content):
            notes.note(Repair.RAW_CONTROL)
        if "\\" in content:
            note_foreign_quotes(content, notes)

    def _error(self, message: str, position: int | None = None) -> JSONParseError:
        where = self._at if position is None else position
        return JSONParseError(message, text=self._text, position=where)
