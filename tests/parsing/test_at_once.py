"""A call that has come whole is read at once, and one that comes in pieces in steps: both agree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_chunk_free, check_linear, check_lossless, effort, one_by_one
from penstock import Parser
from penstock.tools import Tool

TEXT = {"type": "string"}
TOOLS = [
    Tool("write", "", {"properties": {"path": TEXT, "count": {"type": "integer"}, "name": TEXT}}),
    Tool("list", "", {}),
]
FRAMES = {
    "hermes": "<tool_call>{}</tool_call>",
    "mistral_array": "[TOOL_CALLS]{}",
    "command_r_plus": "Action: ```json\n{}\n```",
    "granite_20b_fc": "<function_call> {}",
    "jamba": "<tool_calls>{}</tool_calls>",
    "apertus": "<|tools_prefix|>{}<|tools_suffix|>",
    "deepseek_v31": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write<｜tool▁sep｜>{}"  # noqa: RUF001
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",  # noqa: RUF001
    "harmony": "<|start|>assistant<|channel|>commentary to=functions.write<|message|>{}<|call|>",
    "functionary_v3_1": "<function=write>{}</function>",
}
ODD = (
    '{"name": "write", "arguments": {"path": "a", "path": "b"}}',
    '{"name": "write", "arguments": {"path": "\\ud83d"}}',
    '{"name": "write", "arguments": {"count": 1e999}}',
    '{"name": "write", "arguments": {"count": NaN}}',
    '{"arguments": {"path": "a"}, "name": "write"}',
    '{"name": "write", "arguments": {"path": "a"}, "id": "late"}',
    '{"name": "write", "arguments": "{\\"path\\": \\"a\\"}"}',
    '{"name": "write", "name": "list", "arguments": {}}',
    '{"name": "write", "arguments": {"name": "x"}, "parameters": {"path": "y"}}',
    '[{"name": "write", "arguments": {}}, 3]',
    '[{"name": "write", "arguments": {"path": "a"}}, {"name": "list", "arguments": {}}]',
    '{"name": "write", "arguments": {"path": "a"}}}',
    '{"name": "write", "arguments": {"path": "</tool_call>"}} ',
    '{"write": {"path": "a"}}',
    '[{"write": {"path": "a"}}, {"list": {}}]',
    '{"path": "a", "count": "3"}',
    '{"name": "write", "arguments": {"path": "a"}}\n{"name": "list", "arguments": {}}',
    "[]",
    "{}",
    '{"name": "write", "arguments": {"path": ' + "[" * 600 + "1" + "]" * 600 + "}}",
)
TOO_DEEP = '{"name": "write", "arguments": ' + '{"a":' * 600 + "1" + "}" * 600 + "}"

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
keys = st.sampled_from(["path", "count", "name", "x", "arguments"])
names = st.sampled_from(["write", "list", "WRITE", "unknown", ""])
members = st.dictionaries(keys, values, max_size=3)
fields = st.fixed_dictionaries(
    {}, optional={"id": st.text(max_size=3), "name": names, "arguments": members | values}
)
bodies = members | fields | st.lists(fields, max_size=3) | st.dictionaries(names, members)


def check(name: str, body: str, **options: Any) -> None:
    """Check that the response is read alike as one piece and by characters."""
    text = f"Ok.\n{FRAMES[name].replace('{}', body)} Done."

    def make() -> Parser:
        return Parser(name, TOOLS, **options)

    check_chunk_free(make, one_by_one(text))
    check_lossless(make, [text])


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("body", ODD)
def test_odd_bodies_are_read_alike_as_one_piece_and_by_characters(name: str, body: str) -> None:
    check(name, body)
    check(name, body, repair=True)


@pytest.mark.parametrize("name", ["hermes", "mistral_array", "deepseek_v31"])
def test_objects_that_are_too_deep_are_read_alike_in_every_way(name: str) -> None:
    check(name, TOO_DEEP)


@pytest.mark.parametrize("name", FRAMES)
@given(body=bodies, indent=st.sampled_from([None, 1]))
@settings(max_examples=effort.examples(40))
def test_any_body_is_read_alike_as_one_piece_and_by_characters(
    name: str, body: object, indent: int | None
) -> None:
    check(name, json.dumps(body, indent=indent))


@pytest.mark.parametrize(
    "unit", ['<tool_call>{"name": "write", "arguments": {', '<tool_call>{"', "<tool_call>{}"]
)
def test_a_flood_of_calls_that_break_costs_the_same_however_long_it_is(unit: str) -> None:
    def parse(size: int) -> None:
        parser = Parser("hermes", TOOLS)
        parser.feed(unit * size)
        parser.finish()

    check_linear(parse, 250, 4_000, at_most=1.6)
