"""Calls in the shapes of each provider, anywhere in an answer."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_linear, check_no_stall, check_readings, cut_at, one_by_one, raw_by_block
from laws.checks import read
from laws.strategies import CUTS, soup
from parsing.samples import complete_calls, message_of
from penstock.events import ToolCallDelta, ToolCallEnd, ToolCallStart
from penstock.messages import AssistantMessage
from penstock.parsing import BrokenCall, Engine
from penstock.readers.signed_json import (
    DEFAULT,
    GEMINI,
    MAX_SIGNATURE,
    OPENAI,
    Profile,
    find_profile,
)
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

TOOLS = [
    Tool("ping"),
    Tool(
        "emit",
        parameters={
            "type": "object",
            "properties": {"tpl": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["tpl"],
        },
    ),
]
VECTORS = [
    vector
    for line in (Path(__file__).parents[1] / "vectors" / "segments.jsonl").read_text().splitlines()
    if (vector := json.loads(line))["strategy"] == "json"
]


def parse(text: str, profile: Profile = DEFAULT, **options: Any) -> AssistantMessage:
    return message_of(read(Engine(profile, TOOLS, **options), [text]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['id']}: {vector['why']}")
def test_a_vector_reads_the_same_at_every_cut(vector: dict[str, Any], mode: Mode) -> None:
    tools = [Tool(name) for name in vector["tools"]]
    make = partial(Engine, find_profile(vector["provider"]), tools, arguments=mode)
    events = check_readings(make, vector["text"])
    expected = [(call["name"], call["arguments"]) for call in vector["expect_invocations"]]
    assert complete_calls(message_of(events)) == expected
    machine = make()
    contents = [*raw_by_block(read(machine, [vector["text"]])).values()]
    contents[-1] += machine.rest  # the end of a list
    if mode == "live":
        assert contents == [segment["content"] for segment in vector["expect_segments"]]


SHAPES = {
    "a wrapper and a holder": (OPENAI, '{"tool": {"function": {"name": "ping", "arguments": A}}}'),
    "a wrapper and a name": (OPENAI, '{"tool": {"name": "ping", "parameters": A}}'),
    "a wrapper and a text": (OPENAI, '{"tool": {"function": "ping", "arguments": A}}'),
    "a list of calls": (OPENAI, '{"tool_calls": [{"function": {"name": "ping", "arguments": A}}]}'),
    "a list of tools": (OPENAI, '{"tools": [{"tool": {"name": "ping", "parameters": A}}]}'),
    "a bare holder": (OPENAI, '{"function": {"name": "ping", "parameters": A}}'),
    "a bare text": (OPENAI, '{"function": "ping", "arguments": A}'),
    "arguments beside the holder": (OPENAI, '{"function": {"name": "ping"}, "arguments": A}'),
    "a list at the root": (OPENAI, '[{"tool": {"function": "ping", "parameters": A}}]'),
    "args": (GEMINI, '{"name": "ping", "args": A}'),
    "arguments for gemini": (GEMINI, '{"name": "ping", "arguments": A}'),
    "input": (DEFAULT, '{"tool": {"function": "ping", "input": A}}'),
    "a list of args": (GEMINI, '[ { "name" : "ping" , "args" : A } ]'),
    "a text in a wrapper": (DEFAULT, '{"tool": {"function": "ping", "parameters": A}}'),
    "a holder in a wrapper": (DEFAULT, '{"tool": {"function": {"name": "ping"}, "arguments": A}}'),
    "a holder by itself": (DEFAULT, '{"function": {"name": "ping", "arguments": A}}'),
    "arguments first": (DEFAULT, '{"tool": {"parameters": A, "function": "ping"}}'),
    "another case": (DEFAULT, '{"tool": {"function": "PING", "parameters": A}}'),
}
ARGUMENTS = {
    "an object": ('{"a": "x"}', {"a": "x"}),
    "a string": ('"{\\"a\\": \\"x\\"}"', {"a": "x"}),
    "an empty string": ('""', {}),
    "null": ("null", {}),
}
NO_OBJECTS = ('"hm"', "[1, {}]", "[]", "5", "true", '"[1]"', '"{"')


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("profile", "shape"), SHAPES.values(), ids=SHAPES)
def test_each_shape_of_a_profile_is_a_call(profile: Profile, shape: str, mode: Mode) -> None:
    for written, arguments in ARGUMENTS.values():
        text = "Go: " + shape.replace("A", written) + " done"
        message = parse(text, profile, arguments=mode)
        assert complete_calls(message) == [("ping", arguments)], text
        assert message.text == "Go:  done"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("profile", "shape"), SHAPES.values(), ids=SHAPES)
def test_arguments_that_are_no_object_are_none(profile: Profile, shape: str, mode: Mode) -> None:
    """A tool is not to run without what was meant."""
    for written in NO_OBJECTS:
        text = "Go: " + shape.replace("A", written) + " done"
        events = check_readings(partial(Engine, profile, TOOLS, arguments=mode), text)
        message = message_of(events)
        assert complete_calls(message) == [], text
        if mode == "whole":
            assert message.text == text


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("profile", "shape"), SHAPES.values(), ids=SHAPES)
def test_a_shape_reads_the_same_at_every_cut(profile: Profile, shape: str, mode: Mode) -> None:
    make = partial(Engine, profile, TOOLS, arguments=mode)
    check_readings(make, "a " + shape.replace("A", '"{\\"a\\": \\"x\\\\n\\"}"') + " b")


@pytest.mark.parametrize(
    ("profile", "text"),
    [
        pytest.param(DEFAULT, '{"name": "ping", "arguments": {}}', id="a name in the default"),
        pytest.param(GEMINI, '{"tool": {"function": "ping"}}', id="a wrapper for gemini"),
        pytest.param(OPENAI, '{"name": "ping", "arguments": {}}', id="a name for openai"),
        pytest.param(OPENAI, '{"id": "c1", "function": {"name": "ping"}}', id="an id first"),
        pytest.param(DEFAULT, '{"tool": {"function": "nobody"}}', id="an unknown tool"),
        pytest.param(DEFAULT, '{"tool": "ping"}', id="a wrapper that is a text"),
        pytest.param(OPENAI, '{"tool_calls": []}', id="an empty list"),
        pytest.param(OPENAI, '{"tool_calls": [1, 2]}', id="a list of numbers"),
        pytest.param(DEFAULT, '{"tool": oops ', id="no JSON"),
        pytest.param(DEFAULT, "{" + " " * MAX_SIGNATURE + '"function": "ping"}', id="far"),
        pytest.param(DEFAULT, 'f(x) { return [1]; } "tool": {{{"', id="code"),
    ],
)
def test_other_json_is_text_and_nobody_is_told(profile: Profile, text: str) -> None:
    told: list[str] = []
    for mode in MODES:
        message = parse(text, profile, arguments=mode, on_error=lambda why, _: told.append(why))
        assert message.text == text
        check_readings(partial(Engine, profile, TOOLS, arguments=mode), text)
    assert told == []


@pytest.mark.parametrize("mode", MODES)
def test_every_call_of_a_list_is_emitted_with_its_own_id(mode: Mode) -> None:
    text = (
        '{"tool_calls": [{"id": "a", "type": "function", "function": {"name": "ping"}}, '
        '{"id": "b", "function": {"name": "emit", "arguments": "{\\"tpl\\": \\"t\\"}"}}], "n": 1} x'
    )
    events = check_readings(partial(Engine, OPENAI, TOOLS, arguments=mode), text)
    message = message_of(events)
    assert [(call.id, call.name) for call in message.tool_calls] == [("a", "ping"), ("b", "emit")]
    assert message.text == " x"


def test_a_call_of_a_list_ends_with_its_element_and_one_by_itself_with_the_value() -> None:
    one = '{"tool": {"function": "ping"}}'
    for text, last in ((one, one), (f"[{one}, {one}]", one)):
        events = read(Engine(OPENAI, TOOLS), [text])
        end = max(n for n, event in enumerate(events) if isinstance(event, ToolCallEnd))
        assert "".join(event.raw for event in events[: end + 1]).endswith(last)


def test_a_live_call_opens_with_its_name() -> None:
    parser = Engine(DEFAULT, TOOLS, arguments="live")
    assert parser.feed('{"tool": {"function": "emit') == []
    (start,) = parser.feed('"')
    assert isinstance(start, ToolCallStart)


def test_live_arguments_stream_character_by_character() -> None:
    parser = Engine(DEFAULT, TOOLS, arguments="live")
    parser.feed('{"tool": {"function": "emit", "parameters": {"tpl": "x')
    for piece in ("y", " }]", "\\n", "é"):
        (delta,) = parser.feed(piece)
        assert isinstance(delta, ToolCallDelta)
        assert delta.arguments == piece


BROKEN = '{"tool": {"function": "emit", "parameters": {"tpl": "} ]", "n" 1, "s": "{[\\""}}}'


def test_a_broken_value_is_text_up_to_where_its_brackets_balance() -> None:
    told: list[BrokenCall] = []
    text = f'a {BROKEN} b {{"function": "ping"}}'
    message = parse(text, on_error=lambda _, segment: told.append(segment))
    assert message.text == f"a {BROKEN} b "
    assert complete_calls(message) == [("ping", {})]
    assert [(segment.text, segment.tool_name) for segment in told] == [(BROKEN, "emit")]


def test_a_live_call_that_breaks_is_incomplete_and_has_all_of_its_text() -> None:
    text = f'a {BROKEN} b {{"function": "ping"}}'
    told: list[str] = []
    make = partial(
        Engine, DEFAULT, TOOLS, arguments="live", on_error=lambda _, of: told.append(of.text)
    )
    message = message_of(check_readings(make, text))
    assert [(call.name, call.complete) for call in message.tool_calls] == [
        ("emit", False),
        ("ping", True),
    ]
    assert message.text == "a  b "
    assert set(told) == {BROKEN}


@pytest.mark.parametrize("place", [1, 4, 12, 30, 50, 58])
def test_a_cut_value_is_text_or_incomplete(place: int) -> None:
    text = 'a {"tool": {"function": "emit", "parameters": {"tpl": "x y"}}}'[:-place]
    assert parse(text).text == text
    for mode in MODES:
        events = check_readings(partial(Engine, DEFAULT, TOOLS, arguments=mode), text)
        assert complete_calls(message_of(events)) == []


@pytest.mark.parametrize("mode", MODES)
def test_calls_of_a_list_stand_where_the_list_is_cut(mode: Mode) -> None:
    one = '{"name": "ping", "args": {}}'
    for text, rest in ((f"[{one}, ", ""), (f'[{one}, {{"na', ', {"na')):
        make = partial(Engine, GEMINI, TOOLS, arguments=mode)
        message = message_of(check_readings(make, text))
        assert complete_calls(message) == [("ping", {})]
        assert message.text == rest


@pytest.mark.parametrize("mode", MODES)
def test_a_value_that_the_model_left_open_is_mended(mode: Mode) -> None:
    text = '{"tool": {"function": "emit", "parameters": {"tpl": "x", "n": 1}'
    for chunks in ([text], one_by_one(text)):
        machine = Engine(DEFAULT, TOOLS, arguments=mode, repair=True)
        events = [event for chunk in chunks for event in machine.feed(chunk)]
        (call,) = message_of(events + machine.finish(cut=False)).tool_calls
        assert (call.arguments, call.complete) == ({"tpl": "x", "n": 1}, True)
        assert call.repairs == ["closed 2 open brackets"]


def test_a_profile_goes_by_the_name_of_the_provider() -> None:
    assert find_profile("MISTRAL") is find_profile("grok") is find_profile("DeepSeek") is OPENAI
    assert find_profile("Gemini") is GEMINI
    others = ("ANTHROPIC", "KIMI", "QWEN", "OLLAMA", "LMSTUDIO", "ZHIPU", "MINIMAX", "x", None)
    assert {find_profile(name).name for name in others} == {"default"}


PIECES = soup(
    '{"tool": {"function": "emit", "parameters": {"tpl": "a\\n}"}}}',
    '[{"function": {"name": "ping", "arguments": "{\\"a\\": \\"x\\"}"}}, ',
    '{"tool_calls": [',
    '{"name": "ping", "args": {"k": [1, "]"]}}',
    '{"tool": ',
    '"parameters": {"n": ',
    "}}",
    "]}",
    "12px",
)


@settings(max_examples=70)
@given(
    text=PIECES,
    cuts=CUTS,
    mode=st.sampled_from(MODES),
    profile=st.sampled_from([DEFAULT, OPENAI, GEMINI]),
)
def test_the_laws_hold_on_any_text_at_any_cut(
    text: str, cuts: list[int], mode: Mode, profile: Profile
) -> None:
    make = partial(Engine, profile, TOOLS, arguments=mode)
    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])


def test_brackets_in_prose_leave_at_once() -> None:
    text = 'f(x) { return a[0] + {"k": [1]}; } [[{{ {" {"t'
    check_no_stall(partial(Engine, OPENAI, TOOLS), text, len('{"tool_calls":'))


HOSTILE = {
    "brackets": lambda size: "{[" * size,
    "signatures": lambda size: '{"tool":' * size,
    "lists of signatures": lambda size: '[{"tool":{' * size,
    "unknown tools": lambda size: '{"tool": {"function": "nobody"}} ' * size,
    "broken calls": lambda size: '{"function": "ping" oops} ' * size,
    "an open string": lambda size: '{"function": "ping", "x": "' + "y{" * size,
    "a list of calls": lambda size: "[" + '{"function": "ping"}, ' * size,
    "blanks": lambda size: ("{" + " " * 50) * size,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_time_grows_with_the_text_and_no_faster(make: Any) -> None:
    def run(size: int) -> None:
        text = make(size)
        chunks = [text[at : at + 64] for at in range(0, len(text), 64)]
        read(Engine(OPENAI, TOOLS), chunks)

    check_linear(run, 100, 1000, at_most=3, tries=3)
