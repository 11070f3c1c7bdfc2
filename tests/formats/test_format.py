"""What every format can do: prompts, calls, results; and json-mix with any delimiters."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws import check_round_trip
from laws.strategies import ARGUMENTS, NAMES
from penstock import Parser, formats, parse
from penstock.errors import UsageError
from penstock.formats import Format
from penstock.formats.json_calls import GEMMA, HERMES
from penstock.formats.prompts import example_call
from penstock.formats.registry import NONE
from penstock.formats.round_trip import infer_schema, require_round_trip
from penstock.messages import AssistantMessage, Text, ToolCall, ToolResult
from penstock.tools import Tool
from penstock.values.schema import Schema

WEATHER = Tool(
    "get_weather",
    "What it is like outside",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
PING = Tool("ping")


def test_the_prompt_shows_the_tools_as_json_and_a_call_of_one_of_them() -> None:
    prompt = HERMES.render_tools([PING, WEATHER])
    shown = prompt.split("<tools>")[1].split("</tools>")[0]
    assert json.loads(shown)[1] == {
        "name": "get_weather",
        "description": "What it is like outside",
        "parameters": WEATHER.parameters,
    }
    (call,) = HERMES.parse(prompt, [WEATHER]).tool_calls
    assert call.name == "get_weather", "a tool with arguments shows more than one without"


def test_a_wrapped_schema_is_shown_unwrapped() -> None:
    tools = [{"name": "f", "inputSchema": {"jsonSchema": {"type": "object", "properties": {}}}}]
    assert "jsonSchema" not in HERMES.render_tools(tools)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"template": "T {tools} E {example}"}, 'T [{"name":"ping","parameters":{}}] E '),
        ({"template": lambda tools: f"<{tools}>"}, '<[{"name":"ping","parameters":{}}]>'),
        ({"template": "T", "system": "Be kind."}, "T\n\nBe kind."),
        ({"template": "T", "system": "Be kind.", "placement": "last"}, "Be kind.\n\nT"),
        ({"template": "{x} {}"}, "{x} {}"),
    ],
    ids=["places", "a function", "the tools first", "the tools last", "other braces are text"],
)
def test_the_words_and_their_place_can_be_ones_own(options: Any, expected: str) -> None:
    assert HERMES.render_tools([PING], **options).startswith(expected)


def test_a_tool_that_speaks_of_places_fills_none() -> None:
    tool = Tool("f", "puts {example} and {tools} in")
    assert "puts {example} and {tools} in" in HERMES.render_tools([tool])


def test_without_tools_there_is_nothing_to_tell() -> None:
    assert HERMES.render_tools([], system="Be kind.") == "Be kind."


def test_calls_and_results_mirror_each_other() -> None:
    call = ToolCall("c", "f", {"a": [1, "é"]})
    result = ToolResult("c", "f", {"ok": True})
    written = '{"name":"f","arguments":{"a":[1,"é"]}}'
    assert HERMES.render_call(call) == f"<tool_call>{written}</tool_call>"
    assert (
        HERMES.render_call(call) == '<tool_call>{"name":"f","arguments":{"a":[1,"é"]}}</tool_call>'
    )
    assert (
        HERMES.render_result(result)
        == '<tool_response>{"name":"f","content":{"ok":true}}</tool_response>'
    )
    assert GEMMA.render_call(call) == f"```tool_call\n{written}\n```"
    assert GEMMA.render_result(result).startswith("```tool_response\n")


@pytest.mark.parametrize("fmt", [HERMES, GEMMA, formats.json_mix("<<", ">>")], ids=lambda f: f.name)
@given(name=NAMES, arguments=ARGUMENTS, around=st.sampled_from(["", "a ", "\n"]))
def test_a_rendered_call_reads_back_equal(
    fmt: Format, name: str, arguments: dict[str, Any], around: str
) -> None:
    def read_back(text: str) -> ToolCall:
        message = fmt.parse(around + text + around)
        assert message.text == around + around
        (call,) = message.tool_calls
        return call

    check_round_trip(fmt.render_call, read_back, ToolCall("call_1", name, arguments))


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("c", "f", {"a": float("nan")}),
        ToolCall("c", "f", {"a": object()}),
        ToolCall("c", "", {}),
        ToolCall("c", "f", {}, complete=False),
    ],
    ids=["a number that JSON has not", "no value at all", "no name", "an incomplete call"],
)
def test_what_cannot_be_written_is_refused(call: ToolCall) -> None:
    with pytest.raises(UsageError):
        HERMES.render_call(call)


def test_json_mix_needs_both_delimiters() -> None:
    with pytest.raises(UsageError, match="marker"):
        formats.json_mix("", ">>")


def test_json_mix_takes_delimiters_of_ones_own() -> None:
    own = formats.json_mix("<<", ">>", "((", "))", name="angles")
    assert own.name == "angles"
    assert own.render_result(ToolResult("c", "f", 1)) == '(({"name":"f","content":1}))'
    assert own.parse('a <<{"name": "f"}>> b').tool_calls == [ToolCall("call_1", "f", {})]


def test_the_segments_of_calls_are_the_exact_pieces_of_the_text() -> None:
    text = 'a <tool_call> {"name": "f"} </tool_call> b <tool_call>no</tool_call>'
    text += '<tool_call>[{"name": "f"}, {"name": "g"}]</tool_call><tool_call>{"name": "h"}'
    assert HERMES.call_segments(text) == [
        '<tool_call> {"name": "f"} </tool_call>',
        '<tool_call>[{"name": "f"}, {"name": "g"}]</tool_call>',
        '<tool_call>{"name": "h"}',
    ]


def test_an_answer_with_calls_ends_in_order_to_have_them_run() -> None:
    assert parse('<tool_call>{"name": "f"}</tool_call>').stop_reason == "tool_use"
    assert parse("hi").stop_reason == "stop"
    cut = parse('<tool_call>{"name": "f", "arguments": {"a": "', arguments="live")
    assert cut.stop_reason == "stop"


def test_reasoning_is_the_formats_own_unless_another_is_asked_for() -> None:
    text = "<think>hm</think>yes"
    assert parse(text).thinking == "hm"
    assert parse(text, reasoning="none").text == text
    assert parse(text, reasoning="think").thinking == "hm"
    with pytest.raises(UsageError, match="unknown reasoning style 'dream'"):
        parse(text, reasoning="dream")


def test_none_reads_thoughts_and_no_calls_and_writes_none() -> None:
    text = '<tool_call>{"name": "f"}</tool_call>'
    assert parse("<think>hm</think>" + text, "none").text == text
    with pytest.raises(UsageError):
        NONE.render_call(ToolCall("c", "f"))
    with pytest.raises(UsageError):
        NONE.render_result(ToolResult("c", "f"))
    with pytest.raises(UsageError):
        NONE.calls.syntax([]).body("<")
    assert NONE.render_tools([PING]) == ""


EXAMPLES = [
    pytest.param({"type": "string"}, "some text", id="text"),
    pytest.param({"type": "integer", "default": 7}, 7, id="a default"),
    pytest.param({"type": "string", "examples": ["Oslo"]}, "Oslo", id="an example"),
    pytest.param({"type": "string", "examples": []}, "some text", id="no example"),
    pytest.param({"enum": ["kg", "lb"]}, "kg", id="the first member"),
    pytest.param({"const": 4}, 4, id="the one value"),
    pytest.param({"type": "array", "items": {"type": "boolean"}}, [True], id="a list of one"),
    pytest.param({"type": "object", "properties": {"n": {"type": "number"}}}, {"n": 1.5}, id="in"),
    pytest.param({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 1, id="a choice"),
    pytest.param({}, "some text", id="anything"),
]


@pytest.mark.parametrize(("schema", "expected"), EXAMPLES)
def test_an_example_is_what_the_schema_says(schema: Any, expected: Any) -> None:
    tool = Tool("f", parameters={"type": "object", "properties": {"a": schema}})
    assert example_call(tool).arguments == {"a": expected}
    assert Schema(tool.parameters).accepts(example_call(tool).arguments)


def test_an_example_ends_where_the_schema_does_not() -> None:
    node: dict[str, Any] = {"$ref": "#/$defs/n"}
    inner = {"type": "object", "properties": {"n": node}, "required": ["n"]}
    tool = Tool("f", parameters={**inner, "$defs": {"n": inner}})
    assert "n" in example_call(tool).arguments


def test_an_example_has_what_is_required_and_a_few_more() -> None:
    properties = {f"p{n}": {"type": "integer"} for n in range(9)}
    few = Tool("f", parameters={"properties": properties})
    many = Tool("f", parameters={"properties": properties, "required": list(properties)})
    assert len(example_call(few).arguments) == 3
    assert len(example_call(many).arguments) == 9


@given(arguments=ARGUMENTS)
def test_a_schema_of_a_value_accepts_it(arguments: dict[str, Any]) -> None:
    assert Schema(infer_schema(arguments)).accepts(arguments)


def test_a_schema_of_no_json_value_is_refused() -> None:
    with pytest.raises(UsageError):
        infer_schema({"a": object()})


def test_a_call_that_reads_as_another_is_refused() -> None:
    call = ToolCall("c", "f", {"a": 1})
    text = HERMES.calls.render_call(call)
    assert require_round_trip(HERMES.calls, call, text) == text
    with pytest.raises(UsageError, match="cannot express"):
        require_round_trip(HERMES.calls, call, text + text)


def test_a_whole_answer_is_a_message() -> None:
    assert parse("hi") == AssistantMessage(content=[Text("hi")], stop_reason="stop")


def test_a_parser_shows_its_options() -> None:
    options = set(inspect.signature(Parser).parameters)
    assert options >= {"format", "tools", "arguments", "reasoning", "repair", "fenced"}
