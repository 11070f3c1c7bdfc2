"""Calls in JSON: arguments inside a string, what a cut leaves, and what mending makes of it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_monotone, check_readings, chunkings, cut_at, one_by_one
from laws.checks import read
from laws.strategies import ARGUMENTS, CUTS, soup
from parsing.samples import HERMES, TOOLS, complete_calls, message_of, parse
from penstock.events import ToolCallDelta, ToolCallEnd
from penstock.messages import ToolCall
from penstock.parsing import BrokenCall, Engine
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")


def inside(arguments: str, *, name: str = "write") -> str:
    """Write a call whose arguments are the JSON *arguments* inside a string."""
    return f'<tool_call>{{"name": "{name}", "arguments": {json.dumps(arguments)}}}</tool_call>'


# --- arguments inside a string ---


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param('{"path": "a", "mode": "7"}', {"path": "a", "mode": 7}, id="two"),
        pytest.param(
            '{"path": "say \\"hi\\"\\n"}', {"path": 'say "hi"\n'}, id="escapes in escapes"
        ),
        pytest.param('{"path": "\\u00e9\\ud83d\\ude00"}', {"path": "é😀"}, id="code points"),
        pytest.param('{"path": "C:\\\\dir"}', {"path": "C:\\dir"}, id="a backslash"),
        pytest.param("{'path': 'it \"is\"'}", {"path": 'it "is"'}, id="single quotes inside"),
        pytest.param(
            '{"k": [1, {"z": "x"}], "n": -1.5}', {"k": [1, {"z": "x"}], "n": -1.5}, id="k"
        ),
        pytest.param("", {}, id="empty"),
        pytest.param(" \n ", {}, id="blank"),
        pytest.param("null", {}, id="null"),
        pytest.param(" {} \n", {}, id="white space around"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_arguments_inside_a_string_are_read(
    arguments: str, expected: dict[str, Any], mode: Mode
) -> None:
    make = partial(Engine, HERMES, TOOLS, arguments=mode)
    events = check_readings(make, inside(arguments))
    assert complete_calls(message_of(events)) == [("write", expected)]


def test_a_string_inside_a_string_streams_as_it_comes() -> None:
    parser = Engine(HERMES, TOOLS, arguments="live")
    parser.feed('<tool_call>{"name": "write", "arguments": "{\\"path\\": \\"')
    deltas = [
        event.arguments
        for piece in ("a", "b c", "\\\\", "n", '\\\\\\"', "é", "\\\\u00e9")
        for event in parser.feed(piece)
        if isinstance(event, ToolCallDelta)
    ]
    assert deltas == ['{"path":"', "a", "b c", "\\n", '\\"', "é", "é"]


def test_plain_text_inside_a_string_inside_a_string_leaves_in_the_same_feed() -> None:
    parser = Engine(HERMES, TOOLS, arguments="live")
    parser.feed('<tool_call>{"name": "write", "arguments": "{\\"path\\": \\"a')
    for piece in ("plain", " words", "\\\\n", " on"):
        (delta,) = parser.feed(piece)
        assert delta.raw == piece


BROKEN_INSIDE = {
    "no JSON": "hm",
    "a list": "[1]",
    "a number": "5",
    "a text": '"x"',
    "a cut object": '{"path": "a"',
    "a cut string": '{"path": "a',
    "a cut word": '{"path": nul',
    "a missing comma": '{"path": "a" "mode": 1}',
    "text behind it": '{"path": "a"} b',
    "a bad escape": '{"path": "\\q"}',
    "half an escape": '{"path": "\\',
}


@pytest.mark.parametrize("arguments", BROKEN_INSIDE.values(), ids=BROKEN_INSIDE)
def test_broken_json_inside_a_string_breaks_the_call_and_not_the_next(arguments: str) -> None:
    broken = inside(arguments)
    text = broken + '<tool_call>{"name": "ping"}</tool_call>'
    message = parse(text)
    assert message.text == broken
    assert complete_calls(message) == [("ping", {})]
    for mode in MODES:
        events = check_readings(partial(Engine, HERMES, TOOLS, arguments=mode), text)
        assert complete_calls(message_of(events)) == [("ping", {})]


PIECES = soup(
    '{\\"path\\": \\"a\\\\n',
    '\\"}"}</tool_call>',
    '\\", \\"mode\\": ',
    "\\\\u00e9",
    "\\\\ud83d\\\\ude00",
    "\\u0022",
    '\\\\\\"',
    "\\\\",
)


@settings(max_examples=60)
@given(text=PIECES, cuts=CUTS, mode=st.sampled_from(MODES))
def test_the_laws_hold_inside_a_string_at_any_cut(text: str, cuts: list[int], mode: Mode) -> None:
    text = '<tool_call>{"name": "write", "arguments": "' + text
    make = partial(Engine, HERMES, TOOLS, arguments=mode)
    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])


@settings(max_examples=60)
@given(arguments=ARGUMENTS, cuts=CUTS)
def test_any_arguments_read_the_same_inside_a_string(
    arguments: dict[str, Any], cuts: list[int]
) -> None:
    text = inside(json.dumps(arguments), name="unknown")
    for mode in MODES:
        events = read(Engine(HERMES, arguments=mode), cut_at(text, cuts))
        check_monotone(events)
        assert complete_calls(message_of(events)) == [("unknown", arguments)]


# --- mistakes and cuts ---


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("abc\\q", id="an escape that JSON does not know"),
        pytest.param("C:\\users", id="a path that looks like an escape"),
        pytest.param("a\\ud83d\\uzz", id="half a pair and a mistake"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_bad_escape_breaks_the_call_where_it_stands(value: str, mode: Mode) -> None:
    text = f'<tool_call>{{"name": "write", "arguments": {{"path": "{value}"}}}}</tool_call> on'
    make = partial(Engine, HERMES, TOOLS, arguments=mode)
    message = message_of(check_readings(make, text))
    assert complete_calls(message) == []
    assert message.text.endswith(" on")


@pytest.mark.parametrize(
    ("tail", "shown"),
    [
        pytest.param("ab", "ab", id="plain text"),
        pytest.param("ab\\n", "ab\\n", id="an escape"),
        pytest.param("ab\\", "ab", id="a backslash"),
        pytest.param("ab\\u00", "ab", id="a piece of a code point"),
        pytest.param("ab\\ud83d", "ab", id="half a pair"),
        pytest.param("ab\\ud83d\\ude", "ab", id="a pair that is cut"),
    ],
)
def test_a_cut_string_shows_what_it_says_so_far(tail: str, shown: str) -> None:
    text = '<tool_call>{"name": "write", "arguments": {"path": "' + tail
    for chunks in chunkings(text):
        parser = Engine(HERMES, TOOLS, arguments="live")
        events = read(parser, chunks)
        deltas = [event.arguments for event in events if isinstance(event, ToolCallDelta)]
        assert "".join(deltas) == '{"path":"' + shown
        assert isinstance(events[-1], ToolCallEnd)
        assert not events[-1].call.complete
        assert "".join(event.raw for event in events) + parser.rest == text


def note(told: list[tuple[str, BrokenCall]], why: str, segment: BrokenCall) -> None:
    told.append((why, segment))


@pytest.mark.parametrize("mode", MODES)
def test_the_segment_of_an_error_reaches_to_its_end_marker_at_any_cut(mode: Mode) -> None:
    text = 'a <tool_call>{"name": "write", "arguments": {"path": "x", "mode": 12px}}</tool_call>'
    for chunks in chunkings(text):
        told: list[tuple[str, BrokenCall]] = []
        read(Engine(HERMES, TOOLS, arguments=mode, on_error=partial(note, told)), chunks)
        ((why, segment),) = told
        assert segment.text == text[2:]
        assert why.endswith("glued to it at offset 53")


# --- mending ---

REQUIRED = [
    Tool(
        "write",
        parameters={
            "type": "object",
            "properties": {"path": {"type": "string"}, "mode": {"type": "integer"}},
            "required": ["path"],
        },
    )
]


def mended(
    text: str, mode: Mode, *, cut: bool = False, tools: list[Tool] = REQUIRED
) -> list[list[ToolCall]]:
    """Read *text* with repair on at every cut; give the calls of each reading."""
    found = []
    for chunks in chunkings(text):
        machine = Engine(HERMES, tools, arguments=mode, repair=True)
        events = [event for chunk in chunks for event in machine.feed(chunk)]
        events += machine.finish(cut)
        check_monotone(events)
        assert "".join(event.raw for event in events) + machine.rest == text
        found.append(message_of(events).tool_calls)
    return found


MENDED = {
    "a missing comma": '{"name": "write", "arguments": {"path": "a" "mode": 3}}',
    "a missing colon": '{"name": "write", "arguments": {"mode" 3, "path": "a"}}',
    "a missing closer": '{"name": "write", "arguments": {"path": "a", "mode": 3}',
    "a bad word": '{"name": "write", "arguments": {"path": "a", "mode": 3}, !}',
    "inside a string": '{"name": "write", "arguments": "{\\"path\\": \\"a\\" \\"mode\\": 3}"}',
    "text behind": '{"name": "write", "arguments": "{\\"path\\": \\"a\\", \\"mode\\": 3} x"}',
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("body", MENDED.values(), ids=MENDED)
def test_a_bounded_call_that_broke_is_mended_and_says_so(body: str, mode: Mode) -> None:
    for calls in mended(f"<tool_call>{body}</tool_call> on", mode):
        (call,) = calls
        assert (call.name, call.arguments, call.complete) == (
            "write",
            {"path": "a", "mode": 3},
            True,
        )
        assert call.repairs


@pytest.mark.parametrize("mode", MODES)
def test_a_bad_escape_is_mended_to_the_text_that_was_meant(mode: Mode) -> None:
    body = '<tool_call>{"name": "write", "arguments": {"path": "C:\\dir\\q"}}</tool_call>'
    for (call,) in mended(body, mode):
        assert call.arguments == {"path": "C:\\dir\\q"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "write", "arguments": {"path": "a", "mode": 3',
        '<tool_call>{"name": "write", "arguments": {"path": "a", "mode": 3}',
        '<tool_call>{"name": "write", "arguments": {"mode": 3, "path": "a',
        '<tool_call>{"name": "write", "arguments": "{\\"mode\\": 3, \\"path\\": \\"a',
    ],
)
def test_a_call_that_the_model_left_open_is_closed(text: str, mode: Mode) -> None:
    for (call,) in mended(text, mode):
        assert (call.arguments, call.complete) == ({"path": "a", "mode": 3}, True)
        assert any("closed" in repair for repair in call.repairs)


@pytest.mark.parametrize("mode", MODES)
def test_what_the_limit_cut_is_never_mended(mode: Mode) -> None:
    text = '<tool_call>{"name": "write", "arguments": {"path": "a"'
    for calls in mended(text, mode, cut=True):
        assert not any(call.complete for call in calls)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param('{"name": "nobody", "arguments": {"path": "a" "mode": 3}}', id="unknown"),
        pytest.param('{"name": "write", "arguments": {"mode" 3}}', id="a path is missing"),
        pytest.param('{"name": "write", "arguments": {"path": "a" "mode": "x"}}', id="no integer"),
        pytest.param(
            '{"name": "write", "arguments": {"path": "a", "mode" 3}}', id="what was read changes"
        ),
        pytest.param('{"arguments": {"path": "a" "mode": 3}}', id="no name"),
        pytest.param("nothing at all", id="no JSON"),
        pytest.param(' and then {"name": "write", "arguments": {"path": "a"}}', id="prose"),
        pytest.param(
            '{ and then {"name": "write", "arguments": {"path": "a"}}', id="prose behind a brace"
        ),
    ],
)
def test_what_would_be_no_good_call_is_not_mended(body: str, mode: Mode) -> None:
    for calls in mended(f"<tool_call>{body}</tool_call>", mode):
        assert not any(call.complete for call in calls)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("first", "last"),
    [
        pytest.param("[", "]", id="a list"),
        pytest.param("", "", id="one after the other"),
    ],
)
def test_of_several_calls_only_the_broken_one_is_mended(first: str, last: str, mode: Mode) -> None:
    good = '{"name": "write", "arguments": {"path": "a"}}'
    broken = '{"name": "write", "arguments": {"path": "b" "mode": 1}}'
    text = f"<tool_call>{first}{good}, {broken}{last}</tool_call>"
    for one, two in mended(text, mode):
        assert (one.arguments, one.repairs) == ({"path": "a"}, [])
        assert two.arguments == {"path": "b", "mode": 1}
        assert two.repairs


@pytest.mark.parametrize("mode", MODES)
def test_a_value_that_is_no_call_breaks_at_the_same_place_at_any_cut(mode: Mode) -> None:
    text = "<tool_call>5/*><tool_call>{'name''write"
    found = []
    for chunks in chunkings(text):
        machine = Engine(HERMES, TOOLS, arguments=mode, repair=True)
        events = [event for chunk in chunks for event in machine.feed(chunk)]
        found.append(message_of([*events, *machine.finish(cut=False)]))
    assert all(message == found[0] for message in found)


# --- lists without calls ---


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "text", ["<tool_call>[]</tool_call>", "a<tool_call>\n[ ]\n</tool_call>b", "<tool_call>[]"]
)
def test_an_empty_list_is_text_and_told(text: str, mode: Mode) -> None:
    told: list[tuple[str, str]] = []
    make = partial(Engine, HERMES, TOOLS, arguments=mode)
    assert message_of(check_readings(make, text)).text == text
    read(make(on_error=lambda why, segment: told.append((why, segment.text))), [text])
    assert told == [("the list holds no calls", text.strip("ab"))]


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_list_behind_a_call_does_not_undo_it(mode: Mode) -> None:
    text = '<tool_call>{"name": "write"}, []</tool_call>.'
    message = message_of(check_readings(partial(Engine, HERMES, TOOLS, arguments=mode), text))
    assert complete_calls(message) == [("write", {})]
    assert message.text == ", []."


@pytest.mark.parametrize("mode", ["whole", "live"])
def test_an_escaped_slash_after_half_a_pair_is_written_alike_at_every_cut(mode: Mode) -> None:
    body = '{"name": "write", "arguments": {"path": "\\ud83d\\ud83d\\ude00\\/"}}'
    text = f"<tool_call>{body}</tool_call>"
    events = check_readings(partial(Engine, HERMES, TOOLS, arguments=mode), text)
    assert message_of(events).tool_calls[0].arguments == {"path": "\ud83d\U0001f600/"}
