"""Bare JSON: what is a call of a known tool, and what only looks like one."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_bounded_holdback, check_linear, check_readings, chunkings, cut_at, one_by_one
from laws.checks import read
from laws.strategies import CUTS, soup
from parsing.samples import complete_calls, message_of
from penstock.events import ToolCallDelta, ToolCallStart
from penstock.messages import AssistantMessage
from penstock.parsing import BrokenCall, Engine
from penstock.readers.bare_json import BareCalls
from penstock.readers.envelope import is_definition
from penstock.tools import Tool
from penstock.values.schema import Schema

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

TOOLS = [
    Tool("ping"),
    Tool(
        "write",
        parameters={
            "type": "object",
            "properties": {"path": {"type": "string"}, "mode": {"type": "integer"}},
            "required": ["path"],
        },
    ),
]
PING = '{"name": "ping", "arguments": {}}'
WRITE = '{"name": "write", "arguments": {"path": "a"}}'


def machine(mode: Mode = "whole", **options: Any) -> Engine:
    return Engine(BareCalls(), TOOLS, arguments=mode, **options)


def parse(text: str, mode: Mode = "whole", **options: Any) -> AssistantMessage:
    return message_of(read(machine(mode, **options), [text]))


CALLS: dict[str, tuple[str, str]] = {
    "the whole answer": (PING, ""),
    "the end of the answer": (f"Sure.\n{PING}", "Sure.\n"),
    "text behind it": (f"{PING} done", " done"),
    "a line with blanks": (f"Hm:\n  {PING}\nok", "Hm:\n  \nok"),
    "parameters": ('{"name": "ping", "parameters": {}}', ""),
    "arguments first": ('{"arguments": {}, "name": "ping"}', ""),
    "arguments in a string": ('{"name": "ping", "arguments": "{}"}', ""),
    "null": ('{"name": "ping", "arguments": null}', ""),
    "a tool's name": ('{"tool": "ping", "arguments": {}}', ""),
    "a tool around it": ('{"tool": {"name": "ping", "arguments": {}}}', ""),
    "a function's name": ('{"function": "ping", "parameters": {}}', ""),
    "tool_name": ('{"tool_name": "ping", "args": {}}', ""),
    "a type": ('{"type": "function", "name": "ping", "parameters": {}}', ""),
    "a type and a function": (
        '{"type": "function", "function": {"name": "ping", "arguments": {}}}', ""
    ),
    "an id": ('{"id": "c1", "name": "ping", "arguments": {}}', ""),
    "a list": (f"[{PING}]", ""),
    "a list over lines": (f"[\n  {PING}\n]\n", "\n"),
    "a list in an object": (
        '{"tool_calls": [{"function": {"name": "ping", "arguments": {}}}]}', ""
    ),
    "single quotes": ("{'name': 'ping', 'arguments': {}}", ""),
    "a fence": (f"Sure:\n```json\n{PING}\n```\nok", "Sure:\nok"),
    "a fence without a label": (f"```\n{PING}\n```", ""),
    "a fence with a long label": (f"```tool_call title=x\n{PING}\n```\n", ""),
    "a fence without an end": (f"```json\n{PING}\n", ""),
    "a fence of four": (f"````\n{PING}\n````\nok", "ok"),
    "a fence on one line": (f"```{PING}``` ok", " ok"),
    "a label on one line": (f"```json {PING}```", ""),
    "a fence with more in it": (f"```\n{PING}\nmore {PING}\n```\nok", f"\nmore {PING}\nok"),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("text", "content"), CALLS.values(), ids=CALLS)
def test_a_bare_call_is_read_at_every_cut(text: str, content: str, mode: Mode) -> None:
    message = message_of(check_readings(partial(machine, mode), text))
    assert complete_calls(message) == [("ping", {})]
    assert message.text == content


NO_CALLS = {
    "inside a line": f"Call {PING}",
    "behind a backtick": f"`{PING}`",
    "an unknown tool": '{"name": "nobody", "arguments": {}}',
    "another case": '{"name": "PING", "arguments": {}}',
    "no arguments": '{"name": "ping"}',
    "another key first": '{"x": 1, "name": "ping", "arguments": {}}',
    "another type": '{"type": "object", "name": "ping", "arguments": {}}',
    "a description": '{"name": "ping", "description": "x", "parameters": {}}',
    "a description behind": '{"name": "ping", "parameters": {}, "description": "x"}',
    "a description in the function": (
        '{"type": "function", "function": {"name": "ping", "description": "", "parameters": {}}}'
    ),
    "a schema": '{"name": "ping", "parameters": {"type": "object", "properties": {}}}',
    "a schema with its type last": (
        '{"name": "ping", "parameters": {"properties": {}, "required": [], "type": "object"}}'
    ),
    "a schema before the name": (
        '{"parameters": {"type": "object", "properties": {}}, "name": "ping"}'
    ),
    "a schema in a string": (
        '{"name": "ping", "parameters": "{\\"type\\": \\"object\\", \\"properties\\": {}}"}'
    ),
    "further down in a fence": f"```python\nx = 1\n{PING}\n```\n",
    "in a fence that is longer": f"````\n```\n{PING}\n```\n````\n",
    "no JSON": "{name: ping(){}}",
    "an empty list": '{"tool_calls": []}',
    "a piece": '{"name": "pi',
    "the beginning of a list": '[{"name": "ping',
    "a fence at the end": "```json\n",
    "half a fence": "``",
    "many backticks": "`" * 90,
}


@pytest.mark.parametrize("text", NO_CALLS.values(), ids=NO_CALLS)
def test_what_is_no_bare_call_is_text_and_nobody_is_told(text: str) -> None:
    told: list[str] = []
    make = partial(machine, on_error=lambda why, _: told.append(why))
    message = message_of(check_readings(make, text))
    assert message.text == text
    assert told == []


def test_a_definition_never_starts_a_live_call_where_it_can_be_known() -> None:
    for name in (
        "a description",
        "a schema",
        "a schema with its type last",
        "a schema in a string",
    ):
        events = check_readings(partial(machine, "live"), NO_CALLS[name])
        assert message_of(events).text == NO_CALLS[name]


def test_a_fence_that_ends_lets_calls_be_seen_again() -> None:
    text = f"```python\n{{}}\n```\n{PING}\n```\n[]\n```\n{PING}"
    assert complete_calls(parse(text)) == [("ping", {})] * 2


SEVERAL = {
    "lines": f"{WRITE}\n{PING}",
    "empty lines": f"{WRITE}\n\n{PING}",
    "commas": f"{WRITE}, {PING}",
    "commas and lines": f"{WRITE},\n{PING}",
    "a list": f"[{WRITE}, {PING}]",
    "a fence": f"```json\n{WRITE}\n{PING}\n```",
    "two fences": f"```\n{WRITE}\n```\n```\n{PING}\n```",
    "a list of lists": f"[{WRITE}]\n[{PING}]",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", SEVERAL.values(), ids=SEVERAL)
def test_several_objects_are_several_calls(text: str, mode: Mode) -> None:
    message = message_of(check_readings(partial(machine, mode), text))
    assert complete_calls(message) == [("write", {"path": "a"}), ("ping", {})]
    assert message.text == ""


def test_what_follows_a_call_and_is_none_is_text() -> None:
    text = f'{PING}\n{{"name": "nobody", "arguments": {{}}}}\n{PING}'
    message = message_of(check_readings(machine, text))
    assert complete_calls(message) == [("ping", {})] * 2
    assert message.text == '\n{"name": "nobody", "arguments": {}}\n'


def test_what_is_cut_behind_a_call_is_text() -> None:
    for cut in ('{"na', '[{"name": "ping", "arg', "[", '{"name": "ping"'):
        message = message_of(check_readings(machine, f"{PING}\n{cut}"))
        assert complete_calls(message) == [("ping", {})]
        assert message.text == f"\n{cut}"


def test_a_live_call_opens_when_its_arguments_have_begun() -> None:
    parser = machine("live")
    assert parser.feed('{"name": "write", "arguments": {"path": ') == []
    start, *_ = parser.feed('"a')
    assert isinstance(start, ToolCallStart)
    for piece in ("b", " }", "\\n", "é"):
        (delta,) = parser.feed(piece)
        assert isinstance(delta, ToolCallDelta)
        assert delta.arguments == piece


def test_an_argument_that_a_schema_could_have_waits_for_the_next() -> None:
    parser = machine("live")
    assert parser.feed('{"name": "ping", "arguments": {"type": "object", "title": "t"') == []
    assert any(isinstance(event, ToolCallStart) for event in parser.feed(', "x": 1,'))


def test_a_tool_may_have_arguments_that_are_called_like_parts_of_a_schema() -> None:
    declared = Schema({"properties": {"type": {}, "properties": {}}})
    assert is_definition({"type": "object", "properties": {}})
    assert not is_definition({"type": "object", "properties": {}}, declared)
    assert not is_definition({"type": "object"})


def test_a_broken_call_is_text_and_told_and_hides_nothing() -> None:
    told: list[BrokenCall] = []
    broken = '{"name": "write", "arguments": {"path": "a" "mode": 1}}'
    message = parse(f"{broken}\n{PING}", on_error=lambda _, segment: told.append(segment))
    assert message.text == broken + "\n"
    assert complete_calls(message) == [("ping", {})]
    assert [segment.text for segment in told] == [broken]


@pytest.mark.parametrize("mode", MODES)
def test_a_cut_call_is_text_or_incomplete(mode: Mode) -> None:
    for place in range(1, len(WRITE)):
        events = check_readings(partial(machine, mode), f"a\n{WRITE[:-place]}", [])
        message = message_of(events)
        assert complete_calls(message) == []
        if mode == "whole":
            assert message.text == f"a\n{WRITE[:-place]}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```"])
def test_a_call_that_the_model_left_open_is_mended(around: str, mode: Mode) -> None:
    text = around.replace("{}", WRITE[:-1])
    for chunks in chunkings(text):
        parser = machine(mode, repair=True)
        events = [event for chunk in chunks for event in parser.feed(chunk)]
        (call,) = message_of(events + parser.finish(cut=False)).tool_calls
        assert (call.arguments, call.complete) == ({"path": "a"}, True)
        assert call.repairs


def test_what_is_no_call_is_not_mended_to_one() -> None:
    for text in (
        '{"name": "ping"',
        '{"name": "ping", "description": "x", "parameters": {}',
        '{"na',
    ):
        parser = machine(repair=True)
        message = message_of(parser.feed(text) + parser.finish(cut=False))
        assert message.text == text


def test_trim_keeps_the_start_of_a_line() -> None:
    assert complete_calls(parse(f"a\n\n{PING}\n\nb", trim=True)) == [("ping", {})]
    assert parse(f"a {PING}", trim=True).tool_calls == []


def test_what_is_no_call_in_a_list_of_calls_is_dropped_and_told() -> None:
    unknown = '{"name": "nobody", "arguments": {"a": [{"b": "]"}]}}'
    for text in (f"[{PING}, {unknown}, {PING}]", f'{{"tool_calls": [{PING}, {unknown}, {PING}]}}'):
        for mode in MODES:
            told: list[str] = []
            parser = machine(mode, on_error=lambda _, found, told=told: told.append(found.text))
            message = message_of(read(parser, one_by_one(text)))
            assert complete_calls(message) == [("ping", {}), ("ping", {})]
            assert (message.text, told) == ("", [f", {unknown}"])


def test_the_first_object_says_whether_a_list_is_one_of_calls() -> None:
    text = f'[{{"name": "nobody", "arguments": {{}}}}, {PING}]'
    assert parse(text).text == text


PIECES = soup(
    PING,
    WRITE,
    "```json\n",
    "\n```\n",
    "````",
    '{"name": "ping", "arguments": {"type": "object", ',
    '"properties": {}}}',
    '[{"function": {"name": "write", "arguments": "{\\"path\\": \\"x\\"}"}}',
    '{"tool_calls": [',
    ', "description": ""}',
    "\n",
    "\n{",
)


@settings(max_examples=80)
@given(text=PIECES, cuts=CUTS, mode=st.sampled_from(MODES), trim=st.booleans())
def test_the_laws_hold_on_any_text_at_any_cut(
    text: str,
    cuts: list[int],
    mode: Mode,
    trim: bool,  # noqa: FBT001
) -> None:
    make = partial(machine, mode, trim=trim)
    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])


def test_little_is_held_back_before_it_is_known_to_be_a_call() -> None:
    text = "```" + "x" * 500 + "\n```\n" + "\n" * 400 + "{" + " " * 500 + "[\n" * 300
    check_bounded_holdback(machine, text, 700)


HOSTILE = {
    "brackets": lambda size: "{[" * size,
    "lines of brackets": lambda size: "\n{" * size,
    "names": lambda size: '\n{"name": ' * size,
    "nested": lambda size: '\n{"arguments":' * size,
    "fences": lambda size: "```\n" * size,
    "backticks": lambda size: "`" * size,
    "open fences": lambda size: "\n```json\n{" * size,
    "calls in a row": lambda size: f"{PING}\n" * size,
    "an open call": lambda size: '{"name": "ping", "arguments": {"x": ["' + "y{" * size,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_time_grows_with_the_text_and_no_faster(make: Any) -> None:
    def run(size: int) -> None:
        text = make(size)
        read(machine(), [text[at : at + 64] for at in range(0, len(text), 64)])

    check_linear(run, 100, 1000, at_most=3, tries=3)
