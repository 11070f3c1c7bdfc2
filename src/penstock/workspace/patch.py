"""Diffs: read those that models write, and render those that users see.

In diffs of models the numbers in ``@@ -12,3 +12,4 @@`` are often wrong and mostly missing. So a
hunk is found by its lines, which must be in the file once; a number only decides between equal
places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import groupby, islice, pairwise
from typing import Final

from penstock.errors import ToolError, shorten
from penstock.workspace.search import check_single, describe_nearest, find_places, line_at

Change = tuple[int, int, str]
"""A change of a text: the start and the end of the old piece, and the new text."""

MAX_DIFF_LINES: Final = 400
"""How many lines of a diff are shown to users."""

MAX_COMPARED: Final = 2_000
"""How many lines are compared; if there are more, all old and then all new lines are shown."""

MAX_LINE: Final = 1_000
"""How many characters of a line are shown: some files have a single line."""

CONTEXT_LINES: Final = 3
"""How many lines are shown around a change."""

_HUNK: Final = re.compile(r"@@(?: -(\d+)(?:,(\d+))?(?: \+\d+(?:,\d+)?)? ?@@.*|.*)")
_HEADERS: Final = ("diff ", "index ", "new file mode", "old mode", "new mode", "similarity ")
_NO_END: Final = "\\ No newline"
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


# --- rendering ---


@dataclass
class _Block:
    """A range of whole lines with changes in it."""

    start: int
    end: int
    changes: list[Change]

    def apply(self, text: str) -> str:
        """Return the range after the changes."""
        pieces, at = [], self.start
        for start, end, new in self.changes:
            pieces += [text[at:start], new.replace("\r\n", "\n")]
            at = end
        return "".join(pieces) + text[at : self.end]


def render_diff(path: str, text: str, changes: list[Change]) -> str:
    """Render *changes* of *text*, which are in order, as a unified diff of limited length.

    Only the lines around the changes are compared.
    """
    lines = islice(_render_lines(path, text, changes), MAX_DIFF_LINES)
    return "\n".join(shorten(line, MAX_LINE) for line in lines)


def _render_lines(path: str, text: str, changes: list[Change]) -> Iterator[str]:
    yield f"--- {path}"
    yield f"+++ {path}"
    at = line = grown = 0
    for block in _group_changes(text, changes):
        line += text.count("\n", at, block.start)
        at = block.start
        old = _LINE.findall(text[block.start : block.end])
        new = _LINE.findall(block.apply(text))
        yield from _render_hunks(old, new, line, line + grown)
        grown += len(new) - len(old)


def _group_changes(text: str, changes: list[Change]) -> list[_Block]:
    """Group *changes* into blocks of whole lines with context."""
    blocks: list[_Block] = []
    for change in changes:
        start, end = _find_context_start(text, change[0]), _find_context_end(text, change[1])
        if blocks and start <= blocks[-1].end:
            blocks[-1].end = max(end, blocks[-1].end)
            blocks[-1].changes.append(change)
        else:
            blocks.append(_Block(start, end, [change]))
    return blocks


def _find_context_start(text: str, place: int) -> int:
    for _ in range(CONTEXT_LINES + 1):
        place = text.rfind("\n", 0, place)
        if place == -1:
            return 0
    return place + 1


def _find_context_end(text: str, place: int) -> int:
    for _ in range(CONTEXT_LINES + 1):
        place = text.find("\n", place) + 1
        if not place:
            return len(text)
    return place


def _render_hunks(old: list[str], new: list[str], old_at: int, new_at: int) -> Iterator[str]:
    """Render the lines that differ, with their line ends: the last line may have none."""
    if len(old) + len(new) > MAX_COMPARED:
        yield f"@@ -{_range(old_at, len(old))} +{_range(new_at, len(new))} @@"
        yield from _render_signed("-", old)
        yield from _render_signed("+", new)
        return
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT_LINES):
        (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
        yield f"@@ -{_range(old_at + a, b - a)} +{_range(new_at + c, d - c)} @@"
        for kind, start, end, new_start, new_end in group:
            yield from _render_signed(" " if kind == "equal" else "-", old[start:end])
            if kind != "equal":
                yield from _render_signed("+", new[new_start:new_end])


def _range(at: int, count: int) -> str:
    """Return the range of a hunk's header; one without lines names the line before it."""
    return f"{at + 1 if count else at},{count}"


