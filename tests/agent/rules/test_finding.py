"""Conditions are found where `re` finds them, however the text is cut."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.rules.condition_strategies import BORDERED, CUTS, EXACT, LOOKING, TEXTS, chunks, compiled
from penstock.agent.rules.finding import PAUSE, STRIDE, WINDOW, Conditions, Finder
from penstock.agent.rules.nodes import LOOK_AHEAD


def places(conditions: Conditions, pieces: list[str]) -> dict[int, int]:
    """Tell behind how many pieces each condition was found; behind the last is at the end."""
    finder = Finder(conditions)
    found: dict[int, int] = {}
    for count, piece in enumerate(pieces, 1):
        found |= dict.fromkeys(finder.feed(piece), count)
    return found | dict.fromkeys(finder.finish(), len(pieces) + 1)


def place(source: str, text: str) -> int | None:
    """Tell behind how many characters *source* is found."""
    return places(Conditions(compiled(source)), list(text)).get(0)


@given(sources=st.lists(EXACT, min_size=1, max_size=4), text=TEXTS)
def test_an_exact_condition_is_found_with_the_character_that_completes_it(
    sources: list[str], text: str
) -> None:
    patterns = compiled(*sources)
    expected = {}
    for number, pattern in enumerate(patterns):
        for end in range(1, len(text) + 1):
            if pattern.search(text[:end]):
                expected[number] = end
                break
    conditions = Conditions(patterns)
    assert not conditions.loose
    assert places(conditions, list(text)) == expected


@given(source=BORDERED, text=TEXTS)
def test_a_condition_with_borders_is_found_at_the_latest_behind_its_match(
    source: str, text: str
) -> None:
    [pattern] = compiled(source)
    match = pattern.search(text) if text else None
    found = place(source, text)
    assert (found is None) == (match is None)
    assert match is None or found is None or found <= match.end() + 1
    assert not Conditions([pattern]).loose


@given(source=LOOKING, text=TEXTS)
def test_a_condition_that_looks_around_is_found_when_re_finds_it(source: str, text: str) -> None:
    [pattern] = compiled(source)
    found = place(source, text)
    assert (found is not None) == bool(text and pattern.search(text))


def check_chunk_free(conditions: Conditions, text: str, cuts: list[int]) -> None:
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
def test_how_a_text_is_cut_does_not_matter(sources: list[str], text: str, cuts: list[int]) -> None:
    check_chunk_free(Conditions(compiled(*sources)), text, cuts)


@given(sources=st.lists(LOOKING, min_size=1, max_size=4), text=TEXTS, cuts=CUTS)
def test_nor_does_it_beyond_the_window(sources: list[str], text: str, cuts: list[int]) -> None:
    sources = [*sources, "(?x) a  b"]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("WINDOW", 6),
            ("BEHIND", 2),
            ("STRIDE", 5),
            ("PAUSE", 3),
            ("_MOST_KEPT", 10),
        ):
            patch.setattr(f"penstock.agent.rules.finding.{name}", value)
        check_chunk_free(Conditions(compiled(*sources)), text, cuts)


CASES = {
    "a literal": (r"console\.log", "x console.log(1)", 13),
    "letter case": (r"(?i)todo", "a ToDo", 6),
    "a border before": (r"\bfoo", "food", 3),
    "a border behind waits for one character": (r"\bfoo\b", "a foo b", 6),
    "a border behind is there at the end": (r"\bfoo\b", "a foo", 6),
    "a longer word is none": (r"\bfoo\b", "a food b", None),
    "a border in a repetition": (r"(?:\bx\w*\b ?){3}!", "xa xb xc!", 9),
    "no border": (r"\Boo\B", "oo foo food", 11),
    "a border of ASCII": (r"(?a)o\b", "o\xe4", 2),
    "no border of Unicode": (r"o\b", "o\xe4 x", None),
    "a line alone": (r"^pass$", "a pass\npass x\npass\n", 19),
    "an empty line": (r"x\n^$", "ax\n\nb", 4),
    "the end of a line": (r"except: *$", "x\nexcept:\npass", 10),
    "the end of all, only there": (r"bye\Z", "bye, bye", 9),
    "a beginning of a line": (r"^import os", "a\nimport os", 11),
    "the beginning of all": (r"\Aimport", "a\nimport", None),
    "a look ahead waits as far as it looks": (r"TODO(?!\()", "TODO: x", 5),
    "a look ahead that fails": (r"TODO(?!\()", "TODO(me)", None),
    "a look behind": (r"(?<!await )fetch\(", "x = fetch(", 10),
    "a look behind that fails": (r"(?<!await )fetch\(", "await fetch(", None),
    "a word twice": (r"\b(\w+) \1\b", "it is is so", 10),
    "a word twice, by name": (r"(?P<w>\w+) (?P=w)!", "no no!", 6),
    "a condition in a condition": (r"(<)?a(?(1)>|$)", "x <a>", 6),
    "an atomic group": (r"(?>a+)b", "aaab", 4),
    "a greedy one that gives nothing back": (r"a++b", "xaab", 4),
    "many of one": (r"x{30,}", "x" * 40, 30),
    "a set with a bracket": (r"[]x]y", "a]y", 3),
    "a set in a set": (r"[[a]b", "x[b", 3),
    "a name": (r"\N{BULLET} ", "- \u2022 x", 4),
    "octal": (r"\0|\101B", "xAB", 3),
    "a comment": (r"fo(?#the rest)o", "foo", 3),
    "letter case for a part": (r"a(?i:b)c", "ABC aBc", 7),
    "letter case for all but a part": (r"(?i)a(?-i:b)c", "aBC AbC", 7),
    "a dot that takes lines": (r"(?s)a.b", "a\nb", 3),
    "a brace that is no number": (r"a{x}", "a{x}", 4),
    "none or more of a group": (r"(?:ab)*c", "ababc", 5),
    "an emoji": (r"[\U0001F600-\U0001F64F]", "hi \U0001f600", 4),
}


@pytest.mark.parametrize(("source", "text", "expected"), CASES.values(), ids=CASES)
def test_a_condition_is_found_in_time(source: str, text: str, expected: int | None) -> None:
    assert place(source, text) == expected


@pytest.mark.parametrize(("source", "text", "expected"), CASES.values(), ids=CASES)
def test_re_agrees(source: str, text: str, expected: int | None) -> None:
    [pattern] = compiled(source)
    assert bool(pattern.search(text)) == (expected is not None)


def test_an_exact_match_may_be_of_any_length() -> None:
    text = "begin" + "x" * 50_000 + "end"
    assert place(r"begin(?s:.*)end", text) == len(text)


@pytest.mark.parametrize("before", [0, 1, 63, 64, 65, 999, 1_000, 1_001, 2_500])
def test_a_match_of_any_other_kind_may_be_as_long_as_the_window(before: int) -> None:
    reach = WINDOW - len("(begin") - len("end)")
    text = "-" * before + "(begin" + "x" * reach + "end)"
    assert place(r"\bbegin(?s:.{100,})\bend|\bbegin\w+end\b", text + ".") == len(text)


def test_a_condition_that_cannot_be_followed_is_found_within_two_strides() -> None:
    source = "(?x) foo  # the word\n bar"
    text = "-" * 500 + "foobar" + "-" * 500
    found = place(source, text)
    assert found is not None
    assert 506 <= found <= 506 + 2 * STRIDE
    assert place(source, "foobar") == 7


def test_a_condition_that_is_too_large_to_be_followed_is_found_all_the_same() -> None:
    assert place("(?:(?:(?:abc){20}){20}){20}|x", "-" * 300 + "x") == 302


def test_a_deep_nesting_is_found_all_the_same() -> None:
    assert place("(" * 60 + "a" + ")" * 60, "xa") == 3


def test_a_long_look_ahead_is_cut_off() -> None:
    text = "foo" + "x" * 500 + "bar"
    assert place(r"foo(?!.*bar)", text) == 3 + LOOK_AHEAD


@pytest.mark.parametrize("source", [r"\bfoo\b", r"^\s*import (\w+)$", r"\A\w+\Z|^x\B"])
def test_borders_of_words_and_lines_need_no_second_look(source: str) -> None:
    assert not Conditions(compiled(source)).loose


def test_a_condition_that_may_match_anywhere_does_not_hold_up_the_stream() -> None:
    text = "    return the_value of(a, long, line) -- and more words\n" * 1_000
    finder = Finder(Conditions(compiled(r"^\s+\w+.*(?=zzz)")))
    began = time.process_time()
    for at in range(0, len(text), 4):
        assert not finder.feed(text[at : at + 4])
    assert time.process_time() - began < 2  # some 0.5 s; with a look for every delta, 4 s


def test_a_condition_that_may_match_anywhere_is_found_within_a_pause() -> None:
    text = "abc def " * 400 + "aaaa" + " " * 100
    found = place(r"(\w)\1\1\1", text)
    assert found is not None
    assert 0 <= found - len(text.rstrip()) <= PAUSE


def test_a_match_that_never_settles_counts_before_it_leaves_the_window() -> None:
    found = place(r"\bfoo\b.*", "foo " + "x" * 5_000)
    assert found is not None
    assert found <= WINDOW


def test_a_condition_is_found_once() -> None:
    finder = Finder(Conditions(compiled("a", r"\ba")))
    assert [finder.feed("a "), finder.feed("a "), finder.finish()] == [[0, 1], [], []]


def test_what_is_kept_of_all_characters_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.agent.rules.automaton.MAX_KEPT", 200)
    conditions = Conditions(compiled("abc", r"\w\d\w"))
    text = "".join(map(chr, range(0x4E00, 0x5200))) + "1x" + "abc"
    for _ in range(2):
        assert places(conditions, list(text)) == {0: len(text), 1: len(text) - 3}
    automaton = conditions.automaton
    assert sum(map(len, automaton._states.values())) <= 200
    assert len(automaton._kinds) <= 200


@pytest.mark.parametrize("source", [r"(a+)+b", r"(?:a|a)*b", r"(?:.*,){9}x"])
def test_a_condition_that_backtracks_without_end_costs_what_others_cost(source: str) -> None:
    began = time.process_time()
    assert place(source, "a" * 5_000) is None
    assert time.process_time() - began < 5


@settings(max_examples=30)
@given(text=st.text(max_size=50))
def test_any_text_can_be_read(text: str) -> None:
    conditions = Conditions(compiled(r"\w+\b", r"(?!x)\W", r"[^\x00-\x7f]"))
    assert places(conditions, [text]).keys() == places(conditions, list(text)).keys()


def test_re_is_the_judge_of_what_a_character_is() -> None:
    patterns = ["(?i)\u017f", r"(?ia)k", r"\d", r"(?a)\d"]
    text = "sK\u0664"
    found = places(Conditions(compiled(*patterns)), list(text))
    assert set(found) == {n for n, each in enumerate(patterns) if re.search(each, text)}
