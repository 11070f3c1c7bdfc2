"""A call that broke, up to its end: then it can be mended.

What a reader refuses has an end all the same: its end marker, or the next start marker. The text up
to there becomes a call after all, if that may be: the tool is known, the arguments satisfy its
schema, and nothing that went out already is taken back.
"""

from __future__ import annotations

from penstock.errors import ParseError
from penstock.parsing.bodies.base import Mendable, Run, Verdict
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner, markers


class Mending:
    """Stands for *body*, which broke, until its segment has ended.

    *opener* is the text that opened it; any of *starts* opens the next one.
    """

    def __init__(
        self, body: Mendable, opener: str, starts: tuple[str, ...], *, folds: bool = False
    ) -> None:
        self.error: str | ParseError = body.error
        self.end = body.end
        self.body = body
        self._opener = opener
        self._markers = markers(*filter(None, [body.end]), *starts, fold=folds)

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Pass the text up to the end of the segment; then mend it."""
        found = self._markers.find(scanner.text, scanner.at)
        if found is None:
            scanner.at = self._markers.find_held(scanner.text, scanner.at)
            return Verdict.MORE
        scanner.at = found.start()
        inside = scanner.read_since_call().removeprefix(self._opener)
        if found[0].lower() == self.end.lower():
            scanner.at = found.end()
        return Verdict.DONE if mend(self.body, inside, calls, ended=False) else Verdict.BROKEN

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: nothing but the end of the answer ends the segment."""
        del calls
        scanner.at = len(scanner.text)
        return Verdict.BROKEN

    def run(self) -> Run | None:
        """Give nothing: no string streams."""
        return None


def mend(body: Mendable, inside: str, calls: Calls, *, ended: bool) -> bool:
    """Put out the calls that *body* can make of its text *inside*; tell whether it could.

    *ended* tells that the model stopped where the body was still lawful.
    """
    mended = body.mend(inside, ended=ended)
    if not mended:
        return False
    open_text = body.open_text() if calls.started else None
    if not calls.may_mend(mended[0], open_text):
        return False
    calls.mend(mended[0], open_text)
    for call in () if calls.was_quoted else mended[1:]:  # All of them have the same text.
        if calls.may_mend(call, None):
            calls.mend(call, None)
    return True
