"""Calls as elements that break or are cut: text up to their end, or calls that are not complete."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from laws import (
    check_chunk_free,
    check_lossless,
    check_monotone,
    check_never_raises,
    chunkings,
    one_by_one,
)
from laws.checks import read
from parsing.element_samples import MODES, Mode, parse, parser
from parsing.samples import complete_calls, message_of
from penstock.errors import DuplicateStringTagError
from penstock.parsing import ElementCalls, Machine, Segment
from penstock.tools import Tool

BROKEN = {
    "a string twice": "<write><path>a</path><path>b</path></write>",
    "a closing tag that closes nothing": "<write><mode>3</mode></b></write>",
    "the wrong closing tag": "<write><mode>3</path></write>",
    "an element that is never closed": "<write><mode>3</write>",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_call_is_text_up_to_its_end_tag(text: str) -> None:
    told: list[Segment] = []
    around = f"a {text} b <ping/> c"
    for chunks in chunkings(around):
        told.clear()
        reader = parser(on_error=lambda why, segment: told.append(segment))  # noqa: ARG005
        message = message_of(read(reader, chunks))
        assert message.text == f"a {text} b  c"
        assert complete_calls(message) == [("ping", {})]
        assert [segment.text for segment in told] == [text]


def test_the_error_tells_the_tool_and_what_is_wrong() -> None:
    told: list[Segment] = []
    text = f"<ping/>{BROKEN['a string twice']}<ping/><write></b></write>"
    parse(text, on_error=lambda why, segment: told.append(segment))  # noqa: ARG005
    assert [segment.tool_name for segment in told] == ["write", "write"]
    assert isinstance(told[0].error, DuplicateStringTagError)
    assert told[1].error is not None


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
    make = partial(Machine, ElementCalls.of(tools), tools, arguments=mode)
    for chunks in chunkings(text):
        check_lossless(make, chunks)
        check_chunk_free(make, chunks)
        check_monotone(read(make(), chunks))


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
    check_never_raises(partial(parser, mode), [text])
    check_lossless(partial(parser, mode), one_by_one(text))
    check_monotone(read(parser(mode), [text]))


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
        assert (call.arguments, call.complete, message.text) == ({"path": "a"}, False, "")


def test_a_live_call_that_breaks_is_incomplete_and_its_end_tag_is_dropped() -> None:
    for chunks in chunkings("<write><mode>3</mode></b> on <ping/></write> and"):
        message = message_of(read(parser("live"), chunks))
        assert [(call.name, call.complete) for call in message.tool_calls] == [
            ("write", False),
            ("ping", True),
        ]
        assert message.text == "</b> on </write> and"
    assert parse("<write><path>a</path><mode></b> on</write>.", mode="live").text == "</b> on."
