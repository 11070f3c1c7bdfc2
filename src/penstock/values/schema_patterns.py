"""Regular expressions of schemas, run only where they cannot take long.

Python's engine backtracks: a pattern such as ``^(a+)+$`` has so many ways to match that forty
characters take years. The cost of a pattern is therefore estimated before it is run. Reading it
once gives its *degree* (how many unbounded repeats may share a text: each multiplies the ways by
the length of the text) and its *ways* (optional pieces, alternatives and counted repeats,
multiplied). The cost on a text of n characters is at most ``ways * n ** degree``; above `MAX_STEPS`
the pattern is not run. Nested unbounded repeats, or alternatives and optional pieces under one,
have no such bound and are always refused, as are backreferences, look-around, flags and syntax that
Python does not have.

A refused pattern, or one whose text is too long for its degree, is *not judged*: `occurs_in` is
false (so `patternProperties` do not match the name), and so is `forbids` (so `pattern` does not
reject the text).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

MAX_PATTERN: Final = 500
"""How long a pattern may be: real ones are far shorter, and compiling costs time, too."""

MAX_STEPS: Final = 1_000_000
"""How many steps a match may take at worst: some milliseconds."""

MAX_DEGREE: Final = 8
"""How many unbounded repeats a pattern may have: with more, no text is short enough."""

_COUNT: Final = re.compile(r"\{([0-9]{1,4})(,?)([0-9]{0,4})\}")
_ESCAPE: Final = re.compile(r"x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[dDwWsSbBtnrfv]|[^A-Za-z0-9]")
_CLASS: Final = re.compile(r"\[\^?(?:[^\]\\]|\\.)+\]", re.DOTALL)
_ENDLESS: Final = -1


class PatternCost(NamedTuple):
    """How the ways to match grow: ``ways * n ** degree`` for a text of n characters."""

    degree: int
    ways: int

    def then(self, other: PatternCost) -> PatternCost:
        """Return the cost of one piece after another."""
        return PatternCost(self.degree + other.degree, min(self.ways * other.ways, MAX_STEPS + 1))

    def either(self, other: PatternCost) -> PatternCost:
        """Return the cost of one piece or another."""
        return PatternCost(
            max(self.degree, other.degree), min(self.ways + other.ways, MAX_STEPS + 1)
        )


_PLAIN: Final = PatternCost(0, 1)


class Pattern:
    """A pattern with its cost; the module's docstring says which ones are not judged."""

    __slots__ = ("_cost", "_regex")

    def __init__(self, regex: re.Pattern[str] | None, cost: PatternCost) -> None:
        self._regex = regex
        self._cost = cost

    @property
    def safe(self) -> bool:
        """Whether the pattern is run at all."""
        return self._regex is not None

    def occurs_in(self, text: str) -> bool:
        """Return whether the pattern is found in *text*; no if that is not judged."""
        return self._judges(text) and self._search(text)

    def forbids(self, text: str) -> bool:
        """Return whether the pattern is missing in *text*; no if that is not judged."""
        return self._judges(text) and not self._search(text)

    def _judges(self, text: str) -> bool:
        # A search may begin anywhere, so there is one power more than the pattern has.
        steps = self._cost.ways * (len(text) + 1) ** (self._cost.degree + 1)
        return self._regex is not None and steps <= MAX_STEPS

    def _search(self, text: str) -> bool:
        return self._regex is not None and self._regex.search(text) is not None


@lru_cache(maxsize=1024)
def safe_pattern(source: str) -> Pattern:
    """Estimate the cost of a pattern and compile it, once."""
    refused = Pattern(None, _PLAIN)
    if len(source) > MAX_PATTERN:
        return refused
    try:
        reader = _Reader(source)
        cost = reader.read()
        if cost.degree > MAX_DEGREE:
            return refused
        return Pattern(re.compile("".join(reader.python), re.ASCII), cost)
    except (_UnsafeError, re.error, OverflowError, RecursionError):
        return refused


class _UnsafeError(Exception):
    """The pattern is refused."""


