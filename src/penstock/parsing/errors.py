"""Who is told of text that was meant to be a call and is not one.

What is told is the exact segment: from the start marker to the first end marker, to the next start
marker or to the end of the answer. A call breaks before that is there, and its text goes out at
once; only the telling waits. Where a section breaks with its first call, both markers open the one
segment: it is told once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from penstock.errors import ParseError


class BrokenCall(Struct, frozen=True):
    """A piece of model text that was meant to be a call and is not one."""

    text: str
    tool_name: str = ""
    error: ParseError | None = None


OnError = Callable[[str, BrokenCall], object]
"""Told of text that was meant to be a call: what is wrong, and with what."""


class ErrorReporter:
    """Tells *on_error* of one segment after the other."""

    __slots__ = ("_error", "_name", "_on_error", "_opener", "_pieces", "is_open")

    def __init__(self, on_error: OnError | None) -> None:
        self.is_open = False  # more of the segment may come
        self._on_error = on_error
        self._error = ParseError("")
        self._name = ""
        self._opener = ""  # the marker that began the open segment, or several in a row
        self._pieces: list[str] = []

    @property
    def is_heard(self) -> bool:
        """Whether anything is reported to anybody."""
        return self._on_error is not None

    def goes_on_with(self, marker: str) -> bool:
        """Return whether *marker* opens the first call of the section that the open segment is."""
        if not self.is_open or marker == self._opener:
            return False
        # Some markers end before their tag does.
        return "".join(self._pieces).strip().rstrip(">") == self._opener.rstrip(">")

    def begin(self, why: str | ParseError, name: str, text: str, marker: str) -> None:
        """Begin a segment with the *text* that will not come again.

        Or continue with a section's.
        """
        if self._on_error is None:
            return
        self._error = why if isinstance(why, ParseError) else ParseError(why)
        self._name = name
        before = self._pieces if self.goes_on_with(marker) else []
        self._opener = "".join(before).lstrip() + marker
        self._pieces = [*before, text]
        self.is_open = True

    def add(self, text: str) -> None:
        """Take more of the open segment."""
        self._pieces.append(text)

    def close(self) -> None:
        """Tell of the open segment, if there is one."""
        if not self.is_open:
            return
        self.is_open = False
        segment = BrokenCall("".join(self._pieces).lstrip(), self._name, self._error)
        self._pieces = []
        if self._on_error is not None:
            with suppress(Exception):  # a handler that fails must not end the stream
                self._on_error(str(self._error), segment)

    def tell(self, why: str | ParseError, name: str, text: str, marker: str) -> None:
        """Tell of a segment that is all there, or of what is left of a section's."""
        if not self.goes_on_with(marker):
            self.close()
        self.begin(why, name, text, marker)
        self.close()
