"""Nothing gets out of the working folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.errors import ToolError, UsageError
from penstock.workspace import workspace_tools
from penstock.workspace.sandbox import Folder
from workspace.working import Workspace

SECRET = "the combination is 1234"  # noqa: S105 - nobody's


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    """A folder with links that lead out of it, and one that stays inside."""
    root = tmp_path / "root"
    (root / "inside").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text(SECRET)
    (tmp_path / "root-sister").mkdir()
    (tmp_path / "root-sister" / "secret").write_text(SECRET)
    (root / "file").write_text("hello")
    (root / "link-in").symlink_to("file")
    (root / "link-out").symlink_to(tmp_path / "outside" / "secret")
    (root / "folder-out").symlink_to(tmp_path / "outside")
    (root / "chain").symlink_to("link-out")
    (root / "dangling").symlink_to(tmp_path / "outside" / "new")
    (root / "ring").symlink_to("ring")
    return Workspace(root)


OUTSIDE = [
    "../outside/secret",
    "../root-sister/secret",
    "inside/../../outside/secret",
    "inside/../../root/../outside/secret",
    "{tmp}/outside/secret",
    "{tmp}/root/../outside/secret",
    "link-out",
    "folder-out/secret",
    "folder-out/../outside/secret",
    "chain",
    "dangling",
    "/etc/passwd",
    "/proc/self/environ",
    "..",
    "/",
    "~",
    "~/.profile",
    "ring",
    "ring/secret",
    "file/../../outside/secret",
    "a\0b",
    "",
    "x/" * 3000,
    "n" * 300,
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out(work: Workspace, tmp_path: Path, path: str) -> None:
    asked = path.format(tmp=tmp_path)
    before = sorted((tmp_path / "outside").iterdir())
    for name, arguments in {
        "read_file": {},
        "write_file": {"content": "changed"},
        "edit_file": {"old": "1234", "new": "0000"},
    }.items():
        if path.startswith("x/") and name == "write_file":
            continue  # that one only makes many folders
        with pytest.raises(ToolError) as raised:
            work.use(name, path=asked, **arguments)
        assert SECRET not in str(raised.value)
    assert (tmp_path / "outside" / "secret").read_text() == SECRET
    assert sorted((tmp_path / "outside").iterdir()) == before


@pytest.mark.parametrize("path", ["folder-out", "..", "/", "~", "../root-sister"])
def test_no_folder_outside_is_listed(work: Workspace, path: str) -> None:
    for pattern in ("", "**"):
        with pytest.raises(ToolError):
            work.use("list_files", path=path, pattern=pattern)
    assert "secret" not in work.use("list_files", pattern="**")


@pytest.mark.parametrize("path", ["file", "./file", "inside/../file", "{root}/file", "link-in"])
def test_every_path_inside_leads_there(work: Workspace, path: str) -> None:
    assert work.use("read_file", path=path.format(root=work.root)) == "hello"


def test_a_link_inside_is_written_through(work: Workspace) -> None:
    work.use("write_file", path="link-in", content="bye")
    assert (work.root / "link-in").is_symlink()
    assert work.text("file") == "bye"


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    work = Workspace(tmp_path / "link")
    work.use("write_file", path="a", content="x")
    assert (tmp_path / "real" / "a").read_text() == "x"
    assert work.use("read_file", path=str(tmp_path / "link" / "a")) == "x"


def test_a_link_put_in_the_way_after_the_look_is_not_followed(
    work: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `locate` found is swapped for a link before it is opened."""
    real = Folder.locate

    def swapped(self: Folder, path: str) -> Path:
        found = real(self, path)
        (work.root / "inside").rmdir()
        (work.root / "inside").symlink_to(tmp_path / "outside")
        return found

    monkeypatch.setattr(Folder, "locate", swapped)
    with pytest.raises(ToolError):
        work.use("write_file", path="inside/new", content="x")
    assert [each.name for each in (tmp_path / "outside").iterdir()] == ["secret"]


def test_a_file_swapped_for_a_link_after_the_look_is_not_read(
    work: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Folder.locate

    def swapped(self: Folder, path: str) -> Path:
        found = real(self, path)
        (work.root / "file").unlink()
        (work.root / "file").symlink_to(tmp_path / "outside" / "secret")
        return found

    monkeypatch.setattr(Folder, "locate", swapped)
    with pytest.raises(ToolError, match="link"):
        work.use("read_file", path="file")


def test_what_is_no_regular_file_is_refused_and_not_waited_for(work: Workspace) -> None:
    os.mkfifo(work.root / "pipe")
    for name, arguments in {"read_file": {}, "write_file": {"content": "x"}}.items():
        with pytest.raises(ToolError, match="not a regular file"):
            work.use(name, path="pipe", **arguments)
        with pytest.raises(ToolError, match="it is a folder"):
            work.use(name, path="inside", **arguments)


def test_no_message_shows_where_the_folder_is(work: Workspace) -> None:
    for path in ("nonesuch", "file/below", "inside", "ring", "n" * 300):
        with pytest.raises(ToolError) as raised:
            work.use("read_file", path=path)
        assert str(work.root) not in str(raised.value)


@pytest.mark.parametrize("name", ["nonesuch", "file"])
def test_a_working_folder_has_to_be_one(work: Workspace, name: str) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        workspace_tools(work.root / name)
