"""Lines as rows: nothing in them steers a terminal, and none is too wide for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.chat.rows import Line, Span, rendered, row_width, shown, wrap

WORDS = st.text(st.sampled_from("ab \u0301日👩\u200d-\t\x1b"), max_size=60)


def plain(text: str, width: int, hang: str = "") -> list[str]:
    rows = wrap(Line([Span(shown(text))], hang), width)
    return [rendered(row, colours=False).rstrip(" ") for row in rows]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("a\x00b\x7fc", r"a\x00b\x7fc"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202etxt.exe", r"\u202etxt.exe"),
        ("\ud800", r"\ud800"),
        ("\r", r"\r"),
        ("a\tb", "a    b"),
        ("e\u0301 👩\u200d🚀 日本", "e\u0301 👩\u200d🚀 日本"),
    ],
)
def test_what_steers_a_terminal_is_written_out(text: str, seen: str) -> None:
    assert shown(text) == seen


def test_lines_break_between_words() -> None:
    assert plain("to be or not to be", 10) == ["to be or", "not to be"]


def test_a_word_that_is_too_long_breaks_anywhere() -> None:
    assert plain("x" * 25, 11) == ["x" * 10, "x" * 10, "x" * 5]


def test_rows_behind_the_first_hang() -> None:
    assert plain("> to be or not to be", 12, "  ") == ["> to be or", "  not to be"]


def test_wide_characters_take_two_columns() -> None:
    assert plain("日本語日本語", 10) == ["日本語日", "本語"]


@given(WORDS, st.integers(0, 40), st.sampled_from(["", "  │ ", " " * 30]))
def test_no_row_is_too_wide_and_nothing_but_blanks_is_lost(
    text: str, width: int, hang: str
) -> None:
    rows = wrap(Line([Span(shown(text))], hang), width)
    assert all(row_width(row) < max(10, width) for row in rows)
    joined = "".join(rendered(row, colours=False).removeprefix(hang) for row in rows)
    assert joined.replace(" ", "") == shown(text).replace(" ", "")


@given(WORDS, WORDS, st.integers(10, 40))
def test_more_text_changes_only_the_last_row(text: str, more: str, width: int) -> None:
    before = plain(text, width)
    after = plain(text + more, width)
    assert after[: len(before) - 1] == before[:-1]


def test_styles_are_left_out_where_there_are_no_colours() -> None:
    row = [Span("a", "bold red"), Span("b")]
    assert rendered(row, colours=True) == "\x1b[1;31ma\x1b[0mb"
    assert rendered(row, colours=False) == "ab"
