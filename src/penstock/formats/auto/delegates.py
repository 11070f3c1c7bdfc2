"""A reader that leaves the reading to that of one format, once it is known which.

Whoever reads, a call of a tool that nobody has is text: its reader goes on to its end, and nothing
more comes of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from penstock.errors import ParseError
from penstock.formats.auto.answer import Answer
from penstock.parsing import Body, Calls, Channel, Run, Scanner, Verdict
from penstock.parsing.bodies.auto_calls import KnownCalls
from penstock.parsing.bodies.bare_fences import FENCE
from penstock.parsing.bodies.base import Mendable
from penstock.parsing.calls import Mended

REFUSALS: Final = (Verdict.BROKEN, Verdict.TEXT, Verdict.PROSE)
"""What a reader says that has no call, or none any more."""


class Delegate(ABC):
    """Reads as the reader of a format does; subclasses choose it in `_choose`."""

    def __init__(self, answer: Answer) -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self._answer = answer
        self._format = ""  # whose reader it is
        self._body: Body | None = None
        self._completed = 0  # how many calls there were before
        self._behind = 0  # where in the answer the marker ends
        self._is_mute = False  # the call that is open is text

    @property
    def enters(self) -> Channel | None:
        """The channel that begins where the body is done."""
        return getattr(self._body, "enters", None)

    @property
    def starts(self) -> tuple[str, ...]:
        """The markers that may end a call which broke: those of its own format."""
        return self._answer.syntax_of(self._format).starts if self._format else ()

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Find out who reads; then let it."""
        assert isinstance(calls, KnownCalls)  # noqa: S101 - `auto` asks for it
        if self._body is None:
            self._completed = calls.completed
            verdict = self._choose(scanner, calls)
            if verdict is not None:
                return verdict
        assert self._body is not None  # noqa: S101 - it was chosen
        return self._settle(self._body, self._body.read(scanner, calls), scanner, calls)

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: what has not told what it is by now is prose."""
        assert isinstance(calls, KnownCalls)  # noqa: S101 - `auto` asks for it
        if self._body is None:
            return Verdict.PROSE
        verdict = self._body.finish(scanner, calls)
        if calls.is_mute and verdict in REFUSALS:
            scanner.at = len(scanner.text)  # All of it is text, and no call in it was meant.
            verdict = Verdict.TEXT
        return self._settle(self._body, verdict, scanner, calls)

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        return None if self._body is None or self._is_mute else self._body.run()

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make calls of *text*, if the one who read it can."""
        return self._body.mend(text, ended=ended) if isinstance(self._body, Mendable) else []

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now."""
        return self._body.open_text() if isinstance(self._body, Mendable) else None

    @abstractmethod
    def _choose(self, scanner: Scanner, calls: KnownCalls) -> Verdict | None:
        """Find out who reads, and let `_body` be that; None tells that it is known."""

    def _settle(self, body: Body, verdict: Verdict, scanner: Scanner, calls: KnownCalls) -> Verdict:
        """Take in what the format's reader says; give what is to be said of it."""
        self.error = body.error
        # An end that begins as a fence does could not be told from one.
        self.end = "" if body.end.startswith(FENCE) else body.end
        self._is_mute = calls.is_mute
        if calls.completed > self._completed and self._format:
            self._answer.note_call(self._format)
        if verdict is Verdict.MORE:
            return verdict
        if verdict is Verdict.DONE and self.enters is not None:
            self._answer.family = self._format
        if verdict in REFUSALS:  # The format's own marker may have been shorter.
            scanner.at = max(scanner.at, self._behind - scanner.offset)
        return self._hush(scanner, calls, verdict) if calls.is_mute else verdict

    def _hush(self, scanner: Scanner, calls: KnownCalls, verdict: Verdict) -> Verdict:
        """Show what is left of a mute call; where it broke, what follows is looked at again."""
        if verdict is Verdict.BROKEN:
            scanner.give_back()
            scanner.begin_call()
        calls.end_mute()
        return Verdict.PROSE
