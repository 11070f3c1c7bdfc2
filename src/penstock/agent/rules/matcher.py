r"""Search for the conditions of rules in a text that arrives in pieces.

The end of the text is searched with `re` again and again. How far back, and how often, is in
`LEVELS`: a short match is found with the character that completes it, a longer one a little later,
and one longer than `WINDOW` may be missed.

The result depends on the text and never on how it was cut into pieces. Two things ensure that:

* Every search begins at a position that follows from the number of characters read so far, and
  pieces are split at the positions where a longer search is due.
* Only a match that later text cannot undo counts. ``foo\b`` matches at the end of ``foo``, but not
  in ``food``: such a condition has to be followed by as many characters as it looks at, or by the
  end of the text. `analyze` finds out how many these are.

Most conditions contain some fixed text. They are searched for only after it has arrived, which is
what keeps many rules cheap: 20 rules over 1 MB in pieces of 4 characters take 0.35 s, and 6 s if
none of them has any (`bench/rules.py` measures 50). One search of `WINDOW` characters per piece and
rule would take 32 s.

`re` backtracks, and a search blocks the event loop and cannot be cancelled. So `compile_condition`
refuses the usual ways to write a condition that takes exponential or cubic time.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final

LEVELS: Final = ((32, 96), (128, 400), (512, 1_000))
"""How often the end of the text is searched, and how long a match found there may be.

In characters. The first level is searched with every piece as well, so that short matches are found
at once. Each step is a multiple of the one before. With these, a condition without fixed text costs
about 40 comparisons for a character in pieces of 4 characters, most of them at the first level."""

WINDOW: Final = LEVELS[-1][1]
"""How long a match can be, in characters, including what the condition looks ahead at."""

LOOK_BEHIND: Final = 64
"""How many characters before a search the lookbehind of a condition can see."""

LOOK_AHEAD: Final = 64
"""How many characters must follow a match if it is unknown how far the condition looks ahead."""

MAX_LITERAL: Final = 16
"""How many characters of a condition's fixed text are looked for: few texts have 16 in common."""

TOO_MANY: Final = 3
"""How many repetitions in a row are refused if they can share the same text, as in ``.*a.*b.*c``.

A search takes up to the number of characters to the power of one more. For one that is 10 ms at the
last level. Two are searched for at the first two levels, where the worst text takes 0.2 s for 128
characters. Three would take 0.1 s for each piece at the first level alone. A group counts as often
as it is repeated."""

_PIECES: Final = (
    r"(?P<comment>\(\?\#[^)]*\))"
    r"|(?P<group>\((?!\?)|\(\?(?:P<\w+>|<[=!]|\(\w+\)|[aiLmsux]*(?:-[imsx]+)?:))"
    r"|(?P<ahead>\(\?[=!])"
    r"|(?P<atomic>\(\?>)"
    r"|(?P<other>\(\?(?:P=\w+|[aiLmsux]+)\))"
    r"|(?P<close>\))"
    r"|(?P<bar>\|)"
    r"|(?P<repeat>(?:[*+?]|\{\d+\}|\{\d*,\d*\})[?+]?)"
    r"|(?P<start>\\A|\^)"
    r"|(?P<border>\\[bBZ]|\$)"
    r"|(?P<reference>\\[1-9][0-9]?(?![0-7]))"
    r"|(?P<char>\[\^?\]?(?:\\.|[^\]\\])*\]"
    r"|\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|0[0-7]{0,2}|[1-3][0-7]{2}|.)"
    r"|.)"
)
_PLAIN: Final = re.compile(_PIECES, re.DOTALL)
_VERBOSE: Final = re.compile(rf"(?P<blank>\s+|\#[^\n]*)|{_PIECES}", re.DOTALL)
_SCOPED_FLAGS: Final = re.compile(r"\(\?[aiLmsu]*(?:x|-[imsx]*[mx])[imsx-]*:")
_GLOBAL_FLAGS: Final = re.compile(r"\A(?:\(\?[aiLmsux]+\)|\(\?\#[^)]*\))*")
_VERBOSE_FLAGS: Final = re.compile(r"\A(?:\(\?[aiLmsux]+\)|\(\?\#[^)]*\)|\s+|\#[^\n]*)*")
_COUNTS: Final = re.compile(r"\{(?P<least>\d*)(?:(?P<comma>,)(?P<most>\d*))?\}")
_FLAGS_OF_CHARACTERS: Final = re.ASCII | re.IGNORECASE | re.DOTALL
# Under IGNORECASE `re` equates these ASCII letters with others: U+0130, U+0131, U+017F, U+212A.
_LETTERS_WITH_VARIANTS: Final = frozenset("iskISK")
_SAMPLE: Final = [*map(chr, range(128)), "\xa0", "\xe9", "\u0416", "\u0663", "\u4e2d", "\u2028"]


