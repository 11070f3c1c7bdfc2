"""All conditions of a stream as one automaton: a look-up for each character, however many they are.

The structures of the conditions become one graph, and the sets of places in it that a text can
lead to become states. A state is made when a text first leads there, and kept: it is a table from a
character to the next state, so that a character costs one look-up whatever came before it, whatever
the conditions are, and no match is too long. What is kept is bounded; beyond that it is forgotten
and made anew, as texts lead there.

A border of words or lines lies between two characters, so it is passed when the second one is seen:
a state knows of the first what borders ask of it. A match that ends at a border is thus found with
the character behind it, or at the end of the text.
"""

from __future__ import annotations

from typing import Final

from penstock.agent.rules.graph import NOTHING, Graph, Places
from penstock.agent.rules.nodes import Node

MAX_KEPT: Final = 50_000
"""How many transitions are kept, and places in states: a few megabytes, while prose and code under
some fifty conditions need a tenth of it."""

_STATE_COST: Final = 10  # what a state takes beside its places, in transitions


class State(dict[str, "State"]):
    """Where a text has led: what follows for each character, and which conditions end here.

    *before* is what borders ask of the last character.
    """

    __slots__ = ("_automaton", "_before", "_by_kind", "_places", "signals")

    def __init__(
        self, automaton: Automaton, places: Places, before: Places, signals: tuple[int, ...]
    ) -> None:
        super().__init__()
        self._automaton = automaton
        self._places = places
        self._before = before
        self._by_kind: dict[Places, State] = {}
        self.signals = signals

    def __missing__(self, char: str) -> State:
        kind = self._automaton.kind_of(char)
        following = self._by_kind.get(kind)
        if following is None:
            following = self._by_kind[kind] = self._automaton.follow(
                self._places, self._before, kind
            )
        self[char] = following
        self._automaton.count(1)
        return following

    def at_end(self) -> tuple[int, ...]:
        """Tell which conditions end here if the text does."""
        return self._automaton.follow(self._places, self._before, frozenset({NOTHING})).signals

    def forget(self) -> None:
        """Drop all that follows; it is found again when it is needed."""
        self.clear()
        self._by_kind.clear()


class Automaton:
    """Follows a text through conditions; `start` is where every text begins."""

    def __init__(self) -> None:
        self._graph = Graph()
        self._states: dict[tuple[Places, Places, tuple[int, ...]], State] = {}
        self._kinds: dict[str, Places] = {}
        self._kept = 0
        self._begin: Places = frozenset()  # a match may begin anywhere: these are in every state
        self._always: Places = frozenset()
        # Where they lead, by what is before and the kind of what follows.
        self._fresh: dict[tuple[Places, Places], tuple[Places, Places]] = {}

    def add(self, condition: Node, signal: int, *, borders: bool = True) -> None:
        """Follow *condition* too: states where it may have ended have *signal* among `signals`.

        Without *borders* these are taken to be everywhere. Raises `TooManyPlacesError`, and stays
        as it was, for a condition that is too large.
        """
        entry = self._graph.add(condition, signal, borders=borders)
        places, signals = self._graph.closure(entry)
        self._begin |= places
        self._always |= signals

    @property
    def start(self) -> State:
        """The state before the first character."""
        return self._state(frozenset(), frozenset({NOTHING}), self._always)

    def follow(self, places: Places, before: Places, kind: Places) -> State:
        """Find the state that a character of *kind* leads to."""
        fresh = self._fresh.get((before, kind))
        if fresh is None:
            fresh = self._fresh[before, kind] = self._reached(self._begin, before, kind)
            self.count(len(fresh[0]))
        reached, signals = self._reached(places, before, kind)
        return self._state(
            (reached | fresh[0]) - self._begin,
            kind & self._graph.asked,
            signals | fresh[1] | self._always,
        )

    def _reached(self, places: Places, before: Places, kind: Places) -> tuple[Places, Places]:
        reached: set[int] = set()
        passed, signals = self._graph.passed(places, before, kind)
        for place in passed:
            step = self._graph.steps.get(place)
            if step is not None and step[0] in kind:
                more, ended = self._graph.closure(step[1])
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

    def _state(self, places: Places, before: Places, signals: Places) -> State:
        key = (places, before, tuple(sorted(signals)))
        state = self._states.get(key)
        if state is None:
            self.count(_STATE_COST + len(places))
            state = self._states[key] = State(self, *key)
        return state
