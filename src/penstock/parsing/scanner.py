"""The text that an engine reads, and the markers that it looks for.

`Markers` is a set of literal markers for one state of a parser, compiled once: a pattern that finds
the earliest (the longest of those that begin at one place), a gate of their first characters, and
the prefixes that have to be held back. `Scanner` owns the text and the position in it. Readers look
at `text` from `at` on and move with the scanner's methods; the text that they pass is consumed and
becomes the `raw` of the next event.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from string import ascii_lowercase, ascii_uppercase
from typing import Final

_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)


class Markers:
    """A set of literal markers, compiled; with *fold*, ASCII letters match in either case.

    A literal of *guarded* is not a marker if the pattern *unless* matches the text after it. The
    pattern has to match in the text that has arrived: while only more text could exclude a marker,
    it counts, and its reader decides.
    """

    __slots__ = (
        *("_sorted", "find", "firsts", "fold", "gate", "gate_pattern", "literals", "longest"),
        "shortest",
    )

    def __init__(
        self,
        literals: Iterable[str],
        *,
        fold: bool = False,
        unless: str = "",
        guarded: tuple[str, ...] = (),
    ) -> None:
        self.literals = tuple(dict.fromkeys(literals))
        self.fold = fold
        self.find = self._make_finder(unless, guarded)
        self.gate_pattern = gate_pattern(self.literals, unless, guarded)
        self.gate = self.compile(self.gate_pattern).search
        self.longest = max(map(len, self.literals), default=0)
        self.shortest = min(map(len, self.literals), default=0)
        firsts = {literal[0] for literal in self.literals}
        self.firsts = "".join(
            sorted({first.swapcase() for first in firsts} | firsts if fold else firsts)
        )
        self._sorted = sorted(map(self._folded, self.literals))

    def _make_finder(
        self, unless: str, guarded: tuple[str, ...]
    ) -> Callable[..., re.Match[str] | None]:
        """Return a function that finds the earliest marker in a text, from an index on."""
        free = [literal for literal in self.literals if literal not in guarded]
        parts = [_any_of(free)] if free else []
        if guarded:
            parts.append(f"(?:{_any_of(guarded)})(?!{unless})")
        pattern = self.compile("|".join(parts))
        firsts = {literal[0] for literal in self.literals}
        if self.fold and len(firsts) == 1 and not (first := firsts.pop()).isalpha():
            return partial(_find_from_first, pattern, first)
        return pattern.search

    def compile(self, pattern: str) -> re.Pattern[str]:
        """Compile *pattern*; an empty one matches nowhere."""
        return re.compile(pattern or r"(?!)", re.ASCII | re.IGNORECASE if self.fold else re.NOFLAG)

    def find_held(self, text: str, at: int = 0) -> int:
        """Find where the longest end of *text* begins that may become a marker.

        That is ``len(text)`` where nothing has to be held back.
        """
        found = self.gate(text, max(at, len(text) - self.longest + 1))
        while found:
            start = found.start()
            if self._is_prefix(text[start:]):
                return start
            found = self.gate(text, start + 1)
        return len(text)

    def find_end(self, text: str) -> int:
        """Find where the end of *text* begins that may become a marker; -1 if it has a marker."""
        found = self.gate(text)
        if found is None:
            return len(text)
        # Nearly always the text ends with the first character of a marker.
        start, size = found.start(), len(text)
        is_first = start == size - 1 and self.shortest > 1
        if is_first or (size - start < self.shortest and self._is_prefix(text[start:])):
            return start
        return -1 if self.find(text) is not None else self.find_held(text)

    def find_growing(self, text: str, at: int, start: int) -> int:
        """Find where *text*, from *at* on, ends within a longer marker than the one at *start*.

        It may begin before that one, and contain it. Returns -1 if there is none.
        """
        if len(text) - start >= self._reach:
            return -1  # What is held begins after the marker.
        held = self.find_held(text, at)
        if held < start:
            return held
        return start if self.may_grow(text, start) else -1

    @property
    def _reach(self) -> int:
        """How far before the end of a text `find_held` looks, at most."""
        return self.longest

    def may_grow(self, text: str, start: int) -> bool:
        """Return whether *text* ends within a longer marker than the one that begins at *start*."""
        is_short = len(text) - start < self.longest
        return is_short and self._is_prefix(text[start:])

    def _is_prefix(self, text: str) -> bool:
        """Return whether a marker begins with *text*, and is longer.

        Such markers follow *text* in sorted order. A table of all prefixes would grow with the
        square of a marker's length, and a marker may contain the name of a tool.
        """
        text = self._folded(text)
        after = bisect_right(self._sorted, text)
        return after < len(self._sorted) and self._sorted[after].startswith(text)

    def _folded(self, text: str) -> str:
        if not self.fold:
            return text
        # Beyond ASCII `lower` may change a letter into an ASCII one (the Kelvin sign).
        return text.lower() if text.isascii() else text.translate(_LOWER)


_SHORT: Final = 64
"""Below this many characters, any kind of pattern is fast enough."""


def _find_from_first(
    pattern: re.Pattern[str], first: str, text: str, at: int = 0
) -> re.Match[str] | None:
    """Find a match of *pattern*, which begins with *first*, by looking for *first*.

    A pattern that ignores case has no literal prefix to search for, and was measured to be twenty
    times slower on text.
    """
    if len(text) - at < _SHORT:
        return pattern.search(text, at)
    start = text.find(first, at)
    while start != -1:
        found = pattern.match(text, start)
        if found is not None:
            return found
        start = text.find(first, start + 1)
    return None


MAX_BRANCHES: Final = 24
"""How deep the groups of a pattern may nest: clients choose the names of tools."""


def _any_of(literals: Sequence[str], depth: int = MAX_BRANCHES) -> str:
    """Write a pattern of *literals*, the longest first, that tries no common prefix twice.

    So forty markers with one prefix cost hardly more than one.
    """
    if not depth:
        return f"(?:{'|'.join(map(re.escape, sorted(literals, key=len, reverse=True)))})"
    common = _common_prefix(literals)
    rests: dict[str, list[str]] = {}
    for literal in literals:
        rest = literal[len(common) :]
        rests.setdefault(rest[:1], []).append(rest)
    ends_here = rests.pop("", None) is not None
    branches = "|".join(_any_of(each, depth - 1) for each in rests.values())
    return re.escape(common) + (f"(?:{branches}){'?' if ends_here else ''}" if branches else "")


def _common_prefix(literals: Sequence[str]) -> str:
    one, other = min(literals), max(literals)
    size = 0
    while one[size : size + 1] == other[size : size + 1] != "":
        size += 1
    return one[:size]


GATE_DEPTH: Final = 3
"""How many characters after the first a gate looks at."""

MAX_GATES: Final = 256
"""How many continuations a gate distinguishes: each is compiled, and clients choose tool names."""


def gate_pattern(literals: Sequence[str], unless: str = "", guarded: Sequence[str] = ()) -> str:
    """Write a pattern of where one of *literals* begins, or may begin if more text comes.

    It looks at several characters, because most brackets in text do not begin a marker.
    """
    groups: dict[str, list[str]] = {}
    for literal in literals:
        groups.setdefault(literal[0], []).append(literal[1:])
    parts = []
    for first, rests in groups.items():
        depth = GATE_DEPTH
        while depth > 1 and len({rest[:depth] for rest in rests}) > MAX_GATES:
            depth -= 1
        excluded = unless if first in guarded else ""
        parts.append(re.escape(first) + _gate_rest(rests, excluded, depth))
    return "|".join(parts)


def _gate_rest(rests: Sequence[str], unless: str, depth: int = GATE_DEPTH) -> str:
    """Write a pattern of what may follow a character, if one of *rests* does; "" for anything."""
    if "" in rests or not depth:
        if not unless:
            return ""
        others = [rest for rest in rests if rest]
        beside = f"|{_gate_rest(others, '')}" if others else ""
        return f"(?:(?!{unless}){beside})"
    groups: dict[str, list[str]] = {}
    for rest in rests:
        groups.setdefault(rest[0], []).append(rest[1:])
    branches = [
        re.escape(first) + _gate_rest(after, "", depth - 1) for first, after in groups.items()
    ]
    return rf"(?:\Z|{'|'.join(branches)})"


MAX_CACHED: Final = 16_384
"""How many characters a set of markers may have to be cached among 512: 8 MB in all.

