"""Text in which certain marks do not occur, as rules: a small automaton over their beginnings.

Between two marks no grammar can say "anything but this string". What it can say is how far such a
string has come: a *unit* is a character that begins no mark, or the beginning of a mark and what
breaks it off. Text is any number of units; at its end a beginning may be left over.

A bound on the length of a text is kept exactly: where letters can be escaped those that begin a
mark have to be, so that a unit is a character; else each character has its rules. Where those would
be too many, a unit counts as one character.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from penstock.formats.grammar.rules import (
    NOTHING,
    Rules,
    either,
    none_of,
    one_of,
    optional,
    repeated,
    sequence,
)

MAX_COUNTED: Final = 2048
"""How many rules the exact count of a text's characters may take; above it units are counted."""

_DEAD: Final = -1
"""Where a mark is whole."""


class Letters(Struct, frozen=True):
    """What a text is made of: any character but *barred* and those of *ranges*, and *escapes*.

    *escapes* is an expression, made a rule of its own; no mark may hold what begins it.
    """

    name: str
    barred: str = ""
    ranges: str = ""
    escapes: tuple[str, ...] = ()

    def but(self, others: str, rules: Rules) -> str:
        """Match one letter that is not one of *others*, or an escape."""
        barred = sorted({*self.barred, *others})
        plain = none_of(barred, self.ranges) if barred or self.ranges else "[^\\x00]"
        if not self.escapes:
            return plain
        return f"{plain} | {rules.shared(f'{self.name}-escape', *self.escapes)}"


_HEX: Final = "[0-9a-fA-F]"
_UNPAIRED: Final = f"([0-9abcefABCEF] {_HEX} | [dD] [0-7]) {_HEX} {_HEX}"

RAW: Final = Letters("raw")
"""Every character stands for itself."""

JSON_LETTERS: Final = Letters(
    "json",
    '"\\',
    "\\x00-\\x1F\\x7F",
    ('"\\\\" (["\\\\/bfnrt] | "u" ' + _UNPAIRED + ")",),
)
"""The inside of a string of JSON; what lies beyond four digits stands as itself."""

_ENTITIES: Final = tuple(f'"&{name};"' for name in ("amp", "lt", "gt", "quot", "apos"))

XML_LETTERS: Final = Letters("xml", "<&", "\\x00-\\x08\\x0B\\x0C\\x0E-\\x1F", _ENTITIES)
"""The text of an element."""


ATTRIBUTE_LETTERS: Final = Letters("attribute", '<>&"', "\\x00-\\x1F", _ENTITIES)
"""The value of an attribute, between double quotes."""


class Marks(Struct, frozen=True):
    """What does not occur in a text: any of *texts*, and with *folds* in any case."""

    texts: tuple[str, ...] = ()
    folds: bool = False


def text(
    rules: Rules, letters: Letters, marks: Marks, low: int = 0, high: int | None = None
) -> str:
    """Match a text of *letters* without any of *marks*, of *low* to *high* characters."""
    if high == 0:
        return NOTHING
    found = marks.texts
    if high is not None and letters.escapes:
        # What begins a mark can be escaped: then every unit is one character, and a bound is exact.
        found = tuple(mark[0] for mark in found)
    barred = "".join(sorted({mark for mark in found if len(mark) == 1}))
    found = tuple(mark for mark in found if not set(mark) & {*barred, *letters.barred})
    left = Marks(found, marks.folds)
    if found and high is not None:
        steps = _automaton(left)
        if len(steps) * high <= MAX_COUNTED:
            return _Counted(rules, letters, barred, steps).text(low, high)
    unit, rest = _units(rules, letters, barred, left)
    if not rest:
        return repeated(unit, low, high)
    # A text as long as it must be may be one unit, or a beginning that is left over.
    whole = sequence(repeated(unit, min(low, 1), high), optional(rest))
    return either(whole, rest) if low else whole


