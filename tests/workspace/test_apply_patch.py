"""The patches of OpenAI's coding models: what they change, and that a bad one changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ToolError
from penstock.workspace.apply_patch import read_patch
from workspace.working import Workspace

PROGRAM = """\
import os


def high():
    x = 1
    return x


def low():
    x = 1
    return x
"""


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    work = Workspace(tmp_path, apply_patch=True)
    work.put("tides.py", PROGRAM)
    work.put("old.txt", "one\ntwo\n")
    return work


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def snapshot(work: Workspace) -> dict[str, bytes]:
    return {str(one.relative_to(work.root)): one.read_bytes()
            for one in work.root.rglob("*") if one.is_file()}  # fmt: skip


def test_a_file_that_is_moved_keeps_its_mode(work: Workspace, tmp_path: Path) -> None:
    (tmp_path / "old.txt").chmod(0o750)
    moved = patch("*** Update File: old.txt", "*** Move to: bin/new.txt", "@@", "-one", "+1")
    work.use("apply_patch", patch=moved)
    assert (tmp_path / "bin" / "new.txt").stat().st_mode & 0o777 == 0o750


def test_files_are_added_changed_moved_and_deleted_at_once(work: Workspace) -> None:
    work.put("gone.txt", "x\n")
    output = work.output(
        "apply_patch",
        patch=patch(
            "*** Add File: docs/new.md",
            "+# Tides",
            "+",
            "*** Update File: tides.py",
            "@@ def low():",
            "     x = 1",
            "-    return x",
            "+    return -x",
            "*** Update File: old.txt",
            "*** Move to: docs/moved.txt",
            "@@",
            " one",
            "-two",
            "+2",
            "*** Delete File: gone.txt",
        ),
    )
    assert output.content.split("\n") == [
        "Added docs/new.md", "Updated tides.py", "Moved old.txt to docs/moved.txt",
        "Deleted gone.txt",
    ]  # fmt: skip
    assert work.text("docs/new.md") == "# Tides\n\n"
    assert work.text("tides.py") == PROGRAM[: PROGRAM.rindex("return x")] + "return -x\n"
    assert work.text("docs/moved.txt") == "one\n2\n"
    assert not (work.root / "old.txt").exists()
    assert not (work.root / "gone.txt").exists()
    assert (
        "@@ -8,4 +8,4 @@\n \n def low():\n     x = 1\n-    return x\n+    return -x"
        in output.details
    )


def test_hunks_are_found_in_order_and_lines_are_added_after_an_anchor(work: Workspace) -> None:
    work.output(
        "apply_patch",
        patch=patch(
            "*** Update File: tides.py",
            "@@ def high():",
            "-    x = 1",
            "+    x = 6",
            "@@ def low():",
            "-    x = 1",
            "+    x = 12",
            "@@",
            "+# end",
            "*** End of File",
        ),
    )
    after = PROGRAM.replace("x = 1", "x = 6", 1).replace("x = 1", "x = 12", 1) + "# end\n"
    assert work.text("tides.py") == after


def test_line_ends_and_a_missing_last_one_are_kept(work: Workspace) -> None:
    work.put("dos.txt", b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    change = patch("*** Update File: dos.txt", " one", "-two", "+2", "+2b", " three")
    work.output("apply_patch", patch=change)
    assert (work.root / "dos.txt").read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n2b\r\nthree"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["*** Update File: tides.py", "-    x = 1", "+    x = 2"], "in the file 2 times"),
        (["*** Update File: tides.py", "-    y = 1", "+    y = 2"], "not in the file"),
        (["*** Update File: tides.py", "@@ def mid():", "+x"], "line after @@ is not in the file"),
        (["*** Update File: tides.py", "@@", "-import os", "+import os"], "nothing would change"),
        (["*** Update File: tides.py"], "changes nothing"),
        (["*** Update File: nowhere.py", "-x"], "no such file"),
        (["*** Add File: tides.py", "+x"], "exists already"),
        (["*** Add File: ../out.py", "+x"], "outside the working folder"),
        (["*** Add File: .git/hooks/x", "+x"], "cannot be written"),
        (["*** Delete File: .git/config"], "no such file"),
        (["*** Add File: a", "x"], "expected a line with"),
        (["*** Delete File: old.txt", "+x"], "expected nothing"),
        (["x"], "not part of a file"),
        ([], "changes no files"),
        (["*** Delete File: old.txt", "*** Add File: ./old.txt", "+x"], "only once"),
        (["*** Update File: tides.py", "*** Frobnicate", "-x"], "must begin with a space"),
        (["*** Update File: tides.py", "-    return x", "+    return y", "*** End of File",
          "@@", "-import os"], "not in the file"),
    ],
)  # fmt: skip
def test_a_patch_that_does_not_fit_changes_nothing(
    work: Workspace, lines: list[str], words: str
) -> None:
    before = snapshot(work)
    good = ["*** Add File: good.txt", "+x"]
    with pytest.raises(ToolError, match=words):
        work.output("apply_patch", patch=patch(*(good if lines and lines != ["x"] else []), *lines))
    assert snapshot(work) == before


@pytest.mark.parametrize("text", ["", "x", "*** Begin Patch", "*** Begin Patch\n*** Add File: a"])
def test_a_text_that_is_not_a_patch_is_refused(text: str) -> None:
    with pytest.raises(ToolError, match="must begin with"):
        read_patch(text)


def test_the_tool_is_opt_in_and_needs_approval(work: Workspace, tmp_path: Path) -> None:
    assert work.tools["apply_patch"].needs_approval
    assert "apply_patch" not in Workspace(tmp_path).tools
    assert "apply_patch" not in Workspace(tmp_path, apply_patch=True, read_only=True).tools
