"""Markers and the scanner: what is found, what is held back, what is claimed."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Parser, formats
from penstock.events import TextDelta
from penstock.parsing.scanner import Markers, Scanner, markers
from penstock.tools import Tool

TAGS = Markers(["<call>", "<call_all>", "</call>", "```x\n"])


@pytest.mark.parametrize(
    ("text", "held"),
    [
        pytest.param("plain", 5, id="nothing to hold"),
        pytest.param("a <", 2, id="a first character"),
        pytest.param("a <cal", 2, id="a longer beginning"),
        pytest.param("a <call", 2, id="all but the last character"),
        pytest.param("a < b", 5, id="what goes on otherwise"),
        pytest.param("<<", 1, id="the second of two beginnings"),
        pytest.param("``", 0, id="the longest of several ends that fit"),
        pytest.param("`````x", 2, id="the longest that fits, behind what does not"),
        pytest.param("", 0, id="no text"),
    ],
)
def test_the_longest_end_that_may_become_a_marker_is_held_back(text: str, held: int) -> None:
    assert TAGS.find_held(text) == held


@given(st.text(alphabet="<>/cal_`x\n é", max_size=20))
def test_what_is_held_is_the_longest_proper_beginning_of_a_marker(text: str) -> None:
    fits = [
        start
        for start in range(len(text))
        if any(m.startswith(text[start:]) and m != text[start:] for m in TAGS.literals)
    ]
    assert TAGS.find_held(text) == min(fits, default=len(text))


def test_the_earliest_marker_is_found_and_at_one_place_the_longest() -> None:
    found = TAGS.find("x </call><call_all>", 0)
    assert found is not None
    assert (found.start(), found[0]) == (2, "</call>")
    again = Markers(["<a", "<a b"]).find("<a b", 0)
    assert again is not None
    assert again[0] == "<a b"


@given(
    st.lists(st.text(alphabet="<ab.|", min_size=1, max_size=5), min_size=1, max_size=8),
    st.text(alphabet="<ab.|", max_size=20),
)
def test_any_set_finds_what_a_plain_search_finds(literals: list[str], text: str) -> None:
    fits = [(text.find(one), -len(one), one) for one in literals if one in text]
    found = Markers(literals).find(text)
    expected = min(fits, default=None)
    assert (found and (found.start(), found[0])) == (expected and (expected[0], expected[2]))


def test_letters_of_either_case_match_where_the_set_says_so() -> None:
    folded = markers("<tool", fold=True)
    assert folded.find("<ToOl", 0) is not None
    assert folded.find_held("<TO") == 0
    assert markers("<tool").find("<TOOL", 0) is None
    assert folded.find_held("<to\u212a") == 4, "a Kelvin sign is no k"


def test_a_set_is_compiled_once() -> None:
    assert markers("<a>", "<b>") is markers("<a>", "<b>")


def test_an_empty_set_finds_and_holds_nothing() -> None:
    nothing = markers()
    assert nothing.find("<x>", 0) is None
    assert nothing.find_held("<x>") == 3


def test_what_is_read_is_claimed_once_over_any_number_of_pieces() -> None:
    scanner = Scanner()
    scanner.push("one ")
    scanner.advance_to(4)
    scanner.push("two three")
    scanner.advance_to(3)
    assert scanner.take_raw() == "one two"
    assert scanner.unread == " three"
    assert scanner.take_raw() == ""
    scanner.advance_to(9)
    assert scanner.has_raw
    assert scanner.take_raw() == " three"
    assert not scanner.has_raw


def test_what_was_read_since_a_call_began_can_be_given_back() -> None:
    scanner = Scanner()
    scanner.push("</x><call>")
    scanner.advance_to(4)
    scanner.begin_call()
    scanner.advance_to(10)
    scanner.push("body, cut")
    scanner.advance_to(4)
    assert scanner.read_since_call() == "<call>body"
    scanner.give_back()
    assert scanner.unread == "<call>body, cut"
    scanner.advance_to(6)
    assert scanner.take_raw() == "</x><call>", "what came before rides on the next event"


@given(
    st.lists(st.text(alphabet="<ab.|", min_size=1, max_size=6), min_size=1, max_size=8),
    st.text(alphabet="<ab.|x", max_size=12),
)
def test_what_passes_the_gate_has_neither_a_marker_nor_the_beginning_of_one(
    literals: list[str], text: str
) -> None:
    found = Markers(literals)
    if found.gate(text) is None:
        assert found.find(text) is None
        assert found.find_held(text) == len(text)


def test_a_gate_looks_at_more_than_the_first_character() -> None:
    assert TAGS.gate("a < b, </p> and <div>") is None


def test_a_marker_that_may_become_a_longer_one_is_told() -> None:
    assert TAGS.may_grow("<call", 0)
    assert not TAGS.may_grow("<call>", 0)
    assert Markers(["<a", "<a b"]).may_grow("x <a ", 2)


@pytest.mark.parametrize("text", ["<F", "<foo", "<FOO", "<fooé", "<FOOé", "<fOOéb"])
def test_the_beginning_of_a_marker_beyond_ascii_is_held_in_either_case(text: str) -> None:
    assert Markers(["<FooéBar>"], fold=True).find_held(f"a {text}") == 2


# --- names of any length: clients choose them, and formats put them in markers ---

LONG = "x" * 5_000


@pytest.mark.parametrize("name", formats.names())
def test_tools_may_have_names_of_any_length_in_every_format(name: str) -> None:
    tools = [Tool(each, "", {"type": "object"}) for each in (LONG, "x", LONG[:-1] + "y")]
    before = f"hello [x] <tool {LONG[:700]}\n"
    parser = Parser(name, tools=tools)
    events = [*parser.feed(before), *parser.feed(f"<{LONG}. "), *parser.finish()]
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert text.rstrip() == f"{before}<{LONG}."


@pytest.mark.parametrize("fold", [False, True])
def test_markers_that_each_begin_the_next_are_found_however_many(*, fold: bool) -> None:
    nested = Markers(["<" + "x" * size for size in range(1, 500)], fold=fold)
    found = nested.find("a <" + "x" * 400 + ".", 0)
    assert found is not None
    assert len(found[0]) == 401
    assert nested.find_held("a <" + "x" * 400) == 2
    assert nested.find_held("a <" + "x" * 499) == 502


def test_a_marker_is_compiled_in_the_room_that_it_takes() -> None:
    tracemalloc.start()
    Markers([f"<{LONG}>"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * 1024 * 1024
