"""The format `bare_json`: a call is one JSON object on a line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from laws import check_round_trip
from laws.strategies import ARGUMENTS
from penstock.errors import UsageError
from penstock.formats.json_calls import BARE_JSON
from penstock.messages import ToolCall, ToolResult
from penstock.tools import Tool

WRITE = Tool("write", "Write a file", {"properties": {"path": {"type": "string"}}})
CALL = ToolCall("", "write", {"path": "a"})


def test_the_prompt_shows_a_call_as_it_is_written() -> None:
    prompt = BARE_JSON.render_tools([WRITE])
    assert BARE_JSON.render_call(ToolCall("", "write", {"path": "some text"})) in prompt
    assert "{example}" not in prompt


def test_the_tools_of_the_prompt_are_no_calls() -> None:
    prompt = BARE_JSON.render_tools([WRITE, Tool("ping", "", {"type": "object", "properties": {}})])
    shown = prompt[: prompt.index("To call a tool")]
    assert BARE_JSON.parse(shown, [WRITE, Tool("ping")]).tool_calls == []


@settings(max_examples=100)
@given(arguments=ARGUMENTS)
def test_what_is_written_reads_back(arguments: dict[str, Any]) -> None:
    def read_back(text: str) -> ToolCall:
        message = BARE_JSON.parse(f"Sure.\n{text}\nDone.", [Tool("any.tool")])
        assert message.text == "Sure.\n\nDone."
        (call,) = message.tool_calls
        return ToolCall("", call.name, call.arguments)

    check_round_trip(BARE_JSON.render_call, read_back, ToolCall("", "any.tool", arguments))


def test_arguments_that_would_read_as_a_definition_are_refused() -> None:
    with pytest.raises(UsageError):
        BARE_JSON.render_call(ToolCall("", "f", {"type": "object", "properties": {}}))


def test_a_result_mirrors_the_call_and_is_none() -> None:
    written = BARE_JSON.render_result(ToolResult("c1", "write", BARE_JSON.render_call(CALL)))
    assert json.loads(written)["tool_result"] == "write"
    assert BARE_JSON.parse(written, [WRITE]).tool_calls == []


def test_each_answer_has_fences_of_its_own() -> None:
    one, two = BARE_JSON.parser([WRITE]), BARE_JSON.parser([WRITE])
    one.feed("```\ncode\n")
    assert two.feed(BARE_JSON.render_call(CALL) + "\nDone.")
    assert not any(event.type == "toolcall_start" for event in one.feed("{" + "\n```"))


def test_segments_have_the_lines_of_their_fence() -> None:
    one = BARE_JSON.render_call(CALL)
    text = f"a\n```json\n{one}\n```\nb\n{one}"
    assert BARE_JSON.call_segments(text, [WRITE]) == [f"```json\n{one}\n```\n", one]


@pytest.mark.parametrize("surplus", ["}", "]}", " }\n]"])
def test_brackets_that_close_nothing_are_dropped(surplus: str) -> None:
    call = BARE_JSON.render_call(CALL)
    tools = [Tool(CALL.name)]
    for text in (call + surplus, f"{call}{surplus}\n{call}", f"```json\n{call}{surplus}\n```"):
        message = BARE_JSON.parse(text, tools)
        assert {found.name for found in message.tool_calls} == {CALL.name}
        assert not message.text.strip()


def test_a_result_says_that_the_call_failed() -> None:
    written = BARE_JSON.render_result(ToolResult("c1", "write", "no", is_error=True))
    assert written == '{"tool_result":"write","is_error":true,"content":"no"}'
