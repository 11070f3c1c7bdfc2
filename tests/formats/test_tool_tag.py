"""The format `tool_tag`: what it writes it reads back, and what it cannot write it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_round_trip
from laws.strategies import ARGUMENTS, TEXT
from penstock.errors import UsageError
from penstock.formats.round_trip import infer_schema
from penstock.formats.tool_tag import TOOL_TAG
from penstock.messages import ToolCall, ToolResult
from penstock.tools import Tool


def read_back(text: str, arguments: dict[str, Any], name: str = "f") -> dict[str, Any]:
    tool = Tool(name, parameters=infer_schema(arguments))
    message = TOOL_TAG.parse(text, [tool])
    assert message.text == ""
    (call,) = message.tool_calls
    return call.arguments


@settings(max_examples=100)
@given(arguments=ARGUMENTS)
def test_what_is_written_reads_back(arguments: dict[str, Any]) -> None:
    check_round_trip(
        lambda value: TOOL_TAG.render_call(ToolCall("", "f", value)),
        lambda text: read_back(text, arguments),
        arguments,
    )


@settings(max_examples=50)
@given(content=st.one_of(TEXT, st.sampled_from(["</arg></tool>", "\n", "__END_CONTENT__</arg>"])))
def test_a_file_that_is_written_reads_back(content: str) -> None:
    arguments = {"path": "a", "content": content}
    check_round_trip(
        lambda value: TOOL_TAG.render_call(ToolCall("", "write_file", value)),
        lambda text: read_back(text, arguments, "write_file"),
        arguments,
    )


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ({}, ""),
        ({"a": "x"}, '<arg name="a">x</arg>'),
        ({"a": 'say "<b>" & go'}, '<arg name="a">say "&lt;b>" &amp; go</arg>'),
        ({"a": " x\n"}, '<arg name="a"><![CDATA[ x\n]]></arg>'),
        ({"a": "</arg></tool>"}, '<arg name="a">&lt;/arg>&lt;/tool></arg>'),
        ({"n": 3, "z": None}, '<arg name="n">3</arg><arg name="z">null</arg>'),
        ({"o": {"k": ["<", "&"]}}, '<arg name="o">{"k":["\\u003c","\\u0026"]}</arg>'),
        ({'q"': "x"}, "<arg name='q\"'>x</arg>"),
    ],
)
def test_arguments_are_written_so_that_they_survive(
    arguments: dict[str, Any], written: str
) -> None:
    text = TOOL_TAG.render_call(ToolCall("", "f", arguments))
    assert text == f'<tool name="f"><arguments>{written}</arguments></tool>'
    assert read_back(text, arguments) == arguments


def test_content_is_written_as_it_is_and_between_markers_where_it_has_to_be() -> None:
    plain = ToolCall("", "write_file", {"path": "a", "content": " a < b &amp;\n"})
    assert "> a < b &amp;\n</arg>" in TOOL_TAG.render_call(plain)
    hard = ToolCall("", "write_file", {"path": "a", "content": "</arg><arg name='x'>"})
    assert "__START_CONTENT__\n</arg><arg name='x'>__END_CONTENT__" in TOOL_TAG.render_call(hard)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(ToolCall("", "f", {"a": " ]]></arg></tool>"}), id="a section that ends early"),
        pytest.param(ToolCall("", "write_file", {"path": " a "}), id="a path with margins"),
        pytest.param(ToolCall("", "run_bash", {"timeout_seconds": -1}), id="a time that is none"),
        pytest.param(ToolCall("", "f", {"a": float("nan")}), id="no JSON"),
        pytest.param(ToolCall("", "f", {"a": "x"}, complete=False), id="an incomplete call"),
    ],
)
def test_what_would_not_read_back_is_refused(call: ToolCall) -> None:
    with pytest.raises(UsageError):
        TOOL_TAG.render_call(call)


def test_a_result_mirrors_the_call() -> None:
    text = TOOL_TAG.render_result(ToolResult("c1", "find", "3 < 4"))
    assert text == '<tool_result name="find">3 < 4</tool_result>'
    assert '{"n":1}' in TOOL_TAG.render_result(ToolResult("c1", "find", {"n": 1}))


def test_a_result_in_the_answer_is_no_call() -> None:
    text = TOOL_TAG.render_result(ToolResult("c1", "f", "x"))
    assert TOOL_TAG.parse(text, [Tool("f")]).text == text


def test_the_prompt_shows_the_tools_and_a_call_that_can_be_read() -> None:
    tool = Tool("find", "Finds it.", {"properties": {"what": {"type": "string"}}})
    prompt = TOOL_TAG.render_tools([tool])
    assert '"name":"find"' in prompt
    (call,) = TOOL_TAG.parse(prompt, [tool]).tool_calls
    assert call.name == "find"
    assert "&lt;" in prompt


def test_the_pieces_that_were_read_as_calls_are_given_exactly() -> None:
    calls = ['<tool name="f"/>', "<TOOL name='f'><arg name='a'>1</arg> </TOOL>"]
    text = f"a {calls[0]} b {calls[1]} <tool> c"
    assert TOOL_TAG.call_segments(text, [Tool("f")]) == calls
