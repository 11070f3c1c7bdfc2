"""Calls as elements that break or are cut: text up to their end, or calls that are not complete."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from laws import (
    check_lossless,
    check_monotone,
    check_readings,
    chunkings,
    one_by_one,
)
from laws.checks import read
from parsing.element_samples import MODES, TOOLS, WRITE, Mode, parse, parser
from parsing.samples import complete_calls, message_of
from penstock.errors import CoercionError, DuplicateStringTagError, ParseError, XMLParseError
from penstock.parsing import BrokenCall, Engine
from penstock.readers.elements import ElementCalls
from penstock.tools import Tool

BROKEN = {
    "a string twice": "<write><path>a</path><path>b</path></write>",
    "a closing tag that closes nothing": "<write><mode>3</mode></b></write>",
    "the wrong closing tag": "<write><mode>3</path></write>",
    "an element that is never closed": "<write><mode>3</write>",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_call_is_text_up_to_its_end_tag(text: str) -> None:
    told: list[BrokenCall] = []
    around = f"a {text} b <ping/> c"
    for chunks in chunkings(around):
        told.clear()
        reader = parser(on_error=lambda why, segment: told.append(segment))  # noqa: ARG005
        message = message_of(read(reader, chunks))
        assert message.text == f"a {text} b  c"
        assert complete_calls(message) == [("ping", {})]
        assert [segment.text for segment in told] == [text]


NOWHERE = {"properties": {"mode": {}, "path": {"$ref": "#/nowhere"}}}
TOLD = {
    "a string twice": (WRITE, BROKEN["a string twice"], DuplicateStringTagError, "more than once"),
    "a wrong tag": (WRITE, "<write><mode>3</b></write>", XMLParseError, "`</b>` where `<mode>`"),
    "a tag too many": (WRITE, "<write><mode/></b></write>", XMLParseError, "`</b>` closes nothing"),
    "a schema that refers to nowhere": (
        Tool("write", parameters=NOWHERE),
        "<write><mode>3</mode><path>a</path></write>",
        CoercionError,
        "nowhere",
    ),
    "a schema of no object": (
        Tool("write", parameters={"type": "array", "properties": {"mode": {}}}),
        "<write><mode>3</mode></write>",
        CoercionError,
        "something else than an object",
    ),
    "a cut call": (WRITE, "<write><mode>3", ParseError, "was cut"),
}


@pytest.mark.parametrize(("tool", "text", "kind", "why"), TOLD.values(), ids=TOLD)
@pytest.mark.parametrize("mode", MODES)
def test_the_error_tells_the_tool_and_what_is_wrong(
    tool: Tool, text: str, kind: type[ParseError], why: str, mode: Mode
) -> None:
    told: list[tuple[str, BrokenCall]] = []
    syntax = ElementCalls.of([tool])
    for chunks in chunkings(text):
        told.clear()
        on_error = partial(lambda message, segment: told.append((message, segment)))
        read(Engine(syntax, [tool], arguments=mode, on_error=on_error), chunks)
        ((message, segment),) = told
        assert type(segment.error) is kind
        assert segment.tool_name == "write"
        assert text.startswith(segment.text)
        assert "a call of `write`" in message
        assert why in message


FIRST = {
    "two strings": ("<path>a</path><path>b</path>", "a"),
    "an empty one first": ("<path/><path>b</path>", ""),
    "an empty one behind": ("<path>a</path><path/>", "a"),
    "others between": ("<path>a</path><mode>3</mode><path>b</path><path>c</path>", "a"),
}


@pytest.mark.parametrize(("body", "path"), FIRST.values(), ids=FIRST)
@pytest.mark.parametrize("mode", MODES)
def test_the_first_of_two_strings_stands_where_the_format_says_so(
    body: str, path: str, mode: Mode
) -> None:
    syntax = ElementCalls.of(TOOLS, duplicates="first")
    text = f"<write>{body}</write>"
    for chunks in chunkings(text):
        told: list[BrokenCall] = []
        on_error = partial(lambda segments, _, segment: segments.append(segment), told)
        events = read(Engine(syntax, TOOLS, arguments=mode, on_error=on_error), chunks)
        check_monotone(events)
        ((_, arguments),) = complete_calls(message_of(events))
        assert arguments["path"] == path
        assert told
        assert all(type(segment.error) is DuplicateStringTagError for segment in told)
        assert {(segment.tool_name, segment.text) for segment in told} == {("write", text)}


ODD = {
    "a schema that refers to nowhere": {"$ref": "#/nowhere"},
    "a property that refers to nowhere": {"properties": {"path": {"$ref": "#/nowhere"}}},
    "a schema of a list": {"type": "array", "items": {"type": "string"}},
    "a schema of a string": {"type": "string"},
    "no schema": {},
}


@pytest.mark.parametrize("parameters", ODD.values(), ids=ODD)
@pytest.mark.parametrize("mode", MODES)
def test_an_odd_schema_breaks_no_stream(parameters: dict[str, Any], mode: Mode) -> None:
    tools = [Tool("write", parameters=parameters)]
    text = "a <write><path>b</path><path>c</path><x>1</x></write> d"
    make = partial(Engine, ElementCalls.of(tools), tools, arguments=mode)
    check_readings(make, text)


ODD_VALUES = {
    "a number of 5,000 digits": f"<mode>{'9' * 5000}</mode>",
    "a number too big for a float": '<meta>{"a": 1e999}</meta>',
    "half of a pair": "<tags>\ud800</tags><path>\udfff</path>",
    "a number that is none": '<meta>{"a": NaN}</meta>',
}


@pytest.mark.parametrize("body", ODD_VALUES.values(), ids=ODD_VALUES)
@pytest.mark.parametrize("mode", MODES)
def test_an_odd_value_breaks_no_stream(body: str, mode: Mode) -> None:
    text = f"<write>{body}</write>"
    check_readings(partial(parser, mode), text, [])
    check_lossless(partial(parser, mode), one_by_one(text))


def test_nothing_in_a_broken_call_is_a_call() -> None:
    text = "<write><mode>3</path><ping/></write>"
    assert parse(text).text == text


def test_a_call_that_never_ends_is_text_from_its_start_tag_on() -> None:
    for text in ("a <write><path>b <ping/> c", "a <write></b><ping/>", "<write>"):
        for chunks in chunkings(text):
            message = message_of(read(parser(), chunks))
            assert message.text == text
            assert message.tool_calls == []


def test_a_live_call_that_is_cut_is_incomplete_and_leaves_no_text() -> None:
    for chunks in chunkings("<write><path>a</path><content>b</cont"):
        message = message_of(read(parser("live"), chunks))
        (call,) = message.tool_calls
        assert call.arguments == {"path": "a", "content": "b</cont"}
        assert (call.complete, message.text) == (False, "")


def test_a_live_call_that_breaks_is_incomplete_and_its_end_tag_is_dropped() -> None:
    for chunks in chunkings("<write><mode>3</mode></b> on <ping/></write> and"):
        message = message_of(read(parser("live"), chunks))
        assert [(call.name, call.complete) for call in message.tool_calls] == [
            ("write", False),
            ("ping", True),
        ]
        assert message.text == "</b> on </write> and"
    assert parse("<write><path>a</path><mode></b> on</write>.", mode="live").text == "</b> on."
