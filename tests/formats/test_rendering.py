"""What a model gets to see: several calls of one message, and the list of its tools."""

# ruff: noqa: RUF001 - DeepSeek writes a wide bar
from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import cut_at
from laws.checks import read
from laws.strategies import CUTS, soup
from penstock.errors import UsageError
from penstock.formats import Format
from penstock.formats.base import build_message
from penstock.formats.combined import mixed
from penstock.formats.json_calls import HERMES
from penstock.formats.morph_xml import MORPH_XML
from penstock.formats.registry import BUILT_IN, NONE
from penstock.formats.round_trip import infer_schema
from penstock.messages import ToolCall
from penstock.tools import Tool

BY_NAME = {fmt.name: fmt for fmt in BUILT_IN}
WITH_CALLS = [fmt for fmt in BUILT_IN if fmt is not NONE]
every_format = pytest.mark.parametrize("fmt", WITH_CALLS, ids=lambda fmt: fmt.name)

FILES = [
    ToolCall("c", "write_file", {"path": "a.py", "content": "if a < b:\n    c()"}),
    ToolCall("c", "run_bash", {"command": "ls | wc -l"}),
    ToolCall("c", "write_file", {"path": "b.py", "content": "x"}),
]


def said(calls: list[ToolCall]) -> list[tuple[str, dict[str, Any], bool]]:
    return [(call.name, call.arguments, call.complete) for call in calls]


def tools_of(calls: list[ToolCall]) -> list[Tool]:
    return [Tool(call.name, parameters=infer_schema(call.arguments)) for call in calls]


# --- several calls ---


@every_format
def test_the_calls_of_one_message_read_back_in_order(fmt: Format) -> None:
    message = fmt.parse(fmt.render_calls(FILES), tools_of(FILES[:2]))
    assert said(message.tool_calls) == said(FILES)
    assert not message.text.strip()


TEXTS = soup("</a>", "<b>", '"', "'", "\n", "]", "}", "x", "<tool_call>", "</tool_call>", "```")
ARGUMENTS = st.fixed_dictionaries(
    {"a": TEXTS}, optional={"n": st.integers(), "on": st.booleans(), "l": st.lists(TEXTS)}
)


@every_format
@settings(max_examples=5)
@given(arguments=st.lists(ARGUMENTS, min_size=2, max_size=3), cuts=CUTS)
def test_what_can_be_written_together_reads_back_equal(
    fmt: Format, arguments: list[dict[str, Any]], cuts: list[int]
) -> None:
    calls = [ToolCall("", f"f{at}", each) for at, each in enumerate(arguments)]
    try:
        text = fmt.render_calls(calls)
    except UsageError:
        return
    message = build_message(read(fmt.parser(tools_of(calls)), cut_at(text, cuts)))
    assert said(message.tool_calls) == said(calls)


@every_format
def test_one_call_is_written_as_it_is_alone_and_none_as_nothing(fmt: Format) -> None:
    assert fmt.render_calls(FILES[:1]) == fmt.render_call(FILES[0])
    assert fmt.render_calls([]) == ""


@every_format
def test_a_call_that_cannot_be_written_alone_cannot_be_written_among_others(fmt: Format) -> None:
    for bad in (
        ToolCall("c", "", {}),
        ToolCall("c", "f", {"a": float("nan")}),
        ToolCall("c", "write_file", {"path": "a"}, complete=False),
    ):
        with pytest.raises(UsageError):
            fmt.render_calls([FILES[1], bad])


TWO = [ToolCall("", "f", {"a": "x"}), ToolCall("", "g")]
TOGETHER = {
    "hermes": '<tool_call>{"name":"f","arguments":{"a":"x"}}</tool_call>\n'
    '<tool_call>{"name":"g","arguments":{}}</tool_call>',
    "qwen25": '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>',
    "jamba": '<tool_calls>[\n    {"name": "f", "arguments": {"a": "x"}},\n'
    '    {"name": "g", "arguments": {}}\n]</tool_calls>',
    "minimax_m1": '<tool_calls>\n{"name": "f", "arguments": {"a": "x"}}\n'
    '{"name": "g", "arguments": {}}\n</tool_calls>',
    "apertus": '<|tools_prefix|>[{"f": {"a": "x"}}, {"g": {}}]<|tools_suffix|>',
    "command_r7b": '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "f", "parameters": '
    '{"a": "x"}},\n    {"tool_call_id": "1", "tool_name": "g", "parameters": {}}\n]<|END_ACTION|>',
    "llama3_json": '{"name": "f", "parameters": {"a": "x"}}; {"name": "g", "parameters": {}}',
    "generic_json": '{"tool_calls": [{"name": "f", "arguments": {"a": "x"}}, '
    '{"name": "g", "arguments": {}}]}',
    "mistral_array": '[TOOL_CALLS][{"name": "f", "arguments": {"a": "x"}}, '
    '{"name": "g", "arguments": {}}]',
    "mistral_args": '[TOOL_CALLS]f[ARGS]{"a": "x"}[TOOL_CALLS]g[ARGS]{}',
    "deepseek_v31": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": "x"}'
    "<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
    '<|tool_call_argument_begin|>{"a": "x"}<|tool_call_end|><|tool_call_begin|>functions.g:1'
    "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
    "kimi_k3": '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" '
    'type="string"<|sep|>x<|close|>argument<|sep|><|close|>call<|sep|><|open|>call tool="g" '
    'index="2"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
    "functionary_v3_2": '>>>f\n{"a": "x"}>>>g\n{}',
    "pythonic": '[f(a="x"), g()]',
    "olmo3": '<function_calls>f(a="x")\ng()</function_calls>',
    "glm47": "<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value></tool_call>"
    "<tool_call>g</tool_call>",
    "minimax_m2": '<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">x</parameter>\n'
    '</invoke>\n<invoke name="g">\n</invoke>\n</minimax:tool_call>',
    "gemma4": '<|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|><|tool_call>call:g{}<tool_call|>',
}


