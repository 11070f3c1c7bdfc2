"""Calls that are spelled out and broken, or cut: what becomes of them, and what can be mended."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from laws import check_readings, chunkings, cut_at, one_by_one
from laws.checks import read
from parsing.delimited_samples import MARKS, MODES, SYNTAX, TOOLS, Mode, parse, spelled
from parsing.samples import complete_calls, message_of
from penstock.events import ToolCallDelta
from penstock.parsing import BrokenCall, Engine
from penstock.readers.delimited import MAX_KEY, MAX_NAME
from penstock.values.json_grammar import MAX_DEPTH

BROKEN = {
    "no call": "<|tool_call>ping{}»",
    "nothing": "<|tool_call>»",
    "no name": "«{}»",
    "a name with a space": "«pi ng{}»",
    "a name with a slash": "«a/b{}»",
    "a name over the limit": f"«{'n' * (MAX_NAME + 1)}{{}}»",
    "a call in parentheses": "«ping()»",
    "no closing brace": "«write{mode:6»",
    "no closing brace behind a text": "«write{path:~a~»",
    "the wrong bracket": "«write{mode:6]",
    "the wrong bracket in a list": "«write{tags:[1}}»",
    "the wrong bracket in an object": "«write{plan:{n:1]}»",
    "a mark in a bare value": "«write{mode:6~a~}»",
    "no comma": "«write{path:~a~ mode:1}»",
    "something behind a plain text": '«write{path:"a"b}»',
    "no colon": "«write{path}»",
    "no colon behind a delimited key": "«write{~path~ ~a~}»",
    "no key": "«write{:1}»",
    "two commas": "«write{mode:1,,k:2}»",
    "a list of arguments": "«write{[1]}»",
    "a key over the limit": f"«write{{{'k' * (MAX_KEY + 1)}:1}}»",
    "too deep": f"«write{{any:{'[' * MAX_DEPTH}1{']' * MAX_DEPTH}}}»",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_what_is_no_call_comes_back_as_text_and_is_told(text: str) -> None:
    told: list[BrokenCall] = []
    message = parse(f"a {text} b", on_error=lambda _, segment: told.append(segment))
    assert message.text == spelled(f"a {text} b")
    assert message.tool_calls == []
    assert len(told) == 1
    assert told[0].text.startswith(MARKS.start)


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("mode", MODES)
def test_a_broken_call_does_not_hide_the_next(text: str, mode: Mode) -> None:
    make = partial(Engine, SYNTAX, TOOLS, arguments=mode)
    answer = spelled(f"{text} and «ping{{}}»")
    ways = [one_by_one(answer), cut_at(answer, range(0, len(answer), 7))]
    assert complete_calls(message_of(check_readings(make, answer, ways))) == [("ping", {})]


def test_a_live_call_that_breaks_is_incomplete_and_its_end_marker_is_dropped() -> None:
    message = parse("«write{path:~a~,mode:6» on", arguments="live")
    (call,) = message.tool_calls
    assert (call.arguments, call.complete) == ({"path": "a"}, False)
    assert message.text == ",mode:6 on"


CUT = [
    "«",
    "«wri",
    "«write{",
    "«write{pa",
    "«write{path:",
    "«write{path:~a",
    "«write{mode:1",
    "«write{any:[1,{k:~a",
    "«write{path:~a <|tool",
    "«write{path:~ «ping{}»",
]


@pytest.mark.parametrize("text", CUT)
def test_a_cut_call_is_text_or_incomplete(text: str) -> None:
    whole, live = parse(text), parse(text, arguments="live")
    assert (whole.text, whole.tool_calls) == (spelled(text), [])
    assert all(not call.complete for call in live.tool_calls)
    for mode in MODES:
        check_readings(partial(Engine, SYNTAX, TOOLS, arguments=mode), spelled(text))


def test_a_text_that_is_cut_shows_what_was_held_back() -> None:
    for chunks in chunkings(spelled('«write{path:~a <|"')):
        events = read(Engine(SYNTAX, TOOLS, arguments="live"), chunks)
        deltas = [e.arguments for e in events if isinstance(e, ToolCallDelta)]
        assert "".join(deltas) == '{"path":"a <|\\"'


# --- mending ---

MENDED = {
    "a text without an end": ("«write{path:~a b", {"path": "a b"}),
    "a number without an end": ("«write{path:~a~,mode:6", {"path": "a", "mode": 6}),
    "a text in a list without an end": (
        "«write{path:~a~,tags:[b,~c",
        {"path": "a", "tags": ["b", "c"]},
    ),
    "a value without an end": ("«write{path:~a~,any:[1,{k:2", {"path": "a", "any": [1, {"k": 2}]}),
}


@pytest.mark.parametrize(("text", "arguments"), MENDED.values(), ids=MENDED)
@pytest.mark.parametrize("mode", MODES)
def test_a_call_is_closed_where_the_model_stopped(
    text: str, arguments: dict[str, Any], mode: Mode
) -> None:
    message = parse(text, cut=False, repair=True, arguments=mode)
    assert [(c.arguments, c.repairs) for c in message.tool_calls] == [
        (arguments, ["closed an open call"])
    ]
    assert message.text == ""
    assert not complete_calls(parse(text, repair=True, arguments=mode)), (
        "a cut call is never mended"
    )


def test_a_name_alone_is_a_call_where_the_model_stopped() -> None:
    assert complete_calls(parse("«ping", cut=False, repair=True)) == [("ping", {})]


@pytest.mark.parametrize(
    "text",
    [
        '«write{path:~a <|"',
        "«write{path:~a~,mode:<|",
        "«write{mode:6",
        "«nope{path:~a",
        "<|tool_call>ca",
        "«write{path:~a~,mode:",
        "«write{path:~a~,mo",
        "«write{path:~a~,~mo",
        "«write{path:~",
        "«write{path:~a}»",
    ],
    ids=[
        "half a mark",
        "half a mark for a value",
        "what is required",
        "its tool",
        "its name",
        "a value",
        "half a key",
        "half a delimited key",
        "all of a string",
        "the end of a string",
    ],
)
def test_a_call_that_lacks_more_than_its_end_is_not_mended(text: str) -> None:
    assert parse(text, cut=False, repair=True).text == spelled(text)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        pytest.param("«write{path:~a~» on", {"path": "a"}, id="no closing brace"),
        pytest.param("«write{path:~a~,mode:6» on", {"path": "a", "mode": 6}, id="behind a word"),
        pytest.param('«write{path:"a "b" c"}» on', {"path": 'a "b" c'}, id="quotes in quotes"),
    ],
)
def test_a_call_that_broke_is_mended(text: str, arguments: dict[str, Any]) -> None:
    message = parse(text, repair=True)
    (call,) = message.tool_calls
    assert (call.arguments, message.text) == (arguments, " on")
    assert call.repairs


@pytest.mark.parametrize(
    "text",
    ["«write{path:~a~ note:~b~}»", '«write{path "a"}»', '«write("a")»'],
    ids=["texts that would be joined", "no JSON", "other brackets"],
)
def test_what_is_unclear_is_not_mended(text: str) -> None:
    assert parse(text, repair=True).text == spelled(text)


def test_what_went_out_of_a_live_call_is_not_taken_back_by_mending() -> None:
    (call,) = parse('«write{path:"a "b" c"}»', repair=True, arguments="live").tool_calls
    assert not call.complete
