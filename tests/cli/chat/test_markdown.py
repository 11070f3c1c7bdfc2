"""Markdown of models: what it looks like, and that no cut of the text changes that."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from laws import check_linear
from penstock.cli.chat.markdown import MAX_DRAFT, MarkdownWriter, render_inline
from penstock.cli.chat.render import LineBuffer, StyledText
from penstock.cli.chat.terminal import take_rows


def rendered(*pieces: str, width: int = 60) -> list[list[StyledText]]:
    lines = LineBuffer()
    writer = MarkdownWriter(lines, lambda: width)
    for piece in pieces:
        writer.add(piece)
    writer.end()
    assert not lines.draft
    return [[line.lead, *line.spans] for line in lines.take_finished()]


def plain(*pieces: str, width: int = 60) -> list[str]:
    return ["".join(span.text for span in row).rstrip() for row in rendered(*pieces, width=width)]


def styled(text: str) -> list[tuple[str, str]]:
    return [(span.text, span.style) for span in render_inline(text)]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("a **b** c", [("a ", ""), ("b", "bold"), (" c", "")]),
        (
            "*a* _b_ ~~c~~",
            [("a", "italic"), (" ", ""), ("b", "italic"), (" ", ""), ("c", "strike")],
        ),
        ("**a *b* c**", [("a ", "bold"), ("b", "bold italic"), (" c", "bold")]),
        ("`a*b*c`", [("a*b*c", "cyan")]),
        ("`` a`b ``", [("a`b", "cyan")]),
        ("これは**重要**です", [("これは", ""), ("重要", "bold"), ("です", "")]),
        ("[a](http://b)", [("a", "underline"), (" (http://b)", "dim")]),
        (r"\*a\*", [("*", ""), ("a", ""), ("*", "")]),
    ],
)
def test_emphasis_code_and_links_have_styles(text: str, spans: list[tuple[str, str]]) -> None:
    assert styled(text) == spans


@pytest.mark.parametrize(
    "text",
    [
        "2*3*4",
        "snake_case_name",
        "a * b",
        "**open",
        "`open",
        "[a] (b)",
        "* ",
        "__init__x",
        "\\",
        "**",
    ],
)
def test_marks_that_are_not_markup_stay(text: str) -> None:
    assert styled(text) == [(text, "")]


def test_blocks_are_drawn() -> None:
    text = """# Tides

1. one
2. two
   - three
   - [x] four

