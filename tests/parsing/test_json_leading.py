"""JSON that begins an answer: which of it is a call, and what becomes of the rest."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    check_bounded_holdback,
    check_linear,
    check_readings,
    cut_at,
    one_by_one,
)
from laws.checks import read
from laws.strategies import CUTS, soup
from penstock.formats.base import build_message
from penstock.formats.json_models import LEADING_FORMATS
from penstock.messages import AssistantMessage
from penstock.parsing import Engine
from penstock.readers.signed_json import MAX_UNNAMED
from penstock.tools import Tool

Called = tuple[str, dict[str, Any]]
Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")
BY_NAME = {fmt.name: fmt for fmt in LEADING_FORMATS}
TOOLS = [
    Tool("f", parameters={"properties": {"a": {"type": "string"}, "n": {"type": "integer"}}}),
    Tool("g"),
]
F = '{"name": "f", "arguments": {"a": "x"}}'
G = '{"name": "g", "parameters": {}}'
UNKNOWN = '{"name": "zz", "arguments": {"b": 1}}'
CALLED_F: Called = ("f", {"a": "x"})
CALLED_G: Called = ("g", {})
CALLED_UNKNOWN: Called = ("zz", {"b": 1})


def parser_of(name: str, mode: Mode = "whole", **options: Any) -> Engine:
    return BY_NAME[name].parser(TOOLS, arguments=mode, **options)


def parse(name: str, text: str) -> AssistantMessage:
    """Read *text* in both modes, whole and one by one, and give what all of them say."""
    readings = [
        build_message(read(parser_of(name, mode), chunks))
        for mode in MODES
        for chunks in ([text], one_by_one(text))
    ]
    assert all(reading == readings[0] for reading in readings)
    return readings[0]


def check(name: str, text: str, content: str, *calls: Called) -> None:
    message = parse(name, text)
    found = [(call.name, call.arguments) for call in message.tool_calls]
    assert (message.text, found) == (content, list(calls))


any_format = pytest.mark.parametrize("name", BY_NAME)


# --- where it is a call ---

CALLS = {
    "an object": ("llama3_json", F, "", CALLED_F),
    "an object behind white space": ("llama3_json", f" \n{F}", " \n", CALLED_F),
    "objects with a semicolon between": ("llama3_json", f"{F}; {G}", "", CALLED_F, CALLED_G),
    "objects with a newline between": ("llama3_json", f"{F}\n{G}", "", CALLED_F, CALLED_G),
    "later names are not looked up": (
        "llama3_json", f"{F};{UNKNOWN}", "", CALLED_F, CALLED_UNKNOWN
    ),
    "a dict of Python": (
        "llama3_json", "{'name': 'f', 'parameters': {'n': 1}}", "", ("f", {"n": 1})
    ),
    "another key before the name": (
        "llama3_json", '{"type": "function", "name": "g"}', "", CALLED_G
    ),
    "arguments before the name": (
        "llama3_json", '{"parameters": {"a": "x"}, "name": "f"}', "", CALLED_F
    ),
    "arguments in a string": (
        "llama3_json", '{"name": "f", "arguments": "{\\"a\\": \\"x\\"}"}', "", CALLED_F
    ),
    "a surplus bracket": ("llama3_json", f"{F}}} so", " so", CALLED_F),
    "text behind the last object": ("llama3_json", f"{F}; {G}; so", "; so", CALLED_F, CALLED_G),
    "another object behind it": ("llama3_json", f'{F}; {{"b": 1}}', '; {"b": 1}', CALLED_F),
    "a marker anywhere": ("llama3_json", f"So: <|python_tag|>{UNKNOWN}", "So: ", CALLED_UNKNOWN),
    "a marker behind a call": ("llama3_json", f"{F}<|python_tag|>{G}", "", CALLED_F, CALLED_G),
    "a list": ("xlam", f"[{F}, {UNKNOWN}] so", " so", CALLED_F, CALLED_UNKNOWN),
    "a list in a fence": ("xlam", f"So.\n```json\n[{F}]\n``` so", "So.\n so", CALLED_F),
    "a list in a fence that goes on": ("xlam", f"```json\n[{F}] hm\n```", " hm\n```", CALLED_F),
    "a list in a fence that is cut": ("xlam", f"```json\n[{F}]\n``", "", CALLED_F),
    "a list behind a marker": (
        "xlam", f"So [TOOL_CALLS] [{UNKNOWN}, {F}] so", "So  so", CALLED_UNKNOWN, CALLED_F
    ),
    "a list in tags": ("xlam", f"So <tool_call>[{UNKNOWN}]</tool_call>", "So ", CALLED_UNKNOWN),
    "a list behind the token": ("granite", f"<|tool_call|>[{UNKNOWN}]", "", CALLED_UNKNOWN),
    "a list behind the tag": ("granite", f"\n<tool_call>[{F}]", "\n", CALLED_F),
    "a list without a marker": ("granite", f"[{F}, {G}]", "", CALLED_F, CALLED_G),
    "a call in an object": ("generic_json", f'{{"tool_call": {F}}}', "", CALLED_F),
    "calls in an object": (
        "generic_json", f'{{"tool_calls": [{F}, {UNKNOWN}]}}', "", CALLED_F, CALLED_UNKNOWN
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "content", "calls"), [
    pytest.param(name, text, content, calls, id=why)
    for why, (name, text, content, *calls) in CALLS.items()
])  # fmt: skip
def test_it_is_a_call(name: str, text: str, content: str, calls: list[Called]) -> None:
    check(name, text, content, *calls)


# --- where it is none ---

TEXTS = {
    "an unknown tool": ("llama3_json", UNKNOWN),
    "no name": ("llama3_json", '{"species": "rudd"}'),
    "text before it": ("llama3_json", f"So: {F}"),
    "a list": ("llama3_json", f"[{F}]"),
    "half an object": ("llama3_json", '{"name": "f"'),
    "a bracket": ("llama3_json", "{"),
    "code": ("llama3_json", "{% if x %} {{ y }}"),
    "an unknown tool in a list": ("xlam", f"[{UNKNOWN}, {F}]"),
    "a list of something else": ("xlam", "[1, 2]"),
    "an empty list": ("xlam", "[]"),
    "a list behind text": ("xlam", f"So [{F}]"),
    "other JSON in a fence": ("xlam", '```json\n[{"name": "Ann"}]\n```'),
    "no JSON in a fence": ("xlam", "```json\nnull\n```"),
    "a fence that is cut": ("xlam", "```json\n"),
    "half a marker": ("xlam", "[TOOL_"),
    "a marker alone": ("xlam", "[TOOL_CALLS]"),
    "text behind the marker": ("xlam", "[TOOL_CALLS] are listed"),
    "a token behind text": ("granite", f"So <|tool_call|>[{F}]"),
    "a token alone": ("granite", "<|tool_call|>"),
    "a call that stands alone": ("generic_json", F),
    "an unknown tool in an object": ("generic_json", f'{{"tool_call": {UNKNOWN}}}'),
    "no calls in an object": ("generic_json", '{"tool_calls": []}'),
    "other members": ("generic_json", '{"answer": {"name": "f", "arguments": {}}}'),
}


@pytest.mark.parametrize(("name", "text"), TEXTS.values(), ids=TEXTS)
def test_it_is_text(name: str, text: str) -> None:
    check(name, text, text)


@pytest.mark.parametrize("name", ["llama3_json", "xlam", "granite", "generic_json"])
def test_other_json_is_no_mistake(name: str) -> None:
    told: list[object] = []
    for text in (UNKNOWN, '{"b": [1, {}]}', "[{}]", "{a", "[1"):
        read(parser_of(name, on_error=lambda *args: told.append(args)), [text])
    assert told == []


# --- where it breaks ---


def test_a_call_that_broke_is_text_and_later_ones_are_found() -> None:
    broken = '{"name": "f", "parameters": {"a": }}'
    told: list[Any] = []
    parser = parser_of("llama3_json", on_error=lambda *args: told.append(args[1].text))
    message = build_message(read(parser, [f"{broken} <|python_tag|>{G}"]))
    assert (message.text, told) == (f"{broken} ", [broken])
    assert [call.name for call in message.tool_calls] == ["g"]


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_broke_does_not_undo_those_before_it(mode: Mode) -> None:
    text = f'[{F}, {{"name": "g", "arguments": 3}}] so'
    message = build_message(read(parser_of("xlam", mode), [text]))
    assert [call.name for call in message.tool_calls] == ["f"]
    assert message.text == ', {"name": "g", "arguments": 3}] so'


def test_a_marker_with_no_json_behind_it_is_told_of() -> None:
    told: list[Any] = []
    parser = parser_of("xlam", on_error=lambda why, segment: told.append((why, segment.text)))
    read(parser, ["[TOOL_CALLS] none"])
    assert told == [("no JSON after the marker", "[TOOL_CALLS] none")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("llama3_json", '{"name": "f", "arguments": {"a": "x"}'),
        ("xlam", '[TOOL_CALLS] [{"name": "f", "arguments": {"a": "x"}'),
        ("xlam", '```json\n[{"name": "f", "arguments": {"a": "x"}'),
        ("xlam", '```json\n[{"name": "f", "arguments": {"a": "x"}\n```'),
        ("generic_json", '{"tool_call": {"name": "f", "arguments": {"a": "x"}'),
        ("granite", '<|tool_call|>[{"name": "f", "arguments": {"a": "x"}'),
    ],
)
def test_brackets_that_the_model_left_out_are_mended(name: str, text: str, mode: Mode) -> None:
    parser = parser_of(name, mode, repair=True)
    message = build_message([*parser.feed(text), *parser.finish(cut=False)])
    assert [(call.name, call.arguments) for call in message.tool_calls] == [CALLED_F]
    assert message.text == ""


# --- how long it may take ---


def test_a_name_may_not_come_late() -> None:
    def late(size: int) -> str:
        return f'{{"b": "{"x" * size}", "name": "g"}}'

    size = MAX_UNNAMED - len('{"b": "", "name": "g"')
    check("llama3_json", late(size), "", CALLED_G)
    check("llama3_json", late(size + 1), late(size + 1))


def test_a_name_may_come_behind_long_arguments() -> None:
    text = "x" * MAX_UNNAMED
    check("llama3_json", f'{{"arguments": {{"a": "{text}"}}, "name": "f"}}', "", ("f", {"a": text}))


@any_format
def test_an_answer_that_is_other_json_is_not_held_back(name: str) -> None:
    text = '{"b": [' + '"text", ' * MAX_UNNAMED
    check_bounded_holdback(partial(parser_of, name), text, MAX_UNNAMED + 1)


@any_format
@pytest.mark.parametrize(
    "unit", ["{", "[", '{"b": ', "[TOOL_CALLS", "```json\n", f"{F}; ", "} ", '"[{"']
)
def test_hostile_text_costs_no_more_the_longer_it_is(name: str, unit: str) -> None:
    def run(count: int) -> None:
        parser = parser_of(name, "live")
        parser.feed(unit * count)
        parser.finish()

    check_linear(run, 300, 3000, at_most=4, tries=2)


PIECES = (
    F, G, UNKNOWN, '{"name": "f", "arguments": {"a": "x', '{"tool_call": ', '{"tool_calls": [',
    "```json\n", "```", "[TOOL_CALLS]", "<|python_tag|>", "<|tool_call|>", "<tool_call>",
    "</tool_call>", "<|eot_id|>", "<think>", "</think>", "; ", ", ", "]", "}", '"arguments": ',
)  # fmt: skip


@any_format
@settings(max_examples=60)
@given(text=soup(*PIECES), cuts=CUTS, mode=st.sampled_from(MODES), repair=st.booleans())
def test_the_laws_hold_for_any_text(
    name: str, text: str, cuts: list[int], mode: Mode, *, repair: bool
) -> None:
    make = partial(parser_of, name, mode, repair=repair)
    check_readings(make, text, [cut_at(text, cuts), one_by_one(text)])
