"""The end of a thought that nobody saw begin: what follows it may be the first thing said.

A prompt may have opened the thought without the parser being told. Then all of it is text, its end
marker too; but JSON right after that marker begins the answer, as it would after any thought.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import ParseError
from penstock.parsing.call_sink import CallSink
from penstock.parsing.readers.base import Verdict
from penstock.parsing.scanner import Scanner

# The end of a citation, which says what is cited: ``</co: 0:[1,2]>``. It is not a content.


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

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Pass the end of the tag."""
        del calls
        found = _REST.match(scanner.text, scanner.at)
        if found is None:
            begins = _BEGINS.fullmatch(scanner.text, scanner.at)
            return Verdict.MORE if begins else Verdict.NOT_A_CALL
        scanner.at = found.end()
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: half a tag is text."""
        del scanner, calls
        return Verdict.NOT_A_CALL

    def run(self) -> None:
        """Give nothing: no string streams."""


# A marker that says nothing where it is the last thing of an answer, and is text elsewhere.


class TrailingMarker:
    """Waits after the marker for the end of the answer; anything but white space says no."""

    def __init__(self) -> None:
        self.error: str | ParseError = ""
        self.end = ""

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Pass white space."""
        del calls
        if scanner.unread.strip():
            return Verdict.NOT_A_CALL
        scanner.at = len(scanner.text)
        return Verdict.MORE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: nothing came after the marker."""
        del scanner, calls
        return Verdict.DONE

    def run(self) -> None:
        """Give nothing: no string streams."""


MAX_BLANK: Final = 256
"""How much white space may stand between the end of a thought and the answer."""

_BLANK: Final = re.compile(rf"\s{{0,{MAX_BLANK}}}")


class ThoughtEnd:
    """Stands for an end *marker* in text: a bracket after it is the first thing of an answer."""

    def __init__(self, marker: str) -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self._marker = marker

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Look at what follows; the marker is text in any case."""
        found = _BLANK.match(scanner.text, scanner.at)
        at = found.end() if found else scanner.at
        if at == len(scanner.text):
            return Verdict.MORE
        if scanner.text[at] not in "[{":
            return Verdict.NOT_A_CALL
        calls.say(self._marker)
        calls.is_first = True
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that nothing follows."""
        del scanner, calls
        return Verdict.NOT_A_CALL

    def run(self) -> None:
        """Give nothing: no string streams."""
