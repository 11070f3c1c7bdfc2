"""What `auto` has found out about one answer so far."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from penstock.formats.base import Format
from penstock.parsing import Syntax
from penstock.parsing.bodies.bare_calls import BareCalls
from penstock.parsing.bodies.bare_fences import Fences
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner
from penstock.tools import Tool

TILDES: Final = "~~~"
"""What else a fence may be made of."""

_TICKS: Final = re.compile("`+")
_QUOTATION: Final = re.compile(r"[ \t]{0,3}>[ \t]")


class Answer:
    """The syntaxes that one answer is read with, and what they have in common."""

    def __init__(self, formats: Mapping[str, Format], tools: Sequence[Tool]) -> None:
        self.format: Format | None = None  # of the first call
        self.in_tildes = False  # a fence of tildes is open
        self.family = ""  # the format whose header opened the last channel
        self._formats = formats
        self._tools = tools
        bare = BareCalls()
        self.fences: Fences = bare.fences
        self._syntaxes: dict[str, Syntax] = {"bare_json": bare}

    def syntax_of(self, name: str) -> Syntax:
        """Give the syntax of the format *name*, the same one for all of the answer."""
        found = self._syntaxes.get(name)
        if found is None:
            found = self._formats[name].calls.syntax(self._tools)
            self._syntaxes[name] = found
        return found

    def interrupts(self, name: str) -> bool:
        """Tell whether a call of the format *name* may end the thought that it stands in."""
        if self.family:
            return name == self.family
        reasoning = self._formats[name].usual_reasoning
        return reasoning is None or reasoning.interrupted

    def note_call(self, name: str) -> None:
        """Note that a call of the format *name* is complete."""
        if self.format is None:
            self.format = self._formats[name]

    def is_quoted(self, line: str) -> bool:
        """Tell whether what follows *line* stands in code: in a fence, or behind a backtick."""
        if self.fences.ticks or self.in_tildes:
            return True
        return _QUOTATION.match(line) is not None or ("`" in line and _ends_in_code(line))

    def note_tildes(self, line: str) -> None:
        """Take three tildes behind *line*: where they begin it they open a fence, or close one."""
        if not line.strip() and not self.fences.ticks:
            self.in_tildes = not self.in_tildes


def _ends_in_code(line: str) -> bool:
    """Tell whether *line* ends inside code: as many backticks end it as have begun it."""
    begun = ""
    for ticks in _TICKS.findall(line):
        begun = ticks if not begun else "" if ticks == begun else begun
    return bool(begun)


def line_before(marker: str, scanner: Scanner, calls: Calls) -> str:
    """Give what stands before *marker*, which was just passed, on its line."""
    before = scanner.read_since_call()
    before = before[: len(before) - len(marker)]  # what `trim` took along
    _, newline, rest = before.rpartition("\n")
    return rest if newline else calls.line() + rest
