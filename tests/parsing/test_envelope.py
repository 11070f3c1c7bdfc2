"""The object around a call: its parts in any order, and what it is without one of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from laws import check_readings
from parsing.samples import HERMES, TOOLS, complete_calls, message_of
from penstock.errors import JSONParseError
from penstock.events import ToolCallStart
from penstock.parsing import Engine, NoCallError
from penstock.parsing.call_shape import parse_arguments


@pytest.mark.parametrize("mode", ["whole", "live"])
@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        pytest.param('{"arguments": {"path": "a"}, "name": "write"}', {"path": "a"}, id="before"),
        pytest.param(
            '{"arguments": "{\\"path\\": \\"a\\"}", "name": "write"}', {"path": "a"}, id="a string"
        ),
        pytest.param(
            '{"arguments": {"path": "a"}, "name": "write", "args": {"mode": "2"}}',
            {"path": "a", "mode": 2},
            id="on both sides of the name",
        ),
        pytest.param('{"name": "write", "arguments": null, "x": {"y": 1}}', {}, id="null"),
        pytest.param('{"arguments": null, "name": "write"}', {}, id="null before the name"),
    ],
)
def test_arguments_are_read_wherever_they_stand(
    body: str, arguments: dict[str, Any], mode: Any
) -> None:
    make = partial(Engine, HERMES, TOOLS, arguments=mode)
    events = check_readings(make, f"<tool_call>{body}</tool_call>")
    assert complete_calls(message_of(events)) == [("write", arguments)]


def test_arguments_that_are_no_object_are_told_with_the_name_of_the_tool() -> None:
    told: list[str] = []
    parser = Engine(HERMES, TOOLS, on_error=lambda _, segment: told.append(segment.tool_name))
    parser.feed('<tool_call>{"name": "write", "arguments": 5}</tool_call> and <tool_call>{"a": 1}')
    parser.finish()
    assert told == ["write", ""]


def test_a_call_opens_with_its_name_where_its_arguments_came_first() -> None:
    parser = Engine(HERMES, TOOLS, arguments="live")
    assert parser.feed('<tool_call>{"arguments": {"path": "a"}, "name": "write') == []
    start, delta = parser.feed('"')
    assert isinstance(start, ToolCallStart)
    assert delta.raw == ""


@pytest.mark.parametrize(
    ("value", "arguments"),
    [({"a": 1}, {"a": 1}), ('{"a": 1, "a": 2}', {"a": 2}), ("", {}), (" ", {}), (None, {})],
)
def test_arguments_are_read_from_an_object_or_a_string(
    value: Any, arguments: dict[str, Any]
) -> None:
    assert parse_arguments(value) == arguments


@pytest.mark.parametrize("value", [[1], [], 5, 0, True, False, "hm", "[1]", '{"a": '])
def test_what_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises((NoCallError, JSONParseError)):
        parse_arguments(value)
