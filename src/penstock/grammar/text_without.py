"""Rules for text that does not contain certain marks, as an automaton over their prefixes.

GBNF cannot express "anything but this string". The rules therefore track how much of a mark has
been matched: a *unit* is a character that begins no mark, or a prefix of a mark and the character
that breaks it off. Text is any number of units, and may end with a prefix of a mark.

Bounds on the length are exact: where characters can be escaped, those that begin a mark must be, so
that every unit is one character; otherwise each position has rules of its own. If there were more
than `MAX_COUNTED` of those, a unit counts as one character.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from penstock.grammar.rules import (
    NOTHING,
    Rules,
    either,
    none_of,
    one_of,
    optional,
    repeated,
    sequence,
)

# The product of the bound and the states of the marks: llama.cpp parses the whole grammar for every
# request.
MAX_COUNTED: Final = 2048
"""The maximum number of rules for an exact length; above it units are counted."""

# The state in which a mark is complete.
_DEAD: Final = -1


class Letters(Struct, frozen=True):
    """The characters of a text: any except *barred* and *ranges*, and the expressions *escapes*.

    No mark may contain a character that begins an escape.
    """

    name: str
    barred: str = ""
    ranges: str = ""
    escapes: tuple[str, ...] = ()

    def but(self, others: str, rules: Rules) -> str:
        """Match one character that is not in *others*, or an escape."""
        barred = sorted({*self.barred, *others})
        plain = none_of(barred, self.ranges) if barred or self.ranges else "[^\\x00]"
        if not self.escapes:
            return plain
        return f"{plain} | {rules.shared(f'{self.name}-escape', *self.escapes)}"


_HEX: Final = "[0-9a-fA-F]"
# Half of a surrogate pair cannot be written as UTF-8, and a grammar cannot say that the other half
# has to follow: so \uD800 to \uDFFF are not generated.
_UNPAIRED: Final = f"([0-9abcefABCEF] {_HEX} | [dD] [0-7]) {_HEX} {_HEX}"

RAW: Final = Letters("raw")
"""Any character, without escapes."""

JSON_LETTERS: Final = Letters(
    "json",
    '"\\',
    "\\x00-\\x1F\\x7F",
    ('"\\\\" (["\\\\/bfnrt] | "u" ' + _UNPAIRED + ")",),
)
"""The content of a JSON string; characters beyond U+FFFF are not escaped."""

_ENTITIES: Final = tuple(f'"&{name};"' for name in ("amp", "lt", "gt", "quot", "apos"))

# XML 1.0 allows no control characters besides tab, newline and carriage return.
XML_LETTERS: Final = Letters("xml", "<&", "\\x00-\\x08\\x0B\\x0C\\x0E-\\x1F", _ENTITIES)
"""The text of an XML element."""

ATTRIBUTE_LETTERS: Final = Letters("attribute", '<>&"', "\\x00-\\x1F", _ENTITIES)
"""The value of an XML attribute in double quotes."""


class Marks(Struct, frozen=True):
    """The strings that a text must not contain; with *folds* in any case."""

    texts: tuple[str, ...] = ()
    folds: bool = False


def text(
    rules: Rules, letters: Letters, marks: Marks, low: int = 0, high: int | None = None
) -> str:
    """Match a text of *letters* without any of *marks*, of *low* to *high* characters."""
    if high == 0:
        return NOTHING
    found = marks.texts
    # JSON can write any character as \u003c, so barring the first character of a mark bars no text.
    if high is not None and letters.escapes:
        # The first character of a mark must be escaped: every unit is then one character.
        found = tuple(mark[0] for mark in found)
    barred = "".join(sorted({mark for mark in found if len(mark) == 1}))
    found = tuple(mark for mark in found if not set(mark) & {*barred, *letters.barred})
    left = Marks(found, marks.folds)
    if found and high is not None:
        steps = _automaton(left)
        if len(steps) * high <= MAX_COUNTED:
            return _count_text(rules, letters, barred, steps, low, high)
    unit, rest = _units(rules, letters, barred, left)
    if not rest:
        return repeated(unit, low, high)
    # A text of the minimum length may be one unit, or a prefix of a mark.
    whole = sequence(repeated(unit, min(low, 1), high), optional(rest))
    return either(whole, rest) if low else whole


def _count_text(
    rules: Rules,
    letters: Letters,
    barred: str,
    steps: list[dict[str, int]],
    low: int,
    high: int,
) -> str:
    """Match a text of *low* to *high* characters, with a rule for each state and each count."""
    first = rules.name(letters.name, "text")
    names = {(0, 0): first}
    waiting = [(0, 0)]
    while waiting:
        state, count = waiting.pop()
        moves = steps[state]
        after = {0} | {to for to in moves.values() if to != _DEAD}
        for to in sorted(after if count < high else ()):
            if (to, count + 1) not in names:
                names[to, count + 1] = rules.name(first, f"{count + 1}", f"{to}")
                waiting.append((to, count + 1))
        choices = [] if count < low else [NOTHING]
        if count < high:
            plain = letters.but(barred + "".join(moves), rules)
            choices.append(sequence(f"({plain})", names[0, count + 1]))
            choices += _onward(moves, {to: names[to, count + 1] for to in after})
        rules.add(names[state, count], *choices)
    return first


def other_text(rules: Rules, letters: Letters, marks: Marks, words: Sequence[str]) -> str:
    """Match a text that is not one of *words*, without the first characters of *marks*.

    While it is a prefix of a word it has no escapes, because they could spell the word.
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
    """Return the rules of one unit and of the prefix of a mark that may end the text."""
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
    """Return the rule of the prefix of a mark that a text may end with, or ""."""
    leads = [any(to != _DEAD for to in moves.values()) for moves in steps]
    names = [rules.name(unit, "begun", str(n)) if lead else "" for n, lead in enumerate(leads)]
    then = {n: optional(name) if name else "" for n, name in enumerate(names)}
    for name, moves in zip(names, steps, strict=True):
        if name:
            rules.add(name, *_onward(moves, then))
    return names[0]


def _onward(moves: Mapping[str, int], names: Mapping[int, str]) -> list[str]:
    """Return the transitions of a state as choices: a character and the rule of the next state."""
    letters: dict[int, list[str]] = {}
    for letter, to in moves.items():
        if to != _DEAD:
            letters.setdefault(to, []).append(letter)
    return [sequence(one_of(found), names[to]) for to, found in letters.items()]


def _automaton(marks: Marks) -> list[dict[str, int]]:
    """Return the transitions of each state, except those to the first state.

    A state is the longest suffix of the text so far that is a prefix of a mark; the first is empty.
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
            # Marks are ASCII, so swapping the case gives the one other spelling of a letter.
            moves |= {letter.swapcase(): to for letter, to in moves.items()}
        steps.append(moves)
    return steps


def _state(read: str, marks: tuple[str, ...], states: dict[str, int]) -> int:
    if read.endswith(marks):
        return _DEAD
    return next(states[read[at:]] for at in range(len(read) + 1) if read[at:] in states)