class _Counted:
    """Counts the characters of a text exactly: a rule for each state and each number of them."""

    def __init__(
        self, rules: Rules, letters: Letters, barred: str, steps: list[dict[str, int]]
    ) -> None:
        self._rules = rules
        self._letters = letters
        self._barred = barred
        self._steps = steps

    def text(self, low: int, high: int) -> str:
        """Match a text of *low* to *high* characters."""
        names = {(0, 0): self._rules.name(self._letters.name, "text")}
        waiting = [(0, 0)]
        while waiting:
            state, count = waiting.pop()
            moves = self._steps[state]
            after = {0} | {to for to in moves.values() if to != _DEAD}
            for to in sorted(after if count < high else ()):
                if (to, count + 1) not in names:
                    names[to, count + 1] = self._rules.name(names[0, 0], f"{count + 1}", f"{to}")
                    waiting.append((to, count + 1))
            choices = [] if count < low else [NOTHING]
            if count < high:
                plain = self._letters.but(self._barred + "".join(moves), self._rules)
                choices.append(sequence(f"({plain})", names[0, count + 1]))
                choices += _onward(moves, {to: names[to, count + 1] for to in after})
            self._rules.add(names[state, count], *choices)
        return names[0, 0]


def other_text(rules: Rules, letters: Letters, marks: Marks, words: Sequence[str]) -> str:
    """Match a text that is not one of *words*, without the letters that begin *marks*.

    While it may still become one of them it has no escapes: they could spell it, too.
    """
    barred = "".join(sorted({mark[0] for mark in marks.texts}))
    rest = text(rules, letters, Marks(tuple(barred)))
    prefixes = sorted({word[:size] for word in words for size in range(len(word) + 1)} | {""})
    names = {prefix: rules.name(letters.name, "other", str(n)) for n, prefix in enumerate(prefixes)}
    for prefix, name in names.items():
        onward = [other[-1] for other in prefixes if other and other[:-1] == prefix]
        begun = [sequence(one_of(letter), names[prefix + letter]) for letter in onward]
        apart = none_of(sorted({*letters.barred, *barred, *onward}), letters.ranges)
        rules.add(
            name, *begun, sequence(apart, rest), *(() if prefix in {"", *words} else (NOTHING,))
        )
    return names[""]


def _units(rules: Rules, letters: Letters, barred: str, marks: Marks) -> tuple[str, str]:
    """Return the rules of one unit, and of what may be left over where the text ends."""
    key = letters.name, barred, marks
    if key not in rules.known:
        steps = _automaton(marks)
        units = [rules.name(letters.name, "char")]
        units += [rules.name(units[0], str(state)) for state in range(1, len(steps))]
        for state, moves in enumerate(steps):
            plain = letters.but(barred + "".join(moves), rules)
            rules.add(units[state], plain, *_onward(moves, dict(enumerate(units))))
        rules.known[key] = units[0]
        rules.known[*key, "rest"] = _rest(rules, units[0], steps)
    return rules.known[key], rules.known[*key, "rest"]


def _rest(rules: Rules, unit: str, steps: list[dict[str, int]]) -> str:
    """Return the rule for the part of a mark that a text may end with, empty if there is none.

    Marks of two characters leave one; from the last states nothing leads on.
    """
    leads = [any(to != _DEAD for to in moves.values()) for moves in steps]
    names = [rules.name(unit, "begun", str(n)) if lead else "" for n, lead in enumerate(leads)]
    then = {n: optional(name) if name else "" for n, name in enumerate(names)}
    for name, moves in zip(names, steps, strict=True):
        if name:
            rules.add(name, *_onward(moves, then))
    return names[0]


def _onward(moves: Mapping[str, int], names: Mapping[int, str]) -> list[str]:
    """Return the choices that lead from a state to others: a letter, and the rule of that state."""
    letters: dict[int, list[str]] = {}
    for letter, to in moves.items():
        if to != _DEAD:
            letters.setdefault(to, []).append(letter)
    return [sequence(one_of(found), names[to]) for to, found in letters.items()]


def _automaton(marks: Marks) -> list[dict[str, int]]:
    """Return for each state where its letters lead, unless that is the first state again.

    A state is the longest end of the text so far that begins a mark; the first one is not one.
    """
    texts = marks.texts
    prefixes = {mark[:size] for mark in texts for size in range(1, len(mark))}
    states = {prefix: number for number, prefix in enumerate(("", *sorted(prefixes)))}
    alphabet = sorted({letter for mark in texts for letter in mark})
    steps: list[dict[str, int]] = []
    for prefix in states:
        reached = {letter: _state(prefix + letter, texts, states) for letter in alphabet}
        moves = {letter: to for letter, to in reached.items() if to != 0}
        if marks.folds:
            moves |= {letter.swapcase(): to for letter, to in moves.items()}
        steps.append(moves)
    return steps


def _state(read: str, marks: tuple[str, ...], states: dict[str, int]) -> int:
    if read.endswith(marks):
        return _DEAD
    return next(states[read[at:]] for at in range(len(read) + 1) if read[at:] in states)
