"""The notes of `repair`: one kind for each rule, counted, and described in words.

A text of 100 KB can need 100,000 commas, so repairs are counted by kind: the list for the caller
has at most one line per kind, in the order of their first use, with the first occurrence as the
example.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from penstock.errors import shorten

EXAMPLE_LENGTH: Final = 40
"""How much of a key or a word is quoted in a line: enough to find it in the text."""


class Repair(Enum):
    """One kind of repair, with its description for one and for many."""

    # Also read by `loads`.
    BYTE_ORDER_MARK = ("skipped a byte order mark", "skipped {count} byte order marks")
    ODD_SPACE = ("skipped unusual white space", "skipped unusual white space in {count} places")
    COMMENT = ("dropped a comment", "dropped {count} comments")
    TRAILING_COMMA = ("dropped a trailing comma", "dropped {count} trailing commas")
    SINGLE_QUOTES = ("read a string in single quotes", "read {count} strings in single quotes")
    SMART_QUOTES = ("read a string in smart quotes", "read {count} strings in smart quotes")
    RAW_CONTROL = (
        "kept raw control characters in a string",
        "kept raw control characters in {count} strings",
    )
    ESCAPED_QUOTE = ("read an escaped quote of another kind", "read {count} escaped quotes")
    UNQUOTED_KEY = ("quoted the key `{example}`", "quoted {count} keys, `{example}` first")
    BARE_WORD = (
        "read the bare word `{example}` as a string",
        "read {count} bare words as strings, `{example}` first",
    )
    PYTHON_LITERAL = (
        "read Python's `{example}`",
        "read {count} of Python's literals, `{example}` first",
    )
    ODD_NUMBER = (
        "read `{example}` as a number",
        "read {count} odd numbers, `{example}` first",
    )
    DUPLICATE_KEY = (
        "took the last value of the repeated key `{example}`",
        "took the last value of {count} repeated keys, `{example}` first",
    )

    # Around the value.
    FENCE = ("took the value out of a code fence", "took the value out of {count} code fences")
    TEXT_BEFORE = ("dropped the text before the value", "dropped {count} texts before a value")
    TEXT_AFTER = ("dropped the text after the value", "dropped {count} texts after a value")
    DOUBLE_ENCODED = (
        "decoded a string that held JSON",
        "decoded a string that held JSON, {count} times over",
    )
    ESCAPED_TEXT = ("took away one level of escapes", "took away {count} levels of escapes")
    ESCAPED_SPACE = (
        "read escaped white space between the values",
        "read escaped white space in {count} texts",
    )
    CONCATENATED = (
        "made a list of 2 values in a row",
        "made a list of {count} values in a row",
    )
    EMPTY_SEED = (
        "dropped an empty object in front of the value",
        "dropped {count} empty objects in front of the value",
    )
    OUTER_BRACES = ("added the outer braces", "added the outer braces {count} times")

    # Brackets, commas and colons.
    UNCLOSED = ("closed an open bracket", "closed {count} open brackets")
    WRONG_CLOSER = ("replaced a wrong closing bracket", "replaced {count} wrong closing brackets")
    EARLY_CLOSER = (
        "dropped a closing bracket that came too early",
        "dropped {count} closing brackets that came too early",
    )
    EXTRA_OPENER = ("dropped a doubled brace", "dropped {count} doubled braces")
    MISSING_COMMA = ("added a missing comma", "added {count} missing commas")
    EXTRA_COMMA = ("dropped an extra comma", "dropped {count} extra commas")
    SEMICOLON = ("read a semicolon as a comma", "read {count} semicolons as commas")
    MISSING_COLON = (
        "added the colon after the key `{example}`",
        "added {count} missing colons, the first after the key `{example}`",
    )
    EXTRA_COLON = ("dropped an extra colon", "dropped {count} extra colons")
    EQUALS_SIGN = ("read an equals sign as a colon", "read {count} equals signs as colons")
    MISSING_KEY = (
        "kept a value without a key under the empty key",
        "kept {count} values without a key under the empty key",
    )
    MISSING_VALUE = (
        "dropped the key `{example}`, which has no value",
        "dropped {count} keys without a value, `{example}` first",
    )
    LIST_AS_OBJECT = (
        "read a list of keys and values as an object",
        "read {count} lists of keys and values as objects",
    )
    CONTROL_TOKEN = (
        "dropped the token `{example}`",
        "dropped {count} tokens, `{example}` first",
    )
    FOREIGN_WORDS = (
        "dropped the words `{example}` between two values",
        "dropped words in {count} places, `{example}` first",
    )
    JUNK = ("dropped `{example}`", "dropped {count} words out of place, `{example}` first")

    # Strings and words.
    UNCLOSED_STRING = ("closed an open string", "closed {count} open strings")
    MISSING_OPENING = ("added a missing opening quote", "added {count} missing opening quotes")
    MISSING_QUOTE = ("added a missing closing quote", "added {count} missing closing quotes")
    INNER_QUOTE = (
        "kept an unescaped quote in a string",
        "kept {count} unescaped quotes in strings",
    )
    DOUBLED_QUOTE = ("dropped a doubled quote", "dropped {count} doubled quotes")
    MIXED_QUOTES = (
        "closed a string with another kind of quote",
        "closed {count} strings with another kind of quote",
    )
    BACKTICKS = ("read a string in backticks", "read {count} strings in backticks")
    TRIPLE_QUOTES = ("read a string in triple quotes", "read {count} strings in triple quotes")
    BAD_ESCAPE = (
        "kept the backslash of `{example}`, which is not an escape",
        "kept the backslashes of {count} strings with bad escapes, `{example}` first",
    )
    WINDOWS_PATH = (
        "kept the backslashes of the path `{example}`",
        "kept the backslashes of {count} paths, `{example}` first",
    )
    CUT_ESCAPE = ("dropped a cut escape", "dropped {count} cut escapes")
    UNQUOTED_TEXT = (
        "quoted the text `{example}`",
        "quoted {count} texts, `{example}` first",
    )
    CUT_LITERAL = (
        "completed the cut word `{example}`",
        "completed {count} cut words, `{example}` first",
    )
    CUT_NUMBER = (
        "dropped the cut end of the number `{example}`",
        "dropped the cut ends of {count} numbers, `{example}` first",
    )


GUESSES: Final = (
    Repair.MISSING_KEY,
    Repair.MISSING_VALUE,
    Repair.LIST_AS_OBJECT,
    Repair.UNQUOTED_TEXT,
    Repair.CUT_NUMBER,
    Repair.CUT_ESCAPE,
)
"""Repairs that drop a part of the value or make one up, so that its meaning is not certain."""


class Repairs:
    """Counts repairs by kind; `lines` describes them."""

    def __init__(self) -> None:
        self.doubts: list[str] = []
        """Why the value may not be what was meant."""
        self._counts: dict[Repair, int] = {}
        self._examples: dict[Repair, str] = {}

    def note(self, kind: Repair, example: str = "", *, count: int = 1) -> None:
        """Count *kind*; the first *example* of a kind is kept."""
        if kind not in self._counts:
            self._examples[kind] = _shortened(example)
        self._counts[kind] = self._counts.get(kind, 0) + count

    def add(self, other: Repairs) -> None:
        """Count everything that *other* counted, after what is here."""
        for kind, count in other._counts.items():
            self.note(kind, other._examples[kind], count=count)
        self.doubts += other.doubts

    def doubt(self, why: str) -> None:
        """Note *why* a string or a container may be misread."""
        self.doubts.append(why)

    @property
    def is_guess(self) -> bool:
        """Whether a part of the value is a guess: then no tool may run with it."""
        return bool(self.doubts) or self.has(*GUESSES)

    def has(self, *kinds: Repair) -> bool:
        """Return whether any of *kinds* was counted."""
        return any(kind in self._counts for kind in kinds)

    def lines(self) -> list[str]:
        """Return one line per kind, in the order of their first use."""
        return [
            kind.value[count > 1].format(count=count, example=self._examples[kind])
            for kind, count in self._counts.items()
        ]


_CLOSING: Final = re.compile(
    "|".join(
        re.escape(said).replace(r"\{count\}", r"\d+").replace(r"\{example\}", ".*")
        for kind in (Repair.UNCLOSED, Repair.UNCLOSED_STRING, Repair.CUT_LITERAL, Repair.CUT_NUMBER)
        for said in kind.value
    ),
    re.DOTALL,
)


def closes_text(repairs: list[str]) -> bool:
    """Return whether one of *repairs*, as `lines` returns them, closed something left open."""
    return any(map(_CLOSING.fullmatch, repairs))


def _shortened(example: str) -> str:
    line = " ".join(example[: 2 * EXAMPLE_LENGTH].split())
    return shorten(line, EXAMPLE_LENGTH)
