"""Globs fit the paths that people mean by them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.agent.rules.paths import MAX_PATH, fits, names_path, spellings

FITTING = [
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


@pytest.mark.parametrize(("path", "glob"), FITTING)
def test_a_glob_fits(path: str, glob: str) -> None:
    assert fits(path, glob)


@pytest.mark.parametrize(("path", "glob"), OTHERS)
def test_a_glob_does_not_fit(path: str, glob: str) -> None:
    assert not fits(path, glob)


@given(path=st.text("ab/.", max_size=8), glob=st.text("a*?[]{},!-^\\/.|&~(", max_size=10))
def test_any_glob_can_be_tried(path: str, glob: str) -> None:
    assert fits(path, glob) in (True, False)


@pytest.mark.parametrize("key", ["path", "file_path", "filePath", "paths", "targetPaths"])
def test_an_argument_is_known_to_hold_paths_by_its_name(key: str) -> None:
    assert names_path(key)


@pytest.mark.parametrize("key", ["content", "pathology", "0"])
def test_other_arguments_hold_no_paths(key: str) -> None:
    assert not names_path(key)


def test_a_path_is_known_by_all_its_spellings() -> None:
    assert spellings("./src/a.ts", "/project") == ["./src/a.ts", "src/a.ts", "/project/src/a.ts"]
    assert spellings("/project/src/a.ts", "/project") == ["/project/src/a.ts", "src/a.ts"]
    assert spellings("src\\a.ts", "/project")[0] == "src/a.ts"
    assert "../b" in spellings("/b", "/project")


def test_what_is_too_long_to_be_a_path_is_none() -> None:
    assert spellings("x" * (MAX_PATH + 1), "/project") == []
    assert spellings("", "/project") == []