@pytest.mark.parametrize(("name", "written"), TOGETHER.items(), ids=TOGETHER)
def test_several_calls_are_written_as_the_models_write_them(name: str, written: str) -> None:
    assert BY_NAME[name].render_calls(iter(TWO)) == written


def test_ids_that_the_models_know_are_kept() -> None:
    calls = [ToolCall("functions.f:4", "f"), ToolCall("functions.g:5", "g")]
    assert "functions.f:4<" in BY_NAME["kimi_k2"].render_calls(calls)
    assert "functions.g:5<" in BY_NAME["kimi_k2"].render_calls(calls)


def test_a_mix_writes_in_the_first_style_that_can_write_all() -> None:
    both = mixed("both", MORPH_XML, HERMES)
    assert both.render_calls(TWO) == MORPH_XML.render_calls(TWO)
    unnameable = [*TWO, ToolCall("", "a b", {})]
    assert both.render_calls(unnameable) == HERMES.render_calls(unnameable)


# --- the list of tools ---

TIDES = Tool("tide_at", "When", {"type": "object", "properties": {"port": {"type": "string"}}})
PING = Tool("ping")
PLAIN = [
    (
        '{"name": "tide_at", "description": "When", "parameters": '
        '{"type": "object", "properties": {"port": {"type": "string"}}}}'
    ),
    '{"name": "ping", "parameters": {}}',
]
TYPED = [f'{{"type": "function", "function": {one}}}' for one in PLAIN]
SHOWN = {
    "qwen25": "<tools>\n{}\n{}\n</tools>".format(*TYPED),
    "glm45": "<tools>\n{}\n{}\n</tools>".format(*TYPED),
    "poolside_v1": "<available_tools>\n{}\n{}\n</available_tools>".format(*TYPED),
    "minimax_m2": "<tools>\n<tool>{}</tool>\n<tool>{}</tool>\n</tools>".format(*PLAIN),
    "deepseek_v32": "<functions>\n{}\n{}\n</functions>".format(*PLAIN),
    "mistral_args": "[AVAILABLE_TOOLS][{}, {}][/AVAILABLE_TOOLS]".format(*TYPED),
    "nemotron_toolcall": "<AVAILABLE_TOOLS>[{}, {}]</AVAILABLE_TOOLS>".format(*PLAIN),
    "command_r7b": "```json\n[\n    {},\n    {}\n]\n```".format(*PLAIN),
    "lfm2": "<|tool_list_start|>[{}, {}]<|tool_list_end|>".format(*TYPED),
    "kimi_k2": "\n[{}, {}]\n".format(*TYPED),
}


@pytest.mark.parametrize(("name", "shown"), SHOWN.items(), ids=SHOWN)
def test_tools_are_shown_as_the_models_were_taught_to_see_them(name: str, shown: str) -> None:
    prompt = BY_NAME[name].render_tools([TIDES, PING])
    assert f"\n{shown.strip()}\n" in prompt or shown in prompt
    assert prompt.count("tide_at") == 2, "in the list, and in the example"


def test_tools_may_be_shown_over_lines() -> None:
    prompt = BY_NAME["llama3_json"].render_tools([TIDES, PING])
    shown = json.dumps(json.loads(TYPED[0]), indent=4)
    assert f"\n\n{shown}\n\n{{" in prompt


@every_format
def test_a_prompt_of_ones_own_gets_a_plain_list(fmt: Format) -> None:
    written = fmt.render_tools([TIDES, PING], template="<tools>\n{tools}\n</tools>")
    shown = json.loads(written.removeprefix("<tools>").removesuffix("</tools>"))
    assert [tool["name"] for tool in shown] == ["tide_at", "ping"]


@every_format
def test_a_tool_that_speaks_of_places_fills_none(fmt: Format) -> None:
    tool = Tool("f", "puts {example}, {tools}, {json} and {lines} in")
    assert "puts {example}, {tools}, {json} and {lines} in" in fmt.render_tools([tool])
