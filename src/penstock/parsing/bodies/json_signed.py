"""Calls in JSON that no marker opened: a bracket did, and what follows it looks like a call.

The bracket is text, and nobody is told, as long as it is not sure that a call was meant: no
signature follows, or no known tool is named. Once it is sure the value is the call's: where it
breaks all of it is text, up to where its brackets balance, and calls behind it are still found.
"""

from __future__ import annotations

from penstock.errors import ParseError
from penstock.parsing.bodies.base import NoCallError, Verdict
from penstock.parsing.bodies.envelope import NotMeantError, Shape
from penstock.parsing.bodies.json_balance import Balance, is_quote
from penstock.parsing.bodies.json_signatures import Signature
from penstock.parsing.bodies.json_steps import BrokenArgumentsError, BrokenJSONError, Flow
from penstock.parsing.bodies.json_values import JSONValueReader
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.scanner import Scanner


class SignedJSONReader(JSONValueReader):
    """Reads the value that *bracket* begins, if it has the *signature* of a call."""

    def __init__(self, bracket: str, shape: Shape, signature: Signature) -> None:
        super().__init__("", shape)
        self._bracket = bracket
        self._signature = signature
        self._has_begun = False
        self._balance: Balance | None = None  # of a value that broke

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if not self._has_begun:
            verdict = self._judge(scanner, calls)
            if verdict is not None:
                return verdict
            self._begin(scanner, calls)
        verdict = None
        while verdict is None:
            if self._balance is not None:
                return self._skip(scanner, self._balance)
            if not self._steps.complete:
                verdict = self._read_on(scanner, calls)
            elif self._closed == self._closed_before:
                return Verdict.PROSE
            else:
                verdict = self._read_behind(scanner, calls)
        return verdict

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: calls of a list that are complete stand."""
        is_open = self._closed == self._closed_before or self._envelope is not None
        if self._has_begun and (self._steps.complete or not is_open):
            return Verdict.DONE
        scanner.at = len(scanner.text)
        if calls.writer is None and self._balance is None:
            return Verdict.PROSE
        self.error = self.error or "the call was cut"
        return Verdict.TEXT

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make calls of *text*, which holds JSON that is broken, or not whole."""
        return super().mend(text if self._closed else self._bracket + text, ended=ended)

    # --- for subclasses ---

    def _judge(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Tell what the bracket is, before anything is read; None tells that it may be a call."""
        del calls
        is_signed = self._signature.judge(self._bracket, scanner.text, scanner.at)
        if is_signed is None:
            return Verdict.MORE
        return None if is_signed else Verdict.PROSE

    def _read_behind(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Say what the end of the value means; None tells that another value begins."""
        del scanner, calls
        return Verdict.DONE

    def _begin(self, scanner: Scanner, calls: Calls) -> None:
        """Begin the value with the bracket, which the scanner has passed."""
        self._has_begun = True
        self._begin_value()
        self._start = scanner.offset + scanner.at - len(self._bracket)
        changes, _ = self._steps.step(self._bracket, 0, Flow.WAITS)
        self._follow(changes, scanner.at, scanner, calls)

    # --- inside the value ---

    def _read_on(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        if scanner.at == len(scanner.text):
            return Verdict.MORE
        awaits = self._steps.awaits
        try:
            return self._read_value(scanner, calls)
        except (ParseError, NoCallError) as exc:
            self._note_error(exc, scanner)
            if calls.writer is None or isinstance(exc, NotMeantError):
                if isinstance(exc, BrokenJSONError):  # How far a step goes depends on the cut.
                    scanner.at = max(scanner.at, exc.at)
                return Verdict.PROSE
            self._balance = self._balance_from(exc, awaits, scanner)
            return None

    def _balance_from(self, exc: Exception, awaits: str, scanner: Scanner) -> Balance:
        """Begin to look for the end of a value that broke; *awaits* is how the last step began."""
        depth = self._depth - self._base
        if not isinstance(exc, BrokenJSONError) or isinstance(exc, BrokenArgumentsError):
            return Balance(depth, self._steps.awaits)
        if not is_quote(awaits):  # What a comment hides is passed already.
            scanner.at = max(scanner.at, exc.at)
        return Balance(depth, awaits)

    def _skip(self, scanner: Scanner, balance: Balance) -> Verdict:
        """Pass what is left of a value that broke."""
        scanner.at = balance.pass_over(scanner.text, scanner.at)
        return Verdict.TEXT if balance.is_even else Verdict.MORE
