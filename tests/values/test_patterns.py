"""Patterns out of schemas: what is run, what is refused, and that nothing takes long."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.values.schema_patterns import MAX_PATTERN, safe_pattern

if TYPE_CHECKING:
    pass

SAFE = [
    ("^[a-z]+$", "abc", True),
    ("^[a-z]+$", "abc\n", False),
    ("b", "abc", True),
    ("^x-", "x-header", True),
    ("^x-", "a x-header", False),
    (r"^\d{4}-\d{2}-\d{2}$", "2024-05-06", True),
    (r"^\d{4}-\d{2}-\d{2}$", "2024-5-6", False),
    (r"^\d$", "\u0661", False),
    ("^(?:get|set)_[a-z_]+$", "set_level", True),
    ("^(red|blue)?$", "blue", True),
    ("^[^@]+@[^@]+\\.[a-z]{2,}$", "someone@example.org", True),
    ("^[[]$", "[", True),
    ("^[\\]a]$", "]", True),
    ("^\u00e4+$", "\u00e4\u00e4", True),
    ("^(ab)+$", "abab", True),
    ("^.*?b$", "aab", True),
    ("", "anything", True),
]

REFUSED = {
    "a repeat of a repeat": "^(a+)+$",
    "a repeat of a star": "(.*)*x",
    "a counted repeat without end of a repeat": "(a+){2,}",
    "alternatives under a repeat": "^(a|a)*$",
    "an optional piece under a repeat": "^(a?)*$",
    "a count under a repeat": "^(a{1,9})*$",
    "a backreference": r"(a)\1",
    "a named group": "(?P<x>a)",
    "look-ahead": "(?=a)",
    "look-behind": "(?<!a)b",
    "flags": "(?i)a",
    "a repeat of nothing": "*a",
    "a double repeat": "a**",
    "a possessive repeat": "a++",
    "an open group": "(a",
    "a stray bracket": "a)",
    "an open class": "[a",
    "an empty class": "[]",
    "set arithmetic": "[a&&b]",
    "a lone brace": "a{x}",
    "a class of letters that Python lacks": r"\p{L}",
    "a backslash at the end": "a\\",
    "a billion empty groups": "((){9999}){9999}",
    "many optional pieces": "a?" * 30 + "a" * 30,
    "many unbounded repeats": "a*" * 9 + "b",
    "a range upside down": "[z-a]",
    "a pattern too long": "a" * (MAX_PATTERN + 1),
}


@pytest.mark.parametrize(("source", "text", "found"), SAFE)
def test_a_safe_pattern_is_searched_for(source: str, text: str, found: bool) -> None:  # noqa: FBT001 - a table
    pattern = safe_pattern(source)
    assert pattern.safe
    assert pattern.occurs_in(text) is found
    assert pattern.forbids(text) is not found


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_pattern_neither_occurs_nor_forbids(source: str) -> None:
    pattern = safe_pattern(source)
    assert not pattern.occurs_in("aaaa")
    assert not pattern.forbids("zzzz")


def test_a_text_too_long_for_its_pattern_is_not_judged() -> None:
    pattern = safe_pattern("^a*a*a*$")
    assert pattern.occurs_in("a" * 20)
    assert pattern.forbids("a" * 19 + "b")
    assert not pattern.occurs_in("a" * 10_000)
    assert not pattern.forbids("a" * 10_000 + "b")


def test_a_pattern_is_compiled_once() -> None:
    assert safe_pattern("^once$") is safe_pattern("^once$")


PIECES = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "[ab]",
        "\\w",
        "(",
        "(?:",
        ")",
        ")*",
        "|",
        "*",
        "+",
        "?",
        "{2}",
        "{1,3}",
        "{2,}",
        "^",
        "$",
        "\\1",
    ]
)


@settings(max_examples=100, deadline=None)
@given(pieces=st.lists(PIECES, max_size=14), length=st.integers(0, 2000))
def test_no_pattern_takes_exponential_time(pieces: list[str], length: int) -> None:
    """A pattern that is run without the check for safety would take years here."""
    safe_pattern("".join(pieces)).occurs_in("a" * length + "!")


@settings(max_examples=100, deadline=None)
@given(pieces=st.lists(PIECES, max_size=8), text=st.text("ab\n", max_size=6))
def test_a_safe_pattern_finds_what_python_finds(pieces: list[str], text: str) -> None:
    source = "".join(pieces)
    pattern = safe_pattern(source)
    if pattern.safe:
        expected = re.search(source.replace("$", r"\Z"), text, re.ASCII) is not None
        assert pattern.occurs_in(text) is expected
