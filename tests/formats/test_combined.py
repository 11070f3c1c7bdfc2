"""Several call styles read together: which one has a call, at any cut of the text."""

from __future__ import annotations

from functools import partial
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    check_linear,
    check_readings,
    cut_at,
)
from laws.checks import read
from laws.strategies import CUTS, soup
from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.combined import mixed
from penstock.formats.json_calls import HERMES, json_mix, json_tool
from penstock.formats.sentinel import SENTINEL
from penstock.formats.tool_tag import FILE_TAGS, TOOL_TAG
from penstock.messages import ToolCall, ToolResult
from penstock.tools import Tool

JSON = json_tool("openai")
XML = mixed("xml", TOOL_TAG, FILE_TAGS)
ALL = mixed("all", TOOL_TAG, FILE_TAGS, JSON, SENTINEL)
BRACKETS = mixed("brackets", SENTINEL, JSON)
TOOLS = [Tool("write_file"), Tool("run_bash"), Tool("add")]
MODES: tuple[Literal["whole", "live"], ...] = ("whole", "live")

TAG = '<tool name="add"><arg name="a">1</arg></tool>'
FILE = '<write_file path="p">{"tool": </write_file>'
OBJECT = '{"tool": {"function": "add", "parameters": {"b": "<tool"}}}'
LIST = '[{"function": "add"}, {"function": "run_bash", "arguments": {"command": "[["}}]'
SEGMENT = '[[SEG_START {"type":"run_bash"}]]ls[[SEG_END]]'


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("format_", "text", "names"),
    [
        (XML, f"a {TAG} b {FILE} c", ["add", "write_file"]),
        (ALL, f"{FILE}{OBJECT}{SEGMENT}{TAG}", ["write_file", "add", "run_bash", "add"]),
        (ALL, f"{LIST} and {SEGMENT}", ["add", "run_bash", "run_bash"]),
        (BRACKETS, f"{LIST}{SEGMENT}{LIST}", ["add", "run_bash", "run_bash", "add", "run_bash"]),
        (BRACKETS, f"[[1], [[SEG]] {SEGMENT.lower()}", ["run_bash"]),
        (BRACKETS, '[[SEG_START {"tool": {"function": "add"}}]]', ["add"]),
        (BRACKETS, "[[SEG_START [[SEG_STAR [[1]]", []),
        (BRACKETS, "a [[SEG_STAR", []),
        (XML, f"{OBJECT}{SEGMENT}", []),
    ],
)
def test_each_call_is_read_in_its_own_style(
    format_: Format, text: str, names: list[str], mode: Literal["whole", "live"]
) -> None:
    make = partial(format_.parser, TOOLS, arguments=mode)
    check_readings(make, text)
    assert [call.name for call in format_.parse(text, TOOLS).tool_calls] == names


def test_a_tie_goes_to_the_first_style() -> None:
    one = json_mix("<call>", "</call>", name="one")
    other = json_mix("<call>{", "</call>", name="other")
    text = '<call>{"name": "add"}</call>'
    for formats in ((one, other), (other, one)):
        assert [call.name for call in mixed("m", *formats).parse(text, TOOLS).tool_calls] == ["add"]
    same = json_mix("<call>", "<end>", name="same")
    text = '<call>{"name": "add"}<end>'
    assert mixed("m", same, one).call_segments(text, TOOLS) == [text]
    assert mixed("m", one, same).call_segments(text, TOOLS) == [text.removesuffix("<end>")]


def test_a_style_that_does_not_fold_keeps_its_case_beside_one_that_does() -> None:
    both = mixed("both", TOOL_TAG, HERMES)
    call = '{"name": "add"}</tool_call>'
    assert both.parse(f"<tool_call>{call}", TOOLS).tool_calls
    assert not both.parse(f"<TOOL_CALL>{call}", TOOLS).tool_calls
    assert both.parse(TAG.replace("tool", "TOOL"), TOOLS).tool_calls


def test_a_mix_writes_as_its_first_format_does_where_that_can() -> None:
    call = ToolCall("", "write_file", {"path": "p", "content": "x"})
    result = ToolResult("", "add", 1)
    both = mixed("both", FILE_TAGS, TOOL_TAG)
    assert both.render_call(call) == FILE_TAGS.render_call(call)
    other = ToolCall("", "add", {"a": "1"})
    assert both.render_call(other) == TOOL_TAG.render_call(other)
    assert both.render_result(result) == FILE_TAGS.render_result(result)
    with pytest.raises(UsageError):
        mixed("files", FILE_TAGS).render_call(other)
    with pytest.raises(UsageError):
        mixed("nothing")


def test_an_end_marker_behind_a_broken_call_is_the_same_at_any_cut() -> None:
    text = '[[SEG_START {"type":"tool","tool_name":"add"}]][[SEG_START {}]]x[[SEG_END]]'
    make = partial(BRACKETS.parser, TOOLS, arguments="live")
    check_readings(make, text)


SOUP = soup(TAG, FILE, OBJECT, LIST, SEGMENT, "[[SEG_START", '{"tool":', "[[", "]]", "</tool>")


@settings(max_examples=200, deadline=None)
@given(
    text=SOUP,
    cuts=CUTS,
    format_=st.sampled_from([ALL, BRACKETS, mixed("json first", JSON, SENTINEL, TOOL_TAG)]),
    mode=st.sampled_from(MODES),
)
def test_the_laws_hold_for_any_mix(
    text: str, cuts: list[int], format_: Format, mode: Literal["whole", "live"]
) -> None:
    make = partial(format_.parser, TOOLS, arguments=mode)
    check_readings(make, text, [cut_at(text, cuts)])


@pytest.mark.parametrize("piece", ["[", "[[SEG_START ", '[{"tool": ', "<tool ", '{"tool": {'])
def test_hostile_text_stays_linear(piece: str) -> None:
    def run(pieces: int) -> None:
        read(BRACKETS.parser(TOOLS), [piece * 5] * pieces)

    check_linear(run, 100, 1500, at_most=4, tries=2)
