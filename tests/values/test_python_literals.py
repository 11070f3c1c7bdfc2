"""Python literals: what is one and what is not, at every cut, and what is written reads back."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws import check_linear, chunkings, cut_at, one_by_one
from laws.strategies import ANY_TEXT, CUTS, JSON_VALUES
from penstock.errors import ParseError, UsageError
from penstock.values.json_grammar import MAX_DEPTH, MAX_DIGITS
from penstock.values.python_literals import MORE, LiteralReader, dumps


def step_through(reader: LiteralReader, text: str) -> str:
    """Take all steps that *text* has; give what is left of it."""
    while not reader.complete and (end := reader.step(text, 0)) != MORE:
        text = text[end:]
    return text


def read(chunks: list[str], reader: LiteralReader | None = None) -> tuple[Any, str]:
    """Read a literal and what stands behind it; between chunks the rest is kept, as scanners do."""
    reader = reader or LiteralReader()
    rest = ""
    for chunk in chunks:
        rest = step_through(reader, rest + chunk)
    assert reader.complete, "the text ended inside the literal"
    return reader.value, rest


LITERALS = [
    ("''", ""),
    ('""', ""),
    ("'it'", "it"),
    ('"it\'s"', "it's"),
    ("'''a 'b' ''c'''", "a 'b' ''c"),
    ('"""say "hi" """', 'say "hi" '),
    ("'''two\nlines'''", "two\nlines"),
    ("'a raw\nnewline'", "a raw\nnewline"),
    ("'''ends in one \\''''", "ends in one '"),
    ("''''begins with one'''", "'begins with one"),
    (r"'\n\t\r\a\b\f\v\\\'\"'", "\n\t\r\a\b\f\v\\'\""),
    (r"'\x41\u00e9\U0001F600'", "Aé😀"),
    (r"'\101\7\08'", "A\x07\x008"),
    (r"'\ud83d\ude00'", "😀"),
    (r"'\ud83d' '\ude00'", "\ud83d\ude00"),
    (r"'\ud83dx'", "\ud83dx"),
    (r"'\ud83d\n'", "\ud83d\n"),
    ("'one \\\nline'", "one line"),
    ("'one \\\r\nline'", "one line"),
    ("'one \\\rline'", "one line"),
    (r"'\d+\s\w'", r"\d+\s\w"),
    (r'"a\/b"', "a/b"),
    (r"'a\/b'", r"a\/b"),
    (r"r'C:\new\'s'", r"C:\new\'s"),
    (r"R'''\d''\n'''", r"\d''\n"),
    ("u'text'", "text"),
    ("'a' \"b\" '''c'''", "abc"),
    ("'a'\n  # why\n  r'\\b'", r"a\b"),
    ("'' ''", ""),
    ("0", 0),
    ("00", 0),
    ("1_000", 1000),
    ("-7", -7),
    ("+7", 7),
    ("- 7", -7),
    ("0xFF", 255),
    ("0o17", 15),
    ("0b1_01", 5),
    ("123456789012345678901234567890", 123456789012345678901234567890),
    ("1.5", 1.5),
    (".5", 0.5),
    ("5.", 5.0),
    ("-1_0.5e-3", -0.0105),
    ("2E+3", 2000.0),
    ("1e5", 100000.0),
    ("True", True),
    ("false", False),
    ("None", None),
    ("null", None),
    ("[]", []),
    ("[1, 'ab', ]", [1, "ab"]),
    ("[1, ('a' 'b'), ]", [1, "ab"]),
    ("()", []),
    ("(1,)", [1]),
    ("(1, 2)", [1, 2]),
    ("(1)", 1),
    ("('a'\n 'b')", "ab"),
    ("{}", {}),
    ("{'a': 1, 'bc': [True, {'d': None}],}", {"a": 1, "bc": [True, {"d": None}]}),
    ("{1: 'x', -2: 'y', True: 'z'}", {"1": "x", "-2": "y", "true": "z"}),
    ("{'a': 1, 'a': 2}", {"a": 2}),
    ("[ # a list, [not] this\n 1, #\n 2]", [1, 2]),
    ("[[[], ()], {}]", [[[], []], {}]),
]


@pytest.mark.parametrize(("text", "value"), LITERALS, ids=[repr(text) for text, _ in LITERALS])
def test_a_literal_reads_the_same_at_every_cut(text: str, value: Any) -> None:
    for chunks in chunkings(text + ")"):
        found, rest = read(chunks)
        assert (found, type(found)) == (value, type(value))
        assert rest.rstrip() == ")"[: len(rest)]


REFUSED = [
    "name", "nan", "Infinity", "...", "datetime.now()", "f'x'", "b'x'", "rb'x'", "br'x'", "ur'x'",
    "007", "1__0", "_1", "1_", "0x", "0xG", "1j", "1e", "1.2.3", "٣", "1e999", "--1", "-True",
    "-'a'", "- [1]", "~1", "*a", "{1, 2}", "{'a'}", "{'a': }", "{: 1}", "{'a' 1}", "{[1]: 2}",
    "{**a}", "[,]", "(,)", "[1 2]", "[1,, 2]", "[1)", "(1]", "{'a': 1]", "[True False]", "['a' 1]",
    r"'\N{DASH}'", r"'\x4'", r"'\xg0'", r"'\u12'", r"'\U00110000'", "]", ",", "=1", "<b>", "'a' [",
    "9" * (MAX_DIGITS + 1), "0x" + "f" * MAX_DIGITS, "0." + "1" * 2 * MAX_DIGITS, "[" * 600,
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=[repr(text[:20]) for text in REFUSED])
def test_what_is_no_literal_is_refused_at_every_cut(text: str) -> None:
    chunkings_of_text = chunkings(text + ")") if len(text) < 99 else [[text + ")"], [*text, ")"]]
    for chunks in chunkings_of_text:
        try:
            value, rest = read(chunks)
        except ParseError:
            continue
        assert (value, rest[:1]) == ("a", "["), "what follows a value is the caller's to refuse"


PIECES = st.sampled_from(
    ["'", '"', "\\", "\\n", "\\x4", "\\u00e9", "\\101", "\\ud83d\\ude00", "\n", "é", "😀", "x", "u"]
)
SOURCES = st.lists(PIECES, max_size=8).map("".join)


@given(text=SOURCES, quote=st.sampled_from(["'", '"', "'''", '"""', "r'", "R'''"]), cuts=CUTS)
def test_strings_say_what_python_says(text: str, quote: str, cuts: list[int]) -> None:
    source = quote + text + quote.lstrip("rR")
    try:
        expected = ast.literal_eval(source)
    except (SyntaxError, ValueError):
        return
    # JSON says that the halves of a pair are one character, Python says that they are two.
    expected = expected.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert read(cut_at(source + ")", cuts)) == (expected, ")")


@given(value=JSON_VALUES, cuts=CUTS)
def test_any_value_reads_back_from_python_from_json_and_from_what_is_written(
    value: Any, cuts: list[int]
) -> None:
    for source in (repr(value), json.dumps(value), dumps(value), dumps(value, json_words=True)):
        for chunks in (cut_at(source + ")", cuts), one_by_one(source + ")")):
            found, rest = read(chunks)
            assert (found, rest) == (value, "" if rest == "" else ")")


@given(text=ANY_TEXT.filter(lambda text: not _has_pair(text)))
def test_what_is_written_is_python(text: str) -> None:
    assert read([dumps(text) + ")"])[0] == text
    if text.isprintable():
        assert ast.literal_eval(dumps([text, True, None])) == [text, True, None]


def _has_pair(text: str) -> bool:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") != text


def test_what_json_has_no_word_for_is_not_written() -> None:
    for value in (float("nan"), [float("inf")], {"k": object()}):
        with pytest.raises(UsageError):
            dumps(value)


def test_a_string_shows_as_it_grows_also_over_adjacent_ones() -> None:
    reader = LiteralReader()
    shown: list[str] = []
    for chunk in ("'ab", "c\\n", "' ", " 'd", "e'", ")"):
        step_through(reader, chunk)
        shown.append("".join(reader.text) if reader.text is not None else "")
    assert shown[:5] == ["ab", "abc\n", "abc\n", "abc\nd", "abc\nde"]
    assert reader.value == "abc\nde"


def test_a_string_inside_a_container_is_not_the_value() -> None:
    reader = LiteralReader()
    step_through(reader, "['ab")
    assert reader.text is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'ab", "ab"),
        ("'ab'", "ab"),
        (r"'ab\u00", "ab"),
        ("12", 12),
        ("[1, 2", [1, 2]),
        ("[1, 'a", [1, "a"]),
        ("{'a': [1, {'b': 'c", {"a": [1, {"b": "c"}]}),
        ("{'a': 1, 'b", {"a": 1}),
        ("{'a': 1, 'b':", {"a": 1}),
        ("(1, (2", [1, 2]),
    ],
)
def test_an_open_value_can_be_closed(text: str, value: Any) -> None:
    assert _left_open(text).close() == value


@pytest.mark.parametrize("text", ["", "-", "Tru", "# nothing"])
def test_nothing_is_made_of_nothing(text: str) -> None:
    with pytest.raises(ParseError):
        _left_open(text).close()


def _left_open(text: str) -> LiteralReader:
    reader = LiteralReader()
    step_through(reader, text)
    return reader


def test_containers_nest_as_deep_as_json_may_and_no_deeper() -> None:
    deepest = "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)
    assert read([deepest], LiteralReader(depth=1))[1] == ""
    with pytest.raises(ParseError, match="deep"):
        read([f"[{deepest}]"], LiteralReader(depth=1))


@pytest.mark.parametrize(
    ("opening", "unit"),
    [
        ("['", "plain text "),
        ("['", "\\n\\'\\x41"),
        ("['''", "''a\""),
        ("(", "'a' "),
        ("[", "1, "),
        ("[", "(0,), "),
        ("[ #", " comment "),
        ("[", "\t "),
        ("{", "'k': 1, "),
    ],
)
def test_the_cost_is_linear_in_small_pieces(opening: str, unit: str) -> None:
    def run(units: int) -> None:
        reader, rest = LiteralReader(), opening
        text = unit * units
        for at in range(0, len(text), 4):
            rest = step_through(reader, rest + text[at : at + 4])

    check_linear(run, 300, 3000, at_most=3, tries=3)


@pytest.mark.parametrize("text", ["['a' 'b']", "[1, 'a'\n'b', 2]", "{'a' 'b': 1}"])
def test_strings_in_a_list_need_a_comma_between_them(text: str) -> None:
    for chunks in chunkings(text):
        with pytest.raises(ParseError, match="two strings without a comma"):
            read(chunks)
