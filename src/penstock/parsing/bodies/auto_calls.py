"""Calls of known tools only: what calls any other tool is text, in whatever format it is.

A reader does not know that. It opens a call and writes to it as ever; where nobody has the tool the
call is mute, and each event that it would have made shows its text instead. So the good calls of a
list still come, and no call of an unknown tool ever starts.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.calls import Calls
from penstock.parsing.output import Kind

Shown = tuple[list[str] | None, int]
"""The pieces of the block of text that is open, if one is, and how many there are."""


class KnownCalls(Calls):
    """Makes calls of what readers find, if the tool is known, and text otherwise."""

    __slots__ = ("completed", "is_mute", "kind", "thinks")

    completed: int
    """How many calls are complete."""
    is_mute: bool
    """Whether the last call that was opened is none."""
    kind: Callable[[], Kind]
    """Tells what text is where the call stands."""
    thinks: bool
    """Whether a marker may open a thought."""

    def begin(self, kind: Callable[[], Kind], *, thinks: bool) -> None:
        """Take what tells the *kind* of text, and whether a marker may open a thought."""
        self.thinks = thinks
        self.completed = 0
        self.is_mute = False
        self.kind = kind

    def shown(self) -> Shown:
        """Give what the open block of text has shown so far."""
        pieces = self._output.pieces
        return pieces, 0 if pieces is None else len(pieces)

    def open(self, name: str, id: str = "") -> ArgumentWriter:  # noqa: A002 - the field's name
        """Open the call of *name*, or a mute one."""
        self.is_mute = name not in self.schemas
        if not self.is_mute:
            return super().open(name, id)
        self.name = name
        self.started = True  # What was shown of it is not taken back.
        self.writer = ArgumentWriter(None, self._write)
        self.show()
        return self.writer

    def close(self) -> None:
        """End the open call: it is complete, or it is text."""
        if self.is_mute:
            self.drop()
        else:
            quoted = len(self.quotations)
            super().close()
            self.completed += len(self.quotations) == quoted

    def drop(self, open_text: str | None = None) -> None:
        """End the open call as incomplete; a mute one is text up to here."""
        if self.is_mute and self.writer is not None:
            self.show()
            self._reset()
        else:
            super().drop(open_text)

    def end_mute(self) -> bool:
        """Show what a mute call has left behind; tell whether there was one."""
        was_mute, self.is_mute = self.is_mute, False
        if was_mute:
            self.writer = None
            self.show()
            self._reset()
        return was_mute

    def _write(self, piece: str) -> None:
        if self.is_mute:
            self.show()
        else:
            super()._write(piece)
