"""Python literals, read as they arrive, at a cost per piece that does not grow.

`LiteralReader` reads one value from token to token; containers wait on a stack, so no depth makes
it recurse. It takes what `ast.literal_eval` takes and JSON can say: strings in any quotes, adjacent
ones as one, numbers with a sign, the words of Python and of JSON, lists, tuples as lists, and
dictionaries with keys that are text or become it. Brackets are around it, so lines may end anywhere
and comments may stand between. Sets, bytes, names and operators are no values.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from penstock import _json
from penstock.errors import ParseError
from penstock.values.grammar import MAX_DEPTH
from penstock.values.literals.atoms import Atom
from penstock.values.literals.gaps import Gap
from penstock.values.literals.quoting import MORE, OPENING_CHARACTERS, Quoting, quoting_at

_CLOSERS: Final = {"[": "]", "(": ")", "{": "}"}


class LiteralReader:
    """Reads one literal; *depth* is how deep it stands in containers already."""

    __slots__ = ("_atom", "_depth", "_gap", "_open", "_pieces", "_sign", "broken_at", "complete",
                 "quoting", "value")  # fmt: skip

    def __init__(self, depth: int = 0) -> None:
        self.complete = False
        self.value: Any = None
        self.quoting: Quoting | None = None
        """How the string is quoted that is open."""
        self.broken_at: int | None = None
        """Where the number or word ends that is none, in the text of the last step."""
        self._depth = depth
        self._gap = Gap()
        self._pieces: list[str] | None = None  # what the string says, with those next to it
        self._atom: Atom | None = None
        self._sign = ""
        self._open: list[_Container] = []

    @property
    def text(self) -> list[str] | None:
        """What has been read of the string that is the value, in pieces; None if it is no string.

        It grows until the value is complete; between two adjacent strings `quoting` is None.
        """
        return None if self._open else self._pieces

    def step(self, text: str, at: int) -> int:
        """Take one step from *at*; return where it ends, or `MORE` if only more text can tell.

        A value that only the next token ends (a string, a number) ends before that token. Raises
        `ParseError` for what is no literal.
        """
        if self.quoting is not None:
            return self._step_in_string(self.quoting, text, at)
        if self._atom is not None:
            return self._step_in_atom(self._atom, text, at)
        behind = self._gap.skip(text, at)
        if behind > at or at == len(text):
            return behind if behind > at else MORE
        if text[at] in OPENING_CHARACTERS:
            quoting, end = quoting_at(text, at)
            if end == MORE:
                return MORE
            if quoting is not None and self._may_begin_value:
                return self._open_string(quoting, end)
        if self._pieces is not None:
            self._take("".join(self._pieces))
            self._pieces = None
            return at
        return self._step_to_token(text, at)

    def close(self) -> Any:
        """End the value where the text ended, and give it; raise `ParseError` if nothing is there.

        What is open is closed; a key without a value is dropped.
        """
        if self._pieces is not None:
            self._take("".join(self._pieces))
        elif self._atom is not None:
            self._take_atom(self._atom)
        while self._open:
            self._take(self._open.pop().contents())
        if not self.complete:
            raise ParseError("no value")
        return self.value

    # --- strings, numbers and words ---

    def _open_string(self, quoting: Quoting, end: int) -> int:
        self.quoting = quoting
        if self._pieces is None:
            self._pieces = []
        return end

    def _step_in_string(self, quoting: Quoting, text: str, at: int) -> int:
        piece, end, ended = quoting.read(text, at)
        if end == at:
            return MORE
        if ended:
            self.quoting = None
        elif self._pieces is not None:
            self._pieces.append(piece)
        return end

    def _step_in_atom(self, atom: Atom, text: str, at: int) -> int:
        room = atom.room
        try:
            end = atom.extend(text, at)
        except ValueError as exc:
            self.broken_at = at + room
            raise ParseError(str(exc)) from None
        if end == len(text):
            return end if end > at else MORE
        self._atom = None
        self.broken_at = end
        self._take_atom(atom)
        self.broken_at = None
        return end

    def _take_atom(self, atom: Atom) -> None:
        try:
            self._take(atom.read())
        except ValueError as exc:
            raise ParseError(str(exc)) from None

    # --- containers ---

    @property
    def _may_begin_value(self) -> bool:
        if self._sign:
            return False
        return self._pieces is not None or not self._open or self._open[-1].awaits_value

    def _step_to_token(self, text: str, at: int) -> int:
        """Take the token at *at*, which is no string."""
        char = text[at]
        if self._open and not self._sign and self._open[-1].takes(char):
            if char == self._open[-1].closer:
                self._take(self._open.pop().contents())
            return at + 1
        if self._open and not self._open[-1].awaits_value:
            _refuse(char)
        if char.isalnum() or char in "._":
            self._atom = Atom(self._sign)
            self._sign = ""
            return self._step_in_atom(self._atom, text, at)
        if self._sign:
            _refuse(char)
        if char in "+-":
            self._sign = char
        elif char in _CLOSERS:
            self._enter(char)
        else:
            _refuse(char)
        return at + 1

    def _enter(self, opener: str) -> None:
        if self._depth + len(self._open) >= MAX_DEPTH:
            raise ParseError(f"containers nested more than {MAX_DEPTH} deep")
        self._open.append(_Container(opener))

    def _take(self, value: Any) -> None:
        """Put a value where it belongs."""
        if self._open:
            self._open[-1].add(value)
        else:
            self.value = value
            self.complete = True


class _Container:
    """A list, a tuple or a dictionary that is open, or a value in parentheses."""

    __slots__ = ("_awaits", "_entries", "_has_comma", "_items", "_key", "closer")

    def __init__(self, opener: str) -> None:
        self.closer = _CLOSERS[opener]
        self._items: list[Any] = []
        self._entries: dict[str, Any] = {}
        self._key: str | None = None  # whose value is to come
        self._has_comma = False
        self._awaits = "item"  # or its "colon", its "value", the next "comma"

    @property
    def awaits_value(self) -> bool:
        return self._awaits in ("item", "value")

    def takes(self, char: str) -> bool:
        """Tell whether *char* may separate or close here; take it if it separates."""
        if char == self.closer:
            return self._awaits in ("item", "comma")
        if char == "," and self._awaits == "comma":
            self._awaits = "item"
            self._has_comma = True
            return True
        if char == ":" and self._awaits == "colon":
            self._awaits = "value"
            return True
        return False

    def add(self, value: Any) -> None:
        """Take a value: an item, or a key, or what belongs to the key."""
        if self.closer != "}":
            self._items.append(value)
            self._awaits = "comma"
        elif self._key is None:
            self._key = _as_key(value)
            self._awaits = "colon"
        else:
            self._entries[self._key] = value
            self._key = None
            self._awaits = "comma"

    def contents(self) -> Any:
        """Give what it holds: one value in parentheses without a comma is that value."""
        if self.closer == "}":
            return self._entries
        is_tuple = self.closer == "]" or self._has_comma or not self._items
        return self._items if is_tuple else self._items[0]


def _as_key(value: Any) -> str:
    """Give a key as JSON has it: any scalar that is no text becomes its text."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, dict)):
        raise ParseError("a key that is a container")
    return _json.encode(value).decode()


def _refuse(char: str) -> NoReturn:
    raise ParseError(f"`{char}` where a value, or the end of one, is to stand")
