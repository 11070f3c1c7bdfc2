"""JSON that is read as it arrives, at a cost per piece that does not grow with earlier pieces.

`IncrementalJSON` replaces "parse everything again on every delta". Its contract:

* numbers, literals and keys are visible only when they are complete, a string only grows, and a
  complete value never changes (a repeated key, whose last value counts, replaces it);
* any split of the text, also inside escapes and surrogate pairs, gives the same value and, once
  neighbouring pieces of one string are joined, the same changes;
* the state is plain data: a reader can be copied at any point, and both continue independently.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from penstock.values.incremental_state import Change, JSONReading, Watch, copy_tree
from penstock.values.incremental_steps import (
    IN_LINE_COMMENT,
    RECOVERING,
    RELAXED,
    STRICT,
    line_comment,
)

__all__ = ["Change", "IncrementalJSON", "Watch"]


_FINISHED: Final = "this reader has finished: make a new one"


class IncrementalJSON:
    """A reader of one JSON value whose text comes in pieces.

    Strict by default: what Python's own reader accepts, up to the limits in `json_grammar`. With
    *lenient* it reads the relaxed grammar of `rjson.loads`. With *recover*, which is lenient too,
    it never raises on any text: errors are skipped or repaired and listed in `problems`.
    """

    def __init__(self, *, lenient: bool = False, recover: bool = False) -> None:
        self._reading = JSONReading(RECOVERING if recover else RELAXED if lenient else STRICT)

    def feed(self, delta: str) -> list[Change]:
        """Read one more piece and return what changed, in the order of the text.

        Raises `JSONParseError` if the text is malformed, with the offset in the whole text as its
        position; `value` then has what earlier pieces contained, and further calls raise
        `UsageError`.
        """
        reading = self._reading
        reading.fed += len(delta)
        gate = reading.gate
        if gate and delta and gate not in delta and "\\" not in delta and delta.isprintable():
            # Most deltas: plain text inside a string (or a key).
            reading.parts.append(delta)
            if not reading.text_open:
                return []
            for watch in reading.watching:
                watch.add(delta)
            return [Change(reading.path, "string", delta)]
        changes: list[Change] = []
        reading.changes = changes
        if reading.held:
            delta = reading.held + delta
            reading.held = ""
        at = 0
        resume = reading.resume
        if resume is not None:
            reading.resume = None
            reading.gate = ""
            at = resume(reading, delta, 0)
        size = len(delta)
        while at < size:
            at = reading.state[delta[at]](reading, delta, at)
        return changes

    def advance(self, text: str, at: int = 0) -> tuple[list[Change], int]:
        """Continue from *at* in *text* until something changes; return the changes and the end.

        For a caller that continues with the text after the value: this never reads past a change,
        nor past the root. If the text ends inside an escape or the like, it stops before that, and
        the caller calls again with more text. Raises as `feed` does.
        """
        reading = self._reading
        changes: list[Change] = []
        reading.changes = changes
        reading.fed = len(text)
        resume = reading.resume
        if resume is not None:
            reading.resume = None
            reading.gate = ""
            at = resume(reading, text, at)
        size = len(text)
        while at < size and not changes and not reading.complete:
            at = reading.state[text[at]](reading, text, at)
        if reading.held:
            at -= len(reading.held)
            reading.held = ""
        return changes, at

    @property
    def open_string(self) -> tuple[str, list[str]] | None:
        """The closing quote and the pieces of the open string, while its text is plain.

        Text without that quote, a backslash or a control character may be appended to the pieces
        instead of being read.
        """
        reading = self._reading
        return (reading.gate, reading.parts) if reading.gate and reading.text_open else None

    @property
    def in_line_comment(self) -> bool:
        """Whether a comment is open that ends with its line."""
        reading = self._reading
        return reading.resume is line_comment or reading.state is IN_LINE_COMMENT

    def finish(self) -> list[Change]:
        """Process the end of the text; a number at the root is complete only now.

        Raises `JSONParseError` if the value is incomplete. A recovering reader closes all that is
        open instead, and `complete` stays false. A second call does nothing.
        """
        reading = self._reading
        if reading.stopped == _FINISHED:
            return []
        changes: list[Change] = []
        if not reading.awaits:
            changes = self.feed("\n")  # white space ends a number, a word or the line
            reading.fed -= 1
        if reading.awaits:
            reading.refuse(f"the text ends before its {reading.awaits}", "", 0)
            reading.ended = True
            changes += self.feed("")
        reading.changes = changes
        if not reading.complete:
            reading.refuse("the text ends before its value is complete", "", 0)
            reading.close_all()
        reading.stop(_FINISHED)
        return changes

    @property
    def value(self) -> Any:
        """The value so far; containers are filled in place, and it is ``None`` before they open.

        An open string is joined on access, and is included once it has text.
        """
        return self._reading.live()

    def snapshot(self) -> Any:
        """Return a copy of the value so far, which later pieces do not change."""
        return copy_tree(self._reading.live(), {})

    @property
    def complete(self) -> bool:
        """Whether the root is complete."""
        return self._reading.complete

    @property
    def problems(self) -> tuple[str, ...]:
        """What a recovering reader skipped or repaired, with offsets; the first `MAX_PROBLEMS`."""
        return tuple(self._reading.problems)

    def take_relaxed(self) -> list[str]:
        """Return what a lenient reader accepted beyond strict JSON since the last call."""
        relaxed = self._reading.relaxed
        if not relaxed:
            return []
        self._reading.relaxed = {}
        return [f"relaxed JSON: {what}" for what in relaxed]

    def watch(self, *path: str | int) -> Watch:
        """Follow the text of the string at *path*, from its beginning, while it arrives."""
        return self._reading.watch(path)

    def __copy__(self) -> IncrementalJSON:
        """Return an independent copy."""
        return copy.deepcopy(self)
