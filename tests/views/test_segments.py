"""`views.segments` over text: every vector at every cut, and what holds for any text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_linear, chunkings, cut_at
from laws.strategies import CUTS, soup
from penstock.tools import Tool
from penstock.views.segments import Adapter, Handler, from_dict
from views.segment_samples import TOOLS, Shown, fold, run, view

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "vectors" / "segments.jsonl").read_text().splitlines()
]


def merged(segments: list[Shown]) -> list[Shown]:
    """Join neighbouring texts and leave out empty ones."""
    joined: list[Shown] = []
    for shown in segments:
        if shown.type == "text" and joined and joined[-1].type == "text":
            joined[-1].content += shown.content
        elif shown.type != "text" or shown.content:
            joined.append(shown)
    return joined


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['id']}: {vector['why']}")
def test_a_vector_reads_the_same_whole_by_characters_and_at_every_cut(
    vector: dict[str, Any],
) -> None:
    expected = vector["expect_segments"]
    for chunks in chunkings(vector["text"]):
        handler = Handler(vector["strategy"], provider=vector["provider"], tools=vector["tools"])
        shown = merged(fold(run(handler, chunks).events))
        assert [(one.type, one.content) for one in shown] == [
            (one["segment_type"], one["content"]) for one in expected
        ]
        for one, wanted in zip(shown, expected, strict=True):
            assert one.metadata | wanted["metadata"] == one.metadata
        if vector["expect_invocations"] is not None:
            invoked = [{"name": i.name, "arguments": i.arguments} for i in handler.invocations]
            assert invoked == vector["expect_invocations"]


# --- what holds for any text ---

STRATEGIES: list[dict[str, Any]] = [
    {"strategy": "xml"},
    {"strategy": "json"},
    {"strategy": "json", "provider": "openai"},
    {"strategy": "json", "provider": "gemini"},
    {"strategy": "sentinel"},
    {"order": ("xml_tag", "json_tool", "sentinel"), "provider": "openai"},
    {"order": ("sentinel", "json_tool")},
    {"strategy": "api_tool_call"},
]

TEXTS = soup(
    '<tool name="add">',
    '<tool name="write_file">',
    '<tool name="run_bash" background="yes">',
    "<TOOL name='zap'>",
    "</tool>",
    "<arguments>",
    '<arg name="path">p</arg>',
    '<arg name="content">',
    '<arg name="command">',
    "</arg>",
    "<k>v</k>",
    "__START_CONTENT__\n",
    "__END_CONTENT__",
    '<write_file path="a.txt">',
    "</write_file>",
    "<run_bash>",
    "</run_bash>",
    '{"tool": {"function": "add", "parameters": {"a": 1}}}',
    '{"tool": {"function": "add"',
    '[{"function":{"name":"add","arguments":{"x":"}"}}}',
    ',{"function":"Zap","arguments":"{\\"q\\":1}"}',
    '{"tool_calls": [',
    '{"name":"book","args":{"seats":"4"}}',
    "]",
    "}",
    '[[SEG_START {"type":"write_file","path":"p"}]]',
    '[[SEG_START {"type":"tool","tool_name":"add"}]]',
    '[[SEG_START {"type":"text","k":1}]]',
    '[[SEG_START {"type":"reasoning"}]]',
    "[[SEG_END]]",
    '[{"a":1},{"a":2}]',
    "<think>",
    "</think>",
)


@settings(max_examples=120, deadline=None)
@given(text=TEXTS, cuts=CUTS, options=st.sampled_from(STRATEGIES))
def test_no_cut_changes_segments_or_invocations(
    text: str, cuts: list[int], options: dict[str, Any]
) -> None:
    whole = run(Handler(tools=TOOLS, **options), [text])
    cut = run(Handler(tools=TOOLS, **options), cut_at(text, cuts))
    assert fold(cut.events) == fold(whole.events)
    assert cut.invocations == whole.invocations


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, cuts=CUTS, options=st.sampled_from(STRATEGIES))
def test_all_text_is_accounted_for(text: str, cuts: list[int], options: dict[str, Any]) -> None:
    handler = run(Handler(tools=TOOLS, **options), cut_at(text, cuts))
    assert "".join(event.raw for event in handler.events) + handler.rest == text


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, options=st.sampled_from(STRATEGIES))
def test_every_segment_ends_and_every_invocation_belongs_to_one(
    text: str, options: dict[str, Any]
) -> None:
    handler = run(Handler(tools=TOOLS, **options), [text])
    shown = {one.id: one for one in fold(handler.events)}
    assert all(one.end is not None for one in shown.values())
    ids = [invocation.id for invocation in handler.invocations]
    assert len(set(ids)) == len(ids)
    for id_ in ids:
        assert "incomplete" not in shown[id_.partition(":")[0]].metadata


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, options=st.sampled_from(STRATEGIES))
def test_segments_alone_say_what_is_to_be_run(text: str, options: dict[str, Any]) -> None:
    handler = run(Handler(tools=TOOLS, **options), [text])
    tools = [Tool(tool) if isinstance(tool, str) else tool for tool in TOOLS]
    adapter = Adapter(tools, provider=options.get("provider"))
    sent = [from_dict(event.as_dict()) for event in handler.events]
    assert [made for event in sent for made in adapter.add(event)] == handler.invocations


@pytest.mark.parametrize(
    ("options", "opening", "closing"),
    [
        ({"strategy": "xml"}, '<write_file path="a">', "</write_file>"),
        (
            {"strategy": "xml"},
            '<tool name="write_file"><arg name="path">a</arg><arg name="content">',
            "</arg></tool>",
        ),
        ({"strategy": "xml"}, '<tool name="add"><arg name="a">', "</arg></tool>"),
        (
            {"strategy": "json"},
            '{"tool": {"function": "add", "parameters": {"a": "',
            '"}}}',
        ),
        (
            {"strategy": "sentinel"},
            '[[SEG_START {"type":"write_file","path":"p"}]]',
            "[[SEG_END]]",
        ),
    ],
    ids=["file tag", "tool tag with content", "tool tag", "json", "sentinel"],
)
def test_content_is_shown_as_it_comes(options: dict[str, Any], opening: str, closing: str) -> None:
    handler = Handler(tools=TOOLS, **options)
    handler.feed(opening)
    handler.feed("b")
    held = 0
    for number in range(300):
        word = f"word{number} "
        shown = "".join(getattr(event, "delta", "") for event in handler.feed(word))
        held += len(word) - len(shown)
        assert held <= len(word)
    handler.feed(closing)
    handler.finish()
    assert len(handler.invocations) == 1


@pytest.mark.parametrize(
    "options", STRATEGIES, ids=lambda options: str(options.get("strategy", options.get("order")))
)
def test_plain_text_leaves_at_once(options: dict[str, Any]) -> None:
    handler = Handler(tools=TOOLS, **options)
    handler.feed("It ")
    assert [event.as_dict()["payload"] for event in handler.feed("rains.")] == [{"delta": "rains."}]


LONG = [
    ("xml", '<tool name="add"><arg name="a">', "x < y & z ", "</arg></tool>"),
    ("xml", '<tool name="write_file"><arg name="other">', "<b> ", "</arg></tool>"),
    ("xml", "", "<tool name=", ""),
    ("json", '{"tool": {"function": "add", "parameters": {"a": [', '"x", ', "1]}}}"),
    ("json", "", '{"tool": [', ""),
    ("sentinel", '[[SEG_START {"type":"run_bash"}]]', "[[SEG ", "[[SEG_END]]"),
    ("sentinel", "", '[[SEG_START {"type":"text"}]]x', ""),
]


@pytest.mark.parametrize(("strategy", "opening", "piece", "closing"), LONG)
def test_the_cost_of_a_piece_does_not_grow(
    strategy: str, opening: str, piece: str, closing: str
) -> None:
    def read(pieces: int) -> None:
        run(Handler(strategy, tools=TOOLS), [opening, *[piece] * pieces, closing])

    check_linear(read, 200, 3000, at_most=4, tries=2)


# --- what else the strategies say ---


def test_several_calls_of_one_list_are_one_segment() -> None:
    text = (
        '[{"function":{"name":"add","arguments":{"a":1}}}, '
        '{"function":{"name":"Zap","arguments":{}}}][{"function":"add"}]'
    )
    handler = Handler("json", provider="openai", tools=TOOLS)
    shown = view(handler, text)
    assert shown == [("tool_call", text[:-20]), ("tool_call", text[-20:])]
    assert [(made.id, made.name) for made in handler.invocations] == [
        ("seg_1", "add"),
        ("seg_1:1", "Zap"),
        ("seg_2", "add"),
    ]


def test_a_list_in_a_sentinel_is_one_segment() -> None:
    handler = Handler("sentinel", tools=TOOLS)
    body = '[{"a":1},{"a":2}]'
    header = '[[SEG_START {"type":"tool","tool_name":"add"}]]'
    assert view(handler, f"{header}{body}[[SEG_END]]") == [("tool_call", body)]
    assert [(made.id, made.arguments) for made in handler.invocations] == [
        ("seg_1", {"a": 1}),
        ("seg_1:1", {"a": 2}),
    ]


def test_text_and_thoughts_between_sentinels_are_segments_with_metadata() -> None:
    handler = Handler("sentinel", tools=TOOLS)
    text = (
        'so [[SEG_START {"type":"text","lang":"en"}]]hi[[SEG_END]] there '
        '[[SEG_START {"type":"Reasoning","depth":2}]]hm[[SEG_END]]'
    )
    shown = fold(run(handler, [text]).events)
    assert [(one.type, one.start, one.content) for one in shown] == [
        ("text", {}, "so "),
        ("text", {"lang": "en"}, "hi"),
        ("text", {}, " there "),
        ("reasoning", {"depth": 2}, "hm"),
    ]


def test_an_empty_text_between_sentinels_hides_no_call() -> None:
    text = '[[SEG_START {"type":"text"}]][[SEG_END]][[SEG_START {"type":"run_bash"}]]ls[[SEG_END]]'
    assert view(Handler("sentinel", tools=TOOLS), text) == [("run_bash", "ls")]


def test_thoughts_in_the_text_are_reasoning() -> None:
    handler = Handler("xml", tools=TOOLS)
    shown = view(handler, "<think>a <run_bash>x</run_bash></think><run_bash>ls</run_bash>")
    assert shown == [("reasoning", "a <run_bash>x</run_bash>"), ("run_bash", "ls")]


def test_the_earliest_marker_decides_between_strategies() -> None:
    text = (
        '<run_bash>{"tool": {"function": "add"}}</run_bash>'
        '{"tool": {"function": "add", "parameters": {"a": "<run_bash>"}}}'
        '[[SEG_START {"type":"run_bash"}]]<tool name="add">[[SEG_END]]'
    )
    handler = Handler(order=("xml_tag", "bogus", "json_tool", "sentinel"), tools=TOOLS)
    assert [kind for kind, _ in view(handler, text)] == ["run_bash", "tool_call", "run_bash"]
    assert len(handler.invocations) == 3


def test_unknown_detectors_alone_read_nothing() -> None:
    text = "<run_bash>ls</run_bash>"
    assert view(Handler(order=("bogus",), tools=TOOLS), text) == [("text", text)]
