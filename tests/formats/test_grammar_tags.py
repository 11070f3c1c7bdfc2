"""Structural tags: their shape, what triggers them, and the formats that have none."""

from __future__ import annotations

from typing import Any

import pytest

from gbnf import Grammar
from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.json_calls import HERMES
from penstock.formats.registry import BUILT_IN, get
from penstock.tools import Tool

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [Tool("tool_call", parameters=PARAMETERS), Tool("tool", parameters=PARAMETERS)]
FILE_TOOLS = [
    Tool(
        "write_file",
        parameters={"properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
    )
]
LEADING = {"llama3_json", "xlam", "granite", "generic_json", "pythonic"}
"""The formats whose calls count only where an answer begins."""

FORMATS = [one for one in BUILT_IN if one.name not in ("auto", "none")]


def tag_of(one: Format) -> dict[str, Any]:
    tools = FILE_TOOLS if one.name == "file_tags" else TOOLS
    leads = one.name in LEADING
    return one.structural_tag(tools, at_least_one=leads, stop_after_first=leads)["format"]  # type: ignore[no-any-return]


def test_json_between_tags_is_a_schema_between_begin_and_end() -> None:
    assert HERMES.structural_tag([TOOLS[1]], at_least_one=True) == {
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": ["<tool_call>"],
            "tags": [
                {
                    "type": "tag",
                    "begin": '<tool_call>{"name":"tool","arguments":',
                    "content": {"type": "json_schema", "json_schema": PARAMETERS},
                    "end": "}</tool_call>",
                }
            ],
            "at_least_one": True,
            "stop_after_first": False,
        },
    }


def test_a_tool_that_declares_no_arguments_takes_none() -> None:
    for parameters, wanted in (
        ({"properties": {}}, {"properties": {}, "additionalProperties": False}),
        ({"properties": {}, "additionalProperties": True}, None),
        ({"properties": {}, "anyOf": [{"properties": {"a": {}}}]}, None),
        ({"type": "object"}, None),
    ):
        tag = HERMES.structural_tag([Tool("stop", parameters=parameters)])["format"]["tags"][0]
        assert tag["content"]["json_schema"] == (wanted or parameters)


def test_raw_values_are_a_grammar() -> None:
    one = get("qwen3_coder")
    assert isinstance(one, Format)
    tag = one.structural_tag(TOOLS)["format"]["tags"][0]
    assert tag["begin"] == "<tool_call>\n<function=tool_call>\n"
    assert tag["end"] == "</function>\n</tool_call>"
    assert Grammar(tag["content"]["grammar"]).matches("<parameter=city>\nOslo\n</parameter>\n")


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_every_tag_has_one_trigger_that_it_begins_with(one: Format) -> None:
    found = tag_of(one)
    for tag in found["tags"]:
        triggers = [trigger for trigger in found["triggers"] if tag["begin"].startswith(trigger)]
        assert len(triggers) == 1
        assert len(triggers[0]) > 1, "a single sign stands in prose, too"


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_every_content_is_of_a_known_type(one: Format) -> None:
    for tag in tag_of(one)["tags"]:
        content = tag["content"]
        parts = content["elements"] if content["type"] == "sequence" else [content]
        for part in parts:
            match part["type"]:
                case "json_schema":
                    assert part["json_schema"] == PARAMETERS
                case "grammar":
                    Grammar(part["grammar"])
                case kind:
                    assert kind == "const_string"
                    assert part["value"]


@pytest.mark.parametrize("name", sorted(LEADING))
def test_where_a_call_is_all_of_the_answer_nothing_else_can_be_asked_for(name: str) -> None:
    one = get(name)
    assert isinstance(one, Format)
    with pytest.raises(UsageError, match="must begin the response"):
        one.structural_tag(TOOLS)
    assert one.structural_tag(TOOLS, at_least_one=True, stop_after_first=True)


def test_a_tool_without_a_schema_takes_any_object() -> None:
    tag = HERMES.structural_tag([Tool("stop")])["format"]["tags"][0]
    assert tag["content"] == {"type": "json_schema", "json_schema": {"type": "object"}}


def test_a_structural_tag_needs_a_tool() -> None:
    with pytest.raises(UsageError, match="at least one tool"):
        HERMES.structural_tag([])
