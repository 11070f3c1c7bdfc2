r"""Rules in llama.cpp's GBNF, which is also what xgrammar calls EBNF.

An expression is text. The result of every function here can be used in a sequence: choices are in
parentheses, and only `Rules.add` takes choices without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_REPEATS: Final = 512
"""The highest bound of a repetition; engines unroll repetitions, so larger ones are unbounded."""

MAX_RULE_NAME: Final = 48
"""The maximum length of a rule's name, which keeps lines short."""

NOTHING: Final = '""'
"""Matches the empty text."""

_NO_LETTER: Final = re.compile(r"[^A-Za-z0-9]+")
_IN_LITERAL: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_IN_CLASS: Final = _IN_LITERAL | {"]": "\\]", "[": "\\[", "^": "\\x5E", "-": "\\x2D"}
_LAST_BYTE: Final = 0xFF


class Rules:
    """Named rules in the order of their creation; equal names get a number."""

    def __init__(self) -> None:
        self.known: dict[object, str] = {}
        """Expressions made before, by what they match."""
        self._bodies: dict[str, str] = {}

    def name(self, *words: str) -> str:
        """Return a new unique name made of *words*; its body may be added later."""
        plain = _NO_LETTER.sub("-", "-".join(words)).strip("-")[:MAX_RULE_NAME].strip("-")
        plain = plain if plain[:1].isalpha() else f"r-{plain}".rstrip("-")
        name, number = plain, 1
        while name in self._bodies:
            number += 1
            # Two parameters may differ only in characters that a rule's name cannot have.
            name = f"{plain}-{number}"
        self._bodies[name] = NOTHING
        return name

    def add(self, name: str, *choices: str) -> str:
        """Set the body of the rule *name* to *choices*; return the name."""
        self._bodies[name] = " | ".join(choices)
        return name

    def new(self, words: str, *choices: str) -> str:
        """Add a rule of *choices* with a name made of *words*; return the name."""
        return self.add(self.name(words), *choices)

    def shared(self, name: str, *choices: str) -> str:
        """Add the rule *name* unless it exists; return the name."""
        return name if name in self._bodies else self.add(name, *choices)

    def written(self) -> str:
        """Return all rules as text, one per line."""
        return "".join(f"{name} ::= {body}\n" for name, body in self._bodies.items())


def literal(text: str) -> str:
    """Match *text* verbatim."""
    if not text:
        return NOTHING
    return '"' + "".join(_escaped(letter, _IN_LITERAL) for letter in text) + '"'


def one_of(letters: Iterable[str]) -> str:
    """Match one of *letters*."""
    return "[" + "".join(_escaped(letter, _IN_CLASS) for letter in letters) + "]"


def none_of(letters: Iterable[str], ranges: str = "") -> str:
    """Match any character except *letters* and *ranges*, which is written as in a class."""
    return "[^" + "".join(_escaped(letter, _IN_CLASS) for letter in letters) + ranges + "]"


def sequence(*parts: str) -> str:
    """Match one part after the other; empty parts are omitted."""
    return " ".join(part for part in parts if part and part != NOTHING) or NOTHING


def either(*choices: str) -> str:
    """Match one of *choices*."""
    distinct = list(dict.fromkeys(choices))
    return distinct[0] if len(distinct) == 1 else "(" + " | ".join(distinct) + ")"


def optional(part: str) -> str:
    """Match *part*, or nothing."""
    return f"({part})?"


def repeated(part: str, low: int = 0, high: int | None = None) -> str:
    """Match *part* from *low* to *high* times, bounded by `MAX_REPEATS`."""
    low = min(low, MAX_REPEATS)
    if high is not None and high > MAX_REPEATS:
        high = None
    if high == 0:
        return NOTHING
    if (low, high) == (1, 1):
        return part
    grouped = part if _is_single(part) else f"({part})"
    if high is None:
        return grouped + ("*" if low == 0 else "+" if low == 1 else f"{{{low},}}")
    # A schema may contradict itself; engines reject {5,3}.
    return f"{grouped}{{{low},{max(low, high)}}}"


def _is_single(part: str) -> bool:
    """Return whether *part* can be repeated without parentheses: it is a name or one class."""
    return part.replace("-", "").isalnum() or (part[0] == "[" and "]" not in part[1:-1])


def _escaped(letter: str, special: dict[str, str]) -> str:
    if letter in special:
        return special[letter]
    code = ord(letter)
    if letter.isprintable():
        return letter
    if code <= _LAST_BYTE:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code < 1 << 16 else f"\\U{code:08X}"
