"""The words of a scope mean what the documentation says."""

from __future__ import annotations

import pytest

from penstock.agent.rules.scopes import Scope, read_scope

TOKENS = {
    "text": Scope("text"),
    "thinking": Scope("thinking"),
    "tool": Scope("tool"),
    "toolcall": Scope("tool"),
    "tool:edit_file": Scope("tool", "edit_file"),
    "tool:text": Scope("tool", "text"),
    "edit_file": Scope("tool", "edit_file"),
    "edit_file(*.ts)": Scope("tool", "edit_file", "*.ts"),
    "tool(src/**)": Scope("tool", "", "src/**"),
    "tool:edit_file(*.ts)": Scope("tool", "edit_file", "*.ts"),
    " mcp.files-write ": Scope("tool", "mcp.files-write"),
    "text(*.ts)": None,
    "": None,
    "two words": None,
    "edit_file(": None,
    "edit_file()": None,
    "tool:": None,
}


@pytest.mark.parametrize(("token", "scope"), TOKENS.items())
def test_a_word_of_a_scope_is_read(token: str, scope: Scope | None) -> None:
    assert read_scope(token) == scope


def test_a_scope_covers_its_own_streams_only() -> None:
    scope = Scope("tool", "edit_file")
    assert scope.covers("tool", "edit_file")
    assert not scope.covers("tool", "write_file")
    assert not scope.covers("text")
    assert Scope("tool").covers("tool", "anything")
    assert not Scope("text").covers("thinking")


def test_a_glob_asks_for_a_path() -> None:
    assert Scope("tool", "", "*.ts").admits(["a.js", "src/b.ts"])
    assert not Scope("tool", "", "*.ts").admits(["a.js"])
    assert not Scope("tool", "", "*.ts").admits([])
    assert Scope("tool").admits([])
