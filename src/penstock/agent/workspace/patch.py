"""Diffs as models write them: hunks of context, removed and added lines.

The numbers in ``@@ -12,3 +12,4 @@`` are often wrong and mostly omitted, so a hunk is found by its
lines, which must be in the file once; a number only decides between places that are alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import groupby, islice, pairwise
from typing import Final

from penstock.agent.workspace.search import line_at, nearest, only_place, places_of
from penstock.errors import ToolError

# An edit as people read it: a unified diff, made from the places that changed and no others.


Change = tuple[int, int, str]
"""A piece of a text that changes: where it starts and ends, and the new text."""

MAX_DIFF_LINES: Final = 400
"""How long the diff is that people are shown of an edit."""

MAX_COMPARED: Final = 2_000
"""How many lines are compared with one another; of more, the old are shown and then the new."""

MAX_LINE: Final = 1_000
"""How much of a line is shown: some files are one line."""

AROUND: Final = 3
"""How many lines are shown around a change."""


def shown_diff(path: str, text: str, changes: list[Change]) -> str:
    """Write what *changes*, which are in order, do to *text*, up to a limit of lines."""
    lines = islice(_lines(path, text, changes), MAX_DIFF_LINES)
    return "\n".join(line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…" for line in lines)


@dataclass
class _Block:
    """A stretch of whole lines with changes in it."""

    start: int
    end: int
    changes: list[Change]

    def after(self, text: str) -> str:
        """Return the stretch as it is after the changes."""
        pieces, at = [], self.start
        for start, end, new in self.changes:
            pieces += [text[at:start], new.replace("\r\n", "\n")]
            at = end
        return "".join(pieces) + text[at : self.end]


def _lines(path: str, text: str, changes: list[Change]) -> Iterator[str]:
    yield f"--- {path}"
    yield f"+++ {path}"
    at = line = grown = 0
    for block in _blocks(text, changes):
        line += text.count("\n", at, block.start)
        at = block.start
        is_last = block.end == len(text)
        old = _split(text[block.start : block.end], is_last=is_last)
        new = _split(block.after(text), is_last=is_last)
        yield from _hunks(old, new, line, line + grown)
        grown += len(new) - len(old)


def _blocks(text: str, changes: list[Change]) -> list[_Block]:
    blocks: list[_Block] = []
    for change in changes:
        start, end = _line_before(text, change[0]), _line_after(text, change[1])
        if blocks and start <= blocks[-1].end:
            blocks[-1].end = max(end, blocks[-1].end)
            blocks[-1].changes.append(change)
        else:
            blocks.append(_Block(start, end, [change]))
    return blocks


def _line_before(text: str, place: int) -> int:
    for _ in range(AROUND + 1):
        place = text.rfind("\n", 0, place)
        if place == -1:
            return 0
    return place + 1


def _line_after(text: str, place: int) -> int:
    for _ in range(AROUND + 1):
        place = text.find("\n", place) + 1
        if not place:
            return len(text)
    return place


def _split(text: str, *, is_last: bool) -> list[str]:
    """Split whole lines; after the last of a text stands what comes after its end, if nothing."""
    lines = text.split("\n")
    return lines if is_last else lines[:-1]


def _hunks(old: list[str], new: list[str], old_at: int, new_at: int) -> Iterator[str]:
    if len(old) + len(new) > MAX_COMPARED:
        yield f"@@ -{old_at + 1},{len(old)} +{new_at + 1},{len(new)} @@"
        yield from (f"-{line}" for line in old)
        yield from (f"+{line}" for line in new)
        return
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(AROUND):
        (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
        yield f"@@ -{old_at + a + 1},{b - a} +{new_at + c + 1},{d - c} @@"
        for kind, start, end, new_start, new_end in group:
            sign = " " if kind == "equal" else "-"
            yield from (f"{sign}{line}" for line in old[start:end])
            if kind != "equal":
                yield from (f"+{line}" for line in new[new_start:new_end])


_HUNK: Final = re.compile(r"@@(?: -(\d+)(?:,(\d+))?(?: \+\d+(?:,\d+)?)? ?@@.*|.*)")
_HEADERS: Final = ("diff ", "index ", "new file mode", "old mode", "new mode", "similarity ")
_NO_END: Final = "\\ No newline"


@dataclass
class Hunk:
    """Lines, each with its sign (a space, - or +); *line* is where they say that they are.

    The last *blanks* of them are empty and had no sign: they may be no part of it.
    """

    line: int | None = None
    lines: list[tuple[str, str]] = field(default_factory=list)
    blanks: int = 0

    @property
    def old(self) -> list[str]:
        """The lines that have to be in the file, one after the other."""
        return [body for sign, body in self.lines if sign != "+"]

    @property
    def changes(self) -> bool:
        """Whether anything is removed or added."""
        return any(sign != " " for sign, _ in self.lines)


def read_diff(diff: str) -> list[Hunk]:
    """Read the hunks of *diff*, or raise `ToolError` with what is wrong about it."""
    lines = diff.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    hunks = [Hunk()]
    for at, line in enumerate(_without_headers(lines), 1):
        match = _HUNK.fullmatch(line) if line.startswith("@@") else None
        if match is not None:
            hunks.append(Hunk(int(match[1]) if match[1] else None))
        elif not line.startswith(_NO_END):
            _add(hunks[-1], line, at)
    hunks = [hunk for hunk in hunks if hunk.changes]
    if not hunks:
        raise ToolError("The diff changes nothing: it has no line that begins with - or +.")
    return hunks


def changes_of(hunks: list[Hunk], text: str) -> list[tuple[int, int, str]]:
    """Find every hunk in *text*; return the pieces to change as (start, end, new text).

    Lines that stay are in no piece.
    """
    whole = text if text.endswith("\n") or not text else text + "\n"
    pieces = [piece for hunk in hunks for piece in _pieces(*_placed(hunk, whole))]
    pieces.sort(key=lambda piece: piece[:2])
    for (_, end, _), (start, _, _) in pairwise(pieces):
        if start < end:
            raise ToolError(f"Two parts of the diff change line {line_at(text, start)}.")
    return pieces if whole == text else [_without_end(piece, text) for piece in pieces]


def _without_headers(lines: list[str]) -> list[str]:
    """Leave out what comes before the first hunk: names of files, and what git says of them."""
    at = 0
    while at < len(lines):
        if lines[at].startswith("--- ") and "".join(lines[at + 1 : at + 2]).startswith("+++ "):
            at += 2
        elif lines[at].startswith(_HEADERS):
            at += 1
        else:
            break
    return lines[at:]


def _add(hunk: Hunk, line: str, at: int) -> None:
    sign = line[:1] or " "  # an empty line that stays often loses its space
    if sign not in {" ", "-", "+"}:
        raise ToolError(
            f"Line {at} of the diff begins with {sign!r}: lines begin with a space, with - or"
            " with +."
        )
    hunk.lines.append((sign, line[1:]))
    hunk.blanks = 0 if line else hunk.blanks + 1


def _placed(hunk: Hunk, text: str) -> tuple[Hunk, int]:
    """Find where in *text* the lines of *hunk* begin; with or without blank ones at its end."""
    try:
        return hunk, _start_of(hunk, text)
    except ToolError:
        if not hunk.blanks:
            raise
        shorter = Hunk(hunk.line, hunk.lines[: -hunk.blanks])
        with suppress(ToolError):
            return shorter, _start_of(shorter, text)
        raise  # about all of what was written


def _start_of(hunk: Hunk, text: str) -> int:
    if not hunk.old:
        return _insertion(hunk, text)
    old = "".join(f"{line}\n" for line in hunk.old)
    starts = places_of(f"\n{text}", f"\n{old}")  # the end of a line before it: whole lines
    if not starts:
        raise ToolError(f"These lines of the diff are not in the file:\n{old}{nearest(text, old)}")
    if len(starts) > 1 and hunk.line is not None:
        start = _line_start(text, hunk.line)
        if start is not None and text.startswith(old, start):
            return start
    return only_place(starts, text)


def _line_start(text: str, line: int) -> int | None:
    ends = islice(re.finditer("\n", text), line - 2, None) if line > 1 else ()
    return 0 if line == 1 else next((end.end() for end in ends), None)


def _insertion(hunk: Hunk, text: str) -> int:
    """Place added lines that stand alone: by their number, or in a file that is empty."""
    if not text:
        return 0
    if hunk.line is None:
        raise ToolError("Added lines need lines around them that say where they go.")
    ends = [match.end() for match in re.finditer("\n", text)]
    if hunk.line > len(ends):
        raise ToolError(f"The file has no line {hunk.line}.")
    return 0 if hunk.line == 0 else ends[hunk.line - 1]


def _pieces(hunk: Hunk, at: int) -> Iterator[tuple[int, int, str]]:
    """Cut the lines of *hunk*, which begin *at*, into the runs that change."""
    for stays, run in groupby(hunk.lines, key=lambda line: line[0] == " "):
        lines = list(run)
        end = at + sum(len(body) + 1 for sign, body in lines if sign != "+")
        if not stays:
            yield at, end, "".join(f"{body}\n" for sign, body in lines if sign == "+")
        at = end


def _without_end(change: tuple[int, int, str], text: str) -> tuple[int, int, str]:
    """Make *change* fit a *text* whose last line has no end: it will have none afterwards."""
    start, end, new = change
    if end <= len(text):
        return change
    new = new.removesuffix("\n")
    return (len(text), len(text), f"\n{new}") if start > len(text) else (start, len(text), new)
