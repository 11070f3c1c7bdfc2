"""The format `sentinel` as it is written: calls that read back, results, the prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws import check_round_trip
from laws.strategies import ANY_TEXT, ARGUMENTS
from penstock import parse
from penstock.errors import UsageError
from penstock.formats.round_trip import infer_schema
from penstock.formats.sentinel import SENTINEL
from penstock.messages import ToolCall, ToolResult
from penstock.tools import Tool


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("call_1", name, arguments)


def read_back(text: str, name: str, arguments: dict[str, Any]) -> ToolCall:
    tool = Tool(name, parameters=infer_schema(arguments))
    (found,) = SENTINEL.parse(text, [tool]).tool_calls
    return found


def check(one: ToolCall) -> None:
    check_round_trip(
        SENTINEL.render_call, lambda text: read_back(text, one.name, one.arguments), one
    )


@pytest.mark.parametrize(
    ("one", "text"),
    [
        pytest.param(
            call("write_file", path="a]].md", content='x\n"[[" \\'),
            '[[SEG_START {"type":"write_file","path":"a]].md"}]]x\n"[[" \\[[SEG_END]]',
            id="a file",
        ),
        pytest.param(
            call("edit_file", path="a", patch="-x\n+y\n"),
            '[[SEG_START {"type":"edit_file","path":"a"}]]-x\n+y\n[[SEG_END]]',
            id="a patch",
        ),
        pytest.param(
            call("run_bash", command="ls", background=True, timeout_seconds=3),
            '[[SEG_START {"type":"run_bash","background":true,"timeout_seconds":3}]]ls[[SEG_END]]',
            id="a command",
        ),
        pytest.param(
            call("tide", port="Leith", hours=[6]),
            '[[SEG_START {"type":"tool","tool_name":"tide"}]]'
            '{"port":"Leith","hours":[6]}[[SEG_END]]',
            id="any other tool",
        ),
        pytest.param(
            call("write_file", path="a", content="x [[seg_end]] y"),
            '[[SEG_START {"type":"tool","tool_name":"write_file"}]]'
            '{"path":"a","content":"x [[seg_end]] y"}[[SEG_END]]',
            id="a file that holds the end marker",
        ),
        pytest.param(
            call("write_file", path="a", content="x", mode=1),
            '[[SEG_START {"type":"tool","tool_name":"write_file"}]]'
            '{"path":"a","content":"x","mode":1}[[SEG_END]]',
            id="an argument that the header does not have",
        ),
        pytest.param(
            call("run_bash", command=" "),
            '[[SEG_START {"type":"tool","tool_name":"run_bash"}]]{"command":" "}[[SEG_END]]',
            id="a blank command",
        ),
    ],
)
def test_a_call_is_written_so_that_it_reads_back(one: ToolCall, text: str) -> None:
    assert SENTINEL.render_call(one) == text
    check(one)


def test_an_argument_named_type_does_not_change_the_type() -> None:
    one = call("run_bash", command="ls", type="text")
    assert json.loads(SENTINEL.render_call(one).split("]]")[1].split("[[")[0]) == one.arguments
    check(one)


def test_arguments_that_look_like_an_envelope_read_back() -> None:
    check(ToolCall("call_1", "tide", {"name": "tide", "arguments": {"a": 1}}))
    check(call("tide", arguments={"arguments": {}}))


@given(arguments=ARGUMENTS, name=st.sampled_from(["tide", "write_file", "run_bash"]))
def test_any_call_reads_back_or_is_refused(arguments: dict[str, Any], name: str) -> None:
    check(ToolCall("call_1", name, arguments))


@given(text=ANY_TEXT, path=ANY_TEXT)
def test_any_file_reads_back(text: str, path: str) -> None:
    one = call("write_file", path=path, content=text)
    assert read_back(SENTINEL.render_call(one), one.name, one.arguments) == one


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(ToolCall("", "tide", {}, complete=False), id="an incomplete call"),
        pytest.param(call(""), id="no name"),
        pytest.param(call(" tide"), id="a name with white space around it"),
        pytest.param(call("tide", hours=float("inf")), id="infinity"),
    ],
)
def test_what_does_not_read_back_is_refused(one: ToolCall) -> None:
    with pytest.raises(UsageError):
        SENTINEL.render_call(one)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        pytest.param(
            ToolResult("1", "tide", "14:20\n"),
            '[[SEG_START {"type":"tool_result","tool_name":"tide"}]]14:20\n[[SEG_END]]',
            id="text",
        ),
        pytest.param(
            ToolResult("1", "tide", {"at": [14, 20]}),
            '[[SEG_START {"type":"tool_result","tool_name":"tide"}]]{"at":[14,20]}[[SEG_END]]',
            id="a value",
        ),
        pytest.param(
            ToolResult("1", "tide", "no", is_error=True),
            '[[SEG_START {"type":"tool_result","tool_name":"tide","is_error":true}]]no[[SEG_END]]',
            id="an error",
        ),
        pytest.param(
            ToolResult("1", "cat", "a[[seg_end]]"),
            '[[SEG_START {"type":"tool_result","tool_name":"cat"}]]"a[[seg_end]]"[[SEG_END]]',
            id="text with an end marker in it",
        ),
    ],
)
def test_a_result_mirrors_its_call(result: ToolResult, text: str) -> None:
    assert SENTINEL.render_result(result) == text


def test_a_result_that_a_model_repeats_is_no_call() -> None:
    text = SENTINEL.render_result(ToolResult("1", "tide", "14:20"))
    assert SENTINEL.parse(text, [Tool("tide")]).text == text


def test_the_prompt_shows_the_tools_and_a_call_of_one_of_them() -> None:
    tool = Tool("tide", parameters={"properties": {"port": {"type": "string"}}})
    prompt = SENTINEL.render_tools([tool])
    assert '"name":"tide"' in prompt
    start = prompt.index('[[SEG_START {"type":"tool","tool_name":"tide"}]]')
    (found,) = SENTINEL.parse(prompt[start:], [tool]).tool_calls
    assert found.arguments == {"port": "some text"}


def test_the_exact_text_of_a_call_is_told() -> None:
    text = 'a [[SEG_START {"type":"run_bash"}]]ls[[seg_end]] b [[SEG_START {"type":"text"}]]c'
    assert SENTINEL.call_segments(text, [Tool("run_bash")]) == [
        '[[SEG_START {"type":"run_bash"}]]ls[[seg_end]]'
    ]


@pytest.mark.parametrize("mode", ["whole", "live"])
@pytest.mark.parametrize("broken", ["{", "{{}", "{I should wait here. }"])
def test_the_header_of_the_next_segment_is_not_an_argument(mode: Any, broken: str) -> None:
    text = (
        f'[[SEG_START {{"type":"tool","tool_name":"ping"}}]]{broken}[[SEG_END]]\n'
        '[[SEG_START {"type":"tool","tool_name":"pong"}]]{"city":"Oslo"}[[SEG_END]]'
    )
    tools = [Tool("ping", ""), Tool("pong", "")]
    for name in ("sentinel", "auto"):
        found = parse(text, name, tools, arguments=mode, repair=True).tool_calls
        complete = {one.name: one.arguments for one in found if one.complete}
        assert complete.get("ping", {}) == {}
        assert complete.get("pong") == {"city": "Oslo"} or (mode, name) == ("live", "auto")
