"""All conditions of a stream as one automaton: a look-up for each character, however many they are.

The structures of the conditions become one graph, and the sets of places in it that a text can
lead to become states. A state is made when a text first leads there, and kept: it is a table from a
character to the next state, so that a character costs one look-up whatever came before it, whatever
the conditions are, and no match is too long. What is kept is bounded; beyond that it is forgotten
and made anew, as texts lead there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, assert_never

from penstock.agent.rules.nodes import Border, Choice, Look, Node, One, Repeat, Row, compile_quietly

MAX_PLACES: Final = 2_000
"""How many places one condition may have: some ten times what people write."""

MAX_KEPT: Final = 50_000
"""How many transitions are kept, and places in states: a few megabytes, while prose and code under
some fifty conditions need a tenth of it."""

_STATE_COST: Final = 10  # what a state takes beside its places, in transitions

Places = frozenset[int]


class TooManyPlacesError(Exception):
    """A condition has more places than `MAX_PLACES`."""


class State(dict[str, "State"]):
    """Where a text has led: what follows for each character, and which conditions end here."""

    __slots__ = ("_automaton", "_by_kind", "_places", "signals")

    def __init__(self, automaton: Automaton, places: Places, signals: tuple[int, ...]) -> None:
        super().__init__()
        self._automaton = automaton
        self._places = places
        self._by_kind: dict[Places, State] = {}
        self.signals = signals

    def __missing__(self, char: str) -> State:
        kind = self._automaton.kind_of(char)
        following = self._by_kind.get(kind)
        if following is None:
            following = self._by_kind[kind] = self._automaton.follow(self._places, kind)
        self[char] = following
        self._automaton.count(1)
        return following

    def forget(self) -> None:
        """Drop all that follows; it is found again when it is needed."""
        self.clear()
        self._by_kind.clear()


class Automaton:
    """Follows a text through conditions; `start` is where every text begins."""

    def __init__(self) -> None:
        self._graph = _Graph()
        self._states: dict[tuple[Places, tuple[int, ...]], State] = {}
        self._kinds: dict[str, Places] = {}
        self._kept = 0
        self._begin: Places = frozenset()  # a match may begin anywhere: these are in every state
        self._always: Places = frozenset()
        self._fresh: dict[Places, tuple[Places, Places]] = {}  # where they lead, by kind

    def add(self, condition: Node, signal: int) -> None:
        """Follow *condition* too: states where it may have ended have *signal* among `signals`.

        Raises `TooManyPlacesError`, and stays as it was, for one that is too large.
        """
        entry = self._graph.add(condition, signal)
        places, signals = self._graph.closure(entry)
        self._begin |= places
        self._always |= signals

    @property
    def start(self) -> State:
        """The state before the first character."""
        return self._state(frozenset(), self._always)

    def follow(self, places: Places, kind: Places) -> State:
        """Find the state that a character of *kind* leads to."""
        fresh = self._fresh.get(kind)
        if fresh is None:
            fresh = self._fresh[kind] = self._reached(self._begin, kind)
            self.count(len(fresh[0]))
        reached, signals = self._reached(places, kind)
        return self._state((reached | fresh[0]) - self._begin, signals | fresh[1] | self._always)

    def _reached(self, places: Places, kind: Places) -> tuple[Places, Places]:
        reached: set[int] = set()
        signals: set[int] = set()
        for place in places:
            taken, target = self._graph.steps[place]
            if taken in kind:
                more, ended = self._graph.closure(target)
                reached |= more
                signals |= ended
        return frozenset(reached), frozenset(signals)

    def kind_of(self, char: str) -> Places:
        """Tell which one-character pieces take *char*; to the graph that is all it is."""
        kind = self._kinds.get(char)
        if kind is None:
            tests = enumerate(self._graph.tests)
            kind = frozenset(number for number, takes in tests if takes(char))
            self._kinds[char] = kind
        return kind

    def count(self, more: int) -> None:
        """Note that *more* is kept; drop all if that is too much."""
        self._kept += more
        if self._kept <= MAX_KEPT:
            return
        for state in self._states.values():
            state.forget()
        self._states.clear()
        self._kinds.clear()
        self._fresh.clear()
        self._kept = 0

    def _state(self, places: Places, signals: Places) -> State:
        key = (places, tuple(sorted(signals)))
        state = self._states.get(key)
        if state is None:
            self.count(_STATE_COST + len(places))
            state = self._states[key] = State(self, *key)
        return state


class _Graph:
    """Places and the steps between them.

    Each place either takes a character (`steps`), or leads on without one (`_forks`), or says that
    a condition has ended (`_ends`).
    """

    def __init__(self) -> None:
        self.tests: list[Callable[[str], object]] = []
        self.steps: dict[int, tuple[int, int]] = {}
        self._forks: dict[int, Sequence[int]] = {}
        self._ends: dict[int, int] = {}
        self._pieces: dict[One, int] = {}
        self._closures: dict[int, tuple[Places, Places]] = {}
        self._count = 0
        self._most = 0

    def add(self, condition: Node, signal: int) -> int:
        """Lay out *condition*; give the place where it begins."""
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
            raise

    def closure(self, place: int) -> tuple[Places, Places]:
        """Find what can be reached from *place* without a character: steps, and signals."""
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
        steps = frozenset(here for here in seen if here in self.steps)
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

    def _piece(self, one: One) -> int:
        number = self._pieces.get(one)
        if number is None:
            number = self._pieces[one] = len(self.tests)
            self.tests.append(compile_quietly(one.source, one.flags).fullmatch)
        return number
