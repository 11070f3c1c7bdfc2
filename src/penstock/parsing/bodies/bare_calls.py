"""Bare JSON that is a call: at the start of a line, or where a code fence begins.

A bracket is looked at only there, and only if a key of a call comes first; `BareEnvelope` says
whether it is a call. Objects one after the other, with white space or a comma between them, are
several calls; closing brackets that close nothing are dropped. The first object of a list says
whether it is one of calls: in such a list what is no call is dropped, and told of, and the calls
behind it still come. The lines of a fence that begins with a call are no text.

The syntax knows the fences of its answer: there is one for each answer.
"""

from __future__ import annotations

from typing import Final

from penstock.parsing.bodies.bare_envelope import BARE, BareEnvelope, check_call
from penstock.parsing.bodies.bare_fences import (
    FENCE,
    MAX_LABEL,
    Fences,
    find_blank_end,
    find_line_end,
    find_ticks_end,
    judge_opening,
)
from penstock.parsing.bodies.base import Verdict
from penstock.parsing.bodies.json_signatures import NO_CALL, Signature
from penstock.parsing.bodies.json_signed import SignedJSONReader
from penstock.parsing.bodies.json_unclosed import find_surplus_end
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.scanner import Scanner

ENVELOPE_KEYS: Final = (
    "name", "tool", "function", "tool_name", "tool_calls", "arguments", "parameters", "id"
)  # fmt: skip
"""What the first key of a bare call may be; `type` may be too, with the value `function`."""


def _beginnings() -> list[str]:
    found = []
    for opening in ('{"', "{'", '[{"', "[{'"):
        quote = opening[-1]
        found += [f"{opening}{key}{quote}:" for key in ENVELOPE_KEYS]
        found.append(f"{opening}type{quote}:{quote}function{quote}")
    return found


SIGNATURE: Final = Signature(_beginnings())
"""How bare JSON begins that may be a call."""


class BareCalls:
    """The syntax of bare calls, for one answer."""

    starts: tuple[str, ...] = ("{", "[", FENCE)
    folds = False
    unless = NO_CALL

    def __init__(self) -> None:
        self.fences = Fences()

    def body(self, marker: str) -> BareCallReader:
        """Give a fresh reader for what follows *marker*."""
        return BareCallReader(marker, self.fences)


