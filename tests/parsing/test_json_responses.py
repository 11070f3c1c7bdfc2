"""An answer that is a member of JSON: its text is shown decoded, as it comes."""

from __future__ import annotations

from functools import partial
from typing import Literal

import pytest

from laws import check_readings
from parsing.samples import complete_calls, message_of
from penstock import Parser
from penstock.events import TextDelta
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")
TOOLS = [Tool("ping")]

make = partial(Parser, "generic_json", TOOLS)

ANSWERS = {
    "a text": ('{"response": "Hi."}', "Hi."),
    "escapes": (r'{"response": "a \"b\"\n\u00e9\ud83d\ude00"}', 'a "b"\né😀'),
    "white space": ('\n { "response" :\n"a b " }', "\n a b "),
    "an empty text": ('{"response": ""}', ""),
    "other members": ('{"response": "a", "mood": ["b"]}', "a"),
    "text behind it": ('{"response": "a"} b', "a b"),
    "a cut in the text": ('{"response": "a b', "a b"),
    "a cut in an escape": (r'{"response": "a\u00', "a"),
    "a cut in the key": ('{"respon', '{"respon'),
    "no text": ('{"response": 5}', '{"response": 5}'),
    "another key first": ('{"a": 1, "response": "b"}', '{"a": 1, "response": "b"}'),
    "a break behind the text": ('{"response": "a" oops', 'a" oops'),
    "not the first thing": ('So: {"response": "a"}', 'So: {"response": "a"}'),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("text", "shown"), ANSWERS.values(), ids=ANSWERS)
def test_the_text_is_shown_as_it_is_meant(text: str, shown: str, mode: Mode) -> None:
    message = message_of(check_readings(partial(make, arguments=mode), text))
    assert (message.text, message.tool_calls) == (shown, [])


def test_the_text_leaves_as_it_comes() -> None:
    parser = make()
    parser.feed('{"response": "')
    for character in "The pipe leads the water.":
        (delta,) = [event for event in parser.feed(character) if isinstance(event, TextDelta)]
        assert (delta.text, delta.raw[-1:]) == (character, character)


def test_calls_are_found_as_ever() -> None:
    text = '{"tool_calls": [{"name": "ping", "arguments": {}}]}'
    message = message_of(check_readings(make, text))
    assert complete_calls(message) == [("ping", {})]


def test_a_call_behind_the_text_is_text() -> None:
    text = '{"response": "a"} {"tool_call": {"name": "ping"}}'
    assert message_of(check_readings(make, text)).tool_calls == []
