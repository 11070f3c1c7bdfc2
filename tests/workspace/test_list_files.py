"""Folders are listed, and files found by patterns."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ToolError
from penstock.workspace import files
from penstock.workspace.files import matches
from workspace.working import Workspace

FILES = ["a.py", "b.txt", "src/a.py", "src/deep/er/c.py", "src/deep/d.md", ".git/config", ".env"]


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    for path in FILES:
        made.put(path, "x")
    return made


def test_a_folder_is_listed_without_the_repositorys_store(work: Workspace) -> None:
    assert work.use("list_files") == ".env\na.py\nb.txt\nsrc/"
    assert work.use("list_files", path="src") == "src/a.py\nsrc/deep/"


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("*.py", ".", "a.py\nsrc/a.py\nsrc/deep/er/c.py"),
        ("src/*.py", ".", "src/a.py"),
        ("src/**/*.py", ".", "src/a.py\nsrc/deep/er/c.py"),
        ("**/deep/**", ".", "src/deep/d.md\nsrc/deep/er/c.py"),
        ("**", "src/deep", "src/deep/d.md\nsrc/deep/er/c.py"),
        ("./a.*", ".", "a.py"),
        ("[ab].*", ".", "a.py\nb.txt\nsrc/a.py"),
        ("config", ".", "(Nothing.)"),
    ],
)
def test_files_are_found_by_a_pattern(work: Workspace, pattern: str, path: str, found: str) -> None:
    assert work.use("list_files", path=path, pattern=pattern) == found


def test_a_long_list_is_cut(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LISTED", 2)
    assert work.use("list_files") == ".env\na.py\n(… and maybe more: the list was cut.)"
    assert (
        work.use("list_files", pattern="*.py")
        == "a.py\nsrc/a.py\n(… and maybe more: the list was cut.)"
    )


def test_a_search_that_gives_up_says_so(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_VISITED", 0)
    assert work.use("list_files", pattern="*.md") == "(… and maybe more: the list was cut.)"


def test_folders_without_files_are_counted_too(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        (work.root / f"empty{number}").mkdir()
    monkeypatch.setattr(files, "MAX_VISITED", 25)
    assert "the list was cut" in work.use("list_files", pattern="*.md")


def test_a_search_does_not_go_too_deep(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python gives up at a thousand folders in one another, and the system may before."""
    monkeypatch.setattr(files, "MAX_DEPTH", 2)
    found = work.use("list_files", pattern="*.[mp][dy]")
    assert found == "a.py\nsrc/a.py\nsrc/deep/d.md\n(… and maybe more: the list was cut.)"
    assert work.use("list_files", path="src", pattern="c.py") == "src/deep/er/c.py"


def test_what_is_no_folder_is_told(work: Workspace) -> None:
    with pytest.raises(ToolError, match="not a folder"):
        work.use("list_files", path="a.py")
    with pytest.raises(ToolError, match="no such file"):
        work.use("list_files", path="nonesuch")


def test_a_link_to_a_folder_is_not_followed(work: Workspace) -> None:
    (work.root / "again").symlink_to(work.root)
    assert work.use("list_files", pattern="*.txt") == "b.txt"


def test_no_pattern_takes_exponential_time() -> None:
    """A matcher that tries every way to share the text among the stars would never end."""
    assert not matches("a" * 250, "*a" * 100 + "b")
    assert not matches("/".join("a" * 60), "/".join(["**", "a"] * 100))
