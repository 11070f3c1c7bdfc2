"""Which formats the calls of an answer are counted under, and what is remembered of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from penstock.events import Event, TextDelta, ToolCallEnd, ToolCallStart
from penstock.formats import EventParser, detect
from penstock.formats.auto.syntax import FORMATS
from penstock.gateway import request_log
from penstock.gateway.request_log import AUTO, MAX_HEADS, NATIVE, CallStats
from penstock.messages import ToolCall
from penstock.tools import Tool

NAMES = ("get_weather", "t")
CITIES = ("Oslo", "a city of which nobody has ever heard")
WRITABLE = [name for name in FORMATS if name != "file_tags"]  # which writes files alone
TOOLS = [
    Tool(name, parameters={"type": "object", "properties": {"city": {"type": "string"}}})
    for name in NAMES
]


@pytest.fixture(autouse=True)
def _nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "_told", {})


def read(text: str) -> list[Event]:
    parser = EventParser("auto", TOOLS, arguments="live")
    return [*parser.add(TextDelta(0, text)), *parser.finish()]


def counted(text: str) -> dict[tuple[str, bool], int]:
    counts = CallStats(AUTO, TOOLS)
    counts.see(read(text))
    return dict(counts.formats)


def written(format_: str, name: str, **arguments: Any) -> str:
    return FORMATS[format_].render_call(ToolCall("call_12345", name, arguments))


def test_what_is_remembered_names_calls_of_every_format_as_reading_them_does() -> None:
    seen = 0
    for city, format_, name in product(CITIES, WRITABLE, NAMES):
        text = written(format_, name, city=city)
        meant = detect(text, TOOLS)
        for found, _ in counted(text):
            assert found == (AUTO if meant is None else meant.name), text
            seen += 1
    assert seen > len(WRITABLE)


def test_a_call_that_begins_as_one_before_is_not_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert counted(written("hermes", "get_weather", city="Oslo")) == {("hermes", True): 1}
    monkeypatch.setattr(request_log, "detect", None)  # Nobody could ask it now.
    assert counted(written("hermes", "get_weather", city="Rome")) == {("hermes", True): 1}


def test_a_long_call_is_known_by_its_beginning_and_teaches_nothing_wrong() -> None:
    counted(written("hermes", "get_weather", city="x" * 5_000))
    assert counted(written("hermes", "get_weather", city="Oslo")) == {("hermes", True): 1}
    assert counted(written("hermes", "get_weather", city="x" * 5_000)) == {("hermes", True): 1}


def test_no_more_beginnings_are_remembered_than_the_limit() -> None:
    for number in range(MAX_HEADS + 10):
        counted("\n" * number + written("bare_json", "get_weather", city="Oslo"))
    assert len(request_log._told) <= MAX_HEADS


def test_a_call_of_the_server_itself_consumed_no_text() -> None:
    counts = CallStats(AUTO, TOOLS)
    counts.see([ToolCallStart(0, "c", "t"), ToolCallEnd(0, ToolCall("c", "t", complete=False))])
    assert dict(counts.formats) == {(NATIVE, False): 1}
