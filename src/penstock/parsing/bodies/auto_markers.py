"""Markers that begin in many ways: those of all formats at once, and as quick as those of one.

A pattern that begins with one of several characters is searched ten times slower than plain text.
So a long text is first looked through, a window at a time, for what the markers of each first
character have in common. A bracket that is a marker by itself waits for what follows it: most of
them turn out to be none, and no reader has to be made for that. Each tool may bring markers, too:
where there are many, a pattern of how they begin says where to look one up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from penstock.parsing.scanner import Markers, gate_of

WINDOW: Final = 4096
"""How much text is looked through at once: what one marker costs at most beside its way there."""

MAX_GAP: Final = 99
"""How much white space is held back behind a bracket."""

_UNDECIDED: Final = {
    "[": rf"(?:\[|\s{{0,{MAX_GAP}}}(?:\{{\s{{0,{MAX_GAP}}}[\"']?)?)\Z",
    "{": rf"\s{{0,{MAX_GAP}}}[\"']?\Z",
}
"""What behind a bracket, at the end of the text, leaves open whether it counts.

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
        self._needles = tuple(_common_beginning(group) for group in groups.values())
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
        """Give the longest marker that stands at *at*, if one does."""
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
        """Tell whether a marker may begin in the window at *at*."""
        end = at + WINDOW + self._overlap
        return any(text.find(needle, at, end) != -1 for needle in self._needles)


@lru_cache(maxsize=512)
def scattered(*literals: str, unless: str, guarded: tuple[str, ...]) -> Markers:
    """Give the compiled set of *literals*; the same set is compiled once."""
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
    """Tell whether all of *group* is one character: only what follows it says that it counts."""
    return group == [group[0][0]] and group[0] in guarded and group[0] in _UNDECIDED


def _common_beginning(group: Sequence[str]) -> str:
    one, other = min(group), max(group)
    size = 0
    while one[size : size + 1] == other[size : size + 1] != "":
        size += 1
    return one[:size]
