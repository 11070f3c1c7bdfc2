"""The text that a parser reads: what is unread, where it stands, what no event has claimed yet.

`Markers` is a set of literal markers for one state of a parser, compiled once: a pattern that finds
the earliest (the longest of those that begin at one place), a gate of their first characters, and
the beginnings that have to be held back. `Scanner` owns the text. Readers look at `text` from `at`
on and move `at`; what they pass is consumed, and rides as `raw` on the next event that takes it.
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

    A marker of *guarded* that the pattern *unless* follows is not one. It has to match within the
    text that is there: a marker that may yet be none is one, and whoever reads on will tell.
    """

    __slots__ = ("_sorted", "find", "fold", "gate", "literals", "longest")

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
        self.find = self._finder(unless, guarded)
        self.gate = self._compile(gate_of(self.literals, unless, guarded)).search
        self.longest = max(map(len, self.literals), default=0)
        self._sorted = sorted(map(self._folded, self.literals))

    def _finder(self, unless: str, guarded: tuple[str, ...]) -> Callable[..., re.Match[str] | None]:
        """Return what finds the earliest marker in a text, after a place in it."""
        free = [literal for literal in self.literals if literal not in guarded]
        parts = [_any_of(free)] if free else []
        if guarded:
            parts.append(f"(?:{_any_of(guarded)})(?!{unless})")
        pattern = self._compile("|".join(parts))
        firsts = {literal[0] for literal in self.literals}
        if self.fold and len(firsts) == 1 and not (first := firsts.pop()).isalpha():
            return partial(_find_behind, pattern, first)
        return pattern.search

    def _compile(self, pattern: str) -> re.Pattern[str]:
        """Compile *pattern*; an empty one matches nowhere."""
        return re.compile(pattern or r"(?!)", re.ASCII | re.IGNORECASE if self.fold else re.NOFLAG)

    def find_held(self, text: str, at: int = 0) -> int:
        """Find where the longest end of *text* begins that may become a marker.

        That is ``len(text)`` where nothing has to be held back.
        """
        found = self.gate(text, max(at, len(text) - self.longest + 1))
        while found:
            start = found.start()
            if self._begins(text[start:]):
                return start
            found = self.gate(text, start + 1)
        return len(text)

    def may_grow(self, text: str, start: int) -> bool:
        """Return whether *text* ends within a longer marker than the one that begins at *start*."""
        is_short = len(text) - start < self.longest
        return is_short and self._begins(text[start:])

    def _begins(self, text: str) -> bool:
        """Return whether a marker begins with *text*, and is longer.

        Such markers follow *text* in their order. A table of all beginnings would grow with the
        square of a marker's length, which may be that of a tool's name.
        """
        text = self._folded(text)
        behind = bisect_right(self._sorted, text)
        return behind < len(self._sorted) and self._sorted[behind].startswith(text)

    def _folded(self, text: str) -> str:
        if not self.fold:
            return text
        # Beyond ASCII `lower` may change a letter into one of ours (the Kelvin sign).
        return text.lower() if text.isascii() else text.translate(_LOWER)


_SHORT: Final = 64  # characters: in less than this a pattern of any kind is quick


def _find_behind(
    pattern: re.Pattern[str], first: str, text: str, at: int = 0
) -> re.Match[str] | None:
    """Find a match of *pattern* that begins with *first*, which is looked for as it is.

    A pattern without regard to case has no such short cut, and is twenty times slower on text.
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
"""How often the markers of a pattern may part: each time nests a group, and clients name tools."""


def _any_of(literals: Sequence[str], depth: int = MAX_BRANCHES) -> str:
    """Write a pattern of *literals*, the longest first, that tries no common beginning twice.

    So forty markers that begin alike cost hardly more than one.
    """
    if not depth:
        return f"(?:{'|'.join(map(re.escape, sorted(literals, key=len, reverse=True)))})"
    common = _common_beginning(min(literals), max(literals))
    rests: dict[str, list[str]] = {}
    for literal in literals:
        rest = literal[len(common) :]
        rests.setdefault(rest[:1], []).append(rest)
    ends_here = rests.pop("", None) is not None
    branches = "|".join(_any_of(each, depth - 1) for each in rests.values())
    return re.escape(common) + (f"(?:{branches}){'?' if ends_here else ''}" if branches else "")


def _common_beginning(one: str, other: str) -> str:
    size = 0
    while one[size : size + 1] == other[size : size + 1] != "":
        size += 1
    return one[:size]


GATE_DEPTH: Final = 3
"""How many characters after the first a gate looks at."""

MAX_GATES: Final = 256
"""How many ways to continue a gate tells apart: clients name tools, and each way is compiled."""


def gate_of(literals: Sequence[str], unless: str = "", guarded: Sequence[str] = ()) -> str:
    """Write a pattern of where one of *literals* begins, or may begin if more text comes.

    Several characters are looked at: most brackets of an answer begin nothing.
    """
    groups: dict[str, list[str]] = {}
    for literal in literals:
        groups.setdefault(literal[0], []).append(literal[1:])
    return "|".join(
        re.escape(first) + _gate_behind(rests, unless if first in guarded else "", _depth_of(rests))
        for first, rests in groups.items()
    )


def _depth_of(rests: Sequence[str]) -> int:
    """Return how many characters of *rests* a gate looks at: fewer where too many ways continue."""
    depth = GATE_DEPTH
    while depth > 1 and len({rest[:depth] for rest in rests}) > MAX_GATES:
        depth -= 1
    return depth


def _gate_behind(rests: Sequence[str], unless: str, depth: int = GATE_DEPTH) -> str:
    """Write what has to follow a character, where *rests* may: nothing, where that is enough."""
    if "" in rests or not depth:
        if not unless:
            return ""
        others = [rest for rest in rests if rest]
        beside = f"|{_gate_behind(others, '')}" if others else ""
        return f"(?:(?!{unless}){beside})"
    groups: dict[str, list[str]] = {}
    for rest in rests:
        groups.setdefault(rest[0], []).append(rest[1:])
    branches = [
        re.escape(first) + _gate_behind(behind, "", depth - 1) for first, behind in groups.items()
    ]
    return rf"(?:\Z|{'|'.join(branches)})"


MAX_CACHED: Final = 16_384
"""How many characters a set of markers may have to be kept among the many: 8 MB in all.