A request chooses the names of its tools, so only eight larger sets are cached."""


def markers(
    *literals: str, fold: bool = False, unless: str = "", guarded: tuple[str, ...] = ()
) -> Markers:
    """Return the compiled set of *literals*; the same set is compiled once."""
    compile_ = _compile_small if sum(map(len, literals)) <= MAX_CACHED else _compile_large
    return compile_(literals, fold, unless, guarded)


def _compile(
    literals: tuple[str, ...],
    fold: bool,  # noqa: FBT001 - a cache distinguishes keywords from positions
    unless: str,
    guarded: tuple[str, ...],
) -> Markers:
    return Markers(literals, fold=fold, unless=unless, guarded=guarded)


_compile_small: Final = lru_cache(maxsize=512)(_compile)
_compile_large: Final = lru_cache(maxsize=8)(_compile)


# --- markers with many first characters: those of all formats at once ---------------------------
#
# A search for a pattern with several first characters is ten times slower than for a plain string.
# So a long text is first searched, a window at a time, for the common prefix of the markers of each
# first character. A bracket that is a marker is held back until the text after it decides: most
# brackets do not count, and no reader has to be created for them. Tools add markers, too: if there
# are many, a pattern finds where one may begin, and it is looked up in a set.


WINDOW: Final = 4096
"""How much text is searched at once: at most this much is searched in vain per marker."""

MAX_GAP: Final = 99
"""How much white space is held back after a bracket."""

_UNDECIDED: Final = {
    "[": rf"(?:\[|\s{{0,{MAX_GAP}}}(?:\{{\s{{0,{MAX_GAP}}}[\"']?)?)\Z",
    "{": rf"\s{{0,{MAX_GAP}}}[\"']?\Z",
}
"""Text after a bracket, at the end of the text, that leaves open whether the bracket counts.

