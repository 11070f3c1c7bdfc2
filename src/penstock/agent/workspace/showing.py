"""An edit as people read it: a unified diff, made from the places that changed and no others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Final

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
        """Give the stretch as it is after the changes."""
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
    """Split whole lines; behind the last of a text stands what comes after its end, if nothing."""
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