A request chooses the names of its tools, so larger sets are kept only a few at a time."""


def markers(
    *literals: str, fold: bool = False, unless: str = "", guarded: tuple[str, ...] = ()
) -> Markers:
    """Return the compiled set of *literals*; the same set is compiled once."""
    compile_ = _compile_small if sum(map(len, literals)) <= MAX_CACHED else _compile_large
    return compile_(literals, fold, unless, guarded)


def _compile(
    literals: tuple[str, ...],
    fold: bool,  # noqa: FBT001 - a cache tells calls with keywords from those without
    unless: str,
    guarded: tuple[str, ...],
) -> Markers:
    return Markers(literals, fold=fold, unless=unless, guarded=guarded)


_compile_small: Final = lru_cache(maxsize=512)(_compile)
_compile_large: Final = lru_cache(maxsize=8)(_compile)


class Scanner:
    """The unread text, the position in it, and the text that was read and not yet claimed."""

    __slots__ = ("_claimed", "_lead", "at", "kept", "offset", "passed", "text")

    def __init__(self, *, keeps: bool = False) -> None:
        self.text = ""
        self.at = 0
        self.offset = 0  # where `text` begins in the whole answer
        self._claimed = 0  # the text before it is claimed, or among the passed pieces
        self.passed: list[str] = []  # pieces that were read whole and not claimed
        self._lead = ""  # what was unclaimed when the open call began
        # What events have claimed of the open call, where somebody will want all of its text.
        self.kept: list[str] | None = [] if keeps else None

    @property
    def has_raw(self) -> bool:
        """Whether text was read that no event has claimed."""
        return bool(self.passed or self._lead) or self._claimed < self.at

    @property
    def unread(self) -> str:
        """The text that nobody has read."""
        return self.text[self.at :]

    def pass_all(self) -> None:
        """Put what was read among the passed pieces, so that more can be added there."""
        if self._claimed < self.at:
            self.passed.append(self.text[self._claimed : self.at])
            self._claimed = self.at

    def push(self, text: str) -> None:
        """Take more text after what is unread."""
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

    def begin_call(self) -> None:
        """Remember this place: what is read from here on can be given back."""
        self._lead = self.take_raw()
        self.forget()

    def forget(self) -> None:
        """Let a call of its own begin here: what was claimed before belongs to another."""
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

    def give_back_end(self, size: int) -> None:
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

        What events have claimed is part of it only where the scanner keeps it.
        """
        return "".join((*(self.kept or ()), *self.passed, self.text[self._claimed : self.at]))

    def drop(self) -> None:
        """Forget all text, unread too: none of it is to come out."""
        self.text = self._lead = ""
        self.at = self._claimed = self.offset = 0
        self.passed.clear()
        self.forget()


# Markers that begin in many ways: those of all formats at once, and as quick as those of one.
#
# A pattern that begins with one of several characters is searched ten times slower than plain
# text. So a long text is first looked through, a window at a time, for what the markers of each
# first character have in common. A bracket that is a marker by itself waits for what follows
# it: most of them turn out to be none, and no reader has to be made for that. Each tool may
# bring markers, too: where there are many, a pattern of how they begin says where to look one
# up.


WINDOW: Final = 4096
"""How much text is looked through at once: what one marker costs at most beside its way there."""

