"""How far the reading of a JSON text has come, and the steps through its structure.

A state is a table from a character to its step; a step reads on from there and returns where it
stopped. A token that runs past the end of a piece either waits
in `Reading.held`, when it is short and must be seen whole (an escape, a literal, the beginning or
end of a comment), or leaves a step in `Reading.resume` that goes on with the next piece. So the
cost of a piece does not depend on what came before. Steps through strings are in `strings`,
those through words and comments in `words`; `dialects` makes the tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import JSONParseError, UsageError
from penstock.values.grammar import MAX_DEPTH, WHITESPACE
from penstock.values.incremental.draft import Draft, copy_tree

MAX_PROBLEMS: Final = 32
"""How many problems a recovering reader lists: enough to tell what is wrong, on any input."""

Step = Callable[["Reading", str, int], int]
Search = Callable[..., re.Match[str] | None]

_find_after_space: Final[Search] = re.compile(rf"[^{WHITESPACE}]").search


class State(dict[str, Step]):
    """What each character means at one place in the text; ``""`` stands for any other."""

    def __missing__(self, character: str) -> Step:
        return self[""]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One set of rules: a table for each place in the text, and what strings are made of."""

    value: State
    first_item: State
    next_item: State
    first_key: State
    next_key: State
    colon: State
    after_item: State
    after_member: State
    end: State
    escapes: dict[str, str]
    closing: dict[str, str]
    """The closing quote for each opening one."""
    special: dict[str, Search]
    """For each closing quote the search for what ends a run of plain text."""
    recovers: bool = False


class Reading(Draft):
    """A draft and the place in the text that is being read."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self.dialect = dialect
        self.state: State = dialect.value
        self.after: State = dialect.end  # the state once the coming value is whole
        self.resume: Step | None = None  # goes on with a token that the last piece left open
        self.gate = ""  # the closing quote while an open string or key goes on with plain text
        self.held = ""  # the end of the last piece, to be read again with the next
        self.fed = 0  # how many characters have come
        self.awaits = ""  # what closes the open string, key or comment
        self.ended = False  # no piece will make a cut escape whole
        self.stopped = ""  # why no more is read
        self.problems: list[str] = []
        self.problem_end = -1
        self.relaxed: dict[str, None] = {}  # what strict JSON has not, in words

    def refuse(self, message: str, text: str, at: int) -> int:
        """Raise an error at *at* in the piece *text*; a recovering reading notes it and skips."""
        position = self.fed - len(text) + at
        if not self.dialect.recovers:
            self.stop(f"this reader broke at offset {position} and reads no more")
            raise JSONParseError(f"{message} at offset {position}", position=position)
        goes_on = position == self.problem_end
        if not goes_on and len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{message} at offset {position}")
        self.problem_end = position + 1
        return at + 1

    def stop(self, reason: str) -> None:
        """Make any further reading a `UsageError`."""
        self.stopped = reason
        self.held = self.awaits = self.gate = ""
        self.resume = refuse_more

    def close_all(self) -> None:
        """Close what is still open, without calling anything complete: it was cut."""
        self.forget_watches()
        if self.text_open:
            self.close_text()
        while self.node is not None:
            self.close()
        self.complete = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Reading:
        """Make a reading that goes its own way from here; tables and steps are shared."""
        twin = object.__new__(Reading)
        twin.__dict__.update(self.__dict__)
        twin.root = copy_tree(self.root, memo)
        twin.node = memo.get(id(self.node))
        twin.above = [(memo.get(id(node)), trail) for node, trail in self.above]
        twin.changes = []
        twin.parts = self.parts.copy()
        twin.problems = self.problems.copy()
        twin.relaxed = self.relaxed.copy()
        twin.watching = [watch.twin(memo) for watch in self.watching]
        twin.watches = {
            path: [watch.twin(memo) for watch in waiting] for path, waiting in self.watches.items()
        }
        return twin


def refuse_more(reading: Reading, _text: str, _at: int) -> int:
    """Tell the caller that this reading is over, this time and the next."""
    reading.resume = refuse_more
    raise UsageError(reading.stopped)


def skip_space(_reading: Reading, text: str, at: int) -> int:
    """Skip white space."""
    at += 1
    if at == len(text) or text[at] not in WHITESPACE:
        return at
    found = _find_after_space(text, at)
    return len(text) if found is None else found.start()


def open_object(reading: Reading, text: str, at: int) -> int:
    """Go into an object."""
    if len(reading.above) >= MAX_DEPTH:
        return reading.refuse(f"containers nested more than {MAX_DEPTH} deep", text, at)
    reading.open({})
    reading.after = reading.dialect.after_member
    reading.state = reading.dialect.first_key
    return at + 1


def open_array(reading: Reading, text: str, at: int) -> int:
    """Go into an array."""
    if len(reading.above) >= MAX_DEPTH:
        return reading.refuse(f"containers nested more than {MAX_DEPTH} deep", text, at)
    reading.open([])
    reading.after = reading.dialect.after_item
    reading.state = reading.dialect.first_item
    return at + 1


def close(reading: Reading, _text: str, at: int) -> int:
    """Leave the innermost container."""
    reading.close()
    node = reading.node
    if node is None:
        state = reading.dialect.end
    elif isinstance(node, dict):
        state = reading.dialect.after_member
    else:
        state = reading.dialect.after_item
    reading.after = reading.state = state
    return at + 1


def close_after_comma(reading: Reading, text: str, at: int) -> int:
    """Leave the innermost container behind a comma that nothing follows."""
    reading.relaxed["a trailing comma"] = None
    return close(reading, text, at)


def to_item(reading: Reading, text: str, at: int) -> int:
    """Pass the comma between items, and the one space that mostly follows."""
    reading.next_item()
    reading.state = reading.dialect.next_item
    at += 1
    return at + 1 if at < len(text) and text[at] == " " else at
