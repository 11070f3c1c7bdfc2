"""The end of a thought that nobody saw begin: what follows it may be the first thing said.

A prompt may have opened the thought without the parser being told. Then all of it is text, its end
marker too; but JSON right behind that marker begins the answer, as it would behind any thought.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import ParseError
from penstock.parsing.bodies.base import Verdict
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner

MAX_BLANK: Final = 256
"""How much white space may stand between the end of a thought and the answer."""

_BLANK: Final = re.compile(rf"\s{{0,{MAX_BLANK}}}")


class ThoughtEnd:
    """Stands for an end *marker* in text: a bracket behind it is the first thing of an answer."""

    def __init__(self, marker: str) -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self._marker = marker

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Look at what follows; the marker is text in any case."""
        found = _BLANK.match(scanner.text, scanner.at)
        at = found.end() if found else scanner.at
        if at == len(scanner.text):
            return Verdict.MORE
        if scanner.text[at] not in "[{":
            return Verdict.PROSE
        calls.say(self._marker)
        calls.is_first = True
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that nothing follows."""
        del scanner, calls
        return Verdict.PROSE

    def run(self) -> None:
        """Give nothing: no string streams."""
