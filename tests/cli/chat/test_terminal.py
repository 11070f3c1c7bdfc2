"""Lines as rows of a terminal, and the keys that edit the input."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from cli.chat.chat_driver import start_chat
from penstock.cli.chat.render import LineBuffer, OutputLine, StyledText, escape_text
from penstock.cli.chat.terminal import MAX_PASTE, Row, take_rows, wrap

WORDS = st.text(st.sampled_from("ab \u0301日👩\u200d-\t\x1b"), max_size=60)
PIECES = st.lists(
    st.text(st.sampled_from("ab \n\r日\u0301\x1b\t"), max_size=30) | st.just("\x00note"),
    max_size=12,
)


def plain(rows: list[Row]) -> list[str]:
    return ["".join(span.text for span in row).rstrip() for row in rows]


def wrap_text(text: str, columns: int, lead: str = "") -> list[str]:
    return plain(wrap(OutputLine(StyledText(lead), [StyledText(escape_text(text))]), columns))


def test_lines_are_broken_between_words() -> None:
    assert wrap_text("to be or not to be", 10) == ["to be or", "not to be"]


def test_a_word_that_is_too_long_is_broken_anywhere() -> None:
    assert wrap_text("x" * 25, 11) == ["x" * 10, "x" * 10, "x" * 5]
    assert wrap_text("  " + "x" * 15, 11) == ["  " + "x" * 8, "x" * 7]


def test_further_rows_are_indented_like_the_first_and_repeat_its_bar() -> None:
    assert wrap_text("to be or not to be", 12, "> ") == ["> to be or", "  not to be"]
    assert wrap_text("to be or not to be", 13, "│ ") == ["│ to be or", "│ not to be"]


def test_wide_characters_take_two_columns() -> None:
    assert wrap_text("日本語日本語", 10) == ["日本語日", "本語"]


def test_styles_are_kept_where_a_line_is_broken() -> None:
    spans = [StyledText("aaaa bb", "bold"), StyledText("bb cc"), StyledText("cc", "dim")]
    rows = wrap(OutputLine(StyledText("● ", "cyan"), spans), 13)
    assert [[(span.text.rstrip(), span.style) for span in row if span.text] for row in rows] == [
        [("● ".rstrip(), "cyan"), ("aaaa bb", "bold"), ("bb", "")],
        [("", "cyan"), ("cc", ""), ("cc", "dim")],
    ]


@given(WORDS, st.integers(0, 40), st.sampled_from(["", "  │ ", "> "]))
def test_no_row_is_too_wide_and_only_blanks_are_lost(text: str, columns: int, lead: str) -> None:
    rows = wrap(OutputLine(StyledText(lead), [StyledText(escape_text(text))]), columns)
    whole = ["".join(span.text for span in row) for row in rows]
    assert all(get_cwidth(row) < max(10, columns) for row in whole)
    joined = "".join(row[len(lead) :] for row in whole)
    assert joined.replace(" ", "") == escape_text(text).replace(" ", "")


@settings(max_examples=200)
@given(PIECES, st.integers(10, 40), st.sampled_from(["", "  │ ", "> "]))
def test_the_rows_do_not_depend_on_how_often_they_are_taken(
    pieces: list[str], columns: int, lead: str
) -> None:
    results = []
    for often in (True, False):
        lines = LineBuffer()
        rows: list[Row] = []
        lines.begin(lead)
        for piece in pieces:
            if piece == "\x00note":
                lines.write("a note", "dim", "! ")
            else:
                lines.add(piece)
            if often:
                rows += take_rows(lines, columns)[0]
        finished, unfinished = take_rows(lines, columns)
        results.append(plain([*rows, *finished, *unfinished]))
    assert results[0] == results[1]


# --- keys, in a real terminal ---


async def test_the_input_is_edited_like_in_emacs(tmp_path: Path) -> None:
    async with start_chat(tmp_path, "--pace", "0", "--no-session", width=60) as chat:
        await chat.until("> type a request")
        chat.type("日本語\x1b[D\x7f人")  # Left, Backspace
        await chat.until("> 日人語")
        chat.type("\x01\x04\x0bone\x1b\rtwo\\\r\x1b[13;2uthree")  # Home, Delete, kill, newlines
        await chat.until("> one\n  two\n\n  three")
        chat.type("\x1b[A\x1b[A\x01\x7f!")  # Up twice, Home, Backspace
        await chat.until("> one!two\n\n  three")
        chat.type("\x03\x1b[200~a\tb\r\nc\x1bd\x1b[201~")
        await chat.until("> a    b\n  cd")
        chat.type("\x03x\ty\x1b[99;99X\x1b[?1;2c")  # unknown sequences are dropped
        os.write(chat.child.child_fd, b"\xffz")
        await chat.until("> x    y\ufffdz")
        chat.type("\x03/us\t")
        await chat.until("> /usage")
        chat.type("\r/r\t")  # two commands begin like that
        await chat.until("no tokens", "> /r", "/rules", "/reasoning")
        chat.type("\x03")
        await chat.until("> type a request")
        chat.type("\x1b[A")
        rule = "─" * 59
        await chat.until(f"messages in the context: 0\n{rule}\n> /usage\npenstock-demo")
        chat.type("\x1b[B\x0c")  # Down, Ctrl-L
        await chat.when(lambda text: text.startswith(f"{rule}\n> type a request"))
        chat.type("\x1b")  # Escape does nothing
        chat.type("\x04")
        assert await chat.end() == 0


async def test_a_long_input_takes_half_of_the_screen_and_a_paste_is_bounded(tmp_path: Path) -> None:
    async with start_chat(tmp_path, "--no-session", width=30, height=8) as chat:
        await chat.until("> type a request; /help list…")
        chat.type("\x1b[200~" + "\n".join("abcdefgh") + "\x1b[201~")
        shown = await chat.until("  h")
        assert shown.endswith("  e\n  f\n  g\n  h\npenstock-demo")
        chat.type("\x1b[A" * 7)
        assert (await chat.until("> a")).endswith("> a\n  b\n  c\n  d\npenstock-demo")
        chat.type("\x03\x1b[200~" + "x\n" * (MAX_PASTE // 2) + "lost\x1b[201~end")
        await chat.until("  end")
        chat.type("\x03\x04")
        assert await chat.end() == 0
