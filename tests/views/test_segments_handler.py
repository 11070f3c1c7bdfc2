"""The handler itself: what it takes, what it tells and in which order, how it begins and ends."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from msgspec import structs

from penstock.errors import UsageError
from penstock.events import Done, Failed, TextDelta, ThinkingDelta, ToolCallStart
from penstock.formats import tool_tag
from penstock.messages import AssistantMessage, ErrorInfo, Usage
from penstock.readers.tagged import piped_tools
from penstock.tools import Tool
from penstock.views import segments
from penstock.views.segments import CallPiece, Chunk, Handler
from views.segment_samples import TOOLS, TYPED, fold, run, view

BASH = "<run_bash>ls</run_bash>"


# --- the order of things ---


def test_what_a_file_looks_like_on_the_wire() -> None:
    handler = Handler(tools=["write_file"], id_prefix="turn_1:")
    handler.feed('Hi <write_file path="/a.py">print()</write_file>')
    handler.finish()
    assert [event.as_dict() for event in handler.events] == [
        {
            "type": "SEGMENT_START",
            "segment_id": "turn_1:seg_1",
            "segment_type": "text",
            "payload": {},
        },
        {"type": "SEGMENT_CONTENT", "segment_id": "turn_1:seg_1", "payload": {"delta": "Hi "}},
        {"type": "SEGMENT_END", "segment_id": "turn_1:seg_1", "payload": {}},
        {
            "type": "SEGMENT_START",
            "segment_id": "turn_1:seg_2",
            "segment_type": "write_file",
            "payload": {"metadata": {"path": "/a.py"}},
        },
        {"type": "SEGMENT_CONTENT", "segment_id": "turn_1:seg_2", "payload": {"delta": "print()"}},
        {"type": "SEGMENT_END", "segment_id": "turn_1:seg_2", "payload": {}},
    ]
    assert handler.invocations[0].id == "turn_1:seg_2"


def test_an_end_is_told_before_what_it_invokes() -> None:
    told: list[str] = []

    def on_segment(event: segments.SegmentEvent) -> None:
        assert handler.events[-1] is event, "recorded first"
        told.append(event.type)

    def on_invocation(made: segments.ToolInvocation) -> None:
        assert handler.invocations[-1] is made
        told.append(made.name)

    handler = Handler(tools=TOOLS, on_segment=on_segment, on_invocation=on_invocation)
    run(handler, [BASH, "x"])
    segment = ["SEGMENT_START", "SEGMENT_CONTENT", "SEGMENT_END"]
    assert told == [*segment, "run_bash", *segment]


def test_a_callback_that_raises_is_told_and_does_not_end_the_stream() -> None:
    told: list[str] = []

    def fail(told: object) -> None:
        raise RuntimeError(told)

    options: dict[str, Any] = {"on_segment": fail, "on_invocation": fail}
    handler = Handler(tools=TOOLS, on_error=lambda why, _: told.append(why), **options)
    run(handler, [BASH, " and ", BASH])
    assert len(handler.invocations) == 2
    assert len(fold(handler.events)) == 3
    assert len(told) == len(handler.events) + len(handler.invocations)
    assert told[0].startswith("a callback failed: RuntimeError(SegmentStart")


# --- life ---


def test_nothing_gives_nothing() -> None:
    handler = Handler(tools=TOOLS)
    assert handler.feed("") == []
    assert handler.feed(Chunk()) == []
    assert handler.finish() == []
    assert handler.finish() == []


@pytest.mark.parametrize("piece", ["x", "", Chunk(content="x"), TextDelta(0, "x")])
def test_nothing_can_be_fed_behind_the_end(piece: str | Chunk | TextDelta) -> None:
    handler = Handler(tools=TOOLS)
    handler.finish()
    with pytest.raises(UsageError):
        handler.feed(piece)


def test_a_reset_handler_is_as_new() -> None:
    handler = Handler(tools=TOOLS, id_prefix="a:")
    handler.feed(f'{BASH}<tool name="write_file"><arg na')
    handler.reset()
    assert (handler.events, handler.invocations, handler.usage) == ([], [], None)
    assert view(handler, BASH) == [("run_bash", "ls")]
    assert handler.invocations[0].id == "a:seg_1"
    handler.reset("b:")
    run(handler, [BASH])
    assert handler.invocations[0].id == "b:seg_1"


# --- what it takes ---


def test_a_chunk_brings_reasoning_before_text_before_calls() -> None:
    chunk = Chunk(
        content=f"so {BASH}",
        reasoning="hm",
        tool_calls=[CallPiece(0, "c1", "add", "{}")],
        usage=Usage(input=1),
    )
    handler = Handler(tools=TOOLS)
    assert view(handler, chunk, Chunk(complete=True)) == [
        ("reasoning", "hm"),
        ("text", "so "),
        ("run_bash", "ls"),
        ("tool_call", "{}"),
    ]
    assert [made.name for made in handler.invocations] == ["run_bash", "add"]
    assert handler.usage == Usage(input=1)


@pytest.mark.parametrize("strategy", segments.STRATEGIES)
def test_reasoning_is_shown_in_every_strategy_and_closed_by_what_follows(strategy: str) -> None:
    handler = Handler(strategy, tools=TOOLS)
    pieces: list[Any] = [ThinkingDelta(0, "a "), Chunk(reasoning="b"), "text", Chunk(reasoning="c")]
    shown = [("reasoning", "a b"), ("text", "text"), ("reasoning", "c"), ("tool_call", "")]
    assert view(handler, *pieces, ToolCallStart(3, "c1", "add")) == shown


def test_a_call_in_text_may_come_in_events() -> None:
    handler = Handler(tools=TOOLS)
    pieces = [TextDelta(0, "a <run_"), TextDelta(0, "bash>ls</run"), TextDelta(1, "_bash>")]
    assert view(handler, *pieces) == [("text", "a "), ("run_bash", "ls")]


def test_what_follows_ends_the_text_before_it() -> None:
    handler = Handler(tools=TOOLS)
    shown = view(handler, "<run_bash>ls", Chunk(reasoning="hm"), "</run_bash>")
    assert shown == [("run_bash", "ls"), ("reasoning", "hm"), ("text", "</run_bash>")]
    assert handler.invocations == []


def test_the_end_of_an_answer_brings_its_usage() -> None:
    message = AssistantMessage(usage=Usage(output=3))
    done = Done("stop", message)
    failed = Failed("error", ErrorInfo("gone"), message)
    for event in (done, failed):
        assert run(Handler(tools=TOOLS), ["<run_bash>ls", event]).usage == Usage(output=3)


# --- which handler ---


@pytest.mark.parametrize("options", [{"tools": []}, {"tools": TOOLS, "parse_tool_calls": False}])
@pytest.mark.parametrize("strategy", segments.STRATEGIES)
def test_text_passes_without_tools_or_parsing(strategy: str, options: dict[str, Any]) -> None:
    text = f'{BASH}{{"tool": {{"function": "add"}}}}[[SEG_START {{"type":"run_bash"}}]]<write'
    handler = Handler(strategy, **options)
    assert view(handler, *text) == [("text", text)]
    assert handler.invocations == []


def test_only_tools_that_are_there_are_read() -> None:
    text = f'{BASH}<tool name="run_bash"></tool>[[SEG_START {{"type":"run_bash"}}]]'
    for order in (("xml_tag",), ("sentinel",)):
        assert view(Handler(order=order, tools=["add"]), text) == [("text", text)]


def test_without_a_word_about_tools_those_with_tags_are_read() -> None:
    shown = view(Handler(), "Hello <write_file path='/a.ts'>", "print('hi')</write_file>")
    assert shown == [("text", "Hello "), ("write_file", "print('hi')")]


def test_tools_come_in_any_form() -> None:
    text = '<tool name="book"><arg name="seats">2</arg></tool>'
    as_json = {"name": "book", "input_schema": TYPED.parameters}
    forms: list[Any] = [TYPED, [TYPED], [as_json], ["add", TYPED], as_json, iter([TYPED])]
    for tools in forms:
        assert run(Handler(tools=tools), [text]).invocations[0].arguments == {"seats": 2}
    assert run(Handler(tools="book"), [text]).invocations[0].arguments == {"seats": "2"}


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="api_tool_call, json, sentinel, xml"):
        Handler("yaml", tools=TOOLS)


@pytest.mark.parametrize(
    ("environ", "strategy"),
    [
        ({}, "api_tool_call"),
        ({"PENSTOCK_STREAM_PARSER": " XML "}, "xml"),
        ({"PENSTOCK_STREAM_PARSER": "yaml"}, "api_tool_call"),
        ({"AUTOBYTEUS_STREAM_PARSER": "sentinel"}, "sentinel"),
        ({"PENSTOCK_STREAM_PARSER": "json", "AUTOBYTEUS_STREAM_PARSER": "xml"}, "json"),
        ({"PENSTOCK_STREAM_PARSER": "", "AUTOBYTEUS_STREAM_PARSER": "xml"}, "xml"),
    ],
)
def test_the_environment_that_is_passed_in_chooses_the_strategy(
    environ: dict[str, str], strategy: str
) -> None:
    assert segments.create(tools=TOOLS, environ=environ).strategy == strategy


def test_the_environment_chooses_shapes_by_provider_too() -> None:
    environ = {"PENSTOCK_STREAM_PARSER": "json"}
    handler = segments.create(tools=["add"], provider="GEMINI", environ=environ, id_prefix="p:")
    run(handler, ['{"name":"add","args":{"a":1}}'])
    assert [(made.id, made.arguments) for made in handler.invocations] == [("p:seg_1", {"a": 1})]


def test_without_tools_the_environment_does_not_matter() -> None:
    handler = segments.create(environ={"PENSTOCK_STREAM_PARSER": "xml"})
    assert view(handler, BASH) == [("text", BASH)]


def test_the_environment_itself_is_never_read() -> None:
    code = "from penstock.views import segments; print(segments.create(tools=['a']).strategy)"
    environ = {"PENSTOCK_STREAM_PARSER": "xml", "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout == "api_tool_call\n"


# --- tools of one's own ---


def test_the_ids_of_a_turn_begin_with_it() -> None:
    environ = {"PENSTOCK_STREAM_PARSER": "xml"}
    handler = segments.create(tools=["add"], environ=environ, turn_id="7f")
    assert handler.feed("a")[0].segment_id == "turn_7f:seg_1"
    handler = segments.create(tools=["add"], environ=environ, turn_id="7f", id_prefix="p:")
    assert handler.feed("a")[0].segment_id == "p:seg_1"


def test_a_registered_tool_has_its_own_type_of_segment() -> None:
    reader = structs.replace(
        piped_tools.WRITE_FILE,
        content="body",
        start_marker="<<<\n",
        end_marker=">>>",
        metadata=("path", "title"),
    )
    tool_tag.register_tool("My_Note", reader, segment_type="note")
    try:
        handler = Handler(tools=["my_note"])
        text = (
            '<tool name="MY_NOTE"><arg name="path">n.md</arg><arg name="body">a</arg>'
            '<arg name="title">T</arg></tool>'
        )
        (shown,) = fold(run(handler, [text]).events)
        assert (shown.type, shown.content) == ("note", "a")
        assert shown.start == {"tool_name": "MY_NOTE", "path": "n.md"}
        assert shown.end == {"title": "T"}
        assert handler.invocations[0].name == "my_note"
        native = Handler("api_tool_call")
        piece = CallPiece(0, "c1", "my_note", '{"path":"n.md","body":"b"}')
        assert view(native, Chunk(tool_calls=[piece])) == [("note", "b")]
    finally:
        tool_tag.unregister_tool("my_note")
    assert view(Handler(tools=[Tool("my_note")]), '<tool name="my_note">x</tool>') == [
        ("tool_call", "x")
    ]
