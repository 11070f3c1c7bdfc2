"""What `auto` has found out about one answer so far."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from penstock.formats.base import Format
from penstock.formats.json_leading import LeadingJSON
from penstock.parsing import Syntax
from penstock.parsing.bodies.auto_calls import Shown
from penstock.parsing.bodies.auto_fences import ListedCalls
from penstock.parsing.bodies.bare_fences import Fences, begins_item
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner
from penstock.tools import Tool

TILDES: Final = "~~~"
"""What else a fence may be made of."""

_GRANITE: Final = LeadingJSON(("<|tool_call|>",))  # a token says enough, wherever it stands
_BRACKETS: Final = ("{", "[")
_TICKS: Final = re.compile("`+")
_TICKS_OR_BLANK_LINE: Final = re.compile(r"`+|\n[ \t\r]*+\n")
_QUOTATION: Final = re.compile(r"[ \t]{0,3}>[ \t]")


class Answer:
    """The syntaxes that one answer is read with, and what they have in common."""

    def __init__(self, formats: Mapping[str, Format], tools: Sequence[Tool]) -> None:
        self.format: Format | None = None  # of the first call
        self.in_tildes = False  # a fence of tildes is open
        self.reads_code = False  # calls in code are calls
        self.has_protected = False  # a marker was text because it was in code
        self.family = ""  # the format whose header opened the last channel
        self._formats = formats
        self._tools = tools
        self._code = ""  # the backticks that opened the code which markers stand in
        self._code_seen: Shown = (None, 0)  # what was shown up to the last of these
        bare = ListedCalls()
        self.fences: Fences = bare.fences
        self._syntaxes: dict[str, Syntax] = {"bare_json": bare, "granite": _GRANITE}

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
        return _QUOTATION.match(line) is not None or _find_open_ticks(line) != ""

    def note_tildes(self, line: str) -> None:
        """Take three tildes behind *line*: where they begin it they open a fence, or close one."""
        is_first = not line.strip() or (not self.in_tildes and begins_item(line))
        if is_first and not self.fences.ticks:
            self.in_tildes = not self.in_tildes

    def is_in_code(self, marker: str, line: str, gap: str, shown: Shown) -> bool:
        """Tell whether *marker* behind *line* stands in code, be it code of more than one line.

        The *gap* is the end of what stands before it; what stands before that was *shown*.
        A backtick alone says little of the lines that follow it. But where a marker stands behind
        it, code goes on with the next line, up to as many backticks or a blank line. A bracket is
        too little: how the text was cut may say whether it is looked at.
        """
        if self.reads_code:
            return False
        goes_on = self._goes_on_in_code(gap, shown)
        if not goes_on:
            self._code = "" if marker in _BRACKETS else _find_open_ticks(line)
        self._code_seen = shown
        is_code = goes_on or self.is_quoted(line)
        self.has_protected = self.has_protected or (is_code and marker not in _BRACKETS)
        return is_code

    def _goes_on_in_code(self, gap: str, shown: Shown) -> bool:
        """Tell whether the code of the last marker is open behind what came since."""
        (pieces, size), (before, seen) = shown, self._code_seen
        if not self._code or pieces is None or pieces is not before:
            return False
        ends = _TICKS_OR_BLANK_LINE.findall("".join(pieces[seen:size]) + gap)
        return not any(end == self._code or end.startswith("\n") for end in ends)


def _find_open_ticks(line: str) -> str:
    """Give the backticks that open code which *line* ends in: as many end it as begin it."""
    begun = ""
    for ticks in _TICKS.findall(line):
        begun = ticks if not begun else "" if ticks == begun else begun
    return begun


def gap_before(marker: str, scanner: Scanner) -> str:
    """Give the white space that `trim` took along with *marker*, which was just passed."""
    before = scanner.read_since_call()
    return before[: len(before) - len(marker)]


def line_before(gap: str, calls: Calls) -> str:
    """Give what stands before a marker on its line, with the *gap* that is not shown yet."""
    _, newline, rest = gap.rpartition("\n")
    return rest if newline else calls.line() + rest
