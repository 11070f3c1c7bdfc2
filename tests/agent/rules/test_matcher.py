"""Conditions are found where `re` finds them, however the text is cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.rules.condition_strategies import BORDERED, CUTS, EXACT, LOOKING, TEXTS, chunks, compiled
from penstock.agent.rules.matcher import (
    LEVELS,
    LOOK_AHEAD,
    MAX_LITERAL,
    WINDOW,
    ConditionSet,
    Matcher,
    analyze,
    compile_condition,
)


def places(conditions: ConditionSet, pieces: list[str]) -> dict[int, int]:
    """Return after how many pieces each condition is found; after the last is at the end."""
    matcher = Matcher(conditions)
    found: dict[int, int] = {}
    for count, piece in enumerate(pieces, 1):
        found |= dict.fromkeys(matcher.feed(piece), count)
    return found | dict.fromkeys(matcher.finish(), len(pieces) + 1)


def place(source: str, text: str) -> int | None:
    """Return after how many characters *source* is found."""
    return places(ConditionSet(compiled(source)), list(text)).get(0)


# --- laws ---


@given(sources=st.lists(EXACT, min_size=1, max_size=4), text=TEXTS)
def test_a_condition_without_looks_is_found_with_the_character_that_completes_it(
    sources: list[str], text: str
) -> None:
    patterns = compiled(*sources)
    expected = {}
    for number, pattern in enumerate(patterns):
        assert analyze(pattern).look_ahead == 0
        for end in range(1, len(text) + 1):
            if pattern.search(text[:end]):
                expected[number] = end
                break
    assert places(ConditionSet(patterns), list(text)) == expected


@given(source=BORDERED, text=TEXTS)
def test_a_condition_with_borders_is_found_at_most_one_character_later(
    source: str, text: str
) -> None:
    [pattern] = compiled(source)
    match = pattern.search(text) if text else None
    found = place(source, text)
    assert (found is None) == (match is None)
    assert match is None or found is None or found <= match.end() + 1
    assert not analyze(pattern).is_deferred


@given(source=LOOKING, text=TEXTS)
def test_a_condition_that_looks_around_is_found_if_re_finds_it(source: str, text: str) -> None:
    [pattern] = compiled(source)
    found = place(source, text)
    assert (found is not None) == bool(text and pattern.search(text))


def check_chunk_free(conditions: ConditionSet, text: str, cuts: list[int]) -> None:
    """Check that each condition is found in the piece with the character where it is found."""
    one_by_one = places(conditions, list(text))
    pieces = chunks(text, cuts)
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    for number, count in places(conditions, pieces).items():
        at = one_by_one.pop(number)
        if count > len(pieces):
            assert at == len(text) + 1
        else:
            assert ends[count - 1] < at <= ends[count]
    assert not one_by_one


@given(sources=st.lists(LOOKING, min_size=1, max_size=4), text=TEXTS, cuts=CUTS)
def test_the_cuts_do_not_matter(sources: list[str], text: str, cuts: list[int]) -> None:
    check_chunk_free(ConditionSet(compiled(*sources)), text, cuts)


@given(sources=st.lists(LOOKING, min_size=1, max_size=4), text=TEXTS, cuts=CUTS)
def test_the_cuts_do_not_matter_beyond_the_window(
    sources: list[str], text: str, cuts: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("LEVELS", ((2, 3), (4, 5), (8, 7))),
            ("LOOK_BEHIND", 2),
            ("LOOK_AHEAD", 3),
            ("MAX_LITERAL", 2),
        ):
            patch.setattr(f"penstock.agent.rules.matcher.{name}", value)
        check_chunk_free(ConditionSet(compiled(*sources, "(?>a|ab)+b", "(?x) a  b")), text, cuts)


@settings(max_examples=30)
@given(text=st.text(max_size=50))
def test_any_text_can_be_read(text: str) -> None:
    conditions = ConditionSet(compiled(r"\w+\b", r"(?!x)\W", r"[^\x00-\x7f]"))
    assert places(conditions, [text]).keys() == places(conditions, list(text)).keys()


@given(
    word=st.text("sKik\u017f\u212a\u0130\u0131\u03a3x.", min_size=1, max_size=5),
    text=st.text("sKik\u017f\u212a\u0130\u0131\u03a3x.", max_size=12),
    flag=st.sampled_from(["", "(?i)"]),
)
def test_fixed_text_is_never_overlooked(word: str, text: str, flag: str) -> None:
    source = flag + re.escape(word)
    assert (place(source, text) is not None) == bool(re.search(source, text))


# --- cases ---

CASES = {
    "a literal": (r"console\.log", "x console.log(1)", 13),
    "letter case": (r"(?i)todo", "a ToDo", 6),
    "a border before": (r"\bfoo", "food", 3),
    "a border after waits for one character": (r"\bfoo\b", "a foo b", 6),
    "a border after is there at the end": (r"\bfoo\b", "a foo", 6),
    "a longer word is another": (r"\bfoo\b", "a food b", None),
    "a border in a repetition": (r"(?:\bx\w*\b ){3}!", "xa xb xc !", 10),
    "no border": (r"\Boo\B", "oo foo food", 11),
    "a border of ASCII": (r"(?a)o\b", "o\xe4", 2),
    "no border of Unicode": (r"o\b", "o\xe4 x", None),
    "a line alone": (r"^pass$", "a pass\npass x\npass\n", 19),
    "an empty line": (r"x\n^$", "ax\n\nb", 4),
    "the end of a line": (r"except: *$", "x\nexcept:\npass", 10),
    "the end of all, only there": (r"bye\Z", "bye, bye", 9),
    "a beginning of a line": (r"^import os", "a\nimport os", 11),
    "the beginning of all": (r"\Aimport", "a\nimport", None),
    "the end of all without multiple lines": (r"(?-m:a$)", "a\nb a\n", 7),
    "a look ahead waits as far as it looks": (r"TODO(?!\()", "TODO: x", 5),
    "a look ahead that fails": (r"TODO(?!\()", "TODO(me)", None),
    "a look ahead of several": (r"a(?=bc|d\b)", "ad abc", 5),
    "a look behind": (r"(?<!await )fetch\(", "x = fetch(", 10),
    "a look behind that fails": (r"(?<!await )fetch\(", "await fetch(", None),
    "a word twice": (r"\b(\w+) \1\b", "it is is so", 9),
    "a word twice, by name": (r"(?P<w>\w+) (?P=w)!", "no no!", 6),
    "a condition in a condition": (r"(<)?a(?(1)>|$)", "x <a>", 6),
    "an atomic group": (r"(?>a+)b", "aaab", 5),
    "a possessive repetition": (r"a++b", "xaab", 4),
    "a possessive repetition at the end": (r"xa++", "xaab", 4),
    "many of one": (r"x{30,}", "x" * 40, 30),
    "a set with a bracket": (r"[]x]y", "a]y", 3),
    "a set in a set": (r"[[a]b", "x[b", 3),
    "a name": (r"\N{BULLET} ", "- \u2022 x", 4),
    "octal": (r"\0|\101B", "xAB", 3),
    "a comment": (r"fo(?#the rest)o", "foo", 3),
    "letter case for a part": (r"a(?i:b)c", "ABC aBc", 7),
    "letter case for all but a part": (r"(?i)a(?-i:b)c", "aBC AbC", 7),
    "a dot that matches line ends": (r"(?s)a.b", "a\nb", 3),
    "a brace that is no number": (r"a{x}", "a{x}", 4),
    "zero or more of a group": (r"(?:ab)*c", "ababc", 5),
    "alternatives with fixed texts": (r"foo|b\.r", "a b.r", 5),
    "an emoji": (r"[\U0001F600-\U0001F64F]", "hi \U0001f600", 4),
    "a verbose condition": ("(?x) foo  # the (word\n bar", "a foobar", 8),
    "a verbose condition with a border": ("(?x) foo \\b # the end", "a foo b", 6),
    "a verbose part": ("(?x: f oo )", "a foo", 6),
    "flags and a space": ("(?i) foo\\b", "a FOO b", 6),
}


@pytest.mark.parametrize(("source", "text", "expected"), CASES.values(), ids=CASES)
def test_a_condition_is_found_in_time(source: str, text: str, expected: int | None) -> None:
    assert place(source, text) == expected


@pytest.mark.parametrize(("source", "text", "expected"), CASES.values(), ids=CASES)
def test_re_agrees(source: str, text: str, expected: int | None) -> None:
    [pattern] = compiled(source)
    assert bool(pattern.search(text)) == (expected is not None)


@pytest.mark.parametrize("before", [0, 1, 31, 32, 33, 95, 511, 512, 999, 1_000, 1_001, 2_500])
@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_a_match_as_long_as_the_window_of_a_level_is_found_at_its_next_step(
    level: int, before: int
) -> None:
    step, window = LEVELS[level]
    match = "(" + "x" * (window - 3) + ")"
    text = "-" * before + match + "." + "-" * step
    found = place(r"\(x+\)(?=\.)", text)
    assert found is not None
    settled = before + len(match) + 1
    assert found == settled if level == 0 else settled <= found <= settled + step


def test_a_match_that_is_longer_than_the_window_may_be_missed() -> None:
    text = "begin" + "x" * (WINDOW + LEVELS[-1][0]) + "end"
    assert place("beginx*end", text) is None


def test_a_long_look_ahead_is_cut_off() -> None:
    step = LEVELS[1][0]
    text = "foo" + "x" * 500 + "bar"
    found = place(r"foo(?!.*bar)", text)
    assert found is not None
    assert LOOK_AHEAD < found <= 3 + LOOK_AHEAD + step


def test_a_condition_that_is_too_large_to_analyze_in_full_is_found() -> None:
    assert place("(?:(?:(?:abc){3}){3}){3}|x", "-" * 300 + "x") == 301
    assert place("(" * 60 + "a" + ")" * 60, "xa") == 2


def test_a_condition_is_found_once() -> None:
    matcher = Matcher(ConditionSet(compiled("a", r"\ba")))
    assert [matcher.feed("a "), matcher.feed("a "), matcher.finish()] == [[0, 1], [], []]


def test_a_bounded_part_of_the_text_is_kept() -> None:
    matcher = Matcher(ConditionSet(compiled("abc")))
    for _ in range(100):
        matcher.feed("x" * 100)
        assert len(matcher._kept) <= 2 * WINDOW
        assert len(matcher._recent) <= MAX_LITERAL


LITERALS = {
    r"console\.(?:log|debug)\(": {"console."},
    r"\bforbidden\b|never_(?:a|b)\.x": {"forbidden", "never_"},
    r"(?i)as an ai model": {" model"},
    r"foo|\w+": set(),
    r"[ab]+": set(),
    r"ab?c": {"c"},
}


@pytest.mark.parametrize(("source", "expected"), LITERALS.items())
def test_fixed_text_is_known(source: str, expected: set[str]) -> None:
    assert set(analyze(compile_condition(source)).literals) == expected


def test_re_decides_what_a_character_is() -> None:
    patterns = ["(?i)\u017f", r"(?ia)k", r"\d", r"(?a)\d"]
    text = "sK\u0664"
    found = places(ConditionSet(compiled(*patterns)), list(text))
    assert set(found) == {n for n, each in enumerate(patterns) if re.search(each, text)}


# --- what takes too long ---

SHARED = {
    r"foo\.bar": 0,
    r"foo.*bar": 1,
    r"foo.*bar.*baz": 2,
    r"\w+\s*=\s*\w+\s*\(": 1,
    r"\w+\s*\w+": 2,
    r"password\s*=\s*['\"][^'\"]+['\"]": 1,
    r"a\w++\w+": 1,
    r"(?:\w+ )+\w+": 2,
    r"(?:\w*|-)\w*x": 2,
    r"(?:\d+-){3}x": 1,
    r"a.*b|c.*d": 1,
    r"(?:.*,){2}x": 2,
}


@pytest.mark.parametrize(("source", "expected"), SHARED.items())
def test_repetitions_that_share_text_are_counted(source: str, expected: int) -> None:
    assert analyze(compile_condition(source)).shared == expected


def test_a_condition_whose_repetitions_share_text_has_a_shorter_window() -> None:
    [_, (_, middle), (_, long)] = LEVELS
    for length, is_found in ((middle, True), (long, False)):
        text = "foo" + "-" * (length // 2) + "bar" + "-" * (length // 3) + "baz"
        assert (place("foo.*bar.*baz", text + "." * 1_000) is not None) == is_found


@pytest.mark.parametrize(
    "source",
    [
        r"(a+)+b",
        r"(?:a|a)*b",
        r"(?:.|\s)*b",
        r"(?:.*,){9}x",
        r"^\s*(\w+\s?)+;$",
        r"(\w+\s?)+(?!;)",
        r"(?:(a*)b\1)*c",
        r"(?=(?:\w+)+x)y",
        "(?x) (?: a+ )+ b",
        r".*a.*b.*c",
        r"(?:\w+\s*){2}\w+x",
        r"(?:\d+-?){3}x",
    ],
)
def test_a_condition_that_can_take_too_long_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="too long"):
        compile_condition(source)


@pytest.mark.parametrize(
    "source",
    [
        r"(?:\w+\.)+log",
        r"(?:,\s*\w+)*;",
        r"(?:[^,]*,)+x",
        r"(?:.*\n)*end",
        r"(?:\w++\s?)+;",
        r"(?:.|\n)*end",
        r"(?:foo|far)+!",
        r"(?:\d+-?){2}x",
        r"\w+\s+\w+\s+\w+;",
        r"(?:a{2,9}b)+(?=c)",
        r"(?<!x)\w+\s*;",
    ],
)
def test_a_condition_that_cannot_is_accepted(source: str) -> None:
    assert compile_condition(source).pattern == source
