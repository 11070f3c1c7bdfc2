"""Segments between sentinels: what is a call, what is text, at every cut and in both modes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    check_bounded_holdback,
    check_linear,
    check_monotone,
    check_no_leak,
    check_no_stall,
    check_readings,
    chunkings,
    cut_at,
    one_by_one,
)
from laws.checks import read
from laws.strategies import CUTS, soup
from parsing.samples import complete_calls, message_of
from penstock.events import Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from penstock.formats.sentinel import SENTINEL
from penstock.messages import AssistantMessage
from penstock.parsing import BrokenCall, Engine
from penstock.readers import sentinel as sentinel_module
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

TOOLS = [
    Tool("write_file"),
    Tool("edit_file"),
    Tool("run_bash"),
    Tool("add", parameters={"properties": {"a": {"type": "integer"}, "s": {"type": "string"}}}),
    Tool("free"),
]

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "vectors" / "sentinel.jsonl").read_text().splitlines()
]


def parse(text: str, tools: list[Tool] = TOOLS, **options: Any) -> AssistantMessage:
    return message_of(read(SENTINEL.parser(tools, **options), [text]))


def segment(header: str, body: str) -> str:
    return f"[[SEG_START {header}]]{body}[[SEG_END]]"


def expected_text(vector: dict[str, Any]) -> str:
    shown = [one["content"] for one in vector["expect_segments"] if one["segment_type"] == "text"]
    return "".join(shown)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['id']}: {vector['why']}")
def test_a_vector_reads_the_same_whole_by_characters_and_at_every_cut(
    vector: dict[str, Any], mode: Mode
) -> None:
    tools = [Tool(name) for name in vector["tools"]]
    make = partial(SENTINEL.parser, tools, arguments=mode)
    message = message_of(check_readings(make, vector["text"]))
    if vector["expect_invocations"] is None:
        assert complete_calls(message) == []
        return
    assert complete_calls(message) == [
        (call["name"], call["arguments"]) for call in vector["expect_invocations"]
    ]
    assert message.text == expected_text(vector)


PIECES = soup(
    "[[SEG_START ",
    "[[SEG_END]]",
    '{"type":"write_file","path":"a"}]]',
    '{"type":"run_bash","command":"ls"}]]',
    '{"type":"tool","tool_name":"add"}]]',
    '{"type":"tool","tool_name":"add","arguments":{"a":"2"}}]]',
    '{"type":"tool"}]]',
    '{"type":"text"}]]',
    '{"type":"reasoning"}]]',
    '{"type":"dance"}]]',
    '{"a": "3", "s": "x [[SEG_END]] \\n"}',
    '[{"name":"add","arguments":{"s":"q"}}]',
    '{"tools":[{"function":{"name":"add","arguments":{"s":"q"}}},{"a":1}]}',
    '<arg name="s">x</arg>',
)


@settings(max_examples=70)
@given(
    text=st.one_of(PIECES, PIECES.map(lambda text: "[[SEG_START " + text + "[[SEG_END]]")),
    cuts=CUTS,
    mode=st.sampled_from(MODES),
    trim=st.booleans(),
    repair=st.booleans(),
)
def test_the_laws_hold_on_any_text_at_any_cut(
    text: str,
    cuts: list[int],
    mode: Mode,
    trim: bool,  # noqa: FBT001
    repair: bool,  # noqa: FBT001
) -> None:
    make = partial(SENTINEL.parser, TOOLS, arguments=mode, trim=trim, repair=repair)
    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])


@given(text=PIECES)
def test_a_complete_call_is_the_same_in_both_modes(text: str) -> None:
    whole, live = (parse(text, arguments=mode) for mode in MODES)
    if all(call.complete for call in live.tool_calls):
        assert complete_calls(whole) == complete_calls(live)


# --- headers ---


@pytest.mark.parametrize(
    ("header", "arguments"),
    [
        pytest.param('{"type":"write_file","path":"a]]b"}', {"path": "a]]b"}, id="brackets in it"),
        pytest.param(
            '{"path":"[[SEG_END]]","type":"write_file"}', {"path": "[[SEG_END]]"}, id="end"
        ),
        pytest.param(' \n{ "type" : " Write_File " } \t', {}, id="white space and case"),
        pytest.param('{"type":"write_file","path":7}', {}, id="a path that is no text"),
        pytest.param('{"type":"write_file","path":"a","path":"b"}', {"path": "b"}, id="twice"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_header_is_read_by_its_own_grammar(
    header: str, arguments: dict[str, Any], mode: Mode
) -> None:
    for chunks in chunkings(f"[[SEG_START{header}]]x[[SEG_END]]"):
        message = message_of(read(SENTINEL.parser(TOOLS, arguments=mode), chunks))
        assert complete_calls(message) == [("write_file", {**arguments, "content": "x"})]
        assert message.text == ""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[[SEG_START]] x", id="no header"),
        pytest.param("[[SEG_STARTED {}]]x", id="another word"),
        pytest.param('[[SEG_START {"type":"write_file"}', id="a header without its end"),
        pytest.param('[[SEG_START {"type":"write_file"}]', id="a header with half of its end"),
        pytest.param('[[SEG_START {"type":"write_file","path":"a"}]]', id="nothing behind it"),
        pytest.param('[[SEG_START {"type":"text"}]]', id="no text behind it"),
        pytest.param(
            '[[SEG_START {"type":"write_file"} x]]y[[SEG_END]]', id="words behind the JSON"
        ),
        pytest.param('[[SEG_START ["type"]]]y[[SEG_END]]', id="a list"),
        pytest.param('[[SEG_START {"type":3}]]y[[SEG_END]]', id="a type that is no text"),
        pytest.param("[[SEG_START {}]]y[[SEG_END]]", id="no type"),
        pytest.param(
            '[[SEG_START {"type":"tool","tool_name":"x"}]]{}[[SEG_END]]', id="no such tool"
        ),
        pytest.param('[[SEG_START {"type":"tool"}]]plain[[SEG_END]]', id="no name at all"),
        pytest.param(
            '[[SEG_START {"type":"tool","tool_name":"add","arguments":[1]}]][[SEG_END]]',
            id="arguments that are no object",
        ),
        pytest.param('[[SEG_START {"type":"tool","tool_name":"add"}]]words[[SEG_END]]', id="words"),
        pytest.param('[[SEG_START {"type":"tool","tool_name":"add"}]][1][[SEG_END]]', id="numbers"),
        pytest.param("[[SEG_START" + " " * 300 + '{"type":"text"}]]y[[SEG_END]]', id="too far"),
    ],
)
def test_what_is_no_segment_is_text(text: str) -> None:
    for chunks in chunkings(text):
        assert message_of(read(SENTINEL.parser(TOOLS), chunks)).text == text


def test_reading_goes_on_behind_a_header_that_is_none() -> None:
    text = '[[SEG_START {"type":"dance"}]]' + segment('{"type":"run_bash"}', "ls")
    message = parse(text)
    assert message.text == '[[SEG_START {"type":"dance"}]]'
    assert complete_calls(message) == [("run_bash", {"command": "ls"})]


def test_a_segment_inside_a_header_that_breaks_is_found() -> None:
    text = '[[SEG_START {"type":' + segment('{"type":"run_bash"}', "ls")
    assert complete_calls(parse(text)) == [("run_bash", {"command": "ls"})]


def test_only_tools_that_are_known_are_called() -> None:
    text = segment('{"type":"write_file","path":"a"}', "x")
    assert parse(text, [Tool("add")]).text == text
    assert complete_calls(parse(text, [Tool("Write_File")]))[0][0] == "Write_File"


def test_a_header_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentinel_module, "MAX_HEADER", 60)
    for size, is_call in ((5, True), (60, False)):
        text = segment(f'{{"type":"write_file","path":"{"p" * size}"}}', "x")
        for chunks in chunkings(text):
            message = message_of(read(SENTINEL.parser(TOOLS), chunks))
            assert bool(message.tool_calls) == is_call
    endless = '[[SEG_START {"type":"' + "x" * 500
    check_bounded_holdback(partial(SENTINEL.parser, TOOLS), endless, 60 + len("[[SEG_START"))


# --- text and thoughts ---


def test_text_and_thoughts_are_shown_without_their_markers() -> None:
    text = "a" + segment('{"type":"text"}', " b ") + segment('{"type":"reasoning"}', "hm") + "c"
    for chunks in chunkings(text):
        message = message_of(read(SENTINEL.parser(TOOLS), chunks))
        assert (message.text, message.thinking) == ("a b c", "hm")


def test_inside_text_nothing_is_a_call() -> None:
    inner = '[[SEG_START {"type":"run_bash"}]]rm'
    assert parse(segment('{"type":"text"}', inner)).text == inner


@pytest.mark.parametrize("mode", MODES)
def test_text_that_is_cut_is_shown_up_to_the_cut(mode: Mode) -> None:
    text = '[[SEG_START {"type":"reasoning"}]]so far [[SEG_'
    assert parse(text, arguments=mode).thinking == "so far [[SEG_"


def test_behind_a_call_no_thought_is_the_first_thing() -> None:
    text = segment('{"type":"run_bash"}', "ls") + "<think>hm</think>"
    assert parse(text).text == "<think>hm</think>"


# --- files and commands ---


@pytest.mark.parametrize(
    ("header", "body", "arguments"),
    [
        pytest.param('{"type":"run_bash"}', "ls", {"command": "ls"}, id="the body"),
        pytest.param('{"type":"run_bash","cmd":"a"}', "ls", {"command": "ls"}, id="before cmd"),
        pytest.param(
            '{"type":"run_bash","command":"a","cmd":"b"}', "", {"command": "a"}, id="header"
        ),
        pytest.param('{"type":"run_bash","cmd":"b"}', " \n", {"command": "b"}, id="a blank body"),
        pytest.param(
            '{"type":"run_bash","cmd":"b"}', " \nls\n", {"command": " \nls\n"}, id="exact"
        ),
        pytest.param('{"type":"run_bash"}', "", {}, id="none"),
        pytest.param(
            '{"type":"run_bash","cmd":"b"}',
            " " * 300,
            {"command": " " * 300},
            id="much white space",
        ),
        pytest.param(
            '{"type":"run_bash","background":"no","timeout_seconds":"30"}',
            "x",
            {"background": False, "timeout_seconds": 30, "command": "x"},
            id="options as text",
        ),
        pytest.param(
            '{"type":"run_bash","background":1,"timeoutSeconds":5}',
            "x",
            {"background": True, "timeout_seconds": 5, "command": "x"},
            id="options by another name",
        ),
        pytest.param(
            '{"type":"run_bash","background":"perhaps","timeout_seconds":-4}',
            "x",
            {"command": "x"},
            id="options that make no sense",
        ),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_command_is_the_body_or_stands_in_the_header(
    header: str, body: str, arguments: dict[str, Any], mode: Mode
) -> None:
    text = segment(header, body)
    for chunks in chunkings(text):
        message = message_of(read(SENTINEL.parser(TOOLS, arguments=mode), chunks))
        assert complete_calls(message) == [("run_bash", arguments)]


def test_a_file_is_verbatim_up_to_the_first_end_marker_in_any_case() -> None:
    body = '\n  "q" \\ [[SEG_EN [[SEG_START {"type":"text"}]] İ😀\n'
    text = f'[[SEG_START {{"type":"write_file","path":"a"}}]]{body}[[Seg_End]]!'
    for chunks in chunkings(text):
        message = message_of(read(SENTINEL.parser(TOOLS, arguments="live"), chunks))
        assert complete_calls(message) == [("write_file", {"path": "a", "content": body})]
        assert message.text == "!"


def test_a_body_that_is_no_plain_string_for_its_schema_is_fitted_to_it() -> None:
    tool = Tool("edit_file", parameters={"properties": {"patch": {"enum": ["P", "Q"]}}})
    message = parse(segment('{"type":"edit_file"}', " p "), [tool])
    assert complete_calls(message) == [("edit_file", {"patch": "P"})]


@pytest.mark.parametrize("held", ["", "[", "[[SEG_E"])
def test_a_file_that_is_cut_is_shown_up_to_the_cut_and_is_no_call(held: str) -> None:
    text = f'[[SEG_START {{"type":"write_file","path":"a"}}]]abc{held}'
    for chunks in chunkings(text):
        events = read(SENTINEL.parser(TOOLS, arguments="live"), chunks)
        deltas = "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))
        assert json.loads(deltas + '"}') == {"path": "a", "content": "abc" + held}
        assert not message_of(events).tool_calls[0].complete
    assert parse(text).text == text


# --- other tools ---


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("header", "body", "arguments"),
    [
        pytest.param("", '{"a": "2"}', {"a": 2}, id="JSON"),
        pytest.param("", "\n {'s': 'x',}\n", {"s": "x"}, id="relaxed JSON"),
        pytest.param("", '{"s": "[[SEG_END]]"}', {"s": "[[SEG_END]]"}, id="the end in a string"),
        pytest.param("", '{"s": "a\\n\\"\\ud83d\\ude00"}', {"s": 'a\n"😀'}, id="escapes"),
        pytest.param("", "{}", {}, id="an empty object"),
        pytest.param("", "", {}, id="nothing"),
        pytest.param("", " \n", {}, id="white space"),
        pytest.param("", '{"s": "x"}}]', {"s": "x"}, id="surplus brackets"),
        pytest.param("", '{"name": "add", "arguments": {"a": 2}}', {"a": 2}, id="an envelope"),
        pytest.param("", '[{"name": "add", "arguments": {"a": 2}}]', {"a": 2}, id="a list"),
        pytest.param("", '[{"a": "2"}]', {"a": 2}, id="a list of arguments"),
        pytest.param(
            "", '{"tool": {"function": "x", "parameters": {"a": 2}}}', {"a": 2}, id="a tool"
        ),
        pytest.param(
            "", '{"function": {"name": "x", "arguments": {"a": 2}}}', {"a": 2}, id="a function"
        ),
        pytest.param(
            "", '{"function": "x", "parameters": {"a": 2}}', {"a": 2}, id="beside a function"
        ),
        pytest.param(
            "", '{"tool_calls": [{"name": "x", "args": {"a": 2}}]}', {"a": 2}, id="tool calls"
        ),
        pytest.param("", '{"tools": [{"name": "x"}]}', {"tools": [{"name": "x"}]}, id="tools"),
        pytest.param(
            "",
            '<arguments><arg name="a">2</arg><s> x </s></arguments>',
            {"a": 2, "s": "x"},
            id="XML",
        ),
        pytest.param("", "<s>a &lt; b</s>", {"s": "a < b"}, id="entities"),
        pytest.param(',"arguments":{"a":"2"}', "anything", {"a": 2}, id="in the header"),
        pytest.param(',"arguments":{"a":1}', '{"a": 2}', {"a": 1}, id="the header wins"),
        pytest.param(',"arguments":"{\\"a\\":1}"', "", {"a": 1}, id="as text in the header"),
        pytest.param(',"parameters":{"a":1}', "", {"a": 1}, id="by another name in the header"),
        pytest.param(',"input":"pipe"', '{"a": 2}', {"a": 2}, id="other words in the header"),
        pytest.param(',"arguments":null', '{"a": 2}', {"a": 2}, id="no arguments in the header"),
    ],
)
def test_arguments_are_read_in_any_of_their_forms(
    header: str, body: str, arguments: dict[str, Any], mode: Mode
) -> None:
    text = segment(f'{{"type":"tool","tool_name":"ADD"{header}}}', body)
    for chunks in chunkings(text):
        events = read(SENTINEL.parser(TOOLS, arguments=mode), chunks)
        check_monotone(events)
        assert complete_calls(message_of(events)) == [("add", arguments)]


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ('{"name": "ADD", "arguments": {"a": 1}}', [("add", {"a": 1})]),
        ('{"tool": {"function": "add", "parameters": {"a": 1}}}', [("add", {"a": 1})]),
        ('{"function": {"name": "add", "arguments": "{\\"a\\": 1}"}}', [("add", {"a": 1})]),
        ('{"tool_calls": [{"name": "add"}, {"name": "free"}]}', [("add", {}), ("free", {})]),
        ('[{"name": "add", "args": {"s": "x"}}]', [("add", {"s": "x"})]),
        ('{"name": "nobody"}', []),
        ('{"arguments": {}}', []),
        ("[]", []),
        ("[1]", []),
        ('{"name": "add", "arguments": 3}', []),
        ('{"name": "add", "arguments": "{"}', []),
        ('{"name" "add"}', []),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_without_a_name_in_the_header_the_body_brings_it(
    body: str, calls: list[tuple[str, dict[str, Any]]], mode: Mode
) -> None:
    text = segment('{"type":"tool"}', body)
    for chunks in chunkings(text):
        message = message_of(read(SENTINEL.parser(TOOLS, arguments=mode), chunks))
        assert complete_calls(message) == calls
        assert message.text == ("" if calls else text)


@pytest.mark.parametrize(
    ("item", "arguments"),
    [
        ('{"name": "x", "arguments": "{"}', {"name": "x", "arguments": "{"}),
        ('{"arguments": "x"}', {"arguments": "x"}),
        ('{"name": "x"}', {"name": "x"}),
        ('{"name": "x", "n": 1, "arguments": {}}', {"name": "x", "n": 1, "arguments": {}}),
        ('{"parameters": {"n": 1}}', {"n": 1}),
        ('{"tool": {"name": "x", "parameters": {"n": 1}}}', {"n": 1}),
    ],
)
def test_in_a_list_an_item_is_an_envelope_only_if_it_looks_like_one(
    item: str, arguments: dict[str, Any]
) -> None:
    message = parse(segment('{"type":"tool","tool_name":"free"}', f"[{item}]"))
    assert complete_calls(message) == [("free", arguments)]


@pytest.mark.parametrize(
    "text",
    [
        '[[SEG_START {"type":"tool","tool_name":"add"}]] \n',
        '[[SEG_START {"type":"tool","tool_name":"add"}]][{"a"',
        '[[SEG_START {"type":"tool"}]]{"name": "add", "arguments": {"s": "x',
        '[[SEG_START {"type":"tool","tool_name":"add"}]]<s>x</s>[[',
    ],
)
def test_arguments_that_are_cut_are_no_call(text: str) -> None:
    for chunks in chunkings(text):
        message = message_of(read(SENTINEL.parser(TOOLS), chunks))
        assert (message.tool_calls, message.text) == ([], text)


def test_a_list_that_is_whole_is_calls_without_its_end_marker() -> None:
    text = '[[SEG_START {"type":"tool"}]][{"name": "add"}, {"name": "free"}] '
    for chunks in chunkings(text):
        message = message_of(read(SENTINEL.parser(TOOLS), chunks))
        assert complete_calls(message) == [("add", {}), ("free", {})]


@pytest.mark.parametrize("key", ["tool_name", "name"])
def test_the_tool_is_named_by_either_key(key: str) -> None:
    text = segment(f'{{"type":"tool_call","{key}":" add "}}', '{"a": 1}')
    assert complete_calls(parse(text)) == [("add", {"a": 1})]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tail", ["", "\n", "[[SEG_E", " and more [[SEG_END]]", "] more"])
def test_json_that_is_whole_is_a_call_without_its_end_marker(tail: str, mode: Mode) -> None:
    text = '[[SEG_START {"type":"tool","tool_name":"add"}]]{"a": 1}' + tail
    for chunks in chunkings(text):
        message = message_of(read(SENTINEL.parser(TOOLS, arguments=mode), chunks))
        assert complete_calls(message) == [("add", {"a": 1})]
        assert message.text == (
            " and more " if "and" in tail else " more" if "more" in tail else ""
        )


def test_a_broken_body_is_text_and_later_segments_are_found() -> None:
    broken = segment('{"type":"tool","tool_name":"add"}', '{"a": 1 oops}')
    later = segment('{"type":"run_bash"}', "ls")
    message = parse(broken + later)
    assert message.text == broken
    assert complete_calls(message) == [("run_bash", {"command": "ls"})]


def test_live_a_broken_body_is_an_incomplete_call_and_its_end_marker_is_dropped() -> None:
    text = segment('{"type":"tool","tool_name":"add"}', '{"s": "x" oops}') + "go on"
    for chunks in chunkings(text):
        message = message_of(read(SENTINEL.parser(TOOLS, arguments="live"), chunks))
        assert [call.complete for call in message.tool_calls] == [False]
        assert message.text == " oops}go on"


# --- as it streams ---


def test_live_characters_of_a_file_leave_as_they_come() -> None:
    parser = SENTINEL.parser(TOOLS, arguments="live")
    assert parser.feed('[[SEG_START {"type":"write_file","path":"a"}]]') == []
    parser.feed("f")
    deltas = [event for piece in ("o", '"', "\n", "[", "[x", "é") for event in parser.feed(piece)]
    assert all(isinstance(delta, ToolCallDelta) for delta in deltas)
    assert [delta.arguments for delta in deltas if isinstance(delta, ToolCallDelta)] == [
        *("o", '\\"', "\\n", "[[x", "é"),
    ]


def test_live_characters_of_a_json_string_leave_as_they_come() -> None:
    parser = SENTINEL.parser(TOOLS, arguments="live")
    parser.feed('[[SEG_START {"type":"tool","tool_name":"add"}]]{"s": "')
    pieces = [event for piece in "ab[" for event in parser.feed(piece)]
    assert "".join(e.arguments for e in pieces if isinstance(e, ToolCallDelta)) == '{"s":"ab['


@pytest.mark.parametrize(
    "text",
    [
        segment('{"type":"write_file","path":"a"}', "x"),
        segment('{"type":"tool","tool_name":"add"}', '{"a": 1}'),
        segment('{"type":"tool","tool_name":"add"}', "<s>x</s>"),
        segment('{"type":"tool","tool_name":"add","arguments":{}}', "ignored"),
    ],
)
def test_live_a_call_starts_with_its_header_and_ends_with_its_end_marker(text: str) -> None:
    for chunks in chunkings(text):
        events: list[Event] = read(SENTINEL.parser(TOOLS, arguments="live"), chunks)
        (start,) = (event for event in events if isinstance(event, ToolCallStart))
        (end,) = (event for event in events if isinstance(event, ToolCallEnd))
        assert start.raw == text[: text.index("]]") + 2]
        assert end.raw.endswith("[[SEG_END]]")


def test_nothing_is_held_back_but_what_may_begin_a_marker() -> None:
    check_no_stall(
        partial(SENTINEL.parser, TOOLS), "a [[1,2],[3]] [[SEG [[SEG_STAR [", len("[[SEG_START")
    )


@pytest.mark.parametrize("mode", MODES)
def test_no_marker_shows_beside_a_call(mode: Mode) -> None:
    text = "Hi " + segment('{"type":"run_bash"}', "ls") + segment('{"type":"text"}', "b") + "."
    make = partial(SENTINEL.parser, TOOLS, arguments=mode)
    for chunks in chunkings(text):
        check_no_leak(make, chunks, ["[[SEG", "SEG_END", "]]"])


# --- broken, told and mended ---


def told(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def note(message: str, segment: BrokenCall) -> None:
        found.append((segment.text, segment.tool_name))
        assert message

    parse(text, on_error=note)
    return found


@pytest.mark.parametrize(
    "text", ["[[SEG_START]] x", "[[SEG_START here", "[[SEG alone", "[[SEG_START"]
)
def test_nobody_is_told_of_prose(text: str) -> None:
    assert told(text) == []


def test_somebody_is_told_of_what_was_meant() -> None:
    assert told('[[SEG_START {"type":"dance"}]]x') == [('[[SEG_START {"type":"dance"}]]', "")]
    cut = '[[SEG_START {"type":"run_bash"}]]ls'
    assert told(cut) == [(cut, "run_bash")]
    assert len(told("[[SEG_START {type:text}]]x[[SEG_END]]")) == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        pytest.param(
            "[[SEG_START {type:'write_file', path: \"a\"}]]x[[SEG_END]]",
            {"path": "a", "content": "x"},
            id="a header in relaxed JSON",
        ),
        pytest.param(
            '[[SEG_START {"type":"write_file","path":"a"}]]x\n',
            {"path": "a", "content": "x\n"},
            id="a file without an end",
        ),
        pytest.param(
            '[[SEG_START {"type":"write_file","path":"a"}]]{"x"',
            {"path": "a", "content": '{"x"'},
            id="a file that looks like JSON",
        ),
    ],
)
def test_with_repair_a_file_is_mended(text: str, arguments: dict[str, Any], mode: Mode) -> None:
    for chunks in chunkings(text):
        parser = SENTINEL.parser(TOOLS, arguments=mode, repair=True)
        events = [event for chunk in chunks for event in parser.feed(chunk)]
        (call,) = message_of(events + parser.finish(cut=False)).tool_calls
        assert (call.name, call.arguments, call.complete) == ("write_file", arguments, True)
        assert call.repairs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "text",
    [
        segment('{"type":"tool","tool_name":"add"}', '{"a": 1 "s": "x"}'),
        '[[SEG_START {"type":"tool","tool_name":"add"}]]{"a": 1, "s": "x',
        '[[SEG_START {"type":"tool","tool_name":"add","arguments":{"a":1,"s":"x"}}]] ',
        '[[SEG_START {"type":"tool","tool_name":"add"}]]<a>1</a><s>x</s>',
    ],
)
def test_with_repair_arguments_are_mended(text: str, mode: Mode) -> None:
    for chunks in chunkings(text):
        parser = SENTINEL.parser(TOOLS, arguments=mode, repair=True)
        events = [event for chunk in chunks for event in parser.feed(chunk)]
        (call,) = message_of(events + parser.finish(cut=False)).tool_calls
        assert (call.arguments, call.complete) == ({"a": 1, "s": "x"}, True)
        assert call.repairs


@pytest.mark.parametrize(
    "text",
    [
        '[[SEG_START {"type":"run_bash"}]]ls',
        "[[SEG_START {type:run_bash",
        "[[SEG_START {type:dance}]]x[[SEG_END]]",
        '[[SEG_START {"type":"tool","tool_name":"add"}]]{oops [[SEG_START',
    ],
)
def test_what_was_cut_or_says_nothing_is_not_mended(text: str) -> None:
    parser = SENTINEL.parser(TOOLS, repair=True)
    assert complete_calls(message_of([*parser.feed(text), *parser.finish(cut=True)])) == []


# --- hostile ---


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param("[", id="brackets"),
        pytest.param("[[SEG_START ", id="starts"),
        pytest.param('[[SEG_START {"type":"dance"}]]', id="headers of no type"),
        pytest.param('[[SEG_START {"type":"tool","tool_name":"add"}]]{"a":', id="open objects"),
        pytest.param("[[SEG_END]]", id="ends"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_flood_of_markers_costs_by_its_length(unit: str, mode: Mode) -> None:
    def run(units: int) -> None:
        read(SENTINEL.parser(TOOLS, arguments=mode), [unit] * units)

    check_linear(run, 200, 2000, at_most=4, tries=3)


@pytest.mark.parametrize(
    "opening",
    [
        '[[SEG_START {"type":"write_file","path":"a"}]]',
        '[[SEG_START {"type":"tool","tool_name":"add"}]]{"s": "',
        '[[SEG_START {"type":"tool","tool_name":"add"}]]<s>',
        '[[SEG_START {"type":"tool","tool_name":"add","arguments":{}}]]',
        '[[SEG_START {"type":"run_bash","path":"',
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_an_endless_segment_costs_by_its_length(opening: str, mode: Mode) -> None:
    def run(units: int) -> None:
        read(SENTINEL.parser(TOOLS, arguments=mode), [opening, *["ab[["] * units])

    check_linear(run, 500, 5000, at_most=4, tries=3)


def test_many_calls_are_all_read() -> None:
    text = segment('{"type":"run_bash"}', "ls") * 500
    machine: Engine = SENTINEL.parser(TOOLS)
    assert len(complete_calls(message_of(read(machine, [text])))) == 500
    assert len(machine.spans) == 500


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[SEG_START {"type": A', "a value is expected at offset 10"),
        ('a [[SEG_START  {"b": 1, A', "a key is expected at offset 11"),
        ('[[SEG_START {"type": "tool"}]] {"a" %[[SEG_END]]', "a colon is expected at offset 5"),
        (
            '[[SEG_START{"[[SEG_START{"type":"tool","tool_name":"add"}]]{)',
            "a colon is expected at offset 15",
        ),
    ],
)
def test_the_place_of_a_mistake_does_not_depend_on_the_cut(text: str, why: str, mode: Mode) -> None:
    """It is counted from behind the start marker, and so is what is looked at again."""
    for repair in (False, True):
        make = partial(SENTINEL.parser, TOOLS, arguments=mode, repair=repair)
        check_readings(make, text)
        for chunks in chunkings(text):
            assert first_told(make, chunks) == why


def first_told(make: partial[Engine], chunks: list[str]) -> str:
    told: list[str] = []
    read(make(on_error=lambda why, _: told.append(why)), chunks)
    return told[0]
