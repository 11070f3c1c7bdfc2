"""Calls as tags of their own: `<write_file path=…>`, `<edit_file path=…>`, `<run_bash>`."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    check_bounded_holdback,
    check_linear,
    check_no_stall,
    check_readings,
    cut_at,
    one_by_one,
)
from laws.checks import read
from laws.strategies import CUTS, soup
from parsing.samples import complete_calls, message_of
from parsing.tool_tag_samples import MODES, Mode, deltas
from penstock.events import Event, ToolCallEnd, ToolCallStart
from penstock.formats.tool_tag import FILE_TAGS
from penstock.parsing import BrokenCall, Engine
from penstock.readers.tagged.tags import MAX_TAG
from penstock.tools import Tool

TOOLS = [Tool("write_file"), Tool("edit_file"), Tool("run_bash")]

make = partial(Engine, FILE_TAGS.calls.syntax(TOOLS), TOOLS)


def read_every_way(text: str, mode: Mode) -> list[Event]:
    """Read *text* whole, by characters and at every single cut, which has to be all the same."""
    return check_readings(partial(make, arguments=mode), text)


def check_calls(text: str, expected: list[tuple[str, dict[str, Any]]], shown: str = "") -> None:
    for mode in MODES:
        message = message_of(read_every_way(text, mode))
        assert complete_calls(message) == expected
        assert message.text == shown


FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a file": (
        '<write_file path="a.md"># T\n\n</write_file>',
        "write_file",
        {"path": "a.md", "content": "# T\n\n"},
    ),
    "a patch": (
        "<edit_file path='f'>@@ -1 +1 @@\n-x\n+y\n</edit_file>",
        "edit_file",
        {"path": "f", "patch": "@@ -1 +1 @@\n-x\n+y\n"},
    ),
    "a command": ("<run_bash> du -sh . </run_bash>", "run_bash", {"command": " du -sh . "}),
    "a command with attributes": (
        '<run_bash timeoutSeconds="45" background="No">make</run_bash>',
        "run_bash",
        {"timeout_seconds": 45, "background": False, "command": "make"},
    ),
    "a command with bad attributes": (
        '<run_bash background="perhaps" timeout_seconds="-4">make</run_bash>',
        "run_bash",
        {"command": "make"},
    ),
    "any case": (
        '<Write_File PATH="k">v</WRITE_FILE >',
        "write_file",
        {"path": "k", "content": "v"},
    ),
    "a bracket in an attribute": (
        '<write_file mode="a>b" path = "x/>y">v</write_file>',
        "write_file",
        {"path": "x/>y", "content": "v"},
    ),
    "an escaped attribute": (
        '<write_file path="R&amp;D">&amp;</write_file>',
        "write_file",
        {"path": "R&D", "content": "&amp;"},
    ),
    "an empty body": (
        '<write_file path="a"></write_file>',
        "write_file",
        {"path": "a", "content": ""},
    ),
    "a tag that closes itself": (
        '<write_file path="a" />',
        "write_file",
        {"path": "a", "content": ""},
    ),
    "markup inside": (
        '<write_file path="a"><ul>&lt;<!-- c --><tool name="x"></write_files></ul></write_file>',
        "write_file",
        {"path": "a", "content": '<ul>&lt;<!-- c --><tool name="x"></write_files></ul>'},
    ),
    "letters that change their length with their case": (
        '<write_file path="İ">İİİ</Write_File>',
        "write_file",
        {"path": "İ", "content": "İİİ"},
    ),
}


@pytest.mark.parametrize(("text", "name", "arguments"), FILES.values(), ids=FILES)
def test_a_tag_is_a_call_with_its_body_as_it_stands(
    text: str, name: str, arguments: dict[str, Any]
) -> None:
    check_calls(f"So: {text}\n.", [(name, arguments)], "So: \n.")


def test_the_first_closing_tag_ends_the_body() -> None:
    text = '<write_file path="a">x</write_fil </write_file x></write_file></write_file>'
    content = "x</write_fil </write_file x>"
    check_calls(text, [("write_file", {"path": "a", "content": content})], "</write_file>")


def test_calls_follow_each_other() -> None:
    text = '<run_bash>a</run_bash><run_bash>b</run_bash> <write_file path="p">c</write_file>'
    calls = [
        ("run_bash", {"command": "a"}),
        ("run_bash", {"command": "b"}),
        ("write_file", {"path": "p", "content": "c"}),
    ]
    check_calls(text, calls, " ")


PROSE = {
    "no path": "<write_file>orphan</write_file> after",
    "an empty path": '<edit_file path="">orphan</edit_file>',
    "a longer name": '<write_files path="a">x</write_files>',
    "a longer name with a dash": '<write_file-x path="a">x</write_file-x>',
    "a cut tag": 'so <write_file path="a',
    "a tag and nothing more": 'so <write_file path="a">',
    "comparisons": "a <run_bash < b",
}


@pytest.mark.parametrize("text", PROSE.values(), ids=PROSE)
def test_what_is_no_such_tag_is_text(text: str) -> None:
    check_calls(text, [], text)


def test_only_tools_that_are_known_have_a_tag_and_their_own_name_is_used() -> None:
    tools = [Tool("Run_Bash")]
    text = '<run_bash>ls</run_bash> <write_file path="a">b</write_file>'
    events = read(Engine(FILE_TAGS.calls.syntax(tools), tools), [text])
    assert complete_calls(message_of(events)) == [("Run_Bash", {"command": "ls"})]
    assert message_of(events).text == ' <write_file path="a">b</write_file>'


@pytest.mark.parametrize("tail", ["abc", "abc</write_f", "abc</write_file ", "a <b", "<"])
def test_a_cut_body_is_text_or_takes_what_was_held_back(tail: str) -> None:
    text = f'<write_file path="q">{tail}'
    assert message_of(read_every_way(text, "whole")).text == text
    events = read_every_way(text, "live")
    (end,) = [event for event in events if isinstance(event, ToolCallEnd)]
    assert not end.call.complete
    assert deltas(events) == f'{{"path":"q","content":"{tail}'


def test_a_cut_call_is_told() -> None:
    told: list[BrokenCall] = []
    parser = make(on_error=lambda _, segment: told.append(segment))
    read(parser, ['x <write_file path="q">abc'])
    assert [segment.tool_name for segment in told] == ["write_file"]


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_the_model_left_open_is_closed(mode: Mode) -> None:
    parser = make(arguments=mode, repair=True)
    events = parser.feed('<write_file path="q">abc\n') + parser.finish(cut=False)
    (call,) = message_of(events).tool_calls
    assert (call.arguments, call.complete) == ({"path": "q", "content": "abc\n"}, True)
    assert call.repairs


def test_a_live_call_starts_with_the_first_character_of_its_body() -> None:
    parser = make(arguments="live")
    assert parser.feed('<run_bash background="1">') == []
    start = parser.feed("l")[0]
    assert start == ToolCallStart(0, "call_1", "run_bash", '<run_bash background="1">')


def test_the_body_leaves_as_it_comes() -> None:
    parser = make(arguments="live")
    parser.feed('<write_file path="a">x')
    for piece in ("y", " ", "é!", "</b>", "<", "  z"):
        held = "<" if piece == "<" else ""
        shown = "<" + piece if piece == "  z" else piece
        assert deltas(parser.feed(piece)) == ("" if held else shown)


def test_nothing_is_held_back_but_what_may_begin_or_end_a_call() -> None:
    check_no_stall(make, "a < b <write_fi <run_ </write_file> <e", len("<write_file"))
    parser = make(arguments="live")
    parser.feed('<write_file path="a">')
    check_no_stall(lambda: parser, "a < b </write_fi <write_file <", len("</write_file>"))


def test_what_is_held_back_has_a_bound() -> None:
    check_bounded_holdback(make, '<write_file path="' * 200, MAX_TAG)


PIECES = soup(
    '<write_file path="a">',
    "</write_file>",
    "<edit_file path='b'>",
    "</EDIT_file >",
    "<run_bash timeout_seconds='3'>",
    "<run_bash/>",
    "</run_bash>",
)


@settings(max_examples=60)
@given(text=PIECES, cuts=CUTS, mode=st.sampled_from(MODES), trim=st.booleans())
def test_the_laws_hold_on_any_text_at_any_cut(
    text: str,
    cuts: list[int],
    mode: Mode,
    trim: bool,  # noqa: FBT001
) -> None:
    fresh = partial(make, arguments=mode, trim=trim)
    check_readings(fresh, text, [cut_at(text, cuts), one_by_one(text)])


@pytest.mark.parametrize(
    "unit", ["<write_file ", '<write_file path="', "</write_file", "<run_bash/>"]
)
def test_a_flood_costs_what_its_length_costs(unit: str) -> None:
    def flood(size: int) -> None:
        for opening in ("", '<write_file path="a">'):
            parser = make(arguments="live")
            parser.feed(opening)
            text = unit * (size // len(unit))
            for at in range(0, len(text), 7):
                parser.feed(text[at : at + 7])
            parser.finish()

    check_linear(flood, 3_000, 15_000, at_most=3, tries=2)