Opening a body for each was measured at 40 µs, and some models write many brackets in a row."""

_MAX_UNDECIDED: Final = 2 * MAX_GAP + 3  # characters, with the bracket

MANY: Final = 256
"""More markers with one first character than this are looked up, not compiled.

A pattern of the tags of a thousand tools takes 50 ms to compile, for each of the sets that a
response needs, and tries them one by one at each bracket of the text.
"""


class ScatteredMarkers(Markers):
    """A large set of markers with many first characters; the options are those of `Markers`."""

    __slots__ = (
        *("_firsts", "_head", "_many", "_needles", "_open", "_overlap", "_search", "_sizes"),
        "_whole",
    )

    def _make_finder(
        self, unless: str, guarded: tuple[str, ...]
    ) -> Callable[..., re.Match[str] | None]:
        groups: dict[str, list[str]] = {}
        for literal in self.literals:
            groups.setdefault(literal[0], []).append(literal)
        self._whole = frozenset(groups).intersection(self.literals)  # markers of one character
        self._needles = tuple(_common_prefix(group) for group in groups.values())
        self._overlap = max(map(len, self._needles))
        self._search = re.compile(
            "|".join(_group_pattern(group, unless, guarded) for group in groups.values())
        ).search
        bare = [first for first, group in groups.items() if _has_bracket(group, guarded)]
        self._open = re.compile(
            "|".join(re.escape(one) + _UNDECIDED[one] for one in bare) or "(?!)"
        )
        many = [group for group in groups.values() if len(group) > MANY]
        self._firsts = {group[0][0] for group in many}
        self._many = frozenset(literal for group in many for literal in group)
        self._head = min((len(literal) for literal in self._many), default=0)
        sizes: dict[str, set[int]] = {}
        for literal in self._many:
            sizes.setdefault(literal[: self._head], set()).add(len(literal))
        self._sizes = {head: sorted(each, reverse=True) for head, each in sizes.items()}
        return self._find_or_look_up if many else self._find

    def _find_or_look_up(self, text: str, at: int = 0) -> re.Match[str] | None:
        """Find the earliest marker; for some, the pattern finds only where one may begin."""
        found = self._find(text, at)
        while found is not None and text[start := found.start()] in self._firsts:
            marker = self._look_up(text, start)
            if marker:
                return _compile_literal(marker).match(text, start)
            found = self._find(text, start + 1)
        return found

    def _look_up(self, text: str, at: int) -> str:
        """Return the longest marker at *at*, or an empty string."""
        for size in self._sizes.get(text[at : at + self._head], ()):
            if (piece := text[at : at + size]) in self._many:
                return piece
        return ""

    def _find(self, text: str, at: int = 0) -> re.Match[str] | None:
        while len(text) - at > WINDOW and not self._is_in(text, at):
            at += WINDOW
        return self._search(text, at)

    def find_held(self, text: str, at: int = 0) -> int:
        """Find where the end of *text* begins that may become a marker.

        A bracket may, with text that leaves it undecided: the text after it decides.
        """
        held = super().find_held(text, at)
        found = self._open.search(text, max(at, len(text) - _MAX_UNDECIDED))
        return held if found is None else min(held, found.start())

    @property
    def _reach(self) -> int:
        return max(self.longest, _MAX_UNDECIDED)

    def find_end(self, text: str) -> int:
        """Find where the end of *text* begins that may become a marker; -1 if it has a marker."""
        found = self.gate(text)
        if found is None:
            return len(text)
        start = found.start()
        if start == len(text) - 1 and text[start] not in self._whole:
            return start  # A bracket is undecided only if it is a marker itself.
        return -1 if self.find(text) is not None else self.find_held(text)

    def _is_in(self, text: str, at: int) -> bool:
        """Return whether a marker may begin in the window at *at*."""
        end = at + WINDOW + self._overlap
        return any(text.find(needle, at, end) != -1 for needle in self._needles)


@lru_cache(maxsize=512)
def _compile_literal(literal: str) -> re.Pattern[str]:
    return re.compile(re.escape(literal))


@lru_cache(maxsize=512)
def scattered(*literals: str, unless: str, guarded: tuple[str, ...]) -> Markers:
    """Return the compiled set of *literals*; the same set is compiled once."""
    return ScatteredMarkers(literals, unless=unless, guarded=guarded)


def _group_pattern(group: Sequence[str], unless: str, guarded: tuple[str, ...]) -> str:
    """Write a pattern of markers with the same first character, the longest first.

    If there are many, it matches only their first characters.
    """
    first = group[0][0]
    if _has_bracket(group, guarded):
        bracket = f"{re.escape(first)}(?!{unless}|{_UNDECIDED[first]})"
        others = [each for each in group if each != first]
        return f"{_group_pattern(others, unless, ())}|{bracket}" if others else bracket
    if len(group) > MANY:
        return gate_pattern(group)
    rests = "|".join(re.escape(each[1:]) for each in sorted(group, key=len, reverse=True))
    return f"{re.escape(first)}(?:{rests})"


def _has_bracket(group: Sequence[str], guarded: tuple[str, ...]) -> bool:
    """Return whether *group* has a bracket that counts only if the text after it allows."""
    first = group[0][0]
    return first in group and first in guarded and first in _UNDECIDED


# --- the text ---------------------------------------------------------------------------------


def skip_match(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return where the match of *pattern* at *at* ends, or *at* if there is none."""
    found = pattern.match(text, at)
    return at if found is None else found.end()


