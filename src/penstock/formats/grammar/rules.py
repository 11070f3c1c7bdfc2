r"""The rules of a grammar in llama.cpp's GBNF, and how expressions of them are written.

An expression is text. Whatever a function here gives may are in a sequence as it is: choices come
in parentheses, and only `Rules.add` takes a bare one. The same text is what xgrammar calls EBNF.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_REPEATS: Final = 512
"""The highest bound that is written; above it anything goes, since engines unroll a repetition."""

MAX_RULE_NAME: Final = 48
"""How long the words of a rule's name may be: enough to find it, and short lines."""

NOTHING: Final = '""'
"""What matches the empty text."""

_NO_LETTER: Final = re.compile(r"[^A-Za-z0-9]+")
_IN_LITERAL: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_IN_CLASS: Final = _IN_LITERAL | {"]": "\\]", "[": "\\[", "^": "\\x5E", "-": "\\x2D"}
_LAST_BYTE: Final = 0xFF


class Rules:
    """Named rules in the order in which they were asked for; equal names get a number."""

    def __init__(self) -> None:
        self.known: dict[object, str] = {}
        """Expressions that were made before, by what they match."""
        self._bodies: dict[str, str] = {}

    def name(self, *words: str) -> str:
        """Return a name made of *words* that no other rule has; its body may come later."""
        plain = _NO_LETTER.sub("-", "-".join(words)).strip("-")[:MAX_RULE_NAME].strip("-")
        plain = plain if plain[:1].isalpha() else f"r-{plain}".rstrip("-")
        name, number = plain, 1
        while name in self._bodies:
            number += 1
            name = f"{plain}-{number}"
        self._bodies[name] = NOTHING
        return name

    def add(self, name: str, *choices: str) -> str:
        """Say that the rule *name* is one of *choices*; return the name."""
        self._bodies[name] = " | ".join(choices)
        return name

    def new(self, words: str, *choices: str) -> str:
        """Make a rule of *choices* under a name of *words*; return the name."""
        return self.add(self.name(words), *choices)

    def shared(self, name: str, *choices: str) -> str:
        """Make the one rule of this *name*, unless it is there; return the name."""
        return name if name in self._bodies else self.add(name, *choices)

    def written(self) -> str:
        """Write all rules, one on each line."""
        return "".join(f"{name} ::= {body}\n" for name, body in self._bodies.items())


def literal(text: str) -> str:
    """Match *text* as it is."""
    if not text:
        return NOTHING
    return '"' + "".join(_escaped(letter, _IN_LITERAL) for letter in text) + '"'


def one_of(letters: Iterable[str]) -> str:
    """Match one of *letters*."""
    return "[" + "".join(_escaped(letter, _IN_CLASS) for letter in letters) + "]"


def none_of(letters: Iterable[str], ranges: str = "") -> str:
    """Match any character but *letters* and those in *ranges*, which is in a class's own words."""
    return "[^" + "".join(_escaped(letter, _IN_CLASS) for letter in letters) + ranges + "]"


def sequence(*parts: str) -> str:
    """Match one part after the other; what matches nothing is omitted."""
    return " ".join(part for part in parts if part and part != NOTHING) or NOTHING


def either(*choices: str) -> str:
    """Match one of *choices*."""
    distinct = list(dict.fromkeys(choices))
    return distinct[0] if len(distinct) == 1 else "(" + " | ".join(distinct) + ")"


def optional(part: str) -> str:
    """Match *part*, or nothing."""
    return f"({part})?"


def repeated(part: str, low: int = 0, high: int | None = None) -> str:
    """Match *part* from *low* to *high* times; a bound that is out of reach is not one."""
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
    return f"{grouped}{{{low},{max(low, high)}}}"


def _is_single(part: str) -> bool:
    """Return whether a repetition may follow *part* as it is: it is a name, or one class."""
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
