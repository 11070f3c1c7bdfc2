"""Text that looks like a call and is not one: what it looks like, why, and what to change."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final

import pytest

import penstock
from laws import one_by_one
from penstock import AssistantMessage, MessageBuilder, Text, Thinking, ToolCall
from penstock.errors import UsageError
from penstock.formats import Format, UnreadCall, find_unread, get
from penstock.formats.registry import BUILT_IN
from penstock.formats.unread import MAX_REREAD, MAX_UNREAD
from penstock.parsing import Arguments
from penstock.tools import Tool

READ: Final = Tool(
    "read_file",
    "",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
WRITING: Final = ToolCall("", "write_file", {"path": "a.txt", "content": "hello"})
READING: Final = ToolCall("", "read_file", {"path": "a.txt"})


def unread(
    text: str, format_: str = "auto", tools: Any = (READ,), **options: Any
) -> list[UnreadCall]:
    message = penstock.parse(text, format_, list(tools), **options)
    return find_unread(message, format_, list(tools))


def reasons(found: list[UnreadCall]) -> list[tuple[str, str, str]]:
    return [(one.reason, one.format, one.name) for one in found]


def render(fmt: Format, call: ToolCall) -> str:
    try:
        return fmt.render_call(call)
    except UsageError:
        pytest.skip("it writes no such call")


MARKED = [
    fmt
    for fmt in BUILT_IN
    if fmt.name not in ("auto", "none") and fmt.parse(fmt.render_call(WRITING)).tool_calls
]


@pytest.mark.parametrize("fmt", MARKED, ids=lambda fmt: fmt.name)
def test_without_tools_auto_reads_every_marked_call(fmt: Format) -> None:
    text = render(fmt, WRITING)
    (call,) = penstock.parse(text).tool_calls
    assert (call.name, call.arguments) == (WRITING.name, WRITING.arguments)
    assert find_unread(penstock.parse(text)) == []


@pytest.mark.parametrize("fmt", MARKED, ids=lambda fmt: fmt.name)
def test_a_marked_call_of_a_tool_that_is_not_offered_is_named(fmt: Format) -> None:
    (one,) = unread(render(fmt, WRITING))
    assert (one.reason, one.name) == ("not_offered", "write_file")
    found = get(one.format)
    assert isinstance(found, Format)
    assert found.parse(render(fmt, WRITING)).tool_calls, "the format that it advises reads it"
    assert "write_file" in one.advice
    assert one.format in one.description


@pytest.mark.parametrize("arguments", ["whole", "live"])
def test_the_place_is_that_of_the_call_in_its_block(arguments: Arguments) -> None:
    call = get("qwen3_coder").render_call(WRITING)
    message = penstock.parse(f"Hi.\n{call}\nBye.", "auto", [READ], arguments=arguments)
    (one,) = find_unread(message, "auto", [READ])
    block = message.content[one.index]
    assert isinstance(block, Text)
    assert call.startswith(block.text[one.start : one.end])
    assert one.format == "qwen3_coder"


def test_the_result_does_not_depend_on_the_chunks() -> None:
    fmt = get("deepseek_v31")
    assert isinstance(fmt, Format)
    text = f"Hi.\n{fmt.render_calls([WRITING, READING, WRITING])}\nBye."
    parser, builder = penstock.Parser(tools=[READ]), MessageBuilder()
    for chunk in one_by_one(text):
        for event in parser.feed(chunk):
            builder.add(event)
    for event in parser.finish(cut=False):
        builder.add(event)
    whole = penstock.parse(text, "auto", [READ])
    assert find_unread(builder.message, "auto", [READ]) == find_unread(whole, "auto", [READ])
    assert [call.name for call in whole.tool_calls] == ["read_file"]
    expected = [("not_offered", "deepseek_v31", "write_file")] * 2
    assert reasons(find_unread(whole, "auto", [READ])) == expected


@pytest.mark.parametrize(
    ("text", "format_", "expected"),
    [
        pytest.param(
            get("qwen3_coder").render_call(READING),
            "hermes",
            ("other_format", "qwen3_coder", "read_file"),
            id="a call in another format",
        ),
        pytest.param(
            get("bare_json").render_call(READING),
            "hermes",
            ("other_format", "bare_json", "read_file"),
            id="bare JSON in another format",
        ),
        pytest.param(
            f"```\n{get('hermes').render_call(READING)}\n```",
            "auto",
            ("in_code", "hermes", "read_file"),
            id="a call in a code fence",
        ),
        pytest.param(
            '<tool_call>{"name": "read_file", "arguments": {"path": }</tool_call> ok',
            "auto",
            ("broken", "hermes", "read_file"),
            id="broken JSON",
        ),
        pytest.param(
            '<tool_call>{"name": "read_file", "arguments": {"path": "a',
            "auto",
            ("cut", "hermes", "read_file"),
            id="a call that was cut",
        ),
        pytest.param(
            f"<think>{get('hermes').render_call(READING)}</think>",
            "auto",
            ("in_reasoning", "hermes", "read_file"),
            id="a call in the reasoning",
        ),
        pytest.param(
            '{"name": "write_file", "arguments": {"path": "a"}}',
            "auto",
            ("not_offered", "bare_json", "write_file"),
            id="bare JSON of a tool that is not offered",
        ),
        pytest.param(
            '[write_file(path="a")]',
            "auto",
            ("not_offered", "pythonic", "write_file"),
            id="a Python call of a tool that is not offered",
        ),
    ],
)
def test_the_reason_is_named(text: str, format_: str, expected: tuple[str, str, str]) -> None:
    assert reasons(unread(text, format_)) == [expected]


def test_a_quoted_call_was_refused() -> None:
    call = get("hermes").render_call(READING)
    assert [one.reason for one in unread(call, untrusted=[call])] == ["refused"]


def test_an_incomplete_call_of_a_live_response_is_named() -> None:
    text = '<tool_call>{"name": "read_file", "arguments": {"path": "a'
    (one,) = unread(text, arguments="live")
    assert (one.reason, one.name, one.format) == ("broken", "read_file", "")
    message = penstock.parse(text, "auto", [READ], arguments="live")
    message.stop_reason = "length"
    assert [each.reason for each in find_unread(message, "auto", [READ])] == ["cut"]


@pytest.mark.parametrize(
    "text",
    [
        "The marker `<tool_call>` begins a call.",
        "A <tool_call> and a </tool_call> in prose, and [1] and {x}.",
        f"An example:\n```\n{get('hermes').render_call(WRITING)}\n```\n",
        "[a link](https://example.com)",
        "<function=NAME> stands for the name.",
    ],
)
def test_prose_and_examples_are_not_reported(text: str) -> None:
    assert unread(text) == []


def test_a_response_with_calls_has_its_reasoning_left_alone() -> None:
    call = get("hermes").render_call(READING)
    assert unread(f"<think>{call}</think>{call}") == []


def test_the_number_and_the_length_are_limited() -> None:
    call = get("hermes").render_call(WRITING)
    assert len(unread("\n".join([call] * (MAX_UNREAD + 5)))) == MAX_UNREAD
    late = AssistantMessage(content=[Text("x " * MAX_REREAD + call)], stop_reason="stop")
    (one,) = find_unread(late, "auto", [READ])
    assert one.start == 2 * MAX_REREAD
    early = AssistantMessage(content=[Text(call + "x " * MAX_REREAD), Thinking("")])
    assert find_unread(early, "auto", [READ]) == []


FLOODS = {
    "markers": "<tool_call>" * 6_000,
    "brackets": "<tool_call>" + "[" * 65_000,
    "pairs": '<tool_call>{"name":"read_file","arguments":{' + '"a":1,' * 10_000,
    "broken calls": '<tool_call>{"name":"read_file","arguments":[1]}</tool_call>\n' * 1_100,
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_search_of_a_flood_ends_in_time(flood: str) -> None:
    blocks: list[Text | ToolCall] = [Text(FLOODS[flood]), READING] * 5
    message = AssistantMessage("", "", blocks, "stop")
    find_unread(AssistantMessage("", "", [Text("<tool_call>")], "stop"), tools=[READ])  # tables
    began = time.thread_time()
    find_unread(message, tools=[READ], should_stop=lambda: time.thread_time() > began + 0.02)
    assert time.thread_time() - began < 1  # without the limit it takes some seconds


def test_without_time_only_short_texts_and_the_end_of_one_long_text_are_searched() -> None:
    call = f"```\n{get('hermes').render_call(READING)}\n```"
    words = "word\n" * 4_000
    short, end, start, ends = (
        AssistantMessage("", "", [Text(text) for text in texts])
        for texts in ([call], [words + call], [call + words], [words + call] * 3)
    )
    for message, stops, count in (
        (short, True, 1),
        (end, False, 1),
        (end, True, 1),
        (start, False, 1),
        (start, True, 0),
        (ends, True, 1),
    ):
        found = find_unread(message, tools=[READ], should_stop=partial(bool, stops))
        assert [one.reason for one in found] == ["in_code"] * count
