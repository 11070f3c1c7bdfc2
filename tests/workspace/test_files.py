"""Files are read, written and edited, and keep their ways."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from penstock.agent.tools import results
from penstock.errors import ToolError
from penstock.request import Image
from penstock.workspace import files
from penstock.workspace.files import MAX_SHOWN_CHARS
from workspace.working import Workspace


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


# --- reading -------------------------------------------------------------------------------------


def test_a_file_is_read_as_it_is(work: Workspace) -> None:
    work.put("a.txt", "one\ntwo  \n\n\tthree")
    assert work.use("read_file", path="a.txt") == "one\ntwo  \n\n\tthree"


def test_a_model_sees_plain_line_ends_and_no_mark(work: Workspace) -> None:
    work.put("a.txt", "\ufeffone\r\ntwo\rstill two\r\n")
    assert work.use("read_file", path="a.txt") == "one\ntwo\rstill two\n"


def test_a_part_says_where_it_is_and_how_to_go_on(work: Workspace) -> None:
    work.put("a.txt", "".join(f"{number}\n" for number in range(1, 11)))
    assert work.use("read_file", path="a.txt", offset=3, limit=2) == (
        "3\n4\n(Lines 3 to 4 of 10; continue with offset=5.)"
    )
    assert work.use("read_file", path="a.txt", offset="10") == "10\n(Lines 10 to 10 of 10.)"
    with pytest.raises(ToolError, match="only 10 lines"):
        work.use("read_file", path="a.txt", offset=11)
    with pytest.raises(ToolError, match="offset: expected at least 1"):
        work.use("read_file", path="a.txt", offset=0)


def test_a_long_file_is_shown_in_pieces_that_join(work: Workspace) -> None:
    line = "x" * 999 + "\n"
    work.put("a.txt", line * 200)
    shown = work.use("read_file", path="a.txt")
    assert shown.count("\n") == MAX_SHOWN_CHARS // 1000
    assert shown.endswith("(Lines 1 to 80 of 200; continue with offset=81.)")


def test_a_line_that_is_too_long_is_cut(work: Workspace) -> None:
    work.put("a.txt", "x" * (MAX_SHOWN_CHARS + 1))
    assert work.use("read_file", path="a.txt").endswith("(Line 1 is cut: it is too long.)")


def test_an_empty_file_is_told_apart_from_nothing(work: Workspace) -> None:
    work.put("a.txt", "")
    assert work.use("read_file", path="a.txt") == "(The file is empty.)"


@pytest.mark.parametrize("data", [b"a\0b", b"\xff\xfeh\0i\0", b"caf\xe9"])
def test_what_is_no_text_is_not_shown(work: Workspace, data: bytes) -> None:
    work.put("a.bin", data)
    with pytest.raises(ToolError, match=f"{len(data)} bytes that are not"):
        work.use("read_file", path="a.bin")


def test_a_picture_is_looked_at(work: Workspace) -> None:
    work.put("a.png", b"\x89PNG\r\n\x1a\n\0\xff")
    assert work.use("read_file", path="a.png") == [Image("image/png", "iVBORw0KGgoA/w==")]


def test_a_picture_that_no_provider_takes_is_refused(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MAX_IMAGE_BYTES", 9)
    work.put("a.png", b"\x89PNG\r\n\x1a\n\0\xff")
    with pytest.raises(ToolError, match="image is too large"):
        work.use("read_file", path="a.png")


def test_a_file_that_is_too_large_is_not_read(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 10)
    work.put("a.txt", "x" * 11)
    with pytest.raises(ToolError, match="11 bytes are too many"):
        work.use("read_file", path="a.txt")


# --- writing -------------------------------------------------------------------------------------


def test_a_new_file_gets_its_folders(work: Workspace) -> None:
    assert work.use("write_file", path="a/b/c.txt", content="käse\n") == (
        "Created a/b/c.txt: 6 bytes in 1 line."
    )
    assert work.text("a/b/c.txt") == "käse\n"


def test_a_replaced_file_keeps_its_mode(work: Workspace) -> None:
    file = work.put("run.sh", "old")
    file.chmod(0o750)
    assert work.use("write_file", path="run.sh", content="a\nb") == (
        "Replaced run.sh: 3 bytes in 2 lines."
    )
    assert (work.text("run.sh"), file.stat().st_mode & 0o777) == ("a\nb", 0o750)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_replaced_file_keeps_its_owner_and_runs_as_them(work: Workspace) -> None:
    file = work.put("tool.sh", "old")
    os.chown(file, 1234, 2345)
    file.chmod(0o6755)
    work.use("write_file", path="tool.sh", content="new")
    found = file.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 2345, 0o6755)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_file_that_changes_its_owner_no_longer_runs_as_them(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    file = work.put("tool.sh", "old")
    os.chown(file, 1234, 2345)
    file.chmod(0o6755)
    monkeypatch.setattr(os, "fchown", refuse)
    work.use("edit_file", path="tool.sh", old="old", new="new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o755


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", "sub/.git/config", ".git", "hooks/x"])
def test_nothing_is_written_into_a_repositorys_store(work: Workspace, path: str) -> None:
    hook = work.put(".git/hooks/post-commit", "old")
    (work.root / "hooks").symlink_to(".git/hooks")
    with pytest.raises(ToolError, match=r"files in \.git cannot be written"):
        work.use("write_file", path=path, content="x")
    with pytest.raises(ToolError, match=r"files in \.git cannot be written"):
        work.use("edit_file", path=".git/hooks/post-commit", old="old", new="new")
    assert [each.name for each in hook.parent.iterdir()] == ["post-commit"]
    assert hook.read_text() == "old"


@pytest.mark.parametrize("path", ["sub/", "sub/.", "sub/..", "."])
def test_a_path_that_names_a_folder_is_no_file(work: Workspace, path: str) -> None:
    with pytest.raises(ToolError, match="it is a folder"):
        work.use("write_file", path=path, content="x")
    assert list(work.root.iterdir()) == []


def test_a_file_is_written_exactly(work: Workspace) -> None:
    work.put("a.txt", "old\r\n")
    work.use("write_file", path="a.txt", content="\ufeffnew\r\n\n")
    assert work.text("a.txt") == "\ufeffnew\r\n\n"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    work.put("a.txt", "old")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ToolError, match="the disk is full"):
        work.use("write_file", path="a.txt", content="new")
    assert work.text("a.txt") == "old"
    assert list(work.root.iterdir()) == [work.root / "a.txt"]


def test_half_an_emoji_is_refused(work: Workspace) -> None:
    with pytest.raises(ToolError, match="surrogate"):
        work.use("write_file", path="a.txt", content="\ud83d")
    assert not any(work.root.iterdir())


# --- editing -------------------------------------------------------------------------------------


def test_a_text_is_replaced(work: Workspace) -> None:
    work.put("a.py", "one = 1\ntwo = 2\n")
    output = work.output("edit_file", path="a.py", old="two = 2", new="two = 3")
    assert work.text("a.py") == "one = 1\ntwo = 3\n"
    assert output.content == "Edited a.py, in line 2."
    assert "-two = 2\n+two = 3" in output.details


def test_a_text_is_deleted(work: Workspace) -> None:
    work.put("a.py", "one\ntwo\nthree\n")
    work.use("edit_file", path="a.py", old="two\n", new="")
    assert work.text("a.py") == "one\nthree\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a\r\nb\r\nc\r\n", "a\r\nB\r\nB2\r\nc\r\n", id="returns"),
        pytest.param("\ufeffa\r\nb\r\nc", "\ufeffa\r\nB\r\nB2\r\nc", id="a mark and returns"),
        pytest.param("\ufeffa\nb\nc\n", "\ufeffa\nB\nB2\nc\n", id="a mark"),
        pytest.param("a\r\nb\nc\n\r\n\n", "a\r\nB\nB2\nc\n\r\n\n", id="mixed, mostly plain"),
        pytest.param("a\r\nb\r\nc\nd\r\n", "a\r\nB\r\nB2\r\nc\nd\r\n", id="mixed, mostly returns"),
    ],
)
@pytest.mark.parametrize("way", ["old", "diff"])
def test_line_ends_and_marks_stay(work: Workspace, before: str, after: str, way: str) -> None:
    work.put("a.txt", before)
    if way == "old":
        work.use("edit_file", path="a.txt", old="a\nb\nc", new="a\nB\nB2\nc")
    else:
        work.use("edit_file", path="a.txt", diff=" a\n-b\n+B\n+B2\n c\n")
    assert work.text("a.txt") == after


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"old": "x", "new": "y"}, "is not in the file. Read the file again"),
        ({"old": "\treturn  1", "new": "y"}, r"only in white space: '    return 1'"),
        ({"old": "    return 12", "new": "y"}, r"nearest is line 2: '    return 1'"),
        ({"old": "pass", "new": "y"}, r"2 times \(in lines 4, 7\)"),
        ({"old": "", "new": "y"}, "`old` is empty"),
        ({"old": "return 1", "new": "return 1"}, "Nothing would change"),
        ({"old": "return 1"}, "Pass either"),
        ({"new": "return 1"}, "Pass either"),
        ({}, "Pass either"),
        ({"old": "a", "new": "b", "diff": "-a\n+b"}, "Pass either"),
        ({"diff": "nothing"}, "Line 1 of the diff begins with 'n'"),
        ({"diff": " def one():"}, "changes nothing"),
        ({"diff": ""}, "Pass either"),
        ({"diff": "-    return 12\n+    return 2"}, r"nearest is line 2: '    return 1'"),
        ({"diff": "-    pass\n+    return"}, r"2 times \(in lines 4, 7\)"),
        ({"diff": "+import os"}, "need context"),
        ({"diff": "@@ -99,0 +100 @@\n+import os"}, "has no line 99"),
        ({"diff": " def one():\n-    return 1\n@@\n-    return 1\n+    return 2"}, "Two parts"),
    ],
)
def test_an_edit_that_cannot_be_made_says_why(
    work: Workspace, arguments: dict[str, str], words: str
) -> None:
    text = "def one():\n    return 1\ndef two():\n    pass\n\ndef three():\n    pass\n"
    work.put("a.py", text)
    with pytest.raises(ToolError, match=words):
        work.use("edit_file", path="a.py", **arguments)
    assert work.text("a.py") == text


def test_a_file_that_is_not_there_is_told(work: Workspace) -> None:
    with pytest.raises(ToolError, match=r"^b/a.py: there is no such file\.$"):
        work.use("edit_file", path="b/a.py", old="a", new="b")
    assert not any(work.root.iterdir())


def test_a_field_that_is_empty_is_not_meant(work: Workspace) -> None:
    work.put("a.txt", "one\n")
    work.use("edit_file", path="a.txt", old="", new="", diff="-one\n+two\n")
    work.use("edit_file", path="a.txt", old="two", new="three", diff="")
    assert work.text("a.txt") == "three\n"


def test_an_edit_keeps_the_mode(work: Workspace) -> None:
    work.put("run.sh", "old").chmod(0o755)
    work.use("edit_file", path="run.sh", old="old", new="new")
    assert (work.root / "run.sh").stat().st_mode & 0o777 == 0o755
