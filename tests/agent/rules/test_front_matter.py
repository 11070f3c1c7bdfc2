"""The head of a file says what it looks like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.agent.rules.front_matter import FrontMatterError, read_front_matter

HEADS = {
    "a word": ("a: b", {"a": "b"}),
    "a word of several": ("a: b c: d", {"a": "b c: d"}),
    "nothing": ("a:", {"a": []}),
    "a list in brackets": ("a: [b, c d]", {"a": ["b", "c d"]}),
    "a list in brackets with quotes": ("""a: ["b, c", 'd', e]""", {"a": ["b, c", "d", "e"]}),
    "a list of nothing": ("a: []", {"a": []}),
    "a list in lines": ("a:\n  - b\n- 'c'\nd: e", {"a": ["b", "c"], "d": "e"}),
    "an expression": (r"a: console\.(log|warn)", {"a": r"console\.(log|warn)"}),
    "an expression with brackets": (r"a: [ab]+x", {"a": "[ab]+x"}),
    "an expression in single quotes": (r"a: '\bit''s # so\b'", {"a": r"\bit's # so\b"}),
    "an expression in double quotes": (r'a: "\bfoo\\d \"x\""', {"a": r'\bfoo\d "x"'}),
    "a comment": ("# x\na: b # c\n  # y\n", {"a": "b"}),
    "a comment behind quotes": ('a: "b" # c', {"a": "b"}),
    "a comment behind a list": ("a: [b] # c", {"a": ["b"]}),
    "no comment": ("a: b#c", {"a": "b#c"}),
    "a block": ("a: |\n  b\n    c: d\n\ne: f", {"a": "b\n  c: d", "e": "f"}),
    "a folded block": ("a: >-  # c\n  b|\n  - c\nd: e", {"a": "b| - c", "d": "e"}),
    "a block of nothing": ("a: >\nb: c", {"a": [], "b": "c"}),
    "a list of expressions": (
        "a: [a{1,3}, (b|c,d), [e,], f]",
        {"a": ["a{1,3}", "(b|c,d)", "[e,]", "f"]},
    ),
    "a list of globs": ("a: [x(*.{ts,tsx}), y]", {"a": ["x(*.{ts,tsx})", "y"]}),
    "a list of expressions that are not closed": (r"a: [\{1, (2, 3]", {"a": [r"\{1", "(2", "3"]}),
    "something nested": ("a:\n  b: c\nd: e", {"a": [], "d": "e"}),
    "a key twice": ("a: b\na: c", {"a": "c"}),
    "a quote that is not closed": ("a: \"b, 'c", {"a": "\"b, 'c"}),
    "a list that is not closed": ("a: [b, c", {"a": "[b, c"}),
    "an item that belongs nowhere": ("- a\nb: c", {"b": "c"}),
}


@pytest.mark.parametrize(("head", "fields"), HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_head_is_read(head: str, fields: dict[str, object], end: str) -> None:
    text = f"---\n{head}\n---\nbody\n".replace("\n", end)
    assert read_front_matter(text) == (fields, "body\n")


def test_a_file_without_a_head_is_all_body() -> None:
    assert read_front_matter("# Title\n---\n") == ({}, "# Title\n---\n")
    assert read_front_matter("") == ({}, "")


def test_a_byte_order_mark_is_no_part_of_the_file() -> None:
    assert read_front_matter("\ufeff---\na: b\n---\nc") == ({"a": "b"}, "c")


def test_a_head_without_an_end_is_refused() -> None:
    with pytest.raises(FrontMatterError, match="no end"):
        read_front_matter("---\na: b\n")


def test_a_line_that_says_nothing_is_refused_with_its_place() -> None:
    with pytest.raises(FrontMatterError) as caught:
        read_front_matter("---\na: b\nwhat is this\n---\n")
    assert caught.value.line == 3


@given(head=st.text("ab:-#[]'\",\\ \n", max_size=40))
def test_any_head_is_read_or_refused(head: str) -> None:
    try:
        fields, body = read_front_matter(f"---\n{head}\n---\nbody")
    except FrontMatterError:
        return
    assert body.endswith("body")
    for value in fields.values():
        assert isinstance(value, str) or all(isinstance(item, str) for item in value)


@given(word=st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1))
def test_anything_can_be_said_in_single_quotes(word: str) -> None:
    quoted = "'" + word.replace("'", "''") + "'"
    fields, _ = read_front_matter(
        f"---\na: {quoted}\nb: [{quoted}, {quoted}]\nc:\n- {quoted}\n---\n"
    )
    assert fields == {"a": word, "b": [word, word], "c": [word]}
