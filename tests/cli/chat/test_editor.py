"""The line editor: what keys do to a text, and where the cursor is seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.chat.editor import Editor
from penstock.cli.chat.keys import Pressed, Typed
from penstock.cli.chat.rows import Span, rendered, row_width

NAMES = [
    *("left", "right", "up", "down", "home", "end", "word-left", "word-right", "newline"),
    *("backspace", "delete", "kill-start", "kill-end", "kill-word", "enter", "nonsense"),
]


def edited(*keys: str, text: str = "") -> tuple[str, str]:
    """Press *keys*; give what stands before and behind the cursor."""
    editor = Editor()
    editor.set(text)
    for key in keys:
        editor.press(Pressed(key) if key in NAMES else Typed(key))
    return editor.text[: editor.cursor], editor.text[editor.cursor :]


@pytest.mark.parametrize(
    ("keys", "result"),
    [
        (["ab", "left", "x"], ("ax", "b")),
        (["ab", "home", "delete"], ("", "b")),
        (["one two", "word-left", "kill-end"], ("one ", "")),
        (["one two", "kill-word"], ("one ", "")),
        (["one two", "home", "word-right", "kill-start"], ("", " two")),
        (["e\u0301", "backspace"], ("", "")),
        (["日本", "left", "backspace"], ("", "本")),
        (["ab", "newline", "c", "up", "end", "!"], ("ab!", "\nc")),
        (["ab", "newline", "c", "up", "home", "down"], ("ab\n", "c")),
        (["a\\", "enter", "b"], ("a\nb", "")),
        (["a\x1bb\x03\x7f", "\tc"], ("ab\tc", "")),
    ],
)
def test_keys_edit(keys: list[str], result: tuple[str, str]) -> None:
    assert edited(*keys) == result


def test_enter_gives_the_text_and_the_arrows_bring_it_back() -> None:
    editor = Editor()
    for said in ("one", "two"):
        editor.press(Typed(said))
        assert editor.press(Pressed("enter")) == said
        editor.remember(said)
    editor.press(Typed("draft"))
    seen = []
    for key in ("up", "up", "up", "down", "down", "down"):
        editor.press(Pressed(key))
        seen.append(editor.text)
    assert seen == ["two", "one", "one", "two", "draft", "draft"]


@given(
    st.lists(st.sampled_from(NAMES) | st.text("ab 日\u0301\n\\", min_size=1, max_size=20)),
    st.integers(0, 30),
    st.integers(1, 6),
)
def test_whatever_is_pressed_the_cursor_is_in_the_text_and_on_the_screen(
    keys: list[str], width: int, height: int
) -> None:
    editor = Editor()
    for key in keys:
        entered = editor.press(Pressed(key) if key in NAMES else Typed(key))
        if entered is not None:
            editor.remember(entered)
        assert 0 <= editor.cursor <= len(editor.text)
    prompt = editor.prompt(Span("> "), width, height)
    assert 1 <= len(prompt.rows) <= height
    assert 0 <= prompt.row < len(prompt.rows)
    assert all(row_width(row) < max(10, width) for row in prompt.rows)
    assert prompt.column < max(10, width)


def test_of_a_long_text_the_rows_about_the_cursor_are_shown() -> None:
    editor = Editor()
    editor.insert("\n".join("abcdefgh"))
    shown = editor.prompt(Span("> "), 20, 3)
    assert [rendered(row, colours=False) for row in shown.rows] == ["  f", "  g", "  h"]
    for _ in range(7):
        editor.press(Pressed("up"))
    shown = editor.prompt(Span("> "), 20, 3)
    assert [rendered(row, colours=False) for row in shown.rows] == ["> a", "  b", "  c"]
    assert (shown.row, shown.column) == (0, 3)


def test_an_empty_line_shows_the_hint_as_far_as_there_is_room() -> None:
    shown = Editor().prompt(Span("> "), 12, 3, "what shall be done?")
    assert rendered(shown.rows[0], colours=False) == "> what sha…"
    assert shown.column == 2
