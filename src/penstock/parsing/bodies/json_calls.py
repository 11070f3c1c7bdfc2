"""Calls in JSON: an object with a name and arguments, a list of them, or one after the other.

Behind a value stands its end marker. Where something else stands the calls are good all the same:
models drop the end marker in about one call of fourteen.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import ParseError
from penstock.parsing.bodies.base import NoCallError, Verdict
from penstock.parsing.bodies.json_steps import BrokenJSONError
from penstock.parsing.bodies.json_values import JSONValueReader
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner

MAX_BLANK: Final = 256
"""How much white space may stand between a value and its end marker, or the next value."""

_BLANK: Final = re.compile(rf"[ \t\r\n]{{0,{MAX_BLANK}}}")
_BETWEEN: Final = ",;}]"  # separators, and the surplus brackets that models write


class JSONCallReader(JSONValueReader):
    """Reads the calls of one body; *end* is its end marker, empty where it has none."""

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if self._start < 0:
            self._start = scanner.offset + scanner.at
            self._begin_value()
        while scanner.at < len(scanner.text):
            is_whole = self._steps.complete
            verdict = self._read_behind(scanner) if is_whole else self._read_on(scanner, calls)
            if verdict is not None:
                return verdict
        return Verdict.MORE

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: a value that is whole stands without its end marker."""
        del calls
        if not self._steps.complete:
            self.error = "the call was cut"
            scanner.at = len(scanner.text)
            return Verdict.TEXT  # What looks like a call in it may stand in a string.
        if self.end.lstrip().startswith(scanner.unread.lstrip()):
            scanner.at = len(scanner.text)  # the piece of a cut marker is no content
        return Verdict.DONE

    def _read_on(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        try:
            return self._read_value(scanner, calls)
        except (ParseError, NoCallError) as exc:
            self._note_error(exc, scanner)
            if isinstance(exc, BrokenJSONError):
                scanner.at = max(scanner.at, exc.at)
            return Verdict.BROKEN

    def _read_behind(self, scanner: Scanner) -> Verdict | None:
        """Look for the end marker or another value; None tells to go on."""
        text, begin = scanner.text, scanner.at
        blank = _BLANK.match(text, begin)
        at = blank.end() if blank else begin
        if at == len(text):
            return Verdict.MORE
        # An end marker may itself begin with white space: a fence stands on its own line.
        end = max(begin, at - len(self.end) + len(self.end.lstrip()))
        if self.end and text.startswith(self.end, end):
            scanner.at = end + len(self.end)
            return Verdict.DONE
        if self.end and self.end.startswith(text[end : end + len(self.end)]):
            return Verdict.MORE
        if text[at] in _BETWEEN:
            scanner.at = at + 1
            return None
        if text[at] in "{[":
            scanner.at = at
            self._begin_value()
            return None
        return Verdict.STANDS
