"""A marker that says nothing where it is the last thing of an answer, and is text elsewhere."""

from __future__ import annotations

from penstock.errors import ParseError
from penstock.parsing.bodies.base import Verdict
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner


class LastThing:
    """Waits behind the marker for the end of the answer; anything but white space says no."""

    def __init__(self) -> None:
        self.error: str | ParseError = ""
        self.end = ""

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Pass white space."""
        del calls
        if scanner.unread.strip():
            return Verdict.PROSE
        scanner.at = len(scanner.text)
        return Verdict.MORE

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: nothing came behind the marker."""
        del scanner, calls
        return Verdict.DONE

    def run(self) -> None:
        """Give nothing: no string streams."""
