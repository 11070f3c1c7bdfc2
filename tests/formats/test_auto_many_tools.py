"""`auto` with many tools: the markers are those of the plain definition, at a cost per tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count, product
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_chunk_free, check_linear, check_lossless, one_by_one
from laws.checks import read
from penstock import Parser
from penstock.formats.auto import FORMATS, rows_for, with_starts
from penstock.formats.auto_reader import TILDES
from penstock.formats.auto_table import ALONE, NOT_MARKERS, REASONING_STYLES, SHARED, AutoRow
from penstock.formats.base import build_message
from penstock.formats.reasoning import STYLES
from penstock.parsing.scanner import MANY, WINDOW, scattered
from penstock.tools import Tool

# --- which markers there are ---


def plainly(
    rows: Mapping[str, AutoRow], starts: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Add one start after the other, each compared with all; give markers and their formats."""
    found = {marker: _format_of(row) for marker, row in rows.items()}
    for start, name in starts:
        if any(start.startswith(marker) for marker in found):
            continue
        for longer in [marker for marker in found if marker.startswith(start)]:
            del found[longer]
        found[start] = name
    return list(found.items())


def summary(rows: Mapping[str, AutoRow]) -> list[tuple[str, str]]:
    return [(marker, _format_of(row)) for marker, row in rows.items()]


def _format_of(row: AutoRow) -> str:
    return row.choices[0].format if row.choices else ""


MARKER = st.text("<ab", min_size=1, max_size=4)


@settings(max_examples=150)
@given(
    markers=st.lists(MARKER, unique=True, max_size=8),
    starts=st.lists(st.tuples(MARKER, st.sampled_from(["one", "other"])), max_size=12),
)
def test_starts_join_the_rows_as_if_each_was_compared_with_all(
    markers: list[str], starts: list[tuple[str, str]]
) -> None:
    rows = dict.fromkeys(markers, SHARED["{"])
    owners: dict[str, str] = {}
    for start, name in starts:
        owners.setdefault(start, name)
    assert summary(with_starts(rows, owners)) == plainly(rows, starts)


WORDS = ["tool", "tool_call", "think", "function", "file", "write_file", "bash", "a", "b", "_", "."]
NAMES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("".join)


@settings(max_examples=60)
@given(names=st.lists(NAMES, max_size=12).map(tuple))
def test_the_rows_of_any_tools_are_those_of_the_plain_definition(names: tuple[str, ...]) -> None:
    tools = [Tool(name) for name in names]
    found = rows_for(names)
    thoughts = [start for name in REASONING_STYLES for start in STYLES[name].starts]
    files = FORMATS["file_tags"].calls.syntax(tools).starts
    first = dict.fromkeys([*SHARED, TILDES, *thoughts, *files])
    assert list(found)[: len(first)] == list(first)
    starts = [
        (start, name)
        for name in ALONE
        for start in FORMATS[name].calls.syntax(tools).starts
        if start not in NOT_MARKERS
    ]
    assert summary(found) == plainly({marker: found[marker] for marker in first}, starts)


# --- where they are found ---

TAGS = ["<" + "".join(rest) for size in (1, 2, 3, 4) for rest in product("ab/>", repeat=size)]


@settings(max_examples=100)
@given(
    left_out=st.sets(st.sampled_from(TAGS), max_size=len(TAGS) - MANY - 1),
    text=st.text("<ab/>[ ", max_size=40),
    ahead=st.sampled_from([0, 1, WINDOW - 3, WINDOW + 5]),
)
def test_the_earliest_and_longest_of_many_markers_is_found(
    left_out: set[str], text: str, ahead: int
) -> None:
    known = [tag for tag in TAGS if tag not in left_out]
    text = "." * ahead + text
    found = scattered(*known, "[", unless="x", guarded=("{",)).find(text)
    places = [(text.find(each), -len(each), each) for each in (*known, "[") if each in text]
    expected = min(places, default=None)
    assert expected == (found and (found.start(), -len(found[0]), found[0]))


MANY_TOOLS = [Tool(f"tool_{number}") for number in range(1000)]


@pytest.mark.parametrize("arguments", ["whole", "live"])
def test_a_tag_among_many_is_read_as_it_is_among_few(arguments: Literal["whole", "live"]) -> None:
    text = "<tool_5 or <tool_99x>:\n<tool_77/>\n<tool_777><a>x</a></tool_777> and <tool_7"
    make = partial(Parser, "auto", MANY_TOOLS, arguments=arguments)
    few = Parser("auto", [MANY_TOOLS[number] for number in (5, 77, 777)], arguments=arguments)
    message = build_message(read(make(), [text]))
    assert message == build_message(read(few, [text]))
    assert [call.name for call in message.tool_calls] == ["tool_77", "tool_777"]
    check_lossless(make, one_by_one(text))
    check_chunk_free(make, one_by_one(text))


# --- what they cost ---

FRESH = count()
"""Names that no cache has seen."""


def fresh_names(size: int) -> tuple[str, ...]:
    run = next(FRESH)
    return tuple(f"run{run}_{number * 7919 % size}" for number in range(size))


def make_parser(size: int) -> None:
    parser = Parser("auto", [Tool(name) for name in fresh_names(size)])
    parser.feed("Now the markers that count only first are behind us.")


def make_rows(size: int) -> None:
    rows_for(fresh_names(size))


@pytest.mark.parametrize("make", [make_rows, make_parser])
def test_each_of_many_tools_costs_what_each_of_a_few_does(make: Callable[[int], None]) -> None:
    make(1)  # what all sets of tools share
    check_linear(make, 250, 2000, at_most=2)
