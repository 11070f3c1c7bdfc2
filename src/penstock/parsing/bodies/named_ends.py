"""End markers that come late, behind text that stands between them and their call.

Arguments end by themselves, so text may follow them before the end markers of the call and of its
section do. The markers still belong to the call and are no content. Those of a section that gave no
call are. Which of them are owed is what the readers of one answer have to tell each other.
"""

from __future__ import annotations

from penstock.errors import ParseError
from penstock.parsing.bodies.base import Verdict
from penstock.parsing.bodies.named_heads import Dialect
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner


class OwedEnds:
    """The end markers that belong to calls which have come out, and have not come themselves."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._call = False
        self._section = False

    def begin_section(self) -> None:
        """Note that a section has begun: nothing is owed to those before it."""
        self._call = self._section = False

    def begin_call(self) -> None:
        """Note that a call has begun: an end marker from here on is its own."""
        self._call = False

    def end_call(self, *, has_end: bool) -> None:
        """Note that a call has come out; *has_end* tells that its own end marker has come."""
        self._call = not has_end
        self._section = True

    def take(self, marker: str) -> bool:
        """Tell whether *marker* is owed, which is then no more."""
        if marker == self._dialect.call_end:
            is_owed, self._call = self._call, False
        else:
            is_owed = self._section
            self.begin_section()
        return is_owed


class EndReader:
    """Stands for an end *marker* outside of calls: dropped where it is owed, text elsewhere."""

    def __init__(self, marker: str, owed: OwedEnds) -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self._marker = marker
        self._owed = owed

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say at once whether the marker belongs to a call."""
        del scanner, calls
        return Verdict.DONE if self._owed.take(self._marker) else Verdict.PROSE

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say the same."""
        return self.read(scanner, calls)

    def run(self) -> None:
        """Give nothing: no string streams."""
