"""What a text that ends, or breaks, inside a call is shown as: nothing is lost, nothing is run."""

from __future__ import annotations

from typing import Any

import pytest

from laws import chunkings
from penstock.views.segments import Handler
from views.segment_samples import TOOLS, fold, run

JSON = {"strategy": "json", "provider": "openai"}
XML = {"strategy": "xml"}
SENTINEL = {"strategy": "sentinel"}

CUT = [
    pytest.param(XML, "a <too", [("text", "a <too")], id="half a tag is text"),
    pytest.param(
        XML, '<tool name="add">', [("text", '<tool name="add">')], id="an opening tag is text"
    ),
    pytest.param(
        XML,
        '<tool name="add"><arg name="a">x</ar',
        [("tool_call", '<arg name="a">x</ar')],
        id="a call shows all that had come",
    ),
    pytest.param(
        XML,
        '<tool name="add"><arg name="a">x</arg></too',
        [("tool_call", '<arg name="a">x</arg></too')],
        id="half a closing tag is content",
    ),
    pytest.param(
        XML,
        '<tool name="write_file"><arguments><arg name="pa',
        [("text", '<tool name="write_file"><arguments><arg name="pa')],
        id="a file without a path had nothing to show: it is text",
    ),
    pytest.param(
        XML,
        '<tool name="write_file"><arg name="path">p</arg><arg',
        [("write_file", "")],
        id="a file with its path is one",
    ),
    pytest.param(
        XML,
        '<tool name="write_file"><arg name="path">p</arg><arg name="content">__START_CONTENT__\n'
        "abc\n__END_CON",
        [("write_file", "abc\n__END_CON")],
        id="half an end marker is content",
    ),
    pytest.param(
        XML, "<run_bash>ls</run_", [("run_bash", "ls</run_")], id="a command shows half its tag"
    ),
    pytest.param(
        XML, '<tool name="run_bash"><arg na', [("run_bash", "")], id="a command waits for nothing"
    ),
    pytest.param(JSON, 'a {"to', [("text", 'a {"to')], id="half a signature is text"),
    pytest.param(
        JSON, 'a {"tool": {"fu', [("text", "a "), ("tool_call", '{"tool": {"fu')],
        id="a signature makes JSON a call",
    ),
    pytest.param(
        JSON,
        '{"tool": {"function": {"name": "add", "arguments": {"a": [1, {"b": "c',
        [("tool_call", '{"tool": {"function": {"name": "add", "arguments": {"a": [1, {"b": "c')],
        id="JSON shows all that had come",
    ),
    pytest.param(
        JSON,
        '[{"function":{"name":"add","arguments":{}}},{"func',
        [("tool_call", '[{"function":{"name":"add","arguments":{}}},{"func')],
        id="a list shows all that had come",
    ),
    pytest.param(
        JSON,
        '[{"function":"add"}] [{"tool": {"x',
        [("tool_call", '[{"function":"add"}]'), ("text", " "), ("tool_call", '[{"tool": {"x')],
        id="a list that was whole stays so",
    ),
    pytest.param(
        JSON,
        '[{"function":"add"}][{"tool": {"x',
        [("tool_call", '[{"function":"add"}]'), ("tool_call", '[{"tool": {"x')],
        id="also without anything between",
    ),
    pytest.param(
        SENTINEL, '[[SEG_START {"type":"ru', [("text", '[[SEG_START {"type":"ru')],
        id="half a header is text",
    ),
    pytest.param(
        {"order": ("xml_tag", "json_tool")},
        """<tool name="add" x='{"tool": """,
        [("text", """<tool name="add" x='{"tool": """)],
        id="JSON in half a tag is text",
    ),
    pytest.param(
        SENTINEL,
        '[[SEG_START {"type":"run_bash"}]]',
        [("text", '[[SEG_START {"type":"run_bash"}]]')],
        id="a header alone is text",
    ),
    pytest.param(
        SENTINEL, '[[SEG_START {"type":"run_bash"}]]ls[[SEG_E', [("run_bash", "ls[[SEG_E")],
        id="half an end marker of a sentinel is content",
    ),
    pytest.param(
        SENTINEL,
        '[[SEG_START {"type":"tool","tool_name":"add"}]]{"a": 1',
        [("tool_call", '{"a": 1')],
        id="a body shows all that had come",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("options", "text", "expected"), CUT)
def test_a_cut_is_shown_up_to_the_cut(
    options: dict[str, Any], text: str, expected: list[tuple[str, str]]
) -> None:
    for chunks in chunkings(text):
        handler = run(Handler(tools=TOOLS, **options), chunks)
        shown = fold(handler.events)
        joined = [(one.type, one.content) for one in shown]
        if all(kind == "text" for kind, _ in joined):
            joined = [("text", "".join(content for _, content in joined))]
        assert joined == expected
        assert not [made for made in handler.invocations if made.id == shown[-1].id]
        assert shown[-1].metadata.get("incomplete", False) == (shown[-1].type != "text")
        assert "".join(event.raw for event in handler.events) + handler.rest == text


BROKEN = [
    pytest.param(
        JSON,
        '{"tool": {"function": {"name": "add", "arguments": {"a": 1,,}}}} b {"function": "Zap"}',
        ["tool_call", "text", "tool_call"],
        ["Zap"],
        id="broken JSON is shown and not run, and the next call is found",
    ),
    pytest.param(
        JSON,
        '[{"function": "add"}, oops] b {"function": "Zap"}',
        ["tool_call", "text", "tool_call"],
        ["add", "Zap"],
        id="what breaks in a list undoes no call before it",
    ),
    pytest.param(
        XML,
        '<tool name="write_file"><arguments><tool name="add"></tool> c',
        ["text", "tool_call", "text"],
        ["add"],
        id="a call that begins inside one breaks it",
    ),
]


@pytest.mark.parametrize(
    ("options", "text", "content"),
    [
        (XML, '<tool name="add">so it is</tool >', "so it is"),
        (XML, '<tool name="add">{"a" % "b"}</TOOL>', '{"a" % "b"}'),
        (SENTINEL, '[[SEG_START {"type":"tool","tool_name":"add"}]] so[[seg_end]]', " so"),
        (SENTINEL, '[[SEG_START {"type":"tool","tool_name":"add"}]]{"a" %}[[SEG_END]]', '{"a" %}'),
    ],
)
def test_a_call_that_breaks_is_shown_up_to_its_end(
    options: dict[str, Any], text: str, content: str
) -> None:
    for chunks in chunkings(f"a {text} b {text}c"):
        handler = run(Handler(tools=TOOLS, **options), chunks)
        shown = fold(handler.events)
        assert [(one.type, one.content) for one in shown] == [
            ("text", "a "),
            ("tool_call", content),
            ("text", " b "),
            ("tool_call", content),
            ("text", "c"),
        ]
        assert [one.end for one in shown if one.type == "tool_call"] == [{"incomplete": True}] * 2
        assert handler.invocations == []
        assert "".join(event.raw for event in handler.events) + handler.rest == "".join(chunks)


def test_a_call_that_breaks_and_never_ends_is_shown_up_to_the_next_call() -> None:
    text = '<tool name="add">{"a" %} so <tool name="Zap"></tool> b'
    for chunks in chunkings(text):
        handler = run(Handler("xml", tools=TOOLS), chunks)
        shown = [(one.type, one.content) for one in fold(handler.events)]
        assert shown == [("tool_call", '{"a" %} so '), ("tool_call", ""), ("text", " b")]
        assert [made.name for made in handler.invocations] == ["Zap"]


@pytest.mark.parametrize(("options", "text", "kinds", "names"), BROKEN)
def test_a_call_that_breaks_leaves_the_rest_alone(
    options: dict[str, Any], text: str, kinds: list[str], names: list[str]
) -> None:
    told: list[str] = []
    handler = Handler(tools=TOOLS, on_error=lambda message, _: told.append(message), **options)
    shown = fold(run(handler, [text]).events)
    assert [one.type for one in shown] == kinds
    assert [made.name for made in handler.invocations] == names
    assert "".join(event.raw for event in handler.events) + handler.rest == text


@pytest.mark.parametrize(
    ("options", "text", "arguments"),
    [
        (XML, '<write_file path="p">ab</wri', {"path": "p", "content": "ab</wri"}),
        (XML, '<tool name="run_bash"><arg name="command">l', {"command": "l"}),
        (SENTINEL, '[[SEG_START {"type":"run_bash"}]]ls', {"command": "ls"}),
        (XML, '<tool name="add"><arg name="a">1</arg><arg name="b">2', {"a": "1", "b": "2"}),
    ],
)
def test_who_wants_cut_calls_gets_them(
    options: dict[str, Any], text: str, arguments: dict[str, Any]
) -> None:
    handler = run(Handler(tools=TOOLS, invoke_incomplete=True, **options), [text])
    assert [made.arguments for made in handler.invocations] == [arguments]
    assert run(Handler(tools=TOOLS, **options), [text]).invocations == []
