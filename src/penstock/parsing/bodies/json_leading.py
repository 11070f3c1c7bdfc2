"""Calls in JSON that no marker opens: an answer begins with them, or a fence of code does.

They are calls only if the first of them names a known tool; then the others of the same list, or
row, are calls whatever their names. Until the first name has come nothing can be shown, so it has
to come soon: an answer that is other JSON streams on.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.parsing.bodies.base import Verdict
from penstock.parsing.bodies.envelope import CALL, Envelope, NotMeantError, Shape
from penstock.parsing.bodies.json_signatures import Signature
from penstock.parsing.bodies.json_signed import SignedJSONReader
from penstock.parsing.bodies.json_unclosed import NEXT, find_next, find_surplus_end
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.scanner import Scanner
from penstock.values.incremental import Change

MAX_UNNAMED: Final = 1024
"""Within how many characters the first call has to name its tool, or begin its arguments."""

_BLANK: Final = re.compile(r"[ \t\r\n]{0,256}")
_ANY: Final = Signature(())


class KnownEnvelope(Envelope):
    """An envelope whose name has to be that of a known tool; raises `NotMeantError` otherwise."""

    has_arguments = False

    def _take_name(self, name: str) -> None:
        if name not in self._calls.schemas:
            raise NotMeantError(f"no tool is called {name!r}")
        super()._take_name(name)

    def _follow_all(self, change: Change) -> None:
        self.has_arguments = True
        super()._follow_all(change)


class WrappedEnvelope(KnownEnvelope):
    """An envelope that sees nothing but what stands in a wrapper of its shape."""

    def follow(self, change: Change) -> None:
        """Take a change at or below the object; raise `NoCallError` where it can be no call."""
        path = change.path[self._base :]
        if not path or path[0] in self._shape.wrappers:
            super().follow(change)


class LeadingJSONReader(SignedJSONReader):
    """Reads the calls of *shape* that *bracket* begins, where nothing was said before.

    Where the shape has wrappers, an object is a call only in one of them.
    """

    def __init__(self, bracket: str, shape: Shape = CALL) -> None:
        super().__init__(bracket, shape, _ANY)
        self._is_marked = False  # a marker opened the calls: any name will do
        self._is_sure = False  # the first call has named its tool, or begun its arguments
        self._lead = 0  # how much text stands between the start marker and the value

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        verdict = super().read(scanner, calls)
        waits = verdict is Verdict.MORE and self._has_begun and not self._is_sure
        return Verdict.PROSE if waits and self._is_late(scanner, len(scanner.text)) else verdict

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: the piece of a cut marker is no content."""
        verdict = super().finish(scanner, calls)
        if verdict is Verdict.DONE and self.end.startswith(scanner.unread.lstrip()):
            scanner.at = len(scanner.text)
        if verdict is Verdict.PROSE and self._has_begun and self._is_marked:
            self.error = "the call was cut"
            return Verdict.TEXT
        return verdict

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make calls of *text*, without what led to its value."""
        return super().mend(text if self._closed else text[self._lead :], ended=ended)

    def _new_envelope(self, calls: Calls) -> Envelope:
        if self._base == 0 and self._shape.wrappers:
            return WrappedEnvelope(calls, self._base, self._shape)
        is_first = not self._closed and not self._is_marked
        return (KnownEnvelope if is_first else Envelope)(calls, self._base, self._shape)

    # --- before the value ---

    def _judge(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        del scanner
        return None if calls.is_first else Verdict.PROSE

    def _enter(self, scanner: Scanner, at: int) -> Verdict | None:
        """Enter the value that begins at *at*, behind white space."""
        at = _find_blank_end(scanner.text, at)
        if at == len(scanner.text):
            return Verdict.MORE
        if scanner.text[at] not in "{[":
            self.error = "no JSON behind the marker"
            return Verdict.BROKEN if self._is_marked else Verdict.PROSE
        self._bracket = scanner.text[at]
        self._lead = at + 1 - scanner.at
        scanner.at = at + 1
        return None

    # --- inside the value ---

    def _follow(self, changes: list[Change], begin: int, scanner: Scanner, calls: Calls) -> None:
        super()._follow(changes, begin, scanner, calls)
        envelope = self._envelope
        if self._is_sure or envelope is None:
            return
        if not isinstance(envelope, KnownEnvelope):
            self._is_sure = True
        elif envelope.name or envelope.has_arguments:
            self._is_sure = True
            if self._is_late(scanner, scanner.at):
                raise NotMeantError("a name that comes late")

    def _read_on(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        verdict = super()._read_on(scanner, calls)
        is_broken = verdict is Verdict.PROSE or self._balance is not None
        return Verdict.BROKEN if is_broken and self._is_marked else verdict

    def _is_late(self, scanner: Scanner, at: int) -> bool:
        return scanner.offset + at - self._start > MAX_UNNAMED

    # --- behind the value ---

    def _read_behind(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Look for the end marker or another value; None tells that one begins."""
        text = scanner.text
        scanner.at = find_surplus_end(text, scanner.at)
        verdict = self._read_end(scanner) if self.end else None
        if verdict is not None:
            return verdict
        at = find_next(text, scanner.at)
        if at == len(text):
            return Verdict.MORE
        if text[at] != NEXT:
            return Verdict.STANDS
        self._bracket = NEXT
        scanner.at = at + 1
        self._begin(scanner, calls)
        return None

    def _read_end(self, scanner: Scanner) -> Verdict | None:
        text, at = scanner.text, _find_blank_end(scanner.text, scanner.at)
        if text.startswith(self.end, at):
            scanner.at = at + len(self.end)
            return Verdict.DONE
        return Verdict.MORE if self.end.startswith(text[at : at + len(self.end)]) else None


class LabelledJSONReader(LeadingJSONReader):
    """Reads JSON behind a *marker* that is one only with the *label* behind it, up to *end*.

    Any tool may be called so, unless only *known* ones may. A marker that is a bracket may also
    begin the answer, as ever. Markers are read in two parts where one begins with another: only
    the text that follows tells which it is.
    """

    def __init__(self, marker: str, label: str, end: str = "", *, known: bool = False) -> None:
        super().__init__(marker)
        self.end = end
        self._label = label
        self._known = known

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make calls of *text*, without the end marker."""
        bare = text.rstrip()
        if self.end and bare.endswith(self.end):
            text = bare.removesuffix(self.end)
        return super().mend(text, ended=ended)

    def _judge(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        begin = _find_blank_end(scanner.text, scanner.at)
        end = begin + len(self._label)
        begun = scanner.text[begin:end]
        if not self._label.startswith(begun):
            return super()._judge(scanner, calls) if self._bracket in "{[" else Verdict.PROSE
        if begun != self._label:
            return Verdict.MORE
        self._is_marked = not self._known
        return self._enter(scanner, end)


def _find_blank_end(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at
