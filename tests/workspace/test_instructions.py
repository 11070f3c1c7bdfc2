"""AGENTS.md: which files count, in which order, and how much of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.workspace.instructions import read_instructions


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src/deep").mkdir(parents=True)
    (root / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("outside of the project")
    (root / "AGENTS.md").write_text("Use tabs.\n")
    (root / "src/deep/AGENTS.md").write_text("Use spaces here.")
    return root


def test_files_from_the_root_to_the_folder_are_read_the_nearest_last(project: Path) -> None:
    found = read_instructions(project / "src/deep")
    assert found.files == [project / "AGENTS.md", project / "src/deep/AGENTS.md"]
    assert found.text.index("Use tabs.") < found.text.index("Use spaces here.")
    assert (
        '<instructions path="src/deep/AGENTS.md">\nUse spaces here.\n</instructions>' in found.text
    )
    assert found.text.startswith("The project has these instructions")
    assert "outside" not in found.text
    assert read_instructions(project / "src").files == [project / "AGENTS.md"]


def test_without_a_project_only_the_folder_counts(tmp_path: Path) -> None:
    below = tmp_path / "a"
    below.mkdir()
    (tmp_path / "AGENTS.md").write_text("above")
    assert read_instructions(below).text == ""
    (below / "AGENTS.md").write_text("here")
    assert "here" in read_instructions(below).text


def test_the_size_is_limited_and_the_nearest_file_counts_most(project: Path) -> None:
    (project / "AGENTS.md").write_text("r" * 50_000)
    (project / "src/deep/AGENTS.md").write_text("n" * 900)
    found = read_instructions(project / "src/deep", max_chars=1_000)
    assert "n" * 900 in found.text
    assert found.text.count("r" * 50) == 2
    assert len(found.text) < 1_600


def test_links_out_of_the_project_and_odd_files_are_skipped(project: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password")
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to(secret)
    (project / "src/AGENTS.md").write_text("  \n")
    (project / "src/deep/AGENTS.md").write_bytes(b"caf\xe9")
    found = read_instructions(project / "src/deep")
    assert found.files == [project / "src/deep/AGENTS.md"]
    assert "password" not in found.text
    assert "caf\ufffd" in found.text
