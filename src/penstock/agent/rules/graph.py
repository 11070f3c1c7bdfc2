"""The conditions of a stream as one graph: places, and the steps that lead from one to the next.

Pieces of one character become steps that take it; borders lie on the way between two characters,
and may only be passed where these are such. What looks around is left out: it takes no character.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, assert_never

from penstock.agent.rules.nodes import Border, Choice, Look, Node, One, Repeat, Row, compile_quietly

MAX_PLACES: Final = 2_000
"""How many places one condition may have: some ten times what people write."""

NOTHING: Final = -1
"""The number of no test: stands for what is before the beginning and behind the end of a text."""

Places = frozenset[int]
"""Places of a graph, or the numbers of tests or of conditions."""


class TooManyPlacesError(Exception):
    """A condition has more places than `MAX_PLACES`."""


class Graph:
    """Places and the steps between them.

    Each place either takes a character (`steps`), or leads on without one (`_forks`) or between two
    of certain kinds (`_borders`), or says that a condition has ended (`_ends`). `asked` are the
    tests that borders ask about.
    """

    def __init__(self) -> None:
        self.tests: list[Callable[[str], object]] = []
        self.steps: dict[int, tuple[int, int]] = {}
        self.asked: Places = frozenset()
        self._borders: dict[int, tuple[str, int, int]] = {}
        self._follows_borders = True
        self._forks: dict[int, Sequence[int]] = {}
        self._ends: dict[int, int] = {}
        self._pieces: dict[One, int] = {}
        self._closures: dict[int, tuple[Places, Places]] = {}
        self._count = 0
        self._most = 0

    def add(self, condition: Node, signal: int, *, borders: bool) -> int:
        """Lay out *condition*, with *borders* or without; give the place where it begins."""
        self._follows_borders = borders
        before = self._count
        self._most = before + MAX_PLACES
        end = self._place()
        self._ends[end] = signal
        try:
            return self._lay(condition, end)
        except TooManyPlacesError:
            for place in range(before, self._count):
                self.steps.pop(place, None)
                self._forks.pop(place, None)
                self._ends.pop(place, None)
                self._borders.pop(place, None)
            raise

    def passed(self, places: Places, before: Places, after: Places) -> tuple[set[int], set[int]]:
        """Pass the borders in *places* that lie between such characters; give all places then.

        The conditions that end behind such a border are given too.
        """
        found = set(places)
        signals: set[int] = set()
        waiting = [place for place in places if place in self._borders]
        while waiting:
            sign, test, target = self._borders[waiting.pop()]
            if _is_border(sign, test, before, after):
                more, ended = self.closure(target)
                waiting += [place for place in more - found if place in self._borders]
                found |= more
                signals |= ended
        return found, signals

    def closure(self, place: int) -> tuple[Places, Places]:
        """Find what can be reached from *place* without a character: places, and signals."""
        known = self._closures.get(place)
        if known is not None:
            return known
        seen: set[int] = set()
        waiting = [place]
        while waiting:
            here = waiting.pop()
            if here not in seen:
                seen.add(here)
                waiting.extend(self._forks.get(here, ()))
        steps = frozenset(here for here in seen if here in self.steps or here in self._borders)
        signals = frozenset(self._ends[here] for here in seen if here in self._ends)
        self._closures[place] = steps, signals
        return steps, signals

    def _place(self) -> int:
        if self._count >= self._most:
            raise TooManyPlacesError
        self._count += 1
        return self._count - 1

    def _lay(self, node: Node, following: int) -> int:
        """Lay *node* out before *following*; give the place where it begins."""
        match node:
            case One():
                place = self._place()
                self.steps[place] = self._piece(node), following
                return place
            case Border() if self._follows_borders:
                place = self._place()
                self._borders[place] = node.sign, self._asked_of(node), following
                return place
            case Border() | Look():
                return following
            case Row(items):
                for item in reversed(items):
                    following = self._lay(item, following)
                return following
            case Choice(options):
                return self._fork([self._lay(option, following) for option in options])
            case Repeat(body, least, most):
                entry = self._lay_rest(body, None if most is None else most - least, following)
                for _ in range(least):
                    entry = self._lay(body, entry)
                return entry
            case _:
                assert_never(node)

    def _lay_rest(self, body: Node, most: int | None, following: int) -> int:
        """Lay out up to *most* of *body*, or any number."""
        if most is None:
            loop = self._fork([])
            self._forks[loop] = (self._lay(body, loop), following)
            return loop
        entry = following
        for _ in range(most):
            entry = self._fork([self._lay(body, entry), following])
        return entry

    def _fork(self, targets: Sequence[int]) -> int:
        place = self._place()
        self._forks[place] = targets
        return place

    def _asked_of(self, border: Border) -> int:
        """Find the test that *border* asks about on both its sides; give its number."""
        if border.sign in "AZ":
            return NOTHING
        test = self._piece(One(r"\w" if border.sign in "bB" else r"\n", border.flags))
        self.asked |= {test}
        return test

    def _piece(self, one: One) -> int:
        number = self._pieces.get(one)
        if number is None:
            number = self._pieces[one] = len(self.tests)
            self.tests.append(compile_quietly(one.source, one.flags).fullmatch)
        return number


def _is_border(sign: str, test: int, before: Places, after: Places) -> bool:
    """Tell whether the place between two characters, known by their tests, is such a border."""
    match sign:
        case "b":
            return (test in before) != (test in after)
        case "B":
            return (test in before) == (test in after)
        case "^":
            return test in before or NOTHING in before
        case "$":
            return test in after or NOTHING in after
        case "A":
            return NOTHING in before
        case _:
            return NOTHING in after
