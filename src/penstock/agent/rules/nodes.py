"""What a regular expression is made of, as far as one must know to follow it through a stream.

One-character pieces keep their own source: `re` itself says which characters they take, so that
classes, categories and letter case mean here what they mean there. What takes no character says
only how far it looks ahead.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

LOOK_AHEAD: Final = 64
"""How many characters behind a match are waited for, at most, where a condition looks ahead: most
look at a word, and every character waited for is one more that the model writes in vain."""

AT_END: Final = 1 << 60
"""How far a condition looks ahead that speaks of the end of the text: until the text has ended."""


def compile_quietly(source: str, flags: int) -> re.Pattern[str]:
    """Compile *source* as Python reads it today; raises what `re` raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of sets that may be nested one day
        return re.compile(source, flags)


@dataclass(frozen=True, slots=True)
class One:
    """One character, any that *source* matches under *flags*."""

    source: str
    flags: int


@dataclass(frozen=True, slots=True)
class Border:
    """A place between characters; *ahead* is how much behind it must be seen to know.

    *sign* is ``b`` or ``B`` for the borders of words under *flags*, ``^`` or ``$`` for those of
    lines, ``A`` or ``Z`` for those of the text.
    """

    sign: str
    ahead: int
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """A look ahead or behind, which takes nothing."""

    body: Node
    ahead: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One thing after the other; none at all is the empty text."""

    items: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same several times; *most* is ``None`` without a limit."""

    body: Node
    least: int
    most: int | None


Node = One | Border | Look | Row | Choice | Repeat
"""Any piece of a regular expression."""


def can_be_empty(node: Node) -> bool:
    """Tell whether *node* may take no character."""
    match node:
        case One():
            return False
        case Border() | Look():
            return True
        case Row(items):
            return all(map(can_be_empty, items))
        case Choice(options):
            return any(map(can_be_empty, options))
        case Repeat(body, least, _):
            return least == 0 or can_be_empty(body)
        case _:
            assert_never(node)


def foresight(node: Node, *, is_last: bool = True) -> int:
    """Tell how many characters behind a match *node* may look at; *is_last* if it may end one."""
    match node:
        case One():
            return 0
        case Border(ahead=ahead):
            return ahead if is_last else 0
        case Look(body, ahead):
            return _capped(reach(body)) if ahead else foresight(body, is_last=is_last)
        case Row(items):
            return _foresight_of_row(items, is_last=is_last)
        case Choice(options):
            return max((foresight(option, is_last=is_last) for option in options), default=0)
        case Repeat(body, _, _):
            return foresight(body, is_last=is_last)
        case _:
            assert_never(node)


def _foresight_of_row(items: Sequence[Node], *, is_last: bool) -> int:
    seen = 0
    for item in reversed(items):
        seen = max(seen, foresight(item, is_last=is_last))
        is_last = is_last and can_be_empty(item)
    return seen


def _capped(seen: int) -> int:
    return AT_END if seen >= AT_END else min(seen, LOOK_AHEAD)


def reach(node: Node) -> int:
    """Tell how many characters *node* may take or look at, at most.

    Without a limit that is at least `LOOK_AHEAD`; to the end of the text, at least `AT_END`.
    """
    match node:
        case One():
            return 1
        case Border(ahead=ahead):
            return ahead
        case Look(body, _):
            return reach(body)
        case Row(items):
            return sum(map(reach, items))
        case Choice(options):
            return max(map(reach, options), default=0)
        case Repeat(body, _, most):
            return max(LOOK_AHEAD, reach(body)) if most is None else most * reach(body)
        case _:
            assert_never(node)


def nests(node: Node, *, is_within: bool = False) -> bool:
    """Tell whether an endless repetition stands in another: `re` may take for ever over it."""
    match node:
        case One() | Border():
            return False
        case Look(body, _):
            return nests(body, is_within=is_within)
        case Row(items) | Choice(items):
            return any(nests(item, is_within=is_within) for item in items)
        case Repeat(body, _, most):
            is_endless = most is None
            return (is_endless and is_within) or nests(body, is_within=is_within or is_endless)
        case _:
            assert_never(node)