@lru_cache(maxsize=512)  # rules are compiled for each tool
def compile_condition(condition: str) -> re.Pattern[str]:
    """Compile *condition*; ``^`` and ``$`` match at line borders, since most text is code.

    Raises `ValueError`, with a reason, for one that is not a regular expression, that matches the
    empty text, or that can take too long.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # sets that may be nested one day
            pattern = re.compile(condition, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as exc:
        raise ValueError(f"condition {condition!r} is not a regular expression: {exc}") from exc
    if pattern.search(""):
        raise ValueError(f"condition {condition!r} matches the empty text, so it always matches")
    problem = _find_backtracking(pattern)
    if problem:
        raise ValueError(f"condition {condition!r} can take too long: {problem}")
    return pattern


class ConditionSet:
    """Conditions that are searched for together, numbered in their order."""

    def __init__(self, patterns: Sequence[re.Pattern[str]]) -> None:
        self.patterns = list(patterns)
        self.settled: list[re.Pattern[str]] = []
        """Each pattern as it is searched for before the end: later text cannot undo a match."""
        self.levels: list[int] = []
        """At how many levels each pattern is searched for."""
        self.excluded: list[set[int]] = [set() for _ in LEVELS]
        """The conditions that are not searched for, at each level."""
        self.always: list[int] = []
        """Conditions without fixed text."""
        self.literals: dict[str, list[tuple[str, int]]] = {}
        """The fixed texts in lower case, by their last character, with their conditions."""
        for number, pattern in enumerate(self.patterns):
            analysis = analyze(pattern)
            self.settled.append(_require_following(pattern, analysis.look_ahead))
            # The first level is too early for a deferred condition, so it has the second at least.
            least = 2 if analysis.is_deferred else 1
            self.levels.append(max(least, len(LEVELS) + 1 - max(1, analysis.shared)))
            for level, excluded in enumerate(self.excluded):
                if level >= self.levels[-1] or (level == 0 and analysis.is_deferred):
                    excluded.add(number)
            if not analysis.literals:
                self.always.append(number)
            for literal in analysis.literals:
                self.literals.setdefault(literal[-1], []).append((literal, number))


class Matcher:
    """Searches one text for conditions; each is found at most once."""

    def __init__(self, conditions: ConditionSet) -> None:
        self._conditions = conditions
        self._count = 0  # characters read
        self._kept = ""  # the last of them
        self._recent = ""  # the last of them in lower case, for fixed texts
        self._found: set[int] = set()
        # Up to where the fixed text of a condition may have occurred last.
        self._candidates = dict.fromkeys(conditions.always, float("inf"))

    def feed(self, text: str) -> list[int]:
        """Read *text*; return the numbers of the conditions found with it, in order."""
        found: list[int] = []
        step, window = LEVELS[0]
        literals = self._conditions.literals
        at = 0
        while at < len(text):
            room = step - self._count % step
            part = text[at : at + room]
            at += room
            begin = self._count + room - step - window
            self._count += len(part)
            self._kept += part
            lower = part.lower()
            recent = self._recent + lower
            self._recent = recent[-MAX_LITERAL:]
            for char in lower:
                if char in literals:
                    for literal, number in literals[char]:
                        if literal in recent:
                            self._candidates[number] = self._count
            if self._candidates:
                found += self._search(begin, 0)
            if len(part) == room:
                found += self._search_far()
        return sorted(found) if found else found

    def finish(self) -> list[int]:
        """End the text; return the numbers of the conditions found only now."""
        if not self._count:
            return []
        found = []
        for number, last in self._candidates.items():
            step, window = LEVELS[self._conditions.levels[number] - 1]
            begin = self._count - self._count % step - window
            if last <= begin or number in self._found:
                continue
            offset = max(0, len(self._kept) - (self._count - begin))
            if self._conditions.patterns[number].search(self._kept, offset):
                found.append(number)
        self._found.update(found)
        return sorted(found)

    def _search_far(self) -> list[int]:
        """Search the levels that are due at this position, then drop what is too old."""
        found: list[int] = []
        for level, (step, window) in enumerate(LEVELS):
            if level and self._count % step == 0:
                found += self._search(self._count - step - window, level)
        if self._count % LEVELS[-1][0] == 0:
            self._kept = self._kept[-LEVELS[-1][1] - LOOK_BEHIND :]
        return found

    def _search(self, begin: int, level: int) -> list[int]:
        """Search what was read from position *begin* on."""
        found: list[int] = []
        excluded = self._conditions.excluded[level]
        # The text before `begin` is kept for the lookbehinds of conditions.
        offset = max(0, len(self._kept) - (self._count - begin))
        for number, last in self._candidates.items():
            if last <= begin or number in self._found or number in excluded:
                continue
            if self._conditions.settled[number].search(self._kept, offset):
                found.append(number)
        self._found.update(found)
        return found


# --- what a condition looks at ---


@dataclass(frozen=True, slots=True)
class ConditionAnalysis:
    """What the matcher has to know about a condition.

    *look_ahead* is how many characters after a match can undo it. A condition *is_deferred* if that
    is not known for sure, or if a match can come and go. One of *literals*, in lower case, is in
    every match; without any, nothing is known. *shared* is how many repetitions in a row can divide
    the same text among them.
    """

    look_ahead: int
    is_deferred: bool
    literals: tuple[str, ...]
    shared: int


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: str
    text: str
    repeat: str = ""

    @property
    def counts(self) -> tuple[int, float]:
        """How often the piece occurs, at least and at most."""
        if not self.repeat:
            return 1, 1
        if (found := _COUNTS.match(self.repeat)) is None:
            return {"*": (0, float("inf")), "+": (1, float("inf")), "?": (0, 1)}[self.repeat[0]]
        least = int(found["least"] or 0)
        if not found["comma"]:
            return least, least
        return least, int(found["most"]) if found["most"] else float("inf")

    @property
    def is_possessive(self) -> bool:
        return len(self.repeat) > 1 and self.repeat.endswith("+")

    @property
    def is_character(self) -> bool:
        """Whether at least one character is taken here."""
        return self.kind == "char" and self.counts[0] > 0


def analyze(pattern: re.Pattern[str]) -> ConditionAnalysis:
    """Find out how far *pattern* looks ahead and which fixed text it contains."""
    if _SCOPED_FLAGS.search(pattern.pattern):
        # What is a comment, or the end of a line, changes within it.
        return ConditionAnalysis(LOOK_AHEAD, is_deferred=True, literals=(), shared=TOO_MANY - 1)
    pieces = _split(pattern)
    shared = _count_shared(pieces, pattern.flags & _FLAGS_OF_CHARACTERS)
    look_ahead = 0
    is_deferred = False
    for at, piece in enumerate(pieces):
        # A border is decided within the match if a character is taken right after it. The same
        # holds for a possessive repetition of one character: `\w++` ends where a match continues.
        is_open = at + 1 == len(pieces) or not pieces[at + 1].is_character
        if piece.kind == "atomic" or (piece.is_possessive and piece.kind != "char"):
            is_deferred = True  # it may take more once more has arrived, and then fail
        elif piece.kind == "border" or piece.is_possessive:
            look_ahead = max(look_ahead, int(is_open))
        elif piece.kind == "ahead":
            length = _measure_look(pieces[at + 1 :])
            is_deferred = is_deferred or length > LOOK_AHEAD // 2
            look_ahead = max(look_ahead, length)
    if is_deferred:
        look_ahead = LOOK_AHEAD
    literals = _find_literals(pieces, pattern.flags)
    return ConditionAnalysis(look_ahead, is_deferred, literals, shared)


def _split(pattern: re.Pattern[str]) -> list[_Piece]:
    """Split a valid *pattern* into pieces, each with the repetition that follows it."""
    scanner = _VERBOSE if pattern.flags & re.VERBOSE else _PLAIN
    pieces: list[_Piece] = []
    for found in scanner.finditer(pattern.pattern):
        if found.lastgroup == "repeat" and pieces:
            pieces[-1] = _Piece(pieces[-1].kind, pieces[-1].text, found[0])
        elif found.lastgroup not in {"blank", "comment"}:
            pieces.append(_Piece(str(found.lastgroup), found[0]))
    return pieces


def _measure_look(pieces: Sequence[_Piece]) -> int:
    """Return how far a look ahead reaches whose body *pieces* begin with, if it is simple."""
    length = 0
    for piece in pieces:
        if piece.kind == "close":
            return length
        if piece.kind not in {"char", "border", "start", "bar"} or piece.repeat:
            break
        length += piece.kind in {"char", "border"}
    return LOOK_AHEAD


def _find_literals(pieces: Sequence[_Piece], flags: int) -> tuple[str, ...]:
    """Return the longest fixed text of each alternative; nothing if one has none."""
    excluded = _LETTERS_WITH_VARIANTS if flags & re.IGNORECASE else frozenset()
    best = [""]
    run = ""
    depth = 0
    for piece in pieces:
        char = piece.text[-1]
        is_plain = len(piece.text) == 1 and char not in ".["
        is_escaped = len(piece.text) == len(r"\.") and piece.text[0] == "\\" and not char.isalnum()
        if piece.kind in {"group", "ahead", "atomic"}:
            depth += 1
        elif piece.kind == "close":
            depth -= 1
        elif piece.kind == "bar" and not depth:
            best.append("")
        elif (
            piece.kind == "char"
            and not depth
            and not piece.repeat
            and (is_plain or is_escaped)
            and char.isascii()  # others may change their length in lower case
            and char not in excluded
        ):
            run = (run + char.lower())[-MAX_LITERAL:]
            if len(run) >= len(best[-1]):  # the last one if equal: a match is not complete before
                best[-1] = run
            continue
        run = ""
    return tuple(dict.fromkeys(best)) if all(best) else ()


def _require_following(pattern: re.Pattern[str], count: int) -> re.Pattern[str]:
    """Make a pattern of *pattern* that matches only if *count* characters follow."""
    if not count:
        return pattern
    is_verbose = bool(pattern.flags & re.VERBOSE)
    flags = _VERBOSE_FLAGS if is_verbose else _GLOBAL_FLAGS  # allowed at the beginning only
    source = flags.sub("", pattern.pattern)
    end = "\n)" if is_verbose else ")"  # a comment ends with its line
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(f"(?:{source}{end}(?=[\\s\\S]{{{count}}})", pattern.flags)


# --- what takes too long ---


def _find_backtracking(pattern: re.Pattern[str]) -> str:
    """Return what makes `re` try too many ways in *pattern* and what to do about it, if any."""
    pieces = _split(pattern)
    flags = pattern.flags & _FLAGS_OF_CHARACTERS
    opened: list[int] = []
    for at, piece in enumerate(pieces):
        if piece.kind in {"group", "ahead", "atomic"}:
            opened.append(at)
        if piece.kind != "close" or not opened:
            continue
        begin = opened.pop()
        if pieces[begin].kind == "atomic" or piece.is_possessive or piece.counts[1] < TOO_MANY:
            continue
        body = pieces[begin + 1 : at]
        if any(_is_endless(each) for each in body) and not _is_delimited(body, flags):
            return (
                "it repeats a repetition. Make the inner one possessive, as in (?:\\w++ ?)+, or "
                "end the group with a character that is nowhere else in it, as in (?:[^,]*,)+"
            )
        if _has_overlap(body, flags):
            return "it repeats alternatives that overlap. Write them as one set, as in [\\w-]*"
    if _count_shared(pieces, flags) >= TOO_MANY:
        return (
            "it has too many repetitions in a row that match the same text. Use sets that exclude "
            "what follows, as in a[^b]*b, or possessive repetitions"
        )
    return ""


def _count_shared(pieces: Sequence[_Piece], flags: int) -> int:
    r"""Return how many repetitions in a row can divide the same text among them, at most.

    Two of them share text if both match some character, and if the first also matches all that is
    required between them: ``.*a.*`` do, ``\s*=\s*`` do not.
    """
    most = 0
    runs: list[tuple[frozenset[str], int]] = []  # their characters, and how many share text
    opened: list[tuple[int, int]] = []  # groups: where they begin, in pieces and in runs
    for at, piece in enumerate(pieces):
        chars = _list_characters(piece.text, flags) if piece.kind == "char" else frozenset[str]()
        first = opened[-1][1] if opened else 0
        if piece.kind in {"group", "ahead", "atomic"}:
            opened.append((at, len(runs)))
        elif piece.kind == "bar":  # what follows is not required after what comes before
            if opened:
                opened[-1] = (opened[-1][0], len(runs))
            else:
                runs.clear()
        elif piece.kind == "close" and opened:
            begin, first = opened.pop()
            body = [each for each in pieces[begin:at] if each.kind == "char"]
            chars = chars.union(*(_list_characters(each.text, flags) for each in body))
            inside = max((count for _, count in runs[first:]), default=0)
            if inside and 1 < piece.counts[1] < TOO_MANY:
                runs.append((chars, inside * int(piece.counts[1])))
        elif piece.kind in {"reference", "other"}:
            chars = frozenset(_SAMPLE)
        elif piece.is_character:
            runs[first:] = [each for each in runs[first:] if each[0] & chars]
        if _is_endless(piece):
            before = max((count for each, count in runs if each & chars), default=0)
            runs.append((chars, before + 1))
        most = max([most, *(count for _, count in runs)])
    return most


def _is_endless(piece: _Piece) -> bool:
    return piece.counts[1] == float("inf") and not piece.is_possessive


@lru_cache(maxsize=512)
def _list_characters(source: str, flags: int) -> frozenset[str]:
    """Return the characters of a sample that the piece *source* matches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        pattern = re.compile(source, flags)
    return frozenset(filter(pattern.fullmatch, _SAMPLE))


