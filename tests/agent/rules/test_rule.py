"""Scopes and globs match what the documentation says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.agent.rules.rule import (
    MAX_PATH,
    Scope,
    holds_path,
    list_spellings,
    matches_glob,
    parse_scope,
)

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
def test_a_word_of_a_scope_is_parsed(token: str, scope: Scope | None) -> None:
    assert parse_scope(token) == scope


def test_a_scope_covers_its_own_streams_only() -> None:
    scope = Scope("tool", "edit_file")
    assert scope.covers("tool", "edit_file")
    assert not scope.covers("tool", "write_file")
    assert not scope.covers("text")
    assert Scope("tool").covers("tool", "anything")
    assert not Scope("text").covers("thinking")


def test_a_glob_requires_a_path() -> None:
    assert Scope("tool", "", "*.ts").admits(["a.js", "src/b.ts"])
    assert not Scope("tool", "", "*.ts").admits(["a.js"])
    assert not Scope("tool", "", "*.ts").admits([])
    assert Scope("tool").admits([])


# --- globs ---

MATCHING = [
    ("src/a.ts", "*.ts"),
    ("a.ts", "*.ts"),
    ("src/a.ts", "src/*.ts"),
    ("src/deep/a.ts", "src/**/*.ts"),
    ("src/a.ts", "src/**/*.ts"),
    ("src/deep/a.ts", "src/**"),
    ("src/deep/a.ts", "**/a.ts"),
    ("a.ts", "**/a.ts"),
    ("src/a.tsx", "*.{ts,tsx}"),
    ("a.ts", "./a.ts"),
    ("a1.ts", "a[0-9].ts"),
    ("ab.ts", "a[!0-9].ts"),
    ("a].ts", "a[]].ts"),
    ("a.ts", "?.ts"),
    ("a,b}.ts", "a,b}.ts"),
    ("a{b.ts", "a{b.ts"),
    ("[z-a].ts", "[z-a].ts"),
    ("a-.ts", "a[+--].ts"),
    ("src/a.ts", "src/a.ts"),
]
OTHERS = [
    ("src/a.ts", "*.js"),
    ("src/deep/a.ts", "src/*.ts"),
    ("src/a.ts", "lib/**"),
    ("a/b", "a?b"),
    ("aXts", "a.ts"),
    ("a.ts", "*.{js,jsx}"),
    ("a1.ts", "a[!0-9].ts"),
]


@pytest.mark.parametrize(("path", "glob"), MATCHING)
def test_a_glob_matches_glob(path: str, glob: str) -> None:
    assert matches_glob(path, glob)


@pytest.mark.parametrize(("path", "glob"), OTHERS)
def test_a_glob_does_not_match(path: str, glob: str) -> None:
    assert not matches_glob(path, glob)


@given(path=st.text("ab/.", max_size=8), glob=st.text("a*?[]{},!-^\\/.|&~(", max_size=10))
def test_any_glob_can_be_tried(path: str, glob: str) -> None:
    assert matches_glob(path, glob) in (True, False)


@pytest.mark.parametrize("key", ["path", "file_path", "filePath", "paths", "targetPaths"])
def test_an_argument_is_known_to_hold_paths_by_its_name(key: str) -> None:
    assert holds_path(key)


@pytest.mark.parametrize("key", ["content", "pathology", "0"])
def test_other_arguments_hold_no_paths(key: str) -> None:
    assert not holds_path(key)


def test_a_path_is_compared_in_all_its_spellings() -> None:
    assert list_spellings("./src/a.ts", "/project") == [
        "./src/a.ts",
        "src/a.ts",
        "/project/src/a.ts",
    ]
    assert list_spellings("/project/src/a.ts", "/project") == ["/project/src/a.ts", "src/a.ts"]
    assert list_spellings("src\\a.ts", "/project")[0] == "src/a.ts"
    assert "../b" in list_spellings("/b", "/project")


def test_a_text_that_is_too_long_is_not_a_path() -> None:
    assert list_spellings("x" * (MAX_PATH + 1), "/project") == []
    assert list_spellings("", "/project") == []
