"""Python literals, read as they arrive, at a cost per piece that does not grow.

`LiteralReader` reads one value from token to token; containers wait on a stack, so no depth makes
it recurse. It accepts what `ast.literal_eval` accepts and JSON can express: strings in any quotes,
adjacent ones as one, numbers with a sign, the literals of Python and of JSON, lists, tuples as
lists, and dictionaries whose keys are text or are converted to it. Literals are inside brackets, so
lines may end anywhere, and comments are allowed. Sets, bytes, names and operators are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from json.decoder import scanstring  # type: ignore[attr-defined]
from json.encoder import encode_basestring
from typing import Any, Final, NoReturn

from penstock import _json
from penstock.errors import ParseError
from penstock.values.json_grammar import (
    MAX_DEPTH,
    MAX_DIGITS,
    RELAXED_LITERALS,
    string_gate,
)

# --- numbers and words --------------------------------------------------------------------------


MAX_ATOM: Final = 2 * MAX_DIGITS
"""How many characters a number may have, with the underscores between its digits."""

_TOO_BIG: Final = 10**MAX_DIGITS  # infinity is too
_BASES: Final = ("0x", "0o", "0b")
_MORE: Final = re.compile(r"[\w.]*+")
_BEFORE_SIGN: Final = re.compile(r"[0-9_]*+(?:\.[0-9_]*+)?[eE]")


class Atom:
    """A number or a word that may continue in the next chunk."""

    __slots__ = ("_pieces", "_size", "sign")

    def __init__(self, sign: str = "") -> None:
        self.sign = sign
        self._pieces: list[str] = []
        self._size = 0

    @property
    def room(self) -> int:
        """How many characters it may still take."""
        return MAX_ATOM - self._size

    def extend(self, text: str, at: int) -> int:
        """Continue from *at*; return where the atom ends, or the end of *text* if it may continue.

        Raises `ValueError` if it is longer than any number.
        """
        while True:
            more = _MORE.match(text, at)
            end = more.end() if more else at
            self._add(text[at:end])
            if not (text.startswith(("+", "-"), end) and self._awaits_sign()):
                return end
            self._add(text[end])
            at = end + 1

    def read(self) -> int | float | bool | None:
        """Return its value; raise `ValueError` if it is not a literal."""
        token = "".join(self._pieces)
        if not self.sign and token in RELAXED_LITERALS:
            return RELAXED_LITERALS[token]
        if not token.isascii() or not token.startswith(tuple("0123456789.")):
            raise ValueError(f"`{token[:40]}` is not a literal")
        value = _number(token)
        return -value if self.sign == "-" else value

    def _add(self, piece: str) -> None:
        self._size += len(piece)
        if self._size > MAX_ATOM:
            raise ValueError("the number is too long")
        if piece:
            self._pieces.append(piece)

    def _awaits_sign(self) -> bool:
        """Return whether it ends with the letter of an exponent."""
        if not self._pieces or self._pieces[-1][-1] not in "eE":
            return False
        return _BEFORE_SIGN.fullmatch("".join(self._pieces)) is not None


def _number(token: str) -> int | float:
    # Digits alone are never a float, not even with a leading zero or too many of them.
    is_integer = token[:2].lower() in _BASES or token.replace("_", "").isdigit()
    try:
        value = int(token, 0) if is_integer else float(token)
    except ValueError:
        raise ValueError(f"`{token[:40]}` is not a number") from None
    if value >= _TOO_BIG:
        raise ValueError("the number is too big")
    return value


# --- white space and comments -------------------------------------------------------------------


BLANK: Final = r"[ \t\r\n\f]"
"""One character of white space, as a pattern; inside brackets a newline is one, too."""

_BLANKS: Final = re.compile(rf"{BLANK}*+")


class Gap:
    """Skips white space and comments; a comment may continue in the next chunk."""

    __slots__ = ("_in_comment",)

    def __init__(self) -> None:
        self._in_comment = False

    def skip(self, text: str, at: int) -> int:
        """Return where the next token begins, or the end of *text* if more text is needed."""
        while True:
            if self._in_comment:
                at = text.find("\n", at)
                if at == -1:
                    return len(text)
                self._in_comment = False
            blanks = _BLANKS.match(text, at)
            at = blanks.end() if blanks else at
            if not text.startswith("#", at):
                return at
            self._in_comment = True


# --- strings ------------------------------------------------------------------------------------
#
# A `Quoting` describes how a string is quoted: its delimiter, and whether backslashes are escapes.
# There are eight, each with patterns that are compiled once. Almost all of a string is simple:
# plain text, and escapes of one character. Escapes by number are read one at a time.
#
# Models write both Python and JSON in the same place, so a string may have the escapes of either:
# the two halves of a surrogate pair make one character, and in double quotes ``\/`` is a slash.
# A string in single delimiters may contain newlines. An unknown escape keeps its backslash, as in
# Python.


_ESCAPES: Final = {
    "\n": "",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_ESCAPES_OF_BOTH: Final = _ESCAPES | {"/": "/"}
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)

MORE: Final = -1
"""The position that means: more text is needed."""

MAX_ESCAPES: Final = 1000
"""How many escapes one match of a pattern reads."""

_HEX: Final = "[0-9A-Fa-f]"
_CODE: Final = re.compile(
    rf"\\(?:x({_HEX}{{2}})|u({_HEX}{{4}})|U({_HEX}{{8}})|([0-7]{{3}}|[0-7]{{1,2}}(?=[^0-7])))"
)
# A backslash before a line end continues the line, and "\r\n" is one line end.
_LINE_END: Final = re.compile(r"\\\r(?:\n|(?=[^\n]))")
_BEGINS: Final = re.compile(rf"\\(?:x{_HEX}{{0,1}}|u{_HEX}{{0,3}}|U{_HEX}{{0,7}}|[0-7]{{0,2}}|\r)")
_LAST_CHARACTER: Final = 0x10FFFF
_HIGH: Final = range(0xD800, 0xDC00)
_LOW: Final = re.compile(rf"\\u([Dd][C-Fc-f]{_HEX}{{2}})")
_LOW_BEGINS: Final = re.compile(rf"(?:\\(?:u(?:[Dd](?:[C-Fc-f]{_HEX}?)?)?)?)?")


class Quoting:
    """How a string is quoted: it ends at *delimiter*; a *raw* one has no escapes."""

    __slots__ = ("_held", "_json", "_says", "_tame", "delimiter", "gate", "known", "raw")

    def __init__(self, delimiter: str, *, raw: bool = False) -> None:
        quote = delimiter[0]
        self.delimiter = delimiter
        self.raw = raw
        self.gate = string_gate(quote)
        """Characters that are not plain, or that strict JSON escapes."""
        escapes = _ESCAPES_OF_BOTH if quote == '"' else _ESCAPES
        self._says: Callable[[re.Match[str]], str] = lambda found: escapes.get(found[1], found[0])
        self._held = ("", "\\") if delimiter == quote else ("", "\\", quote, quote * 2)
        tame = [rf"[^{quote}\\]++", r"\\." if raw else r"\\[^0-7NUux\r]"]
        if delimiter != quote:
            tame.append(rf"{quote}{{1,2}}(?=[^{quote}])")
        json = rf'[^"{quote}\\\x00-\x1f]++' + ("" if raw else r'|\\["\\bfnrt]')
        self._json = re.compile(rf"(?:{json}){{0,{MAX_ESCAPES}}}")
        self._tame = re.compile(rf"(?:{'|'.join(tame)}){{0,{MAX_ESCAPES}}}", re.DOTALL)
        self.known: dict[str, tuple[str, str, int]] = {}
        """What `translate` has returned for short pieces; the engine fills it."""

    def read(self, text: str, at: int) -> tuple[str, int, bool]:
        """Continue from *at*; return the decoded piece, where it ends, and whether the string ends.

        If the end is *at*, more text is needed. Raises `ParseError` for a malformed escape.
        """
        tame = self._tame.match(text, at)
        if tame is not None and tame.end() > at:
            return self._decoded(tame[0]), tame.end(), False
        if text.startswith(self.delimiter, at):
            return "", at + len(self.delimiter), True
        if not text.startswith("\\", at):
            return "", at, False
        return *_read_code(text, at), False

    def translate(self, text: str) -> tuple[str, str, int] | None:
        """Return a simple piece of the string decoded, as strict JSON, and its size.

        Text at the end that may belong to an escape or to the delimiter is not read. Returns None
        if the piece is not simple.
        """
        if self._json.fullmatch(text):
            return scanstring(text + '"', 0)[0], text, len(text)
        tame = self._tame.match(text)
        size = tame.end() if tame else 0
        if text[size:] not in self._held:
            return None
        says = self._decoded(text[:size])
        return says, encode_basestring(says)[1:-1], size

    def _decoded(self, piece: str) -> str:
        if self.raw or "\\" not in piece:
            return piece
        return _ESCAPED.sub(self._says, piece)


def _read_code(text: str, at: int) -> tuple[str, int]:
    """Read one escape of several characters; it has no length if it may continue."""
    code = _CODE.match(text, at)
    if code is not None:
        return _decode(code, text)
    line_end = _LINE_END.match(text, at)
    if line_end is not None:
        return "", line_end.end()
    if _BEGINS.fullmatch(text, at):
        return "", at
    raise ParseError(f"`{text[at : at + 2]}` is not an escape")


def _decode(code: re.Match[str], text: str) -> tuple[str, int]:
    number = int(code[4], 8) if code[4] else int(code[1] or code[2] or code[3], 16)
    if number > _LAST_CHARACTER:
        raise ParseError(f"`{code[0]}` is not a character")
    if not (code[2] and number in _HIGH):
        return chr(number), code.end()
    low = _LOW.match(text, code.end())
    if low is not None:
        return chr(0x10000 + ((number - 0xD800) << 10) + int(low[1], 16) - 0xDC00), low.end()
    if _LOW_BEGINS.fullmatch(text, code.end()):
        return "", code.start()
    return chr(number), code.end()


OPENING_CHARACTERS: Final = "'\"RrUu"
"""Characters that may begin a string."""

# One quote opens a string unless it may be the first of three; two are an empty string.
_OPENING: Final = re.compile(
    r"""([RrUu]?)('{3}|"{3}|'(?=[^']|'[^'])|"(?=[^"]|"[^"]))""",
)
_OPENING_BEGINS: Final = re.compile(r"""[RrUu]?(?:'{0,2}|"{0,2})""")


def quoting_at(text: str, at: int) -> tuple[Quoting | None, int]:
    """Return the quoting of the string that begins at *at*, and where its opening ends.

    The quoting is None if no string begins; then the position is *at*, or `MORE` if more text is
    needed.
    """
    opening = _OPENING.match(text, at)
    if opening is not None:
        return _quoting(opening[2], raw=opening[1] in ("r", "R")), opening.end()
    return None, MORE if _OPENING_BEGINS.fullmatch(text, at) else at


@cache
def _quoting(delimiter: str, *, raw: bool) -> Quoting:
    return Quoting(delimiter, raw=raw)


# --- writing ------------------------------------------------------------------------------------
#
# A JSON string with its escapes is a Python string, too, so only three words differ.


_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*"|true|false|null|[,:]')
_PYTHON: Final = {"true": "True", "false": "False", "null": "None", ",": ", ", ":": ": "}
_JSON: Final = {",": ", ", ":": ": "}


def dumps(value: object, *, json_words: bool = False) -> str:
    """Write a JSON value as a literal; with *json_words*, ``true`` stays ``true``.

    Raises `UsageError` for a value that JSON cannot express.
    """
    words = _JSON if json_words else _PYTHON
    text = _json.encode_strict(value).decode()
    return _TOKEN.sub(lambda token: words.get(token[0], token[0]), text)


# --- reading ------------------------------------------------------------------------------------

_CLOSERS: Final = {"[": "]", "(": ")", "{": "}"}


class LiteralReader:
    """Reads one literal; *depth* is the number of containers around it."""

    __slots__ = ("_atom", "_depth", "_gap", "_open", "_pieces", "_sign", "broken_at", "complete",
                 "quoting", "value")  # fmt: skip

    def __init__(self, depth: int = 0) -> None:
        self.complete = False
        self.value: Any = None
        self.quoting: Quoting | None = None
        """The quoting of the open string."""
        self.broken_at: int | None = None
        """Where the malformed number or word ends in the text of the last step."""
        self._depth = depth
        self._gap = Gap()
        self._pieces: list[str] | None = None  # of the string and those next to it, decoded
        self._atom: Atom | None = None
        self._sign = ""
        self._open: list[_Container] = []

    @property
    def text(self) -> list[str] | None:
        """The pieces read so far if the value is a string, else None.

        It grows until the value is complete; between two adjacent strings `quoting` is None.
        """
        return None if self._open else self._pieces

    def step(self, text: str, at: int) -> int:
        """Read one token from *at*; return where it ends, or `MORE` if more text is needed.

        A value that only the next token ends (a string, a number) ends before that token. Raises
        `ParseError` for text that is not a literal.
        """
        if self.quoting is not None:
            return self._step_in_string(self.quoting, text, at)
        if self._atom is not None:
            return self._step_in_atom(self._atom, text, at)
        after = self._gap.skip(text, at)
        if after > at or at == len(text):
            return after if after > at else MORE
        if text[at] in OPENING_CHARACTERS:
            quoting, end = quoting_at(text, at)
            if end == MORE:
                return MORE
            if quoting is not None and self._may_begin_value:
                if self._pieces is not None and self._open and self._open[-1].closer != ")":
                    # Python joins them; a model that writes this forgot the comma.
                    raise ParseError("two strings without a comma between them")
                self.quoting = quoting
                self._pieces = [] if self._pieces is None else self._pieces
                return end
        if self._pieces is not None:
            self._take("".join(self._pieces))
            self._pieces = None
            return at
        return self._step_to_token(text, at)

    def close(self) -> Any:
        """End the value at the end of the text and return it; raise `ParseError` if it is missing.

        Open containers and strings are closed; a key without a value is dropped.
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
        """Read the token at *at*, which is not a string."""
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
            if self._depth + len(self._open) >= MAX_DEPTH:
                raise ParseError(f"containers nested more than {MAX_DEPTH} deep")
            self._open.append(_Container(char))
        else:
            _refuse(char)
        return at + 1

    def _take(self, value: Any) -> None:
        """Store a value in the innermost container, or as the result."""
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
        """Return whether *char* may be a separator or the closer here; apply a separator."""
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
        """Store a value: an item, a key, or the value of the last key."""
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
        """Return the contents; parentheses around one value without a comma are that value."""
        if self.closer == "}":
            return self._entries
        is_tuple = self.closer == "]" or self._has_comma or not self._items
        return self._items if is_tuple else self._items[0]


def _as_key(value: Any) -> str:
    """Return a key as a string; other scalars become their JSON text."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, dict)):
        raise ParseError("a key must be a string, a number or a word, not a container")
    return _json.encode(value).decode()


def _refuse(char: str) -> NoReturn:
    raise ParseError(f"unexpected `{char}` in a literal")
