"""Calls in JSON that a marker opens and none closes: they end with their JSON.

What stands behind is text, so a separator counts only where another value follows it; surplus
brackets are dropped, for models write them.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.parsing.bodies.base import Verdict
from penstock.parsing.bodies.envelope import CALL, Shape
from penstock.parsing.bodies.json_calls import MAX_BLANK, JSONCallReader
from penstock.parsing.bodies.json_steps import Flow
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.scanner import Scanner

NEXT: Final = "{"
"""What begins another call behind the first value; any other text is content."""

_BLANK: Final = rf"[ \t\r\n]{{0,{MAX_BLANK}}}"
_SURPLUS: Final = re.compile(rf"(?:{_BLANK}[}}\]])+")
_BETWEEN: Final = re.compile(rf"{_BLANK}(?:[,;]{_BLANK})?")


def find_surplus_end(text: str, at: int) -> int:
    """Find where the closing brackets at *at* end that close nothing; white space may part them."""
    found = _SURPLUS.match(text, at)
    return found.end() if found else at


def find_next(text: str, at: int) -> int:
    """Find what follows at *at*, behind white space and a separator: a value, text, or nothing."""
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


class UnclosedJSONReader(JSONCallReader):
    """Reads the calls behind a marker, which may end with the *bracket* that begins them.

    With *leading* the marker counts only where the answer begins with it.
    """

    def __init__(self, shape: Shape = CALL, *, bracket: str = "", leading: bool = False) -> None:
        super().__init__("", shape)
        self._bracket = bracket
        self._leading = leading

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if self._start < 0:
            if self._leading and not calls.is_first:
                return Verdict.PROSE
            self._begin(scanner, calls)
        return super().read(scanner, calls)

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: behind a marker alone nothing was meant."""
        if self._start < 0:
            return Verdict.PROSE
        return super().finish(scanner, calls)

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make calls of *text*, which the bracket of the marker begins."""
        return super().mend(text if self._closed else self._bracket + text, ended=ended)

    def _begin(self, scanner: Scanner, calls: Calls) -> None:
        self._start = scanner.offset + scanner.at - len(self._bracket)
        self._begin_value()
        if self._bracket:
            changes, _ = self._steps.step(self._bracket, 0, Flow.WAITS)
            self._follow(changes, scanner.at, scanner, calls)

    def _read_behind(self, scanner: Scanner) -> Verdict | None:
        """Look for another value; None tells to go on."""
        text = scanner.text
        scanner.at = find_surplus_end(text, scanner.at)
        at = find_next(text, scanner.at)
        if at == len(text):
            return Verdict.MORE
        if text[at] != NEXT:
            return Verdict.STANDS
        scanner.at = at
        self._begin_value()
        return None
