"""Arguments that come twice, and values that JSON cannot say: never two keys, never `null`."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from laws import check_readings, one_by_one
from penstock import Parser, parse
from penstock.events import ToolCallDelta
from penstock.formats.base import build_message
from penstock.parsing import BrokenCall
from penstock.tools import Tool

TOOLS = [Tool("f", "", {"type": "object", "properties": {"a": {"type": "string"}, "x": {}}})]

REPEATED = {
    "hermes": '<tool_call>{"name":"f","arguments":{"a":"safe","a":"evil"}}</tool_call>',
    "several arguments": (
        '<tool_call>{"name":"f","arguments":{"a":"safe"},"input":"{\\"a\\":\\"evil\\"}"}</tool_call>'
    ),
    "mistral": '[TOOL_CALLS]f[ARGS]{"a":"safe","a":"evil"}',
    "pythonic": "[f(a='safe', a='evil')]",
    "gemma4": '<|tool_call>call:f{a:<|"|>safe<|"|>,a:<|"|>evil<|"|>}<tool_call|>',
    "tool_tag": '<tool name="f"><arg name="a">safe</arg><arg name="a">evil</arg></tool>',
    "auto": '<tool_call>{"name":"f","arguments":{"a":"safe","a":"evil"}}</tool_call>',
}
"""The same call in several formats; what is no format's name is hermes."""
NAMED = [(name if " " not in name else "hermes", text) for name, text in REPEATED.items()]


def read(name: str, text: str, **options: Any) -> tuple[str, Any]:
    """Read *text* at every cut; give the deltas of its calls, and the message."""
    events = check_readings(partial(Parser, name, TOOLS, **options), text)
    said = "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))
    return said, build_message(events)


@pytest.mark.parametrize(("name", "text"), NAMED, ids=REPEATED)
def test_the_last_value_counts_where_nothing_went_out(name: str, text: str) -> None:
    said, message = read(name, text)
    if name == "tool_tag":  # In formats of tags a string that comes twice cancels the call.
        assert message.tool_calls == []
        assert message.text == text
        return
    (call,) = message.tool_calls
    assert said == '{"a":"evil"}'
    assert (call.arguments, call.complete) == ({"a": "evil"}, True)
    assert "'a'" in call.repairs[0]


@pytest.mark.parametrize(("name", "text"), NAMED, ids=REPEATED)
@pytest.mark.parametrize("repair", [False, True])
def test_a_call_is_incomplete_where_the_first_value_went_out(
    name: str,
    text: str,
    repair: bool,  # noqa: FBT001
) -> None:
    said, message = read(name, text, arguments="live", repair=repair)
    (call,) = message.tool_calls
    assert '"a":"safe"' in said
    assert said.count('"a"') == 1
    assert (call.arguments, call.complete) == ({"a": "safe"}, False)
    assert message.stop_reason != "tool_use"
    assert message.text.strip() == ""


@pytest.mark.parametrize(("name", "text"), NAMED, ids=REPEATED)
@pytest.mark.parametrize("mode", ["whole", "live"])
def test_the_same_value_again_changes_nothing(name: str, text: str, mode: Any) -> None:
    said, message = read(name, text.replace("evil", "safe"), arguments=mode)
    (call,) = message.tool_calls
    assert said == '{"a":"safe"}'
    assert (call.arguments, call.complete, call.repairs) == ({"a": "safe"}, True, [])


def test_a_call_that_is_cut_in_a_value_that_comes_again_keeps_the_first() -> None:
    text = '<tool_call>{"name":"f","arguments":{"a":"safe","a":"evil, very e'
    _, message = read("hermes", text, arguments="live")
    (call,) = message.tool_calls
    assert (call.arguments, call.complete) == ({"a": "safe"}, False)


def test_the_handler_is_told_of_a_call_with_two_values() -> None:
    told: list[tuple[str, BrokenCall]] = []
    parser = Parser(
        "hermes", TOOLS, arguments="live", on_error=lambda why, what: told.append((why, what))
    )
    for piece in one_by_one(REPEATED["hermes"]):
        parser.feed(piece)
    parser.finish()
    ((why, segment),) = told
    assert "several values" in why
    assert segment.tool_name == "f"


UNSAYABLE = {
    "hermes": '<tool_call>{"name":"f","arguments":{"a":"b","x":1e999}}</tool_call>',
    "nested": '<tool_call>{"name":"f","arguments":{"a":"b","x":[{"y":-1e999}]}}</tool_call>',
    "mistral": '[TOOL_CALLS]f[ARGS]{"a":"b","x":1e999}',
    "pythonic": "[f(a='b', x=1e999)]",
    "auto": '<tool_call>{"name":"f","arguments":{"a":"b","x":1e999}}</tool_call>',
}


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("case", UNSAYABLE)
def test_a_number_that_json_cannot_say_makes_no_complete_call(
    case: str,
    repair: bool,  # noqa: FBT001
) -> None:
    name, text = "hermes" if case == "nested" else case, UNSAYABLE[case]
    _, whole = read(name, text, repair=repair)
    assert whole.tool_calls == []
    assert whole.text == text
    said, live = read(name, text, arguments="live", repair=repair)
    (call,) = live.tool_calls
    assert (call.arguments, call.complete) == ({"a": "b"}, False)
    assert said == '{"a":"b"'


@pytest.mark.parametrize("name", ["hermes", "auto"])
@pytest.mark.parametrize("value", ['"\ud83d\ude00"', '["\ud83d\ude00"]', '{"\ud83d\ude00":1}'])
def test_two_halves_of_a_surrogate_pair_in_a_call_are_one_character(name: str, value: str) -> None:
    text = f'<tool_call>{{"name":"f","arguments":{{"a":"\ud83d\ude00","x":{value}}}}}</tool_call>'
    (call,) = parse(text, name, TOOLS).tool_calls
    assert call.arguments == {"a": "😀", "x": json.loads(value.replace("\ud83d\ude00", "😀"))}
    read(name, text, arguments="live")