class _Reader:
    """Reads a pattern from left to right: adds up its cost and writes it in Python's syntax.

    Open groups wait on a list: each holds the cost of its finished alternatives, and that of the
    sequence being read. `last` is the piece that a quantifier would apply to.
    """

    def __init__(self, source: str) -> None:
        self.python: list[str] = []
        self._source = source
        self._at = 0
        self._groups: list[tuple[PatternCost | None, PatternCost]] = []
        self._finished: PatternCost | None = None
        self._sequence = _PLAIN
        self._last: PatternCost | None = None
        self._last_is_group = False

    def read(self) -> PatternCost:
        while self._at < len(self._source):
            self._read_one(self._source[self._at])
        if self._groups:
            raise _UnsafeError
        return self._close()

    def _read_one(self, char: str) -> None:
        if char == "(":
            self._open_group()
        elif char == ")":
            self._close_group()
        elif char == "|":
            self._finished, self._sequence = self._close(), _PLAIN
            self._take("|")
        elif char in "*+?{":
            self._quantify(char)
        else:
            self._read_atom(char)

    def _read_atom(self, char: str) -> None:
        self._settle()
        self._last, self._last_is_group = _PLAIN, False
        if char == "[":
            self._take_class()
        elif char == "\\":
            match = _ESCAPE.match(self._source, self._at + 1)
            if match is None:
                raise _UnsafeError
            self._take("\\" + match[0])
        elif char == "$":
            self._take("$", r"\Z")  # Python's `$` also matches before a last newline
        else:
            self._take(char)

    def _take(self, text: str, python: str | None = None) -> None:
        self.python.append(text if python is None else python)
        self._at += len(text)

    def _take_class(self) -> None:
        match = _CLASS.match(self._source, self._at)
        # Python reserves doubled signs for set operations, and two dashes are ambiguous.
        if match is None or re.search(r"--|&&|\|\||~~", match[0]):
            raise _UnsafeError
        head = 2 if match[0].startswith("[^") else 1
        body = re.sub(r"(\\.)|\[", lambda m: m[1] or r"\[", match[0][head:], flags=re.DOTALL)
        self._take(match[0], match[0][:head] + body)

    def _open_group(self) -> None:
        self._settle()
        opening = "(?:" if self._source.startswith("(?:", self._at) else "("
        if self._source.startswith("(?", self._at) and opening == "(":
            raise _UnsafeError  # look-around, flags, names, conditions
        self._groups.append((self._finished, self._sequence))
        self._finished, self._sequence = None, _PLAIN
        self._take(opening)

    def _close_group(self) -> None:
        if not self._groups:
            raise _UnsafeError
        inner = self._close()
        self._finished, self._sequence = self._groups.pop()
        self._last, self._last_is_group = inner, True
        self._take(")")

    def _close(self) -> PatternCost:
        """Return the cost of all alternatives of the open group."""
        self._settle()
        return self._sequence if self._finished is None else self._finished.either(self._sequence)

    def _settle(self) -> None:
        """Add the last piece to the sequence: no quantifier follows it."""
        if self._last is not None:
            self._sequence = self._sequence.then(self._last)
            self._last = None

    def _quantify(self, char: str) -> None:
        least, most, text = self._count(char)
        if self._last is None:
            raise _UnsafeError
        self._sequence = self._sequence.then(self._repeat(self._last, least, most))
        self._last = None
        self._take(text)
        if self._source.startswith("?", self._at):
            self._take("?")

    def _count(self, char: str) -> tuple[int, int, str]:
        if char != "{":
            return (1 if char == "+" else 0), (1 if char == "?" else _ENDLESS), char
        match = _COUNT.match(self._source, self._at)
        if match is None:
            raise _UnsafeError
        least = int(match[1])
        most = int(match[3]) if match[3] else _ENDLESS if match[2] else least
        return least, most, match[0]

    def _repeat(self, piece: PatternCost, least: int, most: int) -> PatternCost:
        if most == _ENDLESS:
            if piece != _PLAIN:
                raise _UnsafeError  # nested repeats, or a choice under a repeat
            return PatternCost(1, max(least, 1))
        if piece == _PLAIN and not self._last_is_group:
            return PatternCost(0, most - least + 1)
        ways = max(most, 1) * min(piece.ways, MAX_STEPS + 1) ** min(most, 64)
        return PatternCost(piece.degree * most, min(ways * (most - least + 1), MAX_STEPS + 1))