class BareCallReader(SignedJSONReader):
    """Reads what a bracket or a fence begins: bare calls, or nothing."""

    def __init__(self, marker: str, fences: Fences) -> None:
        super().__init__(marker, BARE, SIGNATURE)
        self._marker = marker
        self._fences = fences
        self._begins_line: bool | None = None
        self._ticks = 0  # of the fence around the calls
        self._is_inline = False  # the calls begin on the line of their fence
        self._check = check_call

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        return self._leave(super().read(scanner, calls), calls)

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: the line that closes a fence may lack its end."""
        is_last_line = not scanner.unread.strip(" \t\r\n`")
        if not self._has_begun and self._marker == FENCE:
            is_closing = self._fences.is_hidden and self._fences.ticks and is_last_line
            scanner.at = len(scanner.text) if is_closing else scanner.at
            return Verdict.DONE if is_closing else Verdict.PROSE
        verdict = super().finish(scanner, calls)
        if verdict is Verdict.DONE and self._ticks and is_last_line:
            scanner.at = len(scanner.text)
        return self._leave(verdict, calls)

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make calls of *text*, without the lines of its fence."""
        if not self._has_begun:
            return []
        if self._ticks and not self._closed:
            text = text[text.index(self._bracket) + 1 :].rstrip().rstrip("`")
        return super().mend(text, ended=ended)

    def _leave(self, verdict: Verdict, calls: Calls) -> Verdict:
        """Note what became of the fence around the calls, which may go on behind them."""
        if verdict is not Verdict.MORE and self._ticks:
            self._fences.is_hidden = self._closed > 0 or calls.started
        return verdict

    def _new_envelope(self, calls: Calls) -> BareEnvelope:
        return BareEnvelope(calls, self._base, skips=self._closed > self._closed_before)

    # --- before the value ---

    def _judge(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        if self._marker == FENCE:
            return self._judge_fence(scanner, calls)
        verdict = Verdict.PROSE if self._fences.ticks else super()._judge(scanner, calls)
        if verdict is Verdict.PROSE or not self._stands_first(scanner, calls):
            return Verdict.PROSE
        return verdict

    def _stands_first(self, scanner: Scanner, calls: Calls) -> bool:
        """Tell whether nothing but blanks stands before the marker on its line."""
        if self._begins_line is None:
            before = scanner.read_since_call()[: -len(self._marker)]  # what `trim` took along
            is_first = calls.is_first or "\n" in before
            self._begins_line = is_first or not calls.line().strip()
        return self._begins_line

    def _judge_fence(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        text = scanner.text
        at = find_ticks_end(text, scanner.at)
        if not self._stands_first(scanner, calls) or at - scanner.at >= MAX_LABEL:
            return Verdict.PROSE
        if at == len(text):
            return Verdict.MORE
        ticks = len(FENCE) + at - scanner.at
        if self._fences.ticks:
            return self._judge_closing(ticks, at, scanner)
        return self._judge_opening(ticks, at, scanner)

    def _judge_closing(self, ticks: int, at: int, scanner: Scanner) -> Verdict:
        """Look at a line inside a fence: backticks alone close it."""
        end = find_line_end(scanner.text, at)
        if end == len(scanner.text):
            return Verdict.MORE
        if ticks < self._fences.ticks or scanner.text[end] != "\n":
            return Verdict.PROSE
        self._fences.close()
        if not self._fences.is_hidden:
            return Verdict.PROSE
        scanner.at = end + 1
        return Verdict.DONE

    def _judge_opening(self, ticks: int, at: int, scanner: Scanner) -> Verdict | None:
        """Look at a line outside of fences: it may open one, and a call may begin that."""
        text = scanner.text
        opening = judge_opening(text, at)
        if opening is None:
            return Verdict.MORE
        is_signed: bool | None = False
        if opening.bracket >= 0:
            is_signed = SIGNATURE.judge(text[opening.bracket], text, opening.bracket + 1)
        if is_signed is None:
            return Verdict.MORE
        if opening.is_fence:
            self._fences.open(ticks)
        if not is_signed:
            return Verdict.PROSE
        self._bracket = text[opening.bracket]
        self._ticks, self._is_inline = ticks, opening.is_inline
        scanner.at = opening.bracket + 1
        return None

    # --- behind the value ---

    def _read_behind(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Look for another value, or for the line that closes the fence."""
        text = scanner.text
        scanner.at = find_surplus_end(text, scanner.at)
        at = find_blank_end(text, scanner.at)
        if self._ticks and text.startswith("`", at):
            return self._read_closing(at, scanner)
        if text[at : at + 1] in (",", ";"):
            at = find_blank_end(text, at + 1)
        if at == len(text):
            return Verdict.MORE
        if text[at] not in "{[":
            return Verdict.DONE
        is_signed = SIGNATURE.judge(text[at], text, at + 1)
        if is_signed is None:
            return Verdict.MORE
        if not is_signed:
            return Verdict.DONE
        self._bracket = text[at]
        scanner.at = at + 1
        self._begin(scanner, calls)
        return None

    def _read_closing(self, begin: int, scanner: Scanner) -> Verdict:
        """Look whether the backticks at *begin* close the fence around the calls."""
        text = scanner.text
        at = find_ticks_end(text, begin)
        end = at if self._is_inline else find_line_end(text, at)
        if end == len(text):
            return Verdict.MORE
        is_line = self._is_inline or text[end] == "\n"
        if is_line and at - begin >= self._ticks:
            scanner.at = end if self._is_inline else end + 1
            self._fences.close()
        return Verdict.DONE
