"""Conditions and the text that they are looked for in, as it comes.

Every condition is followed by one `Automaton`. An exact one is found with the very character that
makes it match (the one behind it, where it ends at a border), however long the match is. For any
other the automaton says where it may have matched; then `re` looks at the last `WINDOW` characters,
once all has come that the condition may look ahead at, or the text has ended. To look is slow, so
after the first looks for a condition up to `PAUSE` characters pass between two. A condition that
cannot be followed is looked for every `STRIDE` characters.

What is looked at, and when, depends on the text alone and never on how it was cut, so the verdict
does not either: the same conditions are found at the same character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from penstock.agent.rules.automaton import Automaton, State
from penstock.agent.rules.graph import TooManyPlacesError
from penstock.agent.rules.nodes import AT_END
from penstock.agent.rules.structure import Structure, read_structure

WINDOW: Final = 1_000
"""How many characters `re` looks back over: a match of a condition that is not exact may be as long
as that, with what it looks at. Every further look costs this much at most, so that a slow condition
costs the same for every character of the answer."""

BEHIND: Final = 64
"""How many characters before the window a condition may look behind at."""

PAUSE: Final = 32
"""How many characters pass, at most, between two looks for a condition that may match anywhere:
with each look there are more, so that a short text is looked at closely and a long one quickly."""

STRIDE: Final = 64
"""How many characters pass between two looks for a condition that cannot be followed."""

_MOST_KEPT: Final = 4 * WINDOW  # before what is too old is dropped: often enough, and seldom
_NEVER: Final = AT_END


class Conditions:
    """Regular expressions that are looked for together, numbered in their order."""

    def __init__(self, patterns: Sequence[re.Pattern[str]]) -> None:
        self.patterns = list(patterns)
        self.automaton = Automaton()
        self.loose: dict[int, int] = {}
        """How many characters must come before `re` looks, for each that is not exact."""
        self.unfollowed: list[int] = []
        for number, pattern in enumerate(patterns):
            self._add(number, read_structure(pattern))
        self.start = self.automaton.start

    def _add(self, number: int, structure: Structure | None) -> None:
        try:
            if structure is not None:
                self.automaton.add(structure.root, number, borders=structure.exact)
        except TooManyPlacesError:
            structure = None
        if structure is None:
            self.unfollowed.append(number)
            self.loose[number] = STRIDE
        elif not structure.exact:
            self.loose[number] = structure.foresight


class Finder:
    """Looks for conditions in one text; each is found once at most."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._state: State = conditions.start
        self._seen = 0  # how many characters have come
        self._tail: list[str] = []  # the last of them, if `re` may have to look
        self._kept = 0  # how many these are
        self._found: set[int] = set()
        self._due: dict[int, int] = {}  # when `re` looks, for those that may have matched
        self._maybe: dict[int, int] = {}  # where they may have matched last
        self._looks: dict[int, int] = {}  # how often `re` has looked
        self._rested: dict[int, int] = {}  # before which character it does not look again
        self._next_due = _NEVER
        for number in conditions.unfollowed:
            self._note(number, STRIDE)

    def feed(self, text: str) -> list[int]:
        """Read on; give the numbers of the conditions that are found now, in order."""
        state = self._state
        quiet = self._seen + len(text) < self._next_due
        if quiet:
            # Most deltas: nothing is waited for, and nothing may have matched.
            for char in text:
                state = state[char]
                if state.signals:
                    quiet = False
                    break
        if not quiet:
            return sorted(self._walk(text))
        self._state = state
        self._seen += len(text)
        self._keep(text)
        return []

    def finish(self) -> list[int]:
        """Say that the text has ended; give the numbers of what is found only now."""
        if not self._seen:
            return []
        ended = {number for number in self._state.at_end() if number not in self._conditions.loose}
        candidates = [*self._maybe, *self._conditions.unfollowed]
        found = {number for number in candidates if self._is_there(number, 0)}
        return sorted(found | (ended - self._found))

    # --- where something may have matched ---

    def _walk(self, text: str) -> Iterator[int]:
        """Go through *text* character by character, and look where a look is due."""
        loose = self._conditions.loose
        kept = 0
        for at, char in enumerate(text, 1):
            self._state = self._state[char]
            self._seen += 1
            for number in self._state.signals:
                if number in self._found:
                    continue
                if number in loose:
                    self._note(number, loose[number])
                else:
                    self._found.add(number)
                    yield number
            if self._seen >= self._next_due:
                self._tail.append(text[kept:at])
                kept = at
                yield from self._look()
        self._keep(text[kept:])

    def _note(self, number: int, patience: int) -> None:
        self._maybe[number] = self._seen
        if number not in self._due and patience < AT_END:
            self._due[number] = self._due_at(number, patience)
            self._next_due = min(self._next_due, self._due[number])

    def _due_at(self, number: int, patience: int) -> int:
        """Say when to look for what may have matched last: not before, and not too often."""
        return max(self._maybe[number] + patience, self._rested.get(number, 0))

    def _look(self) -> Iterator[int]:
        """Look for all that is due; what may have matched since is looked for again."""
        for number in [number for number, due in self._due.items() if due <= self._seen]:
            del self._due[number]
            self._looks[number] = self._looks.get(number, 0) + 1
            self._rested[number] = self._seen + min(self._looks[number], PAUSE)
            patience = self._conditions.loose[number]
            if self._is_there(number, patience):
                yield number
            elif number in self._conditions.unfollowed:
                self._note(number, STRIDE)
            elif self._maybe[number] > self._seen - patience:
                self._due[number] = self._due_at(number, patience)
        self._next_due = min(self._due.values(), default=_NEVER)

    def _is_there(self, number: int, patience: int) -> bool:
        """Search the window; what the coming *patience* characters could change does not count.

        But a match as long as half the window does: what has to come may never come.
        """
        if number in self._found:
            return False
        # Always as much and no more, wherever the tail was cut last: the verdict hangs on it.
        view = self._cut()
        match = self._conditions.patterns[number].search(view, max(0, len(view) - WINDOW - PAUSE))
        if match is None:
            return False
        is_settled = match.end() <= len(view) - patience
        if not is_settled and match.end() - match.start() < WINDOW // 2:
            return False
        self._found.add(number)
        return True

    def _keep(self, text: str) -> None:
        """Keep *text* for as long as `re` may have to look at it."""
        if self._conditions.loose:
            self._tail.append(text)
            self._kept += len(text)
            if self._kept > _MOST_KEPT:
                self._cut()

    def _cut(self) -> str:
        """Cut the tail to what `re` may look at; give it."""
        view = "".join(self._tail)[-WINDOW - PAUSE - BEHIND :]
        self._tail = [view]
        self._kept = len(view)
        return view
