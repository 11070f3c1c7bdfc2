r"""The structure of a condition: what of a regular expression can be followed without running it.

`re` judges only text that is whole. To follow a condition through a stream its structure is read
here and becomes an automaton. Where a condition uses more than an automaton can say (lookaround,
backreferences, atomic groups, long counted repetitions) the structure takes in *more* than
the condition does, and `exact` is false: `re` then decides, where the automaton says "maybe".

Only expressions that `re` has compiled come here, so nothing is refused for its syntax. What this
reader does not follow (verbose patterns, a nesting that is too deep) has no structure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from penstock.agent.rules.nodes import AT_END, Border, Choice, Look, Node, One, Repeat, Row, nests
from penstock.agent.rules.nodes import foresight as foresight_of

MAX_COPIES: Final = 24
"""How often a counted repetition is written out; a longer one is followed loosely instead."""

MAX_NESTING: Final = 40
"""How deep groups may stand in one another; deeper ones nobody writes by hand."""

_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}"
    r"|0[0-7]{0,2}|[1-3][0-7]{2}|(?P<group>[1-9][0-9]?)|(?P<border>[AZbB])|.)",
    re.DOTALL,
)
_REPETITION: Final = re.compile(
    r"(?:(?P<sign>[*+?])|\{(?P<least>\d+)\}|\{(?P<low>\d*),(?P<high>\d*)\})(?P<manner>[?+]?)"
)
_OPENING: Final = re.compile(
    r"\((?:\?(?:"
    r"(?P<comment>\#[^)]*\))"
    r"|(?P<again>P=\w+\))"
    r"|(?P<flags>[aiLmsux]+\))"
    r"|(?P<look><?[=!])"
    r"|(?P<atomic>>)"
    r"|(?P<condition>\(\w+\))"
    r"|P<\w+>"
    r"|(?P<on>[aiLmsux]*)(?:-(?P<off>[imsx]+))?:"
    r"))?"
)
_SIGNS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_BORDERS: Final = {"A": 0, "Z": AT_END, "b": 1, "B": 1, "^": 0, "$": 1}
_FLAGS: Final = {
    "a": re.ASCII,
    "i": re.IGNORECASE,
    "m": re.MULTILINE,
    "s": re.DOTALL,
    "u": re.UNICODE,
    "x": re.VERBOSE,
}
_OF_CHARACTERS: Final = re.ASCII | re.IGNORECASE | re.DOTALL
_ANYTHING: Final = Repeat(One(".", int(re.DOTALL)), 0, None)


@dataclass(frozen=True, slots=True)
class Structure:
    """What is known of a condition.

    An *exact* one takes what the condition takes, no more. *foresight* is how many characters
    behind a match the condition may look at.
    """

    root: Node
    exact: bool
    foresight: int


class _NotFollowedError(Exception):
    """The expression has something that is not followed here."""


def read_structure(pattern: re.Pattern[str]) -> Structure | None:
    """Read the structure of *pattern*; ``None`` where it cannot be followed."""
    reader = _Reader(pattern)
    if pattern.flags & re.VERBOSE:
        return None
    try:
        root = reader.take_choice()
    except _NotFollowedError:
        return None
    return Structure(root, reader.exact, foresight_of(root))


def is_slow(pattern: re.Pattern[str]) -> bool:
    """Tell whether `re` has to look for *pattern*, and may take for ever when it does."""
    structure = read_structure(pattern)
    return structure is not None and not structure.exact and nests(structure.root)


class _Reader:
    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._text = pattern.pattern
        self._at = 0
        self._flags = pattern.flags
        self._depth = 0
        self.exact = True

    # --- rows and choices ---

    def take_choice(self) -> Node:
        """Take alternatives up to the end of the group, which stays."""
        options = [self._take_row()]
        while self._text.startswith("|", self._at):
            self._at += 1
            options.append(self._take_row())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _take_row(self) -> Node:
        items = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            items.append(self._take_repeated())
        return items[0] if len(items) == 1 else Row(tuple(items))

    def _take_repeated(self) -> Node:
        node = self._take_piece()
        while (found := _REPETITION.match(self._text, self._at)) is not None:
            self._at = found.end()
            node = self._repeat(node, found)
        return node

    def _repeat(self, node: Node, found: re.Match[str]) -> Node:
        if found["sign"]:
            least, most = _SIGNS[found["sign"]]
        elif found["least"]:
            least = int(found["least"])
            most = least
        else:
            least = int(found["low"] or 0)
            most = int(found["high"]) if found["high"] else None
        if found["manner"] == "+":
            self.exact = False
        if least > MAX_COPIES or (most is not None and most - least > MAX_COPIES):
            self.exact = False
            least, most = min(least, MAX_COPIES), None
        return Repeat(node, least, most)

    # --- pieces ---

    def _take_piece(self) -> Node:
        match self._text[self._at]:
            case "(":
                return self._take_group()
            case "\\":
                return self._take_escape()
            case "[":
                return self._take_one(_CLASS)
            case "^" | "$" as sign:
                self._at += 1
                return self._line_border(sign)
            case char:
                self._at += 1
                return self._one(char)

    def _take_one(self, kind: re.Pattern[str]) -> Node:
        found = kind.match(self._text, self._at)
        if found is None:
            raise _NotFollowedError
        self._at = found.end()
        return self._one(found[0])

    def _one(self, source: str) -> One:
        return One(source, self._flags & _OF_CHARACTERS)

    def _border(self, sign: str) -> Node:
        return Border(sign, _BORDERS[sign], self._flags & re.ASCII)

    def _line_border(self, sign: str) -> Node:
        if self._flags & re.MULTILINE:
            return self._border(sign)
        if sign == "^":
            return self._border("A")
        self.exact = False  # the end of all, or a line end before it
        return Border(sign, AT_END)

    def _take_escape(self) -> Node:
        found = _ESCAPE.match(self._text, self._at)
        if found is None:
            raise _NotFollowedError
        self._at = found.end()
        if found["group"]:
            self.exact = False
            return _ANYTHING
        if found["border"]:
            return self._border(found["border"])
        return self._one(found[0])

    # --- groups ---

    def _take_group(self) -> Node:
        found = _OPENING.match(self._text, self._at)
        if found is None:  # pragma: no cover - a bracket always opens something
            raise _NotFollowedError
        self._at = found.end()
        if found["comment"] or found["flags"]:
            return Row()  # flags that stand alone are those of the pattern
        if found["again"]:
            self.exact = False
            return _ANYTHING
        with self._flagged(found["on"] or "", found["off"] or ""), self._deeper():
            body = self.take_choice()
        self._at += 1
        return self._group(body, found)

    def _group(self, body: Node, found: re.Match[str]) -> Node:
        if found["look"]:
            self.exact = False
            return Look(body, ahead="<" not in found["look"])
        if found["atomic"]:
            self.exact = False
        if found["condition"]:
            self.exact = False
            return body if isinstance(body, Choice) else Choice((body, Row()))
        return body

    @contextmanager
    def _flagged(self, on: str, off: str) -> Iterator[None]:
        before = self._flags
        for letter in on:
            self._flags |= _FLAGS[letter]
        for letter in off:
            self._flags &= ~_FLAGS[letter]
        if self._flags & re.VERBOSE:
            raise _NotFollowedError
        if "u" in on:
            self._flags &= ~re.ASCII
        try:
            yield
        finally:
            self._flags = before

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise _NotFollowedError
        yield
        self._depth -= 1