def _is_delimited(body: Sequence[_Piece], flags: int) -> bool:
    r"""Return whether *body* begins or ends with a character that is nowhere else in it.

    That is how ``(?:\w+\.)+`` differs from ``(?:\w+\.?)+``: there is one way to part the text.
    """
    if any(piece.kind not in {"char", "border", "start"} for piece in body):
        return False
    for at in (0, -1):
        text = body[at].text
        is_plain = len(text) == 1 and not text.isalnum() and text != "."
        is_escaped = len(text) == len(r"\.") and text[0] == "\\" and not text[1].isalnum()
        char = "\n" if text == r"\n" else text[-1]
        others = [each for each in (body[1:] if at == 0 else body[:-1]) if each.kind == "char"]
        if (
            body[at].kind == "char"
            and not body[at].repeat
            and (is_plain or is_escaped or text == r"\n")
            and char in _SAMPLE
            and not any(char in _list_characters(each.text, flags) for each in others)
        ):
            return True
    return False


def _has_overlap(body: Sequence[_Piece], flags: int) -> bool:
    """Return whether two alternatives of one character in *body* can match the same one."""
    alternatives = [
        [*group] for is_bar, group in groupby(body, lambda piece: piece.kind == "bar") if not is_bar
    ]
    singles = [each[0] for each in alternatives if len(each) == 1 and each[0].kind == "char"]
    sets = [_list_characters(each.text, flags) for each in singles]
    return sum(map(len, sets)) > len(frozenset[str]().union(*sets))
