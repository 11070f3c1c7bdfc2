"""The arguments of a call: when they are whole, and what of them may leave before that.

Nobody should be able to run a call that is not complete.

Clients run a call when its arguments are JSON, and some take no arguments at all for ``{}``. So
what leaves is always the beginning of one JSON object, and its last brace waits until the call is
known to be complete.
"""

from __future__ import annotations

from typing import Final, Literal

from penstock import _json
from penstock.errors import JSONParseError
from penstock.messages import ToolCall
from penstock.values import IncrementalJSON

MAX_HELD: Final = 1_000
"""How much white space may follow the brace that waits: more of it is inside of something."""


class ArgumentsOut:
    """The arguments of one call: pieces in, what may leave out."""

    def __init__(self) -> None:
        self._state: Literal["before", "inside", "odd"] = "before"
        self._held = ""

    def add(self, piece: str) -> str:
        """Take one more piece; give what may leave."""
        if self._state == "before":
            piece = piece.lstrip()
            if piece:
                self._state = "inside" if piece[0] == "{" else "odd"
        if self._state != "inside":
            return ""
        return self._all_but_last_brace(self._held + piece)

    def end(self, call: ToolCall) -> str:
        """Give what is left: of a complete call all, of another only what shows that it is none.

        Arguments that did not begin like an object (none at all, ``null``, text around it) are
        written as they were understood.
        """
        if self._state == "inside":
            return self._held if call.complete else ""
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


def strict_object(text: str) -> dict[str, object] | None:
    """Read *text* as an object that any reader of JSON accepts; give nothing if it is none."""
    try:
        value = _json.decode_strict(text)
    except JSONParseError:
        return None
    return value if isinstance(value, dict) else None
