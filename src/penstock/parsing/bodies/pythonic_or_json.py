"""Calls in Python or in JSON behind the same marker: the first characters tell."""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import ParseError
from penstock.parsing.bodies.base import Body, Mendable, Run, Verdict
from penstock.parsing.bodies.json_calls import JSONCallReader
from penstock.parsing.bodies.pythonic import PythonCallReader
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.scanner import Scanner

_BLANK: Final = r"[ \t\r\n]{0,256}"
_UNDECIDED: Final = re.compile(rf"{_BLANK}(?:\[{_BLANK})?")
_JSON: Final = re.compile(rf"{_BLANK}(?:\[{_BLANK})?\{{")


class PythonOrJSONReader:
    """Reads calls up to *end*, in JSON if an object comes first."""

    def __init__(self, end: str) -> None:
        self.error: str | ParseError = "the call was cut"
        self.end = end
        self._body: Body | None = None  # who reads, once it is known

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; first find out who does."""
        body = self._body or self._choose(scanner)
        if body is None:
            return Verdict.MORE
        verdict = body.read(scanner, calls)
        self.error = body.error
        return verdict

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended."""
        if self._body is None:
            return Verdict.BROKEN
        verdict = self._body.finish(scanner, calls)
        self.error = self._body.error
        return verdict

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        return self._body.run() if self._body is not None else None

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make calls of *text*, if the one who read it can."""
        return self._body.mend(text, ended=ended) if isinstance(self._body, Mendable) else []

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now."""
        return self._body.open_text() if isinstance(self._body, Mendable) else None

    def _choose(self, scanner: Scanner) -> Body | None:
        if _UNDECIDED.fullmatch(scanner.text, scanner.at):
            return None
        is_json = _JSON.match(scanner.text, scanner.at)
        self._body = JSONCallReader(self.end) if is_json else PythonCallReader(self.end)
        return self._body