> said
***
end"""
    assert plain(text) == [
        "Tides", "", "1. one", "2. two", "   • three", "   ☑ four", "", "│ said", "─" * 24, "end",
    ]  # fmt: skip


def test_code_keeps_every_character_and_has_the_colours_of_its_language() -> None:
    code = 'def f():\n\n    return """a\n  **b**"""  # c'
    rows = rendered(f"```python\n{code}\n```\n**after**")
    texts = ["".join(span.text for span in row) for row in rows]
    assert [text[2:] for text in texts[:-1]] == code.split("\n")
    styles = {span.text: span.style for row in rows for span in row}
    assert styles["def"] == "brightblue"
    assert styles["# c"] == "dim"
    assert styles['  **b**"""'] == styles['"""a'] != ""  # a string that began a line before
    assert styles["after"] == "bold"


def test_code_in_a_list_loses_the_indent_of_the_list_and_may_stay_open() -> None:
    assert plain("- a\n  ```\n  x\n    y\n ```` \nz") == ["• a", "    x", "      y", "z"]
    assert plain("~~~\n```\nx") == ["  ```", "  x"]


TABLE = "| a | b |\n|---|--:|\n| **one** | 2 |\n| x \\| y | `3` | \n"


def test_a_table_is_aligned_and_too_long_cells_continue_below() -> None:
    assert plain(TABLE + "end") == [
        "a     │ b", "──────┼──", "one   │ 2", "x | y │ 3", "end",
    ]  # fmt: skip
    wide = "| name | remark |\n|--|--|\n| a | many words in a cell |\n"
    assert plain(wide, width=24) == [
        "name │ remark",
        "─────┼─────────────────",
        "a    │ many words in a",
        "     │ cell",
    ]


def test_what_only_looks_like_a_table_stays_as_it_is() -> None:
    assert plain("| a | b |\n| c | d |\n") == ["| a | b |", "| c | d |"]
    many = "|" + "a|" * 20 + "\n|" + "-|" * 20 + "\n"
    assert plain(many, width=30) == many.strip().split("\n")


def test_the_line_that_is_written_is_a_draft() -> None:
    lines = LineBuffer()
    writer = MarkdownWriter(lines, lambda: 60)
    writer.add("done\n**bo")
    assert [line.text for line in lines.finished] == ["done"]
    assert [line.text for line in lines.draft] == ["**bo"]
    writer.add("ld**")
    assert [line.text for line in lines.draft] == ["bold"]
    writer.end()
    assert [line.text for line in lines.finished] == ["done", "bold"]


def test_control_characters_are_escaped_everywhere() -> None:
    evil = "\x1b[2J\u202e"
    text = (
        f"# {evil}\n> {evil}\n- {evil}\n```x\n{evil}\n```\n|{evil}|\n|-|\n|{evil}|\n`{evil}` {evil}"
    )
    lines = LineBuffer()
    writer = MarkdownWriter(lines, lambda: 60)
    for one in text:
        writer.add(one)
        assert all(span.text.isprintable() for line in lines.draft for span in line.spans)
    writer.end()
    assert all(span.text.isprintable() for line in lines.finished for span in line.spans)


PIECES = st.lists(
    st.text(st.sampled_from("ab *_`~#->|\n\r[]()1.日\t\\"), max_size=30)
    | st.sampled_from(["```py\n", "\n| a | b |\n|--|--|\n", "x" * (MAX_DRAFT + 5), "- **a** "]),
    max_size=10,
)


@given(PIECES, st.integers(12, 50))
def test_the_lines_do_not_depend_on_the_cuts(pieces: list[str], width: int) -> None:
    text = "".join(pieces)

    def look(*parts: str) -> list[tuple[str, str]]:
        rows = rendered(*parts, width=width)
        return [
            (one.text, one.style) for row in rows for one in [*row, StyledText("\n")] if one.text
        ]

    def joined(spans: list[tuple[str, str]]) -> list[tuple[str, str]]:
        result: list[tuple[str, str]] = []
        for span, style in spans:
            if result and result[-1][1] == style:
                result[-1] = (result[-1][0] + span, style)
            else:
                result.append((span, style))
        return result

    whole = joined(look(text))
    assert joined(look(*pieces)) == whole
    assert joined(look(*text)) == whole


@given(PIECES, st.integers(12, 50))
def test_letters_are_neither_lost_nor_added_and_rows_fit(pieces: list[str], width: int) -> None:
    text = "".join(pieces)
    assume(not any(mark in text for mark in ("```", "~~~", "](")))  # languages; links to themselves
    lines = LineBuffer()
    writer = MarkdownWriter(lines, lambda: width)
    rows = []
    for piece in pieces:
        writer.add(piece)
        finished, drafted = take_rows(lines, width)
        rows += finished
        assert all(
            get_cwidth("".join(s.text for s in row)) < width for row in [*finished, *drafted]
        )
    writer.end()
    rows += take_rows(lines, width)[0]
    shown = "".join(span.text for row in rows for span in row)
    for letter in "b日":
        assert shown.count(letter) == text.count(letter)


@pytest.mark.parametrize(
    "line", ["|" + "-" * 900 + "x", "# " + " #" * 450 + "x", "*a " * 300, "`" * 900, "[" * 900]
)
def test_hostile_lines_are_drawn_at_once(line: str) -> None:
    def write(lines: int) -> None:
        plain(*[f"|a|\n{line}\n"] * lines)

    check_linear(write, 3, 30, at_most=3)


def test_a_delta_costs_the_same_at_the_end_of_a_long_response() -> None:
    def write(size: int) -> None:
        writer = MarkdownWriter(LineBuffer(), lambda: 80)
        for _ in range(size):
            writer.add("a *b* [c `d ")

    check_linear(write, 2_000, 20_000, at_most=3)
