"""The tools of a workspace, and their descriptions."""

from __future__ import annotations

from pathlib import Path

from penstock.workspace import workspace_tools


def test_what_changes_something_runs_alone_and_asks(tmp_path: Path) -> None:
    tools = {each.name: each for each in workspace_tools(tmp_path)}
    assert {name: (each.exclusive, each.needs_approval) for name, each in tools.items()} == {
        "read_file": (False, False),
        "list_files": (False, False),
        "grep": (False, False),
        "write_file": (True, True),
        "edit_file": (True, True),
        "run_bash": (True, True),
    }


def test_a_reader_can_change_nothing(tmp_path: Path) -> None:
    names = [each.name for each in workspace_tools(tmp_path, read_only=True)]
    assert names == ["read_file", "list_files", "grep"]
    assert "run_bash" not in [each.name for each in workspace_tools(tmp_path, shell=False)]


def test_every_tool_and_parameter_is_described(tmp_path: Path) -> None:
    for each in workspace_tools(tmp_path):
        assert each.tool.description
        assert ":param" not in each.tool.description
        for name, schema in each.tool.parameters["properties"].items():
            assert schema.get("description"), (each.name, name)


def test_an_edit_is_told_by_the_names_that_a_guard_watches(tmp_path: Path) -> None:
    edit = next(each for each in workspace_tools(tmp_path) if each.name == "edit_file")
    assert list(edit.tool.parameters["properties"]) == ["path", "old", "new", "diff"]