def _render_signed(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield f"{_NO_END} at end of file"


# --- reading ---


@dataclass
class Hunk:
    """Lines, each with its sign (a space, - or +), and the *line* number of the header.

    The last *blanks* lines are empty and had no sign: they may not be part of the hunk.
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
    """Read the hunks of *diff*; raise `ToolError` if it is invalid or changes nothing."""
    lines = diff.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    hunks = [Hunk()]
    for number, line in enumerate(_drop_headers(lines), 1):
        match = _HUNK.fullmatch(line) if line.startswith("@@") else None
        # A bare ``@@`` separates hunks too: many models omit the numbers.
        if match is not None:
            hunks.append(Hunk(int(match[1]) if match[1] else None))
        elif not line.startswith(_NO_END):
            sign = line[:1] or " "  # models often drop the space of an empty context line
            if sign not in {" ", "-", "+"}:
                raise ToolError(
                    f"Line {number} of the diff begins with {sign!r}: each line must begin with a"
                    " space, - or +."
                )
            hunk = hunks[-1]
            hunk.lines.append((sign, line[1:]))
            hunk.blanks = 0 if line else hunk.blanks + 1
    hunks = [hunk for hunk in hunks if hunk.changes]
    if not hunks:
        raise ToolError("The diff changes nothing: no line begins with - or +.")
    return hunks


def _drop_headers(lines: list[str]) -> list[str]:
    """Return the lines after the names of files and the lines that git adds to them."""
    at = 0
    while at < len(lines):
        if lines[at].startswith("--- ") and "".join(lines[at + 1 : at + 2]).startswith("+++ "):
            at += 2
        elif lines[at].startswith(_HEADERS):
            at += 1
        else:
            break
    return lines[at:]


def find_changes(hunks: list[Hunk], text: str) -> list[Change]:
    """Find every hunk in *text*; return its changes, in order, without lines that stay.

    Raises `ToolError` if a hunk is not found, or if two change the same line.
    """
    whole = text if text.endswith("\n") or not text else text + "\n"
    changes = [change for hunk in hunks for change in split_changes(*_locate(hunk, whole))]
    return fit_changes(changes, text)


def fit_changes(changes: list[Change], text: str) -> list[Change]:
    """Sort *changes* and fit them to *text*, whose last line may have no line end.

    Raises `ToolError` if two change the same line.
    """
    changes.sort(key=lambda change: change[:2])
    for (_, end, _), (start, _, _) in pairwise(changes):
        if start < end:
            raise ToolError(f"Two parts of the diff change line {line_at(text, start)}.")
    is_whole = text.endswith("\n") or not text
    return changes if is_whole else [_fit_end(change, text) for change in changes]


def _locate(hunk: Hunk, text: str) -> tuple[Hunk, int]:
    """Return *hunk* and its offset in *text*, with or without blank lines at its end."""
    try:
        return hunk, _find_start(hunk, text)
    except ToolError:
        if not hunk.blanks:
            raise
        shorter = Hunk(hunk.line, hunk.lines[: -hunk.blanks])
        with suppress(ToolError):
            return shorter, _find_start(shorter, text)
        raise  # the error about the whole hunk


def _find_start(hunk: Hunk, text: str) -> int:
    if not hunk.old:
        return _find_insertion(hunk, text)
    old = "".join(f"{line}\n" for line in hunk.old)
    starts = find_places(f"\n{text}", f"\n{old}")  # after a line end: only whole lines match
    if not starts:
        nearest = describe_nearest(text, old)
        raise ToolError(f"These lines of the diff are not in the file:\n{old}{nearest}")
    if len(starts) > 1 and hunk.line:
        line_starts = (0, *(end.end() for end in islice(re.finditer("\n", text), hunk.line - 1)))
        if len(line_starts) == hunk.line and text.startswith(old, line_starts[-1]):
            return line_starts[-1]
    return check_single(starts, text)


def _find_insertion(hunk: Hunk, text: str) -> int:
    """Return where added lines without context go: by their number, or into an empty file."""
    if not text:
        return 0
    if hunk.line is None:
        raise ToolError("Added lines need context: add lines of the file around them.")
    ends = [match.end() for match in re.finditer("\n", text)]
    if hunk.line > len(ends):
        raise ToolError(f"The file has no line {hunk.line}.")
    return 0 if hunk.line == 0 else ends[hunk.line - 1]


def split_changes(hunk: Hunk, at: int) -> Iterator[Change]:
    """Split the lines of *hunk*, which begin at *at*, into the runs that change."""
    for stays, run in groupby(hunk.lines, key=lambda line: line[0] == " "):
        lines = list(run)
        end = at + sum(len(body) + 1 for sign, body in lines if sign != "+")
        if not stays:
            yield at, end, "".join(f"{body}\n" for sign, body in lines if sign == "+")
        at = end


def _fit_end(change: Change, text: str) -> Change:
    """Fit *change* to a *text* whose last line has no line end, and leave it without one."""
    start, end, new = change
    if end <= len(text):
        return change
    new = new.removesuffix("\n")
    return (len(text), len(text), f"\n{new}") if start > len(text) else (start, len(text), new)
