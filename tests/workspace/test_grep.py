"""The tool that searches files: what it finds, what it ignores, and that no pattern stops it."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from async_runner import run
from penstock.errors import ToolError
from penstock.workspace import grep as module
from penstock.workspace.grep import MAX_MATCHES, Grep
from penstock.workspace.grep_worker import is_ignored, read_rules
from penstock.workspace.sandbox import Folder
from workspace.working import Workspace


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    work = Workspace(tmp_path)
    work.put("src/tides.py", "import os\n\nHIGH = 6\n\ndef high():\n    return HIGH\n")
    work.put("src/deep/er/low.ts", "const low = 12\r\nconst high = 6\r\n")
    work.put("notes.md", "High water at six. é\n")
    work.put("build/out.py", "HIGH = 6\n")
    work.put(".gitignore", "build/\n*.log\n!keep.log\n")
    work.put("a.log", "HIGH\n")
    work.put("keep.log", "HIGH\n")
    work.put(".git/config", "HIGH\n")
    work.put("raw.bin", b"HIGH\0")
    return work


def test_matching_lines_are_listed_with_their_places(work: Workspace) -> None:
    assert work.use("grep", pattern="HIGH").split("\n") == [
        "keep.log:1:HIGH", "src/tides.py:3:HIGH = 6", "src/tides.py:6:    return HIGH",
    ]  # fmt: skip
    assert work.use("grep", pattern="nothing at all") == "(No matches.)"
    assert "src/deep/er/low.ts:2:const high = 6" in work.use("grep", pattern=r"\bhigh\b.*6$")


def test_the_search_can_be_narrowed_and_widened(work: Workspace) -> None:
    assert work.use("grep", pattern="high", path="src", include="*.py", ignore_case=True) == (
        "src/tides.py:3:HIGH = 6\nsrc/tides.py:5:def high():\nsrc/tides.py:6:    return HIGH"
    )
    assert work.use("grep", pattern="high", include="src/**/*.ts") == (
        "src/deep/er/low.ts:2:const high = 6"
    )
    assert work.use("grep", pattern="HIGH", path="src/tides.py").count("\n") == 1
    ignored = work.use("grep", pattern="HIGH", ignored_too=True)
    assert "build/out.py:1:HIGH = 6" in ignored
    assert "a.log:1:HIGH" in ignored
    assert ".git" not in ignored
    assert work.use("grep", pattern="HIGH", path="build") == "build/out.py:1:HIGH = 6"


def test_lines_around_are_shown_once(work: Workspace) -> None:
    assert work.use("grep", pattern="HIGH", path="src/tides.py", around=1).split("\n") == [
        "src/tides.py-2-", "src/tides.py:3:HIGH = 6", "src/tides.py-4-",
        "src/tides.py-5-def high():", "src/tides.py:6:    return HIGH", "src/tides.py-7-",
    ]  # fmt: skip


def test_matches_lines_and_sizes_are_limited(work: Workspace) -> None:
    work.put("many.txt", "x\n" * 1000)
    found = work.use("grep", pattern="x", path="many.txt").split("\n")
    assert len(found) == MAX_MATCHES + 1
    assert found[-1] == f"(More than {MAX_MATCHES} matches: use a narrower pattern.)"
    work.put("long.txt", "y" * 5000)
    assert len(work.use("grep", pattern="y", path="long.txt")) < 400
    work.put("large.txt", b"z" * 6_000_000)
    assert "large.txt" in work.use("grep", pattern="z", path="large.txt")


def test_exactly_as_many_matches_as_allowed_are_all(work: Workspace) -> None:
    work.put("many.txt", "tide\n" * MAX_MATCHES + "end\n")
    found = work.use("grep", pattern="tide", path="many.txt", around=1).split("\n")
    assert len(found) == MAX_MATCHES + 1
    assert found[-1] == f"many.txt-{MAX_MATCHES + 1}-end"


async def test_a_result_that_is_cut_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_OUTPUT", 1_000)
    (tmp_path / "long.txt").write_text("tide\n" * 100)
    found = await Grep(Folder(tmp_path)).grep("tide")
    assert found.startswith("long.txt:1:tide\n")
    assert found.endswith("(The result was cut, because it is too long: use a narrower pattern.)")


async def test_a_search_that_fails_is_not_a_search_without_matches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("raise MemoryError\n")
    monkeypatch.setattr(module, "_WORKER", tmp_path / "broken.py")
    with pytest.raises(ToolError, match="The search failed"):
        await Grep(Folder(tmp_path)).grep("tide")


def test_invalid_requests_are_explained(work: Workspace, tmp_path: Path) -> None:
    for arguments, words in (
        ({"pattern": "("}, "not a valid regular expression"),
        ({"pattern": "x", "path": "../"}, "outside the working folder"),
        ({"pattern": "x", "path": "nowhere"}, "no such file"),
        ({"pattern": ""}, "pattern"),
        ({"pattern": "x" * 2000}, "pattern"),
        ({"pattern": "x{99999999999999}"}, "repetition number is too large"),
    ):
        with pytest.raises(ToolError, match=words):
            work.use("grep", **arguments)
    (tmp_path / "out").symlink_to("/etc")
    assert "out/" not in work.use("grep", pattern="root")


async def test_a_hostile_pattern_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("found (a+)+\n")
    (tmp_path / "b.txt").write_text("a" * 60 + "b\n")
    tool = Grep(Folder(tmp_path), seconds=2.0)
    began = time.monotonic()
    found = await tool.grep(r"found|^(a+)+$")
    assert time.monotonic() - began < 20
    assert found.split("\n") == [
        "a.txt:1:found (a+)+", "(The search was stopped after 2 s: use a simpler one.)",
    ]  # fmt: skip


GIT = shutil.which("git") or ""
PATTERNS = st.lists(
    st.sampled_from(
        ["*.o", "!a.o", "/a", "b/", "b/*.o", "**/c", "a/**", "a/**/c", "?.o", "[ab].o", "[!a].o",
         "# x", "", "\\#b", "c", "!b/", "*", "!*/", "a*", "b ", "/b/c", "[", "!c"]
    ),
    max_size=5,
)  # fmt: skip
PATHS = ["a", "a.o", "b.o", "b/c", "b/a.o", "a/c", "a/x/c", "a/x/y.o", "c", "#b", "b/b/c", "ab"]


@pytest.mark.skipif(not GIT, reason="git decides what is right")
@settings(max_examples=40, deadline=None)
@given(lines=PATTERNS, below=PATTERNS)
def test_files_are_ignored_as_git_ignores_them(lines: list[str], below: list[str]) -> None:
    import tempfile  # noqa: PLC0415 - a folder for each example

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(  # noqa: S603 - git
            [GIT, "init", "-q"], cwd=folder, check=True
        )
        (folder / ".gitignore").write_text("\n".join(lines))
        (folder / "b").mkdir()
        (folder / "b/.gitignore").write_text("\n".join(below))
        for path in PATHS:
            file = folder / path
            if not file.parent.is_file() and not file.exists() and not any(
                above.is_file() for above in file.parents
            ):  # fmt: skip
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("x\n")
        listed = subprocess.run(  # noqa: S603 - git
            [GIT, "ls-files", "--others", "--exclude-standard"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        expected = sorted(listed.stdout.split())
        found = run(Grep(Folder(folder)).grep("x"))
        shown = sorted({line.partition(":")[0] for line in found.split("\n") if ":1:x" in line})
        assert shown == [one for one in expected if not one.endswith(".gitignore")]


def test_rules_of_a_folder_apply_below_it_alone() -> None:
    rules = read_rules("b/", "/x\n")
    assert is_ignored("b/x", rules, is_folder=False)
    assert not is_ignored("x", rules, is_folder=False)
    assert not is_ignored("b/c/x", rules, is_folder=False)


def test_the_tool_needs_no_approval(tmp_path: Path) -> None:
    tool = Workspace(tmp_path, read_only=True).tools["grep"]
    assert tool.needs_approval is False
