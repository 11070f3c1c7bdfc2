"""Grammars of calls: what they match is what their format reads, and what it writes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec import structs

from gbnf import Grammar
from penstock import Parser
from penstock.errors import UsageError
from penstock.events import TextEnd, ToolCallEnd
from penstock.formats.base import Format
from penstock.formats.combined import mixed
from penstock.formats.json_calls import HERMES
from penstock.formats.registry import BUILT_IN, NONE, get
from penstock.messages import ToolCall
from penstock.tools import Tool
from penstock.values.schema import Schema

WITHOUT = {"auto", "none"}
"""Formats without a grammar: they have no calls of their own."""

ALL = [one for one in BUILT_IN if one.name not in WITHOUT]
FORMATS = [one for n, one in enumerate(ALL) if one.calls not in [each.calls for each in ALL[:n]]]
"""One of each style of calls: several models write just alike."""

WRITTEN_FLAT = [one for one in FORMATS if one.name not in ("command_r_plus", "yaml_xml")]
"""The formats that do not write arguments over lines: no grammar can count how deep a line is."""

SEVERAL = [one for one in FORMATS if one.name not in ("generic_json", "cohere_command5")]

WEATHER = Tool(
    "get_weather",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"enum": ["C", "F", "as it is"]},
            "days": {"type": "integer", "minimum": 0},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city"],
    },
)
PLAN = Tool(
    "plan.it",
    parameters={
        "type": "object",
        "properties": {
            "note": {"type": ["string", "null"]},
            "on": {"type": "boolean"},
            "where": {
                "type": "object",
                "properties": {"lat": {"type": "number"}, "name": {"type": "string"}},
                "required": ["lat", "name"],
            },
            "which": {
                "anyOf": [
                    {"type": "integer"},
                    {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 3},
                ]
            },
            "tree": {"$ref": "#/$defs/node"},
        },
        "required": ["on"],
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "v": {"type": "integer"},
                    "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                },
                "required": ["v"],
            }
        },
    },
)
STOP = Tool("stop", parameters={"type": "object", "properties": {}})
WRITE = Tool(
    "write_file",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
)
RUN = Tool(
    "run_bash",
    parameters={
        "type": "object",
        "properties": {
            "command": {"type": "string"},
            "background": {"type": "boolean"},
            "timeout_seconds": {"type": "integer", "minimum": 1},
        },
        "required": ["command"],
    },
)

CALLS: list[tuple[Tool, dict[str, Any]]] = [
    (WEATHER, {"city": "Oslo"}),
    (WEATHER, {"city": 'the "old" <b>town</b> \\ 100 % & more', "unit": "as it is", "days": 0}),
    (WEATHER, {"city": "\u4e16\u754c \U0001f600", "days": 31}),
    (PLAN, {"on": False}),
    (PLAN, {"note": "two\nlines", "on": True, "which": -4}),
    (STOP, {}),
]
NESTED: list[tuple[Tool, dict[str, Any]]] = [
    (WEATHER, {"city": "Oslo", "tags": ["a", "b c"]}),
    (PLAN, {"on": True, "where": {"lat": -0.5, "name": "here"}, "which": [1, 2.5]}),
    (PLAN, {"on": True, "tree": {"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3}]}}),
]
FILES: list[tuple[Tool, dict[str, Any]]] = [
    (WRITE, {"path": "a b.md", "content": "<p>1 & 2</p>"}),
    (RUN, {"command": "ls [[ -d x ]] </dev/null", "background": True, "timeout_seconds": 5}),
]


def tools_of(one: Format) -> list[Tool]:
    return [WRITE, RUN] if one.name == "file_tags" else [WEATHER, PLAN, STOP, WRITE, RUN]


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_every_rule_is_read_and_reached_and_the_same_each_time(one: Format) -> None:
    text = one.gbnf(tools_of(one))
    grammar = Grammar(text)
    assert grammar.reachable() == set(grammar.rules)
    assert one.gbnf(tools_of(one)) == text
    assert all(depth < 99 for depth in grammar.least.values()), "a rule never comes to an end"


@pytest.mark.parametrize("one", WRITTEN_FLAT, ids=lambda one: one.name)
def test_a_call_that_is_written_is_matched(one: Format) -> None:
    grammar = Grammar(one.gbnf(tools_of(one)))
    cases = FILES if one.name == "file_tags" else [*CALLS, *NESTED, *FILES]
    for tool, arguments in cases:
        written = one.render_call(ToolCall("", tool.name, arguments))
        assert grammar.matches(written), written
        assert not grammar.matches(written + written[-1:]), written
        assert not grammar.matches(written.replace(tool.name, tool.name + "s")), written


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_whatever_the_grammar_gives_is_one_call_that_its_schema_accepts(one: Format) -> None:
    tools = tools_of(one)
    chance = random.Random(4)
    grammar = Grammar(one.gbnf(tools))
    for _ in range(16):
        text = grammar.sample(chance)
        for chunks in ([text], list(text)):
            assert len(lawful_calls(one, tools, chunks)) == 1, text


@pytest.mark.parametrize("one", SEVERAL, ids=lambda one: one.name)
def test_many_calls_are_read_as_many(one: Format) -> None:
    tools = tools_of(one)
    chance = random.Random(5)
    grammar = Grammar(one.gbnf(tools, calls="many"))
    counts = {len(lawful_calls(one, tools, [grammar.sample(chance, 8)])) for _ in range(6)}
    assert 0 not in counts
    assert max(counts) > 1


def lawful_calls(one: Format, tools: list[Tool], chunks: list[str]) -> list[ToolCall]:
    """Read *chunks*, and see to it that all of it is calls, each as its schema wants it."""
    parser = Parser(one, tools, arguments="live" if len(chunks) > 1 else "whole")
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    events += parser.finish(cut=False)
    said = "".join(event.text for event in events if isinstance(event, TextEnd))
    assert not said.strip(), f"text beside a call: {said!r}"
    calls = [event.call for event in events if isinstance(event, ToolCallEnd)]
    schemas = {tool.name: Schema(tool.parameters) for tool in tools}
    for call in calls:
        assert call.complete
        assert schemas[call.name].accepts(call.arguments), call.arguments
    return calls


@pytest.mark.parametrize(
    "one", [one for one in FORMATS if one.name != "file_tags"], ids=lambda one: one.name
)
def test_a_tool_that_declares_no_arguments_is_called_without_any(one: Format) -> None:
    grammar = Grammar(one.gbnf([STOP]))
    assert grammar.matches(one.render_call(ToolCall("", "stop", {})))
    chance = random.Random(6)
    for _ in range(4):
        (call,) = lawful_calls(one, [STOP], [grammar.sample(chance)])
        assert call.arguments == {}


HOSTILE = ['a"b', "a\\b", "a\nb", "a]b[^-c", "\u00e9\u4e16\U0001f600", "</x>", "\x01*{3}"]


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_hostile_names_are_escaped_or_refused(one: Format) -> None:
    for name in HOSTILE:
        check_hostile(one, name)


def check_hostile(one: Format, name: str) -> None:
    schema = {"type": "object", "properties": {name: {"const": name}}, "required": [name]}
    tool = Tool(f"tool{name}", parameters=schema)
    try:
        grammar = Grammar(one.gbnf([tool]))
    except UsageError:
        with pytest.raises(UsageError):
            one.render_call(ToolCall("", tool.name, {name: name}))
        return
    calls = lawful_calls(one, [tool], [grammar.sample(random.Random(6))])
    assert [(call.name, call.arguments) for call in calls] == [(tool.name, {name: name})]


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_a_format_without_calls_of_its_own_has_no_grammar(name: str) -> None:
    one = get(name)
    assert isinstance(one, Format)
    with pytest.raises(UsageError, match="no grammar"):
        one.gbnf([WEATHER])
    with pytest.raises(UsageError, match="no grammar"):
        one.structural_tag([WEATHER])


def test_a_grammar_needs_a_tool() -> None:
    with pytest.raises(UsageError, match="at least one tool"):
        HERMES.gbnf([])


def test_a_format_of_one_call_has_no_grammar_of_many() -> None:
    one = get("generic_json")
    assert isinstance(one, Format)
    with pytest.raises(UsageError, match="one call per response"):
        one.gbnf([WEATHER], calls="many")


def test_a_tool_that_has_no_tag_cannot_be_called_in_file_tags() -> None:
    one = get("file_tags")
    assert isinstance(one, Format)
    with pytest.raises(UsageError, match="no tag for the tool"):
        one.gbnf([WEATHER])


def test_a_mix_has_the_grammar_of_its_first_style() -> None:
    assert mixed("both", HERMES, NONE).gbnf([WEATHER]) == HERMES.gbnf([WEATHER])
    with pytest.raises(UsageError, match="no style"):
        mixed("none of them", NONE).gbnf([WEATHER])


def test_a_style_of_ones_own_without_an_outline_is_refused() -> None:
    with pytest.raises(UsageError, match="'mine'"):
        structs.replace(NONE, name="mine").gbnf([WEATHER])
