"""The arguments of a call on their way out, so that nobody can run a call that is not complete.

Clients run a call when its arguments are JSON, and some take no arguments at all for ``{}``. So
what leaves is always the beginning of one JSON object, and its last brace waits until the call is
known to be complete.
"""

from __future__ import annotations

from typing import Final, Literal

from penstock import _json
from penstock.messages import ToolCall

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
        return _json.encode(call.arguments).decode() if call.complete else "{"

    def _all_but_last_brace(self, text: str) -> str:
        said = text.rstrip()
        if not said.endswith("}") or len(text) - len(said) > MAX_HELD:
            self._held = ""
            return text
        self._held = text[len(said) - 1 :]
        return said[:-1]
