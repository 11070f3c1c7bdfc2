"""Diffs: those that models write, and those that users see."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from laws import check_linear
from penstock.errors import ToolError
from penstock.workspace.files import TextFile
from penstock.workspace.patch import (
    MAX_DIFF_LINES,
    MAX_LINE,
    find_changes,
    read_diff,
    render_diff,
)
from workspace.working import Workspace

# --- reading ---


TEXT = "one\ntwo\nthree\n\ntwo\nfour\n"


def applied(text: str, diff: str) -> str:
    file = TextFile(text)
    return file.replace(find_changes(read_diff(diff), file.text))


@pytest.mark.parametrize(
    ("diff", "after"),
    [
        pytest.param(" one\n-two\n+2\n", "one\n2\nthree\n\ntwo\nfour\n", id="context says where"),
        pytest.param(
            "--- a/x\n+++ b/x\n@@ -5,1 +5,1 @@\n-two\n+2", "one\ntwo\nthree\n\n2\nfour\n",
            id="a number decides between two places",
        ),
        pytest.param(
            "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ class X:\n"
            "-one\n+1\n two\n", "1\ntwo\nthree\n\ntwo\nfour\n", id="as git writes it",
        ),
        pytest.param("-three\n", "one\ntwo\n\ntwo\nfour\n", id="a line goes with its end"),
        pytest.param(
            "@@\n-one\n+1\n@@ ... @@\n four\n+five\n", "1\ntwo\nthree\n\ntwo\nfour\nfive\n",
            id="two parts",
        ),
        pytest.param(" three\n\n two\n-four\n", "one\ntwo\nthree\n\ntwo\n",
                     id="an empty line is an empty line that stays"),
        pytest.param("@@ -0,0 +1 @@\n+zero\n", "zero\none\ntwo\nthree\n\ntwo\nfour\n",
                     id="at the top by number"),
        pytest.param("@@ -1,0 +2 @@\n+1.5\n", "one\n1.5\ntwo\nthree\n\ntwo\nfour\n",
                     id="between by number"),
        pytest.param("-two\n+2\n four\n\n", "one\ntwo\nthree\n\n2\nfour\n",
                     id="a blank line behind"),
        pytest.param("-one\n+1\n\n\n@@\n-four\n+4\n\n", "1\ntwo\nthree\n\ntwo\n4\n",
                     id="blank lines between two parts"),
        pytest.param("@@ -2,0 +3 @@\n+2.5\n\n\n", "one\ntwo\n2.5\nthree\n\ntwo\nfour\n",
                     id="blank lines behind added ones"),
        pytest.param("-one\r\n+1\r\n", "1\ntwo\nthree\n\ntwo\nfour\n", id="returns in the diff"),
    ],
)  # fmt: skip
def test_a_diff_is_applied(diff: str, after: str) -> None:
    assert applied(TEXT, diff) == after


def test_a_last_line_without_an_end_keeps_none() -> None:
    assert applied("one\ntwo", "-two\n\\ No newline at end of file\n+2\n") == "one\n2"


def test_lines_come_behind_a_last_one_without_an_end() -> None:
    assert applied("one\ntwo", " two\n+three\n") == "one\ntwo\nthree"


def test_an_empty_file_can_be_filled() -> None:
    assert applied("", "@@ -0,0 +1,2 @@\n+one\n+two\n") == "one\ntwo\n"


def test_a_removed_line_that_looks_like_a_header_is_a_line() -> None:
    assert applied("-- old\nx\n", "@@\n--- old\n+++ new\n x\n") == "++ new\nx\n"


def test_parts_may_share_the_lines_around_them() -> None:
    assert applied("a\nb\nc\n", "-a\n+A\n b\n@@\n b\n-c\n+C\n") == "A\nb\nC\n"


def test_a_blank_line_with_a_sign_has_to_be_there() -> None:
    with pytest.raises(ToolError, match="not in the file"):
        applied(TEXT, "-two\n+2\n four\n \n")


def test_a_number_that_fits_no_place_decides_nothing() -> None:
    with pytest.raises(ToolError, match="2 times"):
        applied(TEXT, "@@ -3,1 +3,1 @@\n-two\n+2")


def test_part_of_a_line_is_no_line() -> None:
    with pytest.raises(ToolError, match="not in the file"):
        applied("two three\n", "-two\n+2\n")


LINES = st.lists(st.sampled_from(["a", "b", "c", "", " d", "-e", "+f", "@g"]), max_size=12)


@settings(max_examples=60)
@given(before=LINES, after=LINES, ends=st.sampled_from(["\n", "\r\n"]), mark=st.booleans())
def test_what_difflib_writes_is_applied(
    before: list[str], after: list[str], ends: str, *, mark: bool
) -> None:
    """With the lines around and the numbers right, every change can be made."""
    assume(before != after)
    diff = "\n".join(difflib.unified_diff(before, after, "a", "b", n=3, lineterm=""))
    start = "\ufeff" if mark else ""
    text = start + "".join(line + ends for line in before)
    wanted = "".join(line + "\n" for line in after)
    assert applied(text, diff).removeprefix(start).replace("\r\n", "\n") == wanted


# --- rendering ---


NUMBERED = "".join(f"line {number}\n" for number in range(1, 41))


def test_two_places_are_shown_with_the_lines_around_them() -> None:
    first, second = NUMBERED.index("line 10\n"), NUMBERED.index("line 30\n")
    changes = [(first, first + 8, "ten\nand more\n"), (second, second + 8, "")]
    assert render_diff("a", NUMBERED, changes).split("\n") == [
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
    after = TextFile(text).replace(changes)
    lines = render_diff("a", text, changes).split("\n")[2:]
    assert patched(text, lines) == after
    assert bool(lines) == (text != after)


def patched(text: str, diff: list[str]) -> str:
    """Apply *diff* by its numbers alone, as strictly as git does."""
    before, after, at = text.splitlines(keepends=True), [], 0
    hunks = [number for number, line in enumerate(diff) if line.startswith("@@")]
    for first, last in zip(hunks, [*hunks[1:], len(diff)], strict=False):
        _, old, new, _ = diff[first].split()
        (old_start, old_count), (start, count) = (
            map(int, one[1:].split(",")) for one in (old, new)
        )
        at_hunk = old_start - 1 if old_count else old_start
        after += before[at:at_hunk]
        at = at_hunk
        assert len(after) == (start - 1 if count else start)
        lines = diff[first + 1 : last]
        ended = [*(line.startswith("\\") for line in lines[1:]), False]
        kept = [
            (line[0], line[1:] + "\n" * (not cut))
            for line, cut in zip(lines, ended, strict=True)
            if not line.startswith("\\")
        ]
        assert [line for sign, line in kept if sign != "+"] == before[at : at + old_count]
        added = [line for sign, line in kept if sign != "-"]
        assert len(added) == count
        after += added
        at += old_count
    return "".join(after + before[at:])


def test_headers_of_empty_files_and_missing_line_ends_are_those_of_git() -> None:
    assert render_diff("a", "", [(0, 0, "x\n")]).split("\n")[2:] == ["@@ -0,0 +1,1 @@", "+x"]
    assert render_diff("a", "x\n", [(0, 2, "")]).split("\n")[2:] == ["@@ -1,1 +0,0 @@", "-x"]
    assert render_diff("a", "x", [(1, 1, "\n")]).split("\n")[2:] == [
        "@@ -1,1 +1,1 @@", "-x", "\\ No newline at end of file", "+x",
    ]  # fmt: skip


def test_the_diff_of_a_large_file_takes_linear_time(tmp_path: Path) -> None:
    work = Workspace(tmp_path)

    def change(lines: int) -> None:
        work.put("a", "x\n" * lines + "end\n")
        output = work.output("edit_file", path="a", old="end\n", new="END\n")
        assert f"@@ -{lines - 2},4 +{lines - 2},4 @@" in output.details

    check_linear(change, 20_000, 200_000, at_most=3)


def test_a_long_line_is_cut() -> None:
    assert len(render_diff("a", "x" * 1_000_000, [(5, 6, "y")])) < 3 * MAX_LINE


def test_a_large_change_is_cut() -> None:
    diff = render_diff("a", "x\n" * 5_000, [(0, 10_000, "y\n" * 5_000)])
    assert diff.count("\n") == MAX_DIFF_LINES - 1
