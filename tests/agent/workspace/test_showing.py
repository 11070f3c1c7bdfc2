"""People see what an edit changes as a diff, however large the file is."""

from __future__ import annotations

import difflib
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agent.workspace.working import Workspace
from penstock.agent.workspace.files import TextFile
from penstock.agent.workspace.patch import MAX_DIFF_LINES, MAX_LINE, shown_diff

NUMBERED = "".join(f"line {number}\n" for number in range(1, 41))


def test_two_places_are_shown_with_the_lines_around_them() -> None:
    first, second = NUMBERED.index("line 10\n"), NUMBERED.index("line 30\n")
    changes = [(first, first + 8, "ten\nand more\n"), (second, second + 8, "")]
    assert shown_diff("a", NUMBERED, changes).split("\n") == [
        "--- a", "+++ a",
        "@@ -7,7 +7,8 @@", " line 7", " line 8", " line 9", "-line 10", "+ten", "+and more",
        " line 11", " line 12", " line 13",
        "@@ -27,7 +28,6 @@", " line 27", " line 28", " line 29", "-line 30",
        " line 31", " line 32", " line 33",
    ]  # fmt: skip


@given(
    text=st.text("ab\n", max_size=80),
    places=st.lists(st.integers(0, 80), max_size=6, unique=True),
    new=st.text("ab\n", max_size=6),
)
def test_it_is_what_comparing_the_whole_file_gives(text: str, places: list[int], new: str) -> None:
    cuts = sorted(place for place in places if place <= len(text))
    changes = [(a, b, new) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]
    after = TextFile(text).replaced(changes)
    lines = shown_diff("a", text, changes).split("\n")[2:]
    assert patched(text, lines) == after
    whole = difflib.ndiff(text.split("\n"), after.split("\n"))
    assert bool(lines) == any(line[0] in "+-" for line in whole)


def patched(text: str, diff: list[str]) -> str:
    """Apply *diff* by its numbers alone."""
    before, after, at = text.split("\n"), [], 0
    for line in diff:
        if line.startswith("@@"):
            start = int(line.split()[1].strip("-").partition(",")[0]) - 1
            after += before[at:start]
            at = start
        elif line.startswith("+"):
            after.append(line[1:])
        else:
            assert before[at] == line[1:]
            after += [line[1:]] * (line[0] == " ")
            at += 1
    return "\n".join(after + before[at:])


def test_a_large_file_takes_no_longer(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    work.put("a", "x\n" * 500_000 + "end\n")
    before = time.process_time()
    output = work.output("edit_file", path="a", old="end\n", new="END\n")
    assert time.process_time() - before < 5  # comparing all of the lines takes 20 s
    assert "@@ -499998,5 +499998,5 @@" in output.details


def test_a_long_line_is_cut() -> None:
    assert len(shown_diff("a", "x" * 1_000_000, [(5, 6, "y")])) < 3 * MAX_LINE


def test_a_large_change_is_cut() -> None:
    diff = shown_diff("a", "x\n" * 5_000, [(0, 10_000, "y\n" * 5_000)])
    assert diff.count("\n") == MAX_DIFF_LINES - 1
