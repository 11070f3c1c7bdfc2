"""A call in a region of a `response_template` that no other reader can read while it arrives.

The region is read when its closer has come, as the template says: its calls come out whole. A
closer inside a JSON string is data.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from penstock.parsing.body import BodyReader, Verdict
from penstock.parsing.call_sink import CallSink, NoCallError
from penstock.parsing.scanner import Scanner

MAX_OPENER: Final = 1_024
"""How many characters the opener of a region may have: it has the name of a tool in it."""

_STRINGS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)

ReadCalls = Callable[[str, dict[str, str | None]], list[dict[str, Any]]]
"""Reads the calls of a body; the groups are those of its opener. Raises `ValueError`."""


class TemplateRegionReader(BodyReader):
    """Reads a region from *opener* to *closer*; its body goes to *read_calls*.

    *marker* is the beginning of the opener, which was consumed. With *json*, the body is JSON.
    """

    def __init__(
        self,
        marker: str,
        opener: re.Pattern[str],
        closer: re.Pattern[str] | None,
        read_calls: ReadCalls,
        *,
        json: bool,
    ) -> None:
        self._marker = marker
        self._opener = opener
        self._closer = closer
        self._read_calls = read_calls
        self._json = json
        self._groups: dict[str, str | None] = {}
        self._begin = -1  # Where the body begins, counted from the reader's position.
        self._searched = 0  # Up to where there is no closer.

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text; its calls are written at the closing marker."""
        return self._read(scanner, calls, is_final=False)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read a region that the end of the response closes: JSON is complete if it can be read."""
        return self._read(scanner, calls, is_final=True)

    def _read(self, scanner: Scanner, calls: CallSink, *, is_final: bool) -> Verdict:
        if self._begin < 0 and not self._open(scanner, is_final=is_final):
            too_long = len(scanner.unread) > MAX_OPENER
            return Verdict.NOT_A_CALL if is_final or too_long else Verdict.MORE
        text, start = scanner.text, scanner.at + self._begin
        at = scanner.at + max(self._searched, self._begin)
        while self._closer is not None:
            found = self._closer.search(text, at)
            if found is None or found.end() == found.start():
                break
            if found.end() == len(text) and not is_final:
                return Verdict.MORE  # A pattern may match more of what comes.
            if not self._json or not _is_in_string(text[start : found.start()]):
                return self._end(scanner, calls, text[start : found.start()], found.end())
            at = found.end()
        if not is_final:
            self._searched = max(self._begin, len(text) - scanner.at - MAX_OPENER)
            return Verdict.MORE
        if self._closer is not None and not self._json:
            self.error = "the end marker of the call is missing"
            return Verdict.BROKEN
        return self._end(scanner, calls, text[start:], len(text))

    def _open(self, scanner: Scanner, *, is_final: bool) -> bool:
        text = self._marker + scanner.text[scanner.at : scanner.at + MAX_OPENER]
        found = self._opener.match(text)
        if found is None or (found.end() == len(text) and not is_final):
            return False
        self._groups = found.groupdict()
        self._begin = max(0, found.end() - len(self._marker))
        return True

    def _end(self, scanner: Scanner, calls: CallSink, body: str, end: int) -> Verdict:
        try:
            found = self._read_calls(body, self._groups)
        except ValueError as exc:
            self.error = str(exc)
            return Verdict.BROKEN
        scanner.advance_to(end)
        for call in found:
            calls.write(call["name"], call["arguments"])
        if not found:
            raise NoCallError("a region without calls")
        return Verdict.DONE


def _is_in_string(text: str) -> bool:
    """Return whether JSON *text* ends inside a string."""
    return '"' in _STRINGS.sub("", text)
