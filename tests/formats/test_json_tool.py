"""The format `json_tool`: one for each profile, written as its prompt shows it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_round_trip
from laws.strategies import ARGUMENTS
from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.json_calls import JSON_TOOL, json_tool
from penstock.messages import ToolCall, ToolResult
from penstock.tools import Tool
from penstock.values.json_grammar import MAX_DEPTH

FORMATS = [JSON_TOOL, json_tool("openai"), json_tool("gemini")]
WRITE = Tool("write", "Write a file", {"properties": {"path": {"type": "string"}}})
CALL = ToolCall("", "write", {"path": "a"})


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        (None, "json_tool"),
        ("ANTHROPIC", "json_tool"),
        ("kimi", "json_tool"),
        ("OpenAI", "json_tool_openai"),
        ("GROK", "json_tool_openai"),
        ("mistral", "json_tool_openai"),
        ("DEEPSEEK", "json_tool_openai"),
        ("GEMINI", "json_tool_gemini"),
    ],
)
def test_the_provider_chooses_the_format(provider: str | None, name: str) -> None:
    assert json_tool(provider).name == name


def test_a_call_is_written_as_the_prompt_of_its_profile_shows_it() -> None:
    written = [json.loads(style.render_call(CALL)) for style in FORMATS]
    assert written == [
        {"tool": {"function": "write", "parameters": {"path": "a"}}},
        {"tool": {"function": {"name": "write", "arguments": {"path": "a"}}}},
        {"name": "write", "args": {"path": "a"}},
    ]
    for style in FORMATS:
        prompt = style.render_tools([WRITE])
        example = ToolCall("", "write", {"path": "some text"})
        assert style.render_call(example) in prompt
        assert "{example}" not in prompt


@pytest.mark.parametrize("style", FORMATS, ids=lambda style: style.name)
def test_a_result_mirrors_the_call_and_is_none(style: Format) -> None:
    written = style.render_result(ToolResult("c1", "write", '{"tool": {"function": "write"}}'))
    assert json.loads(written)["tool_result"] == "write"
    assert style.parse(written, [WRITE]).tool_calls == []


@settings(max_examples=100)
@given(arguments=ARGUMENTS, style=st.sampled_from(FORMATS))
def test_what_is_written_reads_back(arguments: dict[str, Any], style: Format) -> None:
    def read_back(text: str) -> ToolCall:
        message = style.parse(f"Sure.\n{text}\nDone.", [Tool("any.tool")])
        assert message.text == "Sure.\n\nDone."
        (call,) = message.tool_calls
        return ToolCall("", call.name, call.arguments)

    check_round_trip(style.render_call, read_back, ToolCall("", "any.tool", arguments))


@pytest.mark.parametrize("style", FORMATS, ids=lambda style: style.name)
def test_what_json_has_no_word_for_is_refused(style: Format) -> None:
    deep: Any = {}
    for _ in range(MAX_DEPTH):
        deep = {"a": deep}
    for arguments in ({"x": float("nan")}, {"x": object()}, deep):
        with pytest.raises(UsageError):
            style.render_call(ToolCall("", "f", arguments))


@pytest.mark.parametrize("style", FORMATS, ids=lambda style: style.name)
def test_segments_are_the_pieces_that_were_read_as_calls(style: Format) -> None:
    one = style.render_call(CALL)
    assert style.call_segments(f"a {one} b {{}} {one}", [WRITE]) == [one, one]