MAX_GAP: Final = 99
"""How much white space is held back after a bracket."""

_UNDECIDED: Final = {
    "[": rf"(?:\[|\s{{0,{MAX_GAP}}}(?:\{{\s{{0,{MAX_GAP}}}[\"']?)?)\Z",
    "{": rf"\s{{0,{MAX_GAP}}}[\"']?\Z",
}
"""What after a bracket, at the end of the text, leaves open whether it counts.

To open a body for each would cost some 40 µs, and models do write floods of brackets."""

_MAX_UNDECIDED: Final = 2 * MAX_GAP + 3  # characters, with the bracket

MANY: Final = 256
"""With more markers of one first character these are looked up, not compiled.

A pattern of the tags of a thousand tools takes 50 ms to compile, for each of the sets that an
answer needs, and tries them one by one at each bracket of the text.
"""


class ScatteredMarkers(Markers):
    """A large set of markers; *unless* follows none of *guarded*."""

    __slots__ = ("_firsts", "_many", "_needles", "_open", "_overlap", "_search", "_sizes")

    def _finder(self, unless: str, guarded: tuple[str, ...]) -> Callable[..., re.Match[str] | None]:
        groups: dict[str, list[str]] = {}
        for literal in self.literals:
            groups.setdefault(literal[0], []).append(literal)
        self._needles = tuple(_common_beginning_auto_markers(group) for group in groups.values())
        self._overlap = max(map(len, self._needles))
        self._search = re.compile(
            "|".join(_pattern_of(group, unless, guarded) for group in groups.values())
        ).search
        bare = [group[0] for group in groups.values() if _is_bare(group, guarded)]
        self._open = re.compile(
            "|".join(re.escape(one) + _UNDECIDED[one] for one in bare) or "(?!)"
        )
        many = [group for group in groups.values() if len(group) > MANY]
        self._firsts = {group[0][0] for group in many}
        self._many = frozenset(literal for group in many for literal in group)
        self._sizes = tuple(sorted({len(literal) for literal in self._many}, reverse=True))
        return self._find_or_look_up if many else self._find

    def _find_or_look_up(self, text: str, at: int = 0) -> re.Match[str] | None:
        """Find the earliest marker; of some the pattern says only where one may begin."""
        found = self._find(text, at)
        while found is not None and text[start := found.start()] in self._firsts:
            marker = self._look_up(text, start)
            if marker:
                return re.compile(re.escape(marker)).match(text, start)
            found = self._find(text, start + 1)
        return found

    def _look_up(self, text: str, at: int) -> str:
        """Return the longest marker that is at *at*, if one does."""
        for size in self._sizes:
            if (piece := text[at : at + size]) in self._many:
                return piece
        return ""

    def _find(self, text: str, at: int = 0) -> re.Match[str] | None:
        while len(text) - at > WINDOW and not self._is_in(text, at):
            at += WINDOW
        return self._search(text, at)

    def find_held(self, text: str, at: int = 0) -> int:
        """Find where the end of *text* begins that may become a marker.

        A bracket is one, with what leaves it undecided: only what follows says whether it counts.
        """
        held = super().find_held(text, at)
        found = self._open.search(text, max(at, len(text) - _MAX_UNDECIDED))
        return held if found is None else min(held, found.start())

    def _is_in(self, text: str, at: int) -> bool:
        """Return whether a marker may begin in the window at *at*."""
        end = at + WINDOW + self._overlap
        return any(text.find(needle, at, end) != -1 for needle in self._needles)


@lru_cache(maxsize=512)
def scattered(*literals: str, unless: str, guarded: tuple[str, ...]) -> Markers:
    """Return the compiled set of *literals*; the same set is compiled once."""
    return ScatteredMarkers(literals, unless=unless, guarded=guarded)


def _pattern_of(group: Sequence[str], unless: str, guarded: tuple[str, ...]) -> str:
    """Write a pattern of markers with the same first character, the longest first.

    Of many it says only how they begin.
    """
    first = re.escape(group[0][0])
    if _is_bare(group, guarded):
        return f"{first}(?!{unless}|{_UNDECIDED[group[0]]})"
    if len(group) > MANY:
        return gate_of(group)
    rests = "|".join(re.escape(each[1:]) for each in sorted(group, key=len, reverse=True))
    return f"{first}(?:{rests})"


def _is_bare(group: Sequence[str], guarded: tuple[str, ...]) -> bool:
    """Return whether all of *group* is one character: only what follows it says that it counts."""
    return group == [group[0][0]] and group[0] in guarded and group[0] in _UNDECIDED


def _common_beginning_auto_markers(group: Sequence[str]) -> str:
    one, other = min(group), max(group)
    size = 0
    while one[size : size + 1] == other[size : size + 1] != "":
        size += 1
    return one[:size]
