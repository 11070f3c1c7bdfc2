"""Where the code and the quotations of a response are: calls in them are shown, not made.

A fence is a line of three backticks or tildes, or more, with an info string or none; as many alone
on a line close it. It may be indented, or begin an item of a list. Inline code begins with
backticks and ends with as many. A block quote is a line that begins with ``> ``. All of this is as
CommonMark has it, but for one thing: inside a fence, a line of as many backticks with a label opens
another one. CommonMark ends both at the next line that closes, and takes the one after for a new
fence; models nest fences and mean it.

Text is followed only where a marker of a call was found, and then from where the last one was, so
text without such markers costs nothing. What is decided depends on the text before the marker
alone: a fence that is never closed protects all that follows, since while the text comes it cannot
be known that it will not be. Of inline code only the marker's own line is looked at, since many
texts have a backtick too many. Where a marker was in inline code or in a block quote, so is what
follows, up to the closing backticks or a blank line: a call has more markers than one.
"""

from __future__ import annotations

import re
from typing import Final, Literal

FencedCalls = Literal["text", "calls"]
"""What a call is that is in a code fence, in inline code or in a block quote."""

CALL_IN_CODE: Final = (
    'in a code fence, inline code or a block quote: text, not a call (see "fenced")'
)
"""What is said of a call that is text for where it is."""

FENCE: Final = "```"

MAX_HEAD: Final = 128
"""How much of the beginning of a line is kept: indentation, marks of lists, a fence, its label."""

_FENCE_LINE: Final = re.compile(
    r"^(?P<before>[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*)(?P<run>`{3,}|~{3,})(?P<rest>[^\n]*+)",
    re.MULTILINE,
)
_LABEL: Final = re.compile(r"[A-Za-z0-9_+.#-]{1,32}")
_QUOTE: Final = re.compile(r"[ \t]{0,3}(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*>[ \t]")
_TICKS: Final = re.compile(r"`+")
_TICKS_OR_BLANK_LINE: Final = re.compile(r"`+|\n[ \t\r]*+\n")


class CodeSpans:
    """Follows the code of one answer, as far as it is asked."""

    __slots__ = ("_depth", "_fence", "_head", "_pieces", "_place", "_runs", "_seen", "_ticks",
                 "_until", "has_protected")  # fmt: skip

    def __init__(self) -> None:
        self.has_protected = False  # a marker was found in code
        self._pieces: list[str] | None = None  # of the block that is followed
        self._seen = 0  # how many of them
        self._place: object = None  # the channel that they are in
        self._fence = ""  # what opened the fence that is open
        self._depth = 0  # how many of the same kind are open inside of it
        self._head = ""  # the beginning of the line
        self._ticks = ""  # the backticks that opened inline code on the line
        self._runs = 0  # how many runs of backticks the line has
        self._until = ""  # what ends the code or the quotation that the last marker was in

    def note(self, pieces: list[str] | None, place: object) -> None:
        """Follow the text of the open block, whose channel is *place*; another one begins again."""
        if place is not self._place:
            self._place = place
            self._fence = self._until = ""
        if pieces is not self._pieces:
            self._pieces, self._seen = pieces, 0
            self._begin_line()
        if pieces is not None:
            if self._seen < len(pieces):
                self._follow("".join(pieces[self._seen :]))
            self._seen = len(pieces)

    def protects(self, marker: str, gap: str, *, only_fences: bool = False) -> bool:
        """Return whether *marker* is in code; *gap* is white space before it that is not shown yet.

        A marker that is a fence itself is one unless it is in a fence of another kind.
        """
        is_code = self._is_code(marker, gap, only_fences=only_fences)
        self.has_protected = self.has_protected or is_code
        return is_code

    def _is_code(self, marker: str, gap: str, *, only_fences: bool) -> bool:
        if marker.startswith(FENCE):
            return self._fence[:1] == "~" or len(self._fence) > len(FENCE)
        saved = (self._fence, self._depth, self._head, self._ticks, self._runs, self._until)
        if gap:
            self._follow(gap)
        fence, head, ticks, until = self._fence, self._head, self._ticks, self._until
        self._fence, self._depth, self._head, self._ticks, self._runs, self._until = saved
        if fence or only_fences:
            return fence != ""
        if not until and (ticks or _QUOTE.match(head)):
            until = self._until = ticks or ">"
        return until != ""

    # --- lines ---

    def _follow(self, text: str) -> None:
        if self._until:
            self._look_for_end(text)
        first, newline, rest = text.partition("\n")
        self._continue_line(first)
        if not newline:
            return
        self._end_line()
        lines, newline, last = rest.rpartition("\n")
        if newline and (FENCE in lines or "~~~" in lines):
            for found in _FENCE_LINE.finditer(lines):
                self._take_fence(found)
        self._begin_line()
        self._continue_line(last if newline else rest)

    def _begin_line(self) -> None:
        self._head = self._ticks = ""
        self._runs = 0

    def _continue_line(self, text: str) -> None:
        if len(self._head) < MAX_HEAD:
            self._head = (self._head + text)[:MAX_HEAD]
        if self._fence or "`" not in text:
            return
        for run in _TICKS.findall(text):
            self._runs += 1
            if not self._ticks:
                self._ticks = run
            elif self._ticks == run:
                self._ticks = ""

    def _end_line(self) -> None:
        found = _FENCE_LINE.match(self._head)
        if found is not None:
            self._take_fence(found, runs=self._runs)

    def _take_fence(self, found: re.Match[str], *, runs: int = 0) -> None:
        """Take a line that begins as a fence does: it opens one, or closes the one that is open."""
        before, run, rest = found.group("before", "run", "rest")
        if not self._fence:
            # Backticks in the label say that it is inline code.
            if run[0] == "~" or ("`" not in rest and runs <= 1):
                self._fence, self._depth = run, 0
        elif run.startswith(self._fence) and not before.strip():
            # Some formats end a call after its fence, on the same line.
            rest = rest.strip()
            if rest and rest[0] != "<":
                self._depth += run == self._fence and _LABEL.fullmatch(rest) is not None
            elif self._depth:
                self._depth -= 1
            else:
                self._fence = ""

    def _look_for_end(self, text: str) -> None:
        """Look for what ends the code or the quotation that the last marker was in."""
        ends = _TICKS_OR_BLANK_LINE.findall(text)
        if any(end == self._until or end[0] == "\n" for end in ends):
            self._until = ""
