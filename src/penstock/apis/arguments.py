"""The arguments of a call: when they are whole, and what of them may leave before that.

Nobody should be able to run a call that is not complete.

Clients run a call when its arguments are JSON, and some take no arguments at all for ``{}``. So
what leaves is always the beginning of one JSON object, and its last brace waits until the call is
known to be complete. Arguments that readers of JSON do not read alike are not complete: a key that
is there twice, a number that is too large (``1e999`` is infinity to some and an error to others).
Half a surrogate pair leaves as U+FFFD, also where it is an escape.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from penstock import _json
from penstock.errors import JSONParseError
from penstock.messages import ToolCall
from penstock.values import IncrementalJSON

_HALF: Final = re.compile(
    r"(\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_TAIL: Final = re.compile(
    r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u(?:[dD][0-9a-fA-F]{0,2})?)?)?\Z"
)
_NO_NUMBER: Final = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*")|NaN|-?Infinity')

MAX_HELD: Final = 1_000
"""How much white space may follow the brace that waits: more of it is inside of something."""


class ArgumentsOut:
    """The arguments of one call: pieces in, what may leave out."""

    def __init__(self) -> None:
        self._state: Literal["before", "inside", "odd"] = "before"
        self._held = ""
        self._cut = ""  # an escape that may go on in the next piece

    def add(self, piece: str) -> str:
        """Take one more piece; give what may leave."""
        if self._state == "before":
            piece = piece.lstrip()
            if piece:
                self._state = "inside" if piece[0] == "{" else "odd"
        if self._state != "inside":
            return ""
        if self._cut or "\\" in piece:
            piece, self._cut = _split_escape(self._cut + piece)
            piece = with_whole_pairs(piece)
        return self._all_but_last_brace(self._held + piece)

    def end(self, call: ToolCall) -> str:
        """Give what is left: of a complete call all, of another only what shows that it is none.

        Arguments that did not begin like an object (none at all, ``null``, text around it) are
        written as they were understood.
        """
        if self._state == "inside":
            return self._held + self._cut if call.complete else ""
        return _json.encode_wire(call.arguments).decode() if call.complete else "{"

    def _all_but_last_brace(self, text: str) -> str:
        said = text.rstrip()
        if not said.endswith("}") or len(text) - len(said) > MAX_HELD:
            self._held = ""
            return text
        self._held = text[len(said) - 1 :]
        return said[:-1]


class Wholeness:
    """Whether the pieces of one call's arguments are a JSON object by now.

    Each piece is read once, however often one asks.
    """

    def __init__(self) -> None:
        self._reader = IncrementalJSON()
        self._read = 0  # how many pieces were
        self._is_broken = False
        self._is_object: bool | None = None  # once it is complete

    def of(self, pieces: list[str]) -> bool:
        """Read what was added to *pieces*, and tell whether all of them are an object."""
        new, self._read = pieces[self._read :], len(pieces)
        if not self._is_broken:
            self._add("".join(new))
        if self._is_broken or not self._reader.complete:
            return False
        if self._is_object is None:
            self._is_object = strict_object("".join(pieces)) is not None
        return self._is_object

    def _add(self, text: str) -> None:
        try:
            self._reader.feed(text)
        except JSONParseError:
            self._is_broken = True


def with_whole_pairs(text: str) -> str:
    """Return the piece of JSON *text* with U+FFFD for each escape of half a surrogate pair."""
    if "\\u" not in text:
        return text
    return _HALF.sub(lambda match: match[1] or "\\ufffd", text)


def object_text(value: object) -> str:
    """Write arguments that came as a value; what has no number in JSON is one that is too large."""
    text = _json.encode(value).decode()
    if _json.is_finite(value):
        return text
    return _NO_NUMBER.sub(lambda match: match[1] or "1e999", text)


def _split_escape(text: str) -> tuple[str, str]:
    """Split off an escape at the end of *text* that is cut, or may be the first half of a pair."""
    tail = _TAIL.search(text)
    start = tail.start() if tail else len(text)
    before = text[:start]
    is_escaped = (len(before) - len(before.rstrip("\\"))) % 2 == 1
    return (text, "") if is_escaped else (before, text[start:])


def strict_object(text: str) -> dict[str, object] | None:
    """Read *text* as an object that any reader of JSON accepts; give nothing if it is none."""
    try:
        value = _json.decode_strict(text)
    except JSONParseError:
        return None
    return value if isinstance(value, dict) else None
