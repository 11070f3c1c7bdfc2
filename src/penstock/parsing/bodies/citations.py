"""The end of a citation, which says what is cited: ``</co: 0:[1,2]>``. It is no content."""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import ParseError
from penstock.parsing.bodies.base import Verdict
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner

START: Final = "</co"

MAX_SOURCES: Final = 256
"""How many characters may name what is cited."""

_REST: Final = re.compile(rf"(?::[^<>\n]{{0,{MAX_SOURCES}}})?>")
_BEGINS: Final = re.compile(rf"(?::[^<>\n]{{0,{MAX_SOURCES}}})?")


class CitationEnd:
    """Passes what follows ``</co`` up to its end, or finds that it is text."""

    def __init__(self) -> None:
        self.error: str | ParseError = ""
        self.end = ""

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Pass the end of the tag."""
        del calls
        found = _REST.match(scanner.text, scanner.at)
        if found is None:
            begins = _BEGINS.fullmatch(scanner.text, scanner.at)
            return Verdict.MORE if begins else Verdict.PROSE
        scanner.at = found.end()
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: half a tag is text."""
        del scanner, calls
        return Verdict.PROSE

    def run(self) -> None:
        """Give nothing: no string streams."""
