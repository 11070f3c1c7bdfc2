"""Diffs as models write them are found by their lines."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.agent.workspace.files import TextFile
from penstock.agent.workspace.patch import changes_of, read_diff
from penstock.errors import ToolError

TEXT = "one\ntwo\nthree\n\ntwo\nfour\n"


def applied(text: str, diff: str) -> str:
    file = TextFile(text)
    return file.replaced(changes_of(read_diff(diff), file.text))


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
