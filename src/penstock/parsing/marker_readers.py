"""Readers for markers that do not open a call: the ends of citations and of reasoning."""

from __future__ import annotations

import re
from typing import Final

from penstock.parsing.body import MAX_BLANK, BodyReader, Verdict
from penstock.parsing.call_sink import CallSink
from penstock.parsing.scanner import Scanner, skip_match

CITATION_END: Final = "</co"
"""How the end tag of a citation begins (Cohere): ``</co: 0:[1,2]>`` names the sources."""

MAX_SOURCES: Final = 256
"""How many characters the names of the sources may have."""

_REST: Final = re.compile(rf"(?::[^<>\n]{{0,{MAX_SOURCES}}})?>")
_BEGINS: Final = re.compile(rf"(?::[^<>\n]{{0,{MAX_SOURCES}}})?")


class CitationEnd(BodyReader):
    """Drops the rest of a citation's end tag after ``</co``, or finds that it is text."""

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Skip the end of the tag."""
        del calls
        if scanner.take_match(_REST) is not None:
            return Verdict.DONE
        begins = _BEGINS.fullmatch(scanner.text, scanner.at)
        return Verdict.MORE if begins else Verdict.NOT_A_CALL

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: half a tag is text."""
        del scanner, calls
        return Verdict.NOT_A_CALL


_BLANK: Final = re.compile(rf"\s{{0,{MAX_BLANK}}}")


class ReasoningEnd(BodyReader):
    """Reads what follows the end *marker* of reasoning whose beginning was not seen.

    The prompt may have opened the reasoning although `prompt_suffix` was not given. Then all of it
    is text, including the end marker; but JSON right after that marker is the first thing of the
    answer, as after any reasoning.
    """

    def __init__(self, marker: str) -> None:
        self._marker = marker

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Look at what follows; the marker is text in any case."""
        at = skip_match(_BLANK, scanner.text, scanner.at)
        if at == len(scanner.text):
            return Verdict.MORE
        if scanner.text[at] not in "[{":
            return Verdict.NOT_A_CALL
        calls.say(self._marker)
        calls.restart()
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: nothing follows the marker."""
        del scanner, calls
        return Verdict.NOT_A_CALL