class Scanner:
    """The unread text, the position in it, and the text that was read and not yet claimed.

    `text` and `at` are plain attributes because readers look at them for every token. Only the
    methods of this class assign them.
    """

    __slots__ = ("_claimed", "_lead", "at", "kept", "offset", "passed", "text")

    def __init__(self, *, keeps: bool = False) -> None:
        self.text = ""
        self.at = 0
        self.offset = 0  # where `text` begins in the whole response
        self._claimed = 0  # text before this index is claimed, or is in `passed`
        self.passed: list[str] = []  # read, not claimed, and no longer in `text`
        self._lead = ""  # what was unclaimed when the open call began
        # Text of the open call that events have claimed, if all of its text may be needed later.
        self.kept: list[str] | None = [] if keeps else None

    @property
    def has_raw(self) -> bool:
        """Whether text was read that no event has claimed."""
        return bool(self.passed or self._lead) or self._claimed < self.at

    @property
    def unread(self) -> str:
        """The text after the position."""
        return self.text[self.at :]

    @property
    def is_at_end(self) -> bool:
        """Whether all text that has come was read."""
        return self.at == len(self.text)

    @property
    def position(self) -> int:
        """The position in the whole response."""
        return self.offset + self.at

    # --- looking ahead: the position stays ---

    def startswith(self, prefix: str | tuple[str, ...]) -> bool:
        """Return whether the unread text begins with *prefix*, or with one of several."""
        return self.text.startswith(prefix, self.at)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match *pattern* at the position."""
        return pattern.match(self.text, self.at)

    def peek(self, size: int) -> str:
        """Return up to *size* characters of the unread text."""
        return self.text[self.at : self.at + size]

    # --- moving ---

    def advance_to(self, at: int) -> None:
        """Read the text up to *at*, an index of `text`."""
        self.at = at

    def skip(self, size: int) -> None:
        """Read *size* characters."""
        self.at += size

    def skip_all(self) -> None:
        """Read all text that has come."""
        self.at = len(self.text)

    def take_to(self, end: int) -> str:
        """Read the text up to *end*, an index of `text`, and return it."""
        text = self.text[self.at : end]
        self.at = end
        return text

    def take_match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read the text that *pattern* matches at the position; without a match, read nothing."""
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def cut(self, end: int) -> str:
        """Remove the text from *end* on and return it, for `restore`."""
        text = self.text[end:]
        self.text = self.text[:end]
        return text

    def restore(self, text: str) -> None:
        """Append the text that `cut` removed."""
        self.text += text

    def count_fast(self, size: int) -> None:
        """Move the position by *size* characters that never were in `text`.

        The fast path has emitted them directly, after all of `text` was read.
        """
        self.offset += size

    # --- what events claim ---

    def pass_all(self) -> None:
        """Move the text that was read to the passed pieces, so that more can be added there."""
        if self._claimed < self.at:
            self.passed.append(self.text[self._claimed : self.at])
            self._claimed = self.at

    def push(self, text: str) -> None:
        """Append *text* to the unread text."""
        self.pass_all()
        self.offset += self.at
        self.text = self.text[self.at :] + text if self.at < len(self.text) else text
        self.at = self._claimed = 0

    def take_raw(self) -> str:
        """Take all text that was read and that no event has claimed."""
        raw = self.text[self._claimed : self.at]
        self._claimed = self.at
        if self.passed:
            raw = "".join(self.passed) + raw
            self.passed.clear()
        if self.kept is not None:
            self.kept.append(raw)
        if self._lead:
            raw = self._lead + raw
            self._lead = ""
        return raw

    def take_raw_except(self, size: int) -> str:
        """Take the text that was read and that no event has claimed, except *size* characters.

        These are the last ones, and they were read after `begin_call`.
        """
        raw = self.take_raw()
        if not size:
            return raw
        self.passed.append(raw[-size:])
        if self.kept is not None:
            self.kept[-1] = self.kept[-1][:-size]
        return raw[:-size]

    def begin_call(self) -> None:
        """Mark the position: text that is read from here on can be made unread again."""
        self._lead = self.take_raw()
        self.forget()

    def forget(self) -> None:
        """Forget what was claimed: it belongs to another call."""
        if self.kept is not None:
            self.kept.clear()

    def give_back(self) -> None:
        """Make all text since `begin_call` unread again."""
        passed = "".join(self.passed)
        if passed:
            self.text = passed + self.text[self._claimed :]
            self.offset += self._claimed - len(passed)
            self.passed.clear()
            self.at = self._claimed = 0
        else:
            self.at = self._claimed
        if self._lead:
            self.passed.append(self._lead)
            self._lead = ""

    def rewind(self, size: int) -> None:
        """Make the last *size* characters unread again; no event has claimed them."""
        if size > self.at - self._claimed:
            passed = "".join(self.passed)
            self.text = passed + self.text[self._claimed :]
            self.offset += self._claimed - len(passed)
            self.at += len(passed) - self._claimed
            self._claimed = 0
            self.passed.clear()
        self.at -= size

    def read_since_call(self) -> str:
        """Return the text since `begin_call`, without taking it.

        Text that events have claimed is included only if the scanner was created with *keeps*.
        """
        return "".join((*(self.kept or ()), *self.passed, self.text[self._claimed : self.at]))

    def drop(self) -> None:
        """Forget all text, including the unread: none of it is emitted."""
        self.text = self._lead = ""
        self.at = self._claimed = self.offset = 0
        self.passed.clear()
        self.forget()
