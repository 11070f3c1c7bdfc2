"""The parser over calls in JSON: vectors and laws, whole and live, at every cut."""

from __future__ import annotations

import gc
import json
import weakref
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    check_linear,
    check_no_leak,
    check_no_stall,
    check_readings,
    chunkings,
    cut_at,
    one_by_one,
)
from laws.checks import read
from laws.strategies import CUTS, soup
from parsing.samples import FENCES, HERMES, TOOLS, complete_calls, message_of, parse
from penstock.errors import UsageError
from penstock.events import ToolCallDelta, ToolCallStart
from penstock.formats.auto import AutoCalls
from penstock.parsing import MAX_READ_AGAIN, BrokenCall, Engine, Reasoning
from penstock.parsing import engine as machine_module
from penstock.tools import Tool, read_tools

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "vectors" / "json-mix.jsonl").read_text().splitlines()
]


def folded(text: str) -> str:
    return "".join(text.split())


REPEATED = {"jm-035"}
"""Vectors with an argument that comes again and differs: in `live` such a call is incomplete."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['id']}: {vector['why']}")
def test_a_vector_reads_the_same_whole_by_characters_and_at_every_cut(
    vector: dict[str, Any], mode: Mode
) -> None:
    syntax = HERMES if vector["format"] == "json-mix" else FENCES
    make = partial(Engine, syntax, read_tools(vector["tools"]), arguments=mode)
    expected = [(call["name"], call["arguments"]) for call in vector["expect"]["calls"]]
    content = vector["expect"]["content"]
    message = message_of(check_readings(make, vector["text"]))
    if mode == "live" and vector["id"] in REPEATED:
        expected = []
    assert complete_calls(message) == expected
    if mode == "whole" and vector["content_mode"] == "exact":
        assert message.text == content
    elif mode == "whole":
        assert folded(message.text) == folded(content)


PIECES = soup(
    "<tool_call>",
    "</tool_call>",
    '{"name": "write", "arguments": {"path": "a", "mode": "3"}}',
    '{"name": "write", "arguments": {',
    '"path": "he said \\"hi\\" \\n \\ud83d\\ude00"',
    '"parameters": {"s": "y"}',
    '{"arguments": {"path": "b", "k": [1, {"z": 2}]}, "name": "write"}',
    '{"name": "write", "arguments": "{\\"path\\": 1}"}',
    "}}",
    "// c\n",
)


@settings(max_examples=70)
@given(
    text=st.one_of(PIECES, PIECES.map(lambda text: "<tool_call>" + text)),
    cuts=CUTS,
    mode=st.sampled_from(MODES),
    trim=st.booleans(),
)
def test_the_laws_hold_on_any_text_at_any_cut(
    text: str,
    cuts: list[int],
    mode: Mode,
    trim: bool,  # noqa: FBT001
) -> None:
    make = partial(Engine, HERMES, TOOLS, arguments=mode, trim=trim)
    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])


@given(text=PIECES, mode=st.sampled_from(MODES))
def test_a_complete_call_is_the_same_in_both_modes(text: str, mode: Mode) -> None:
    whole, live = (parse(text, arguments=mode) for mode in MODES)
    del mode
    if all(call.complete for call in live.tool_calls):
        assert complete_calls(whole) == complete_calls(live)


def test_nothing_is_held_back_but_what_may_begin_a_marker() -> None:
    text = "a < b <tool <<tool_cal </tool_call> <t"
    check_no_stall(partial(Engine, HERMES), text, len("<tool_call>"))


@pytest.mark.parametrize("mode", MODES)
def test_no_marker_shows_beside_a_call(mode: Mode) -> None:
    make = partial(Engine, HERMES, TOOLS, arguments=mode)
    text = 'Hi <tool_call>{"name": "f"}</tool_call> and <tool_call>{"name": "g"}\n</tool_call>.'
    for chunks in chunkings(text):
        check_no_leak(make, chunks, ["<tool_call>", "</tool_call>", "tool_call"])


def test_live_arguments_stream_character_by_character() -> None:
    parser = Engine(HERMES, TOOLS, arguments="live")
    parser.feed('<tool_call>{"name": "write", "arguments": {"path": "')
    deltas = [e for piece in ("a", "/b", "\\n", "é") for e in parser.feed(piece)]
    assert [delta.arguments for delta in deltas if isinstance(delta, ToolCallDelta)] == [
        '{"path":"',
        "a",
        "/b",
        "\\n",
        "é",
    ]


def test_a_live_call_starts_when_its_name_is_known_and_its_arguments_begin() -> None:
    parser = Engine(HERMES, TOOLS, arguments="live")
    assert parser.feed('<tool_call>{"id": "c7", "name": "write", "arguments": ') == []
    (start,) = parser.feed("{")
    assert isinstance(start, ToolCallStart)
    assert (start.id, start.name) == ("c7", "write")


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        pytest.param(
            '{"name": "write", "parameters": {"path": "a"}}', {"path": "a"}, id="parameters"
        ),
        pytest.param('{"tool_name": "write", "args": {"path": "a"}}', {"path": "a"}, id="args"),
        pytest.param('{"name": "write", "input": {"path": "a"}}', {"path": "a"}, id="input"),
        pytest.param('{"input": {"mode": "7"}, "name": "write"}', {"mode": 7}, id="name behind"),
        pytest.param(
            '{"name": "write", "arguments": "{\\"path\\": \\"a\\", \\"mode\\": \\"7\\"}"}',
            {"path": "a", "mode": 7},
            id="arguments inside a string",
        ),
        pytest.param('{"name": "write", "arguments": ""}', {}, id="an empty string"),
        pytest.param(
            '{"name": "write", "arguments": {"unit": " KG "}}', {"unit": "kg"}, id="an enum"
        ),
        pytest.param(
            "{'name': 'write', 'arguments': {'path': 'say \"hi\"'}}",
            {"path": 'say "hi"'},
            id="single quotes",
        ),
        pytest.param(
            '{"name": "write", "arguments": {"path": "\\u00e9\\ud83d\\ude00\\/"}}',
            {"path": "é😀/"},
            id="escapes",
        ),
        pytest.param(
            '{"name": "write", "arguments": {"path": "a\nb\tc"}}',
            {"path": "a\nb\tc"},
            id="raw controls",
        ),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_body_is_read_in_any_of_its_shapes(
    body: str, arguments: dict[str, Any], mode: Mode
) -> None:
    make = partial(Engine, HERMES, TOOLS, arguments=mode)
    events = check_readings(make, f"<tool_call>{body}</tool_call>")
    assert complete_calls(message_of(events)) == [("write", arguments)]


TWO = [("write", {"path": "a"}), ("ping", {})]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            '[{"name": "write", "arguments": {"path": "a"}}, {"name": "ping"}]', id="a list"
        ),
        pytest.param('{"name": "write", "arguments": {"path": "a"}}\n{"name": "ping"}', id="lines"),
        pytest.param(
            '{"name": "write", "arguments": {"path": "a"}}; {"name": "ping"}', id="semicolons"
        ),
        pytest.param(
            '{"name": "write", "arguments": {"path": "a"}}}],{"name": "ping"}', id="surplus"
        ),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_several_calls_of_one_body_are_all_read(body: str, mode: Mode) -> None:
    make = partial(Engine, HERMES, TOOLS, arguments=mode)
    events = check_readings(make, f"<tool_call>{body}</tool_call>")
    assert complete_calls(message_of(events)) == TWO


BROKEN = {
    "no JSON": "<tool_call>write it</tool_call>",
    "an empty body": "<tool_call></tool_call>",
    "a scalar": "<tool_call>12</tool_call>",
    "a list of scalars": "<tool_call>[1, 2]</tool_call>",
    "no name": '<tool_call>{"arguments": {}}</tool_call>',
    "an empty name": '<tool_call>{"name": "", "arguments": {}}</tool_call>',
    "a name that is a number": '<tool_call>{"name": 3}</tool_call>',
    "arguments that are a list": '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
    "arguments that are a number": '<tool_call>{"name": "f", "arguments": 1}</tool_call>',
    "arguments that are a text": '<tool_call>{"name": "f", "arguments": "hm"}</tool_call>',
    "a missing comma": '<tool_call>{"name": "f" "arguments": {}}</tool_call>',
    "a cut body": '<tool_call>{"name": "f", "arguments": {"a": "x',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_body_that_is_no_call_comes_back_as_text_and_is_told(text: str) -> None:
    told: list[tuple[str, BrokenCall]] = []
    message = parse(f"a {text} b", on_error=lambda why, segment: told.append((why, segment)))
    assert message.text == f"a {text} b"
    assert message.tool_calls == []
    assert len(told) == 1
    assert told[0][1].text.startswith("<tool_call>")


def test_a_broken_call_does_not_hide_the_next() -> None:
    for broken in BROKEN.values():
        message = parse(broken + '<tool_call>{"name": "ping"}</tool_call>')
        assert complete_calls(message) == [("ping", {})]
        is_empty = broken == "<tool_call></tool_call>"
        assert message.text == ("" if is_empty else broken)


def test_a_live_call_that_breaks_is_incomplete_and_its_end_marker_is_dropped() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": "x", "b" 1}}</tool_call> on'
    message = parse(text, arguments="live")
    (call,) = message.tool_calls
    assert (call.arguments, call.complete) == ({"a": "x"}, False)
    assert "tool_call" not in message.text
    assert message.text.endswith(" on")


def test_an_error_handler_that_raises_does_not_end_the_stream() -> None:
    def fail(why: str, segment: BrokenCall) -> None:
        raise ValueError(why, segment)

    assert parse("<tool_call>x", on_error=fail).text == "<tool_call>x"


def test_trim_keeps_white_space_that_touches_a_call_out_of_the_text() -> None:
    text = 'One. \n<tool_call>{"name": "ping"}</tool_call>\n\n two \n'
    for chunks in chunkings(text):
        message = message_of(read(Engine(HERMES, trim=True), chunks))
        assert message.text == "One.two \n"
    assert parse("a \n<tool_call>x", trim=True).text == "a \n<tool_call>x"


def test_ids_come_from_the_caller_where_the_wire_has_none() -> None:
    numbers = iter(range(100))
    message = parse(
        '<tool_call>[{"name": "a"}, {"name": "b", "id": "x9"}]', ids=lambda: f"id{next(numbers)}"
    )
    assert [call.id for call in message.tool_calls] == ["id0", "x9"]


def test_feeding_after_the_end_is_a_mistake() -> None:
    parser = Engine(HERMES)
    parser.finish()
    with pytest.raises(UsageError):
        parser.feed("x")
    with pytest.raises(UsageError):
        parser.finish()


def test_markup_behind_the_last_call_is_in_rest() -> None:
    parser = Engine(HERMES)
    parser.feed('<tool_call>{"name": "ping"}\n</tool_call>')
    parser.finish()
    assert parser.rest == "\n</tool_call>"


# --- hostile ---


def test_what_is_no_call_is_read_again_a_limited_number_of_times() -> None:
    text = '<tool_call>{"a": "' * 200
    message = parse(text)
    assert message.text == text
    # A call inside a string is found when what holds the string turns out to be no call.
    call = "<tool_call>{'name': 'ping'}</tool_call>"
    broken = f'<tool_call>{{"a": "{call}" oops '
    for times in (MAX_READ_AGAIN, MAX_READ_AGAIN + 5):
        found = parse(broken * times)
        assert len(found.tool_calls) == MAX_READ_AGAIN
        assert found.text.endswith(broken if times > MAX_READ_AGAIN else '"" oops ')


def test_a_call_over_its_limit_is_text_or_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "MAX_CALL", 100)
    text = '<tool_call>{"name": "f", "arguments": {"a": "' + "x" * 500
    ways = [one_by_one(text), cut_at(text, range(0, len(text), 7))]
    assert message_of(check_readings(partial(Engine, HERMES), text, ways)).text == text
    live = check_readings(partial(Engine, HERMES, arguments="live"), text, ways)
    (call,) = message_of(live).tool_calls
    assert not call.complete


def test_a_call_of_just_the_limit_is_read_at_any_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    body = '<tool_call>{"name": "f", "arguments": {"a": "xxxx"}}</tool_call>'
    for limit in (len(body) - 1, len(body), len(body) + 1):
        monkeypatch.setattr(machine_module, "MAX_CALL", limit)
        for mode in MODES:
            check_readings(partial(Engine, HERMES, arguments=mode), body + " on")


HOSTILE = {
    "text without a marker": lambda size: "plain words " * size,
    "nothing but first characters": lambda size: "<" * (10 * size),
    "an open call": lambda size: '<tool_call>{"name": "f", "arguments": {"a": "' + "x" * 10 * size,
    "many calls": lambda size: '<tool_call>{"name": "f"}</tool_call>' * size,
    "many broken calls": lambda size: "<tool_call>{oops</tool_call>" * size,
    "many keys": lambda size: '<tool_call>{"name": "f", "arguments": {' + '"k": 1, ' * size,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("mode", MODES)
def test_time_grows_with_the_text_and_no_faster(make: Any, mode: Mode) -> None:
    def run(size: int) -> None:
        text = make(size)
        read(
            Engine(HERMES, TOOLS, arguments=mode),
            [text[at : at + 64] for at in range(0, len(text), 64)],
        )

    check_linear(run, 400, 4000, at_most=3, tries=3)


def test_text_that_no_schema_speaks_of_stays_text() -> None:
    tool = Tool(
        "env", parameters={"properties": {"vars": {"type": "object"}, "l": {"type": "array"}}}
    )
    body = '{"name": "env", "arguments": {"vars": {"PORT": "8080", "on": "true"}, "l": ["5"]}}'
    machine = Engine(HERMES, [tool])
    message = message_of(read(machine, [f"<tool_call>{body}</tool_call>"]))
    expected = {"vars": {"PORT": "8080", "on": "true"}, "l": ["5"]}
    assert message.tool_calls[0].arguments == expected


def test_an_end_marker_behind_the_next_start_marker_is_not_the_last_calls() -> None:
    text = '<tool_call>[{"name": "write"}<tool_call></tool_call>x'
    for chunks in chunkings(text):
        message = message_of(read(Engine(HERMES, TOOLS), chunks))
        assert message.text == "<tool_call></tool_call>x"


@pytest.mark.parametrize("body", ["bad", "{}", " y "])
def test_many_broken_calls_in_one_piece_stay_linear(body: str) -> None:
    def run(size: int) -> None:
        machine = Engine(HERMES, TOOLS)
        machine.feed(f"<tool_call>{body}</tool_call>" * size)
        machine.finish()

    check_linear(run, 200, 2_000, at_most=4, tries=3)


def test_a_mode_that_is_none_is_refused() -> None:
    wrong: Any = "Live"
    with pytest.raises(UsageError, match="Live"):
        Engine(HERMES, TOOLS, arguments=wrong)


def test_a_piece_of_a_cut_fence_is_no_content() -> None:
    message = message_of(read(Engine(FENCES, TOOLS), ['```tool_call\n{"name": "write"}\n``']))
    assert (message.text, len(message.tool_calls)) == ("", 1)


@pytest.mark.parametrize("mode", MODES)
def test_what_is_told_has_the_text_that_is_not_shown_too(mode: Mode) -> None:
    text = "<tool_call>{<think>p"
    for chunks in chunkings(text):
        told: dict[str, BrokenCall] = {}
        machine = Engine(
            HERMES,
            TOOLS,
            arguments=mode,
            reasoning=Reasoning("r", ("<think>",), ("</think>",), recurs=True),
            on_error=told.__setitem__,
        )
        read(machine, chunks)
        assert [segment.text for segment in told.values()] == [text]


def test_a_mended_call_has_the_same_id_in_both_modes() -> None:
    text = '<tool_call>{"name": "write", "arguments": {"path": "a'
    for mode in MODES:
        machine = Engine(HERMES, TOOLS, arguments=mode, repair=True)
        (call,) = message_of([*machine.feed(text), *machine.finish(cut=False)]).tool_calls
        assert (call.id, call.complete) == ("call_1", True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reads", ["one format", "any format"])
def test_a_finished_parser_goes_at_once_with_whoever_held_it(mode: Mode, reads: str) -> None:
    def complain(why: str, segment: BrokenCall) -> None:
        del why, segment

    syntax = HERMES if reads == "one format" else AutoCalls().syntax(read_tools(TOOLS))
    machine = Engine(syntax, read_tools(TOOLS), arguments=mode, on_error=complain)
    machine.feed('Before <tool_call>{"name": "get_weather", "argu')
    machine.finish()
    held = weakref.ref(complain)
    was_enabled = gc.isenabled()
    gc.disable()  # It would find what is left, and hide that there was anything.
    try:
        del machine, syntax, complain
        assert held() is None
    finally:
        if was_enabled:
            gc.enable()
