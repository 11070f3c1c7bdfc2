"""Preparations of a format for tools are shared by content, and by nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import penstock
from penstock import Tool, formats
from penstock.formats.auto import AUTO
from penstock.formats.base import MAX_CACHED, prepare
from penstock.formats.json_calls import HERMES

CALL = '<tool_call>{"name": "add", "arguments": {"n": "1"}}</tool_call>'


def add_tool(kind: str = "integer") -> dict[str, Any]:
    return {"name": "add", "parameters": {"properties": {"n": {"type": kind}}}}


def test_equal_tools_are_prepared_once() -> None:
    first = prepare(HERMES, [add_tool()])
    assert prepare(HERMES, [add_tool()]) is first
    assert prepare(HERMES, (add_tool(),)) is first
    assert prepare(AUTO, [add_tool()]) is not first
    assert prepare(HERMES, [add_tool("string")]) is not first
    assert prepare(HERMES, first) is first


@pytest.mark.parametrize(("one", "other"), [(True, 1), (1, 1.0), ("1", 1), (None, "null")])
def test_values_that_are_equal_in_python_only_are_different_tools(
    one: object, other: object
) -> None:
    first, second = (
        prepare(HERMES, [Tool("set", "", {"properties": {"v": {"const": value}}})])
        for value in (one, other)
    )
    assert first is not second


def test_a_tool_and_a_dict_with_its_fields_may_mean_different_schemas() -> None:
    schema = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}  # as Gemini writes types
    read = prepare(HERMES, [{"name": "add", "description": "", "parameters": schema}])
    given = prepare(HERMES, [Tool("add", "", schema)])
    assert [tool.parameters["type"] for tool in read.schemas.tools] == ["object"]
    assert [tool.parameters["type"] for tool in given.schemas.tools] == ["OBJECT"]


def test_a_tool_that_is_changed_later_does_not_change_what_others_share() -> None:
    mine = Tool("add", "", {"properties": {"n": {"type": "integer"}}})
    assert penstock.parse(CALL, "hermes", [mine]).tool_calls[0].arguments == {"n": 1}
    mine.parameters["properties"]["n"]["type"] = "string"
    assert penstock.parse(CALL, "hermes", [mine]).tool_calls[0].arguments == {"n": "1"}
    theirs = Tool("add", "", {"properties": {"n": {"type": "integer"}}})
    assert penstock.parse(CALL, "hermes", [theirs]).tool_calls[0].arguments == {"n": 1}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"properties": {"n": schema}}
    return schema


@pytest.mark.parametrize(
    "tools",
    [
        pytest.param([Tool("add", "", {"default": object()})], id="a value without JSON"),
        pytest.param([Tool("add", "", {"default": float("nan")})], id="a number without JSON"),
        pytest.param([Tool("add", "", {"enum": ["\ud83d"]})], id="half of a surrogate pair"),
        pytest.param([Tool("add", "", nested(400))], id="a deep schema"),
        pytest.param([Tool("add", "x" * MAX_CACHED)], id="a long description"),
        pytest.param([Tool("add"), {"name": "sub"}], id="mixed shapes"),
        pytest.param({"add": {"description": "adds"}}, id="a mapping by name"),
        pytest.param(Tool("add"), id="one tool"),
    ],
)
def test_any_tools_can_be_prepared(tools: object) -> None:
    for _ in range(2):
        prepared = prepare(HERMES, tools)
        assert next(iter(prepared.schemas)) == "add"
        assert [call.name for call in penstock.parse(CALL, "hermes", tools).tool_calls] == ["add"]


def test_refused_tools_are_refused_every_time() -> None:
    for _ in range(2):
        with pytest.raises(penstock.UsageError, match="several tools are called add"):
            prepare(HERMES, [Tool("add"), Tool("add")])


def test_another_style_of_reasoning_shares_the_schemas() -> None:
    usual, none = prepare(HERMES, [add_tool()]), prepare(HERMES, [add_tool()], "none")
    assert none.schemas is usual.schemas
    assert none.reasoning is None
    assert usual.reasoning is not None


@pytest.mark.parametrize("name", ["auto", "bare_json", "kimi_k2", "hunyuan_a13b", "phi4_mini_json"])
def test_responses_that_are_read_at_the_same_time_share_no_state(name: str) -> None:
    call = formats.get(name).render_call(penstock.ToolCall("call_1", "add", {"n": 1}))
    text = f"{call}\n" if name == "bare_json" else call
    tools = [Tool("add", "", {"properties": {"n": {"type": "integer"}}})]
    alone = penstock.parse(text, name, tools)

    def parse_by_character(_: int) -> penstock.AssistantMessage:
        parser, builder = penstock.Parser(name, tools), penstock.MessageBuilder()
        for character in text:
            for event in parser.feed(character):
                builder.add(event)
        for event in parser.finish(cut=False):
            builder.add(event)
        return builder.message

    with ThreadPoolExecutor(4) as pool:
        messages = list(pool.map(parse_by_character, range(32)))
    assert alone.tool_calls
    assert all(message.content == alone.content for message in messages)
