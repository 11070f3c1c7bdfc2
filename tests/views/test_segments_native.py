"""`views.segments` over native calls: pieces are routed, and calls end when they are over."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_linear, cut_at, one_by_one
from laws.strategies import ARGUMENTS, CUTS, event_sequences
from penstock.errors import UsageError
from penstock.events import (
    Done,
    Event,
    Failed,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, ErrorInfo, Text, Thinking, ToolCall
from penstock.views.segments import CallPiece, Chunk, Handler
from views.segment_samples import TYPED, Shown, fold, run


def call(index: int = 0, id: str = "", name: str = "", arguments: str = "") -> Chunk:  # noqa: A002
    return Chunk(tool_calls=[CallPiece(index, id, name, arguments)])


def read(*pieces: str | Chunk | Event, **options: Any) -> tuple[list[Shown], Handler]:
    handler = run(Handler("api_tool_call", **options), pieces)
    return fold(handler.events), handler


def invoked(handler: Handler) -> list[tuple[str, str, dict[str, Any]]]:
    return [(made.id, made.name, made.arguments) for made in handler.invocations]


def test_a_call_shows_its_arguments_under_its_own_id() -> None:
    shown, handler = read(call(0, "c1", "add", '{"a"'), call(0, arguments=": 1}"), id_prefix="t:")
    assert shown == [Shown("c1", "tool_call", {"tool_name": "add"}, '{"a": 1}', {})]
    assert invoked(handler) == [("c1", "add", {"a": 1})]


def test_text_is_never_read_and_ends_before_a_call() -> None:
    shown, _ = read(
        Chunk(content='<tool name="add">'),
        Chunk(content="{}"),
        call(0, "c1", "add", "{}"),
        Chunk(content="done"),
        id_prefix="t:",
    )
    assert [(one.id, one.type, one.content) for one in shown] == [
        ("t:seg_1", "text", '<tool name="add">{}'),
        ("c1", "tool_call", "{}"),
        ("t:seg_2", "text", "done"),
    ]


def test_arguments_wait_for_a_late_name() -> None:
    handler = Handler("api_tool_call")
    assert handler.feed(call(0, "c1", arguments='{"path": "p", ')) == []
    started = handler.feed(call(0, name="write_file"))
    assert started[0].as_dict()["payload"] == {"metadata": {"tool_name": "write_file", "path": "p"}}
    handler.feed(call(0, arguments='"content": "x"}'))
    handler.finish()
    assert invoked(handler) == [("c1", "write_file", {"path": "p", "content": "x"})]


def test_a_call_that_is_never_named_is_shown_and_not_run() -> None:
    shown, handler = read(call(0, "c1", arguments='{"a": 1}'))
    assert shown == [Shown("c1", "tool_call", {}, '{"a": 1}', {"incomplete": True})]
    assert handler.invocations == []


# --- files ---


def test_a_file_shows_its_content_decoded_behind_its_path() -> None:
    arguments = r'{"meta": {"path": "no"}, "path": "a\tb", "content": "\u00e9\ud83d\ude00\b\f\"\n"}'
    for pieces in ([arguments], one_by_one(arguments)):
        chunks = [call(0, "c1", "write_file"), *(call(0, arguments=piece) for piece in pieces)]
        shown, handler = read(*chunks)
        metadata = {"tool_name": "write_file", "path": "a\tb"}
        assert shown == [Shown("c1", "write_file", metadata, 'é😀\b\f"\n', {})]
        assert handler.invocations[0].arguments == json.loads(arguments)


def test_content_before_the_path_waits_for_it() -> None:
    handler = Handler("api_tool_call")
    assert handler.feed(call(0, "c1", "edit_file", '{"patch": "@@')) == []
    assert handler.feed(call(0, arguments='\\n", "path": "f')) == []
    start, *content = handler.feed(call(0, arguments='"'))
    assert start.as_dict()["payload"] == {"metadata": {"tool_name": "edit_file", "path": "f"}}
    assert [event.as_dict()["payload"] for event in content] == [{"delta": "@@"}, {"delta": "\n"}]


def test_a_file_without_a_path_is_shown_and_not_run() -> None:
    shown, handler = read(call(0, "c1", "write_file", '{"content": "x"}'))
    assert shown == [Shown("c1", "write_file", {"tool_name": "write_file"}, "x", {})]
    assert handler.invocations == []


def test_what_is_given_twice_is_shown_once_and_a_late_path_comes_with_the_end() -> None:
    arguments = '{"path": "a", "path": "b", "content": "x", "content": "y"}'
    shown, handler = read(call(0, "c1", "write_file", arguments))
    assert (shown[0].start["path"], shown[0].content) == ("a", "x")
    assert shown[0].end == {"path": "b"}, "arguments are in the invocation"
    assert handler.invocations[0].arguments == {"path": "b", "content": "y"}


def test_a_command_stays_a_call() -> None:
    shown, handler = read(call(0, "c1", "run_bash", '{"command": "ls"}'))
    assert [(one.type, one.content) for one in shown] == [("tool_call", '{"command": "ls"}')]
    assert invoked(handler) == [("c1", "run_bash", {"command": "ls"})]


# --- which call a piece belongs to ---


def test_pieces_are_routed_by_index() -> None:
    shown, handler = read(
        Chunk(tool_calls=[CallPiece(0, "c0", "add", '{"a"'), CallPiece(1, "c1", "zap", '{"b"')]),
        Chunk(tool_calls=[CallPiece(1, "", "", ": 2}"), CallPiece(0, "", "", ": 1}")]),
    )
    assert [(one.id, one.content) for one in shown] == [("c0", '{"a": 1}'), ("c1", '{"b": 2}')]
    assert invoked(handler) == [("c0", "add", {"a": 1}), ("c1", "zap", {"b": 2})]


@pytest.mark.parametrize("ids", [("g1", "g2"), ("", "")], ids=["with ids", "without ids"])
def test_two_calls_may_have_the_same_index(ids: tuple[str, str]) -> None:
    _, handler = read(call(0, ids[0], "add", '{"a": 1}'), call(0, ids[1], "add", '{"a": 2}'))
    assert [made.arguments for made in handler.invocations] == [{"a": 1}, {"a": 2}]


def test_a_repeated_name_or_id_begins_no_new_call() -> None:
    _, handler = read(
        call(0, "c1", "add", '{"a"'), call(0, "c1", "add", ":"), call(0, "c1", "add", "1}")
    )
    assert invoked(handler) == [("c1", "add", {"a": 1})]


def test_calls_that_share_an_id_are_told_apart() -> None:
    _, handler = read(call(0, "c", "add", "{}"), call(1, "c", "add", "{}"))
    assert [made.id for made in handler.invocations] == ["c", "c-2"]


def test_white_space_behind_a_call_is_none() -> None:
    shown, _ = read(call(0, "c1", "add", "{}"), Chunk(content="x"), call(0, arguments="\n"))
    assert [one.type for one in shown] == ["tool_call", "text"]


def test_a_piece_may_come_in_the_words_of_a_provider() -> None:
    pieces = [
        {"index": 0, "id": "a", "function": {"name": "add", "arguments": "{}"}},
        {"index": 1, "call_id": "b", "name": "zap", "arguments_delta": '{"q": 1}'},
        {"index": 2, "name": "get", "arguments": {"r": [1]}},
    ]
    _, handler = read(Chunk(tool_calls=pieces))
    assert invoked(handler) == [
        ("a", "add", {}),
        ("b", "zap", {"q": 1}),
        ("seg_1", "get", {"r": [1]}),
    ]
    with pytest.raises(UsageError):
        CallPiece.read("add")  # type: ignore[arg-type]


# --- when a call is over ---


def test_a_call_ends_when_the_next_one_begins() -> None:
    handler = Handler("api_tool_call")
    handler.feed(call(0, "c0", "add", "{}"))
    assert handler.invocations == []
    handler.feed(call(1, "c1", "zap"))
    assert [made.id for made in handler.invocations] == ["c0"]


@pytest.mark.parametrize("chunk", [Chunk(content="x"), Chunk(reasoning="x")])
def test_a_call_ends_when_something_else_begins(chunk: Chunk) -> None:
    handler = Handler("api_tool_call")
    handler.feed(call(0, "c0", "add", "{}"))
    handler.feed(chunk)
    assert [made.id for made in handler.invocations] == ["c0"]


def test_a_call_whose_arguments_are_not_whole_goes_on_beside_text() -> None:
    shown, handler = read(
        call(0, "c0", "add", '{"a'), Chunk(content="text"), call(0, arguments='": 1}')
    )
    assert [(one.id, one.content) for one in shown] == [("c0", '{"a": 1}'), ("seg_1", "text")]
    assert invoked(handler) == [("c0", "add", {"a": 1})]


@pytest.mark.parametrize("arguments", ['{"a": ', '{"a" 1}', "oops", "[1]", "12", '{"a": 1} x'])
def test_arguments_that_are_no_whole_object_are_never_run(arguments: str) -> None:
    shown, handler = read(call(0, "c1", "add", arguments))
    assert (shown[0].content, shown[0].end) == (arguments, {"incomplete": True})
    assert handler.invocations == []


def test_no_arguments_are_arguments_for_a_tool_that_wants_none() -> None:
    assert invoked(read(call(0, "c1", "add"))[1]) == [("c1", "add", {})]
    assert invoked(read(call(0, "c1", "add", "null"))[1]) == [("c1", "add", {})]
    assert invoked(read(call(0, "c1", "book"), tools=[TYPED])[1]) == []


@pytest.mark.parametrize(
    "end",
    [
        Done("length", AssistantMessage()),
        Failed("error", ErrorInfo("gone"), AssistantMessage()),
    ],
)
def test_arguments_that_never_came_are_none_where_the_answer_was_cut(end: Event) -> None:
    assert read(call(0, "c1", "add"), end)[1].invocations == []
    assert read(call(0, "c1", "add", "{}"), end)[1].invocations != []


def test_arguments_are_made_what_the_tool_wants() -> None:
    _, handler = read(call(0, "c1", "book", '{"seats": "2"}'), tools=[TYPED], turn_id="t1")
    assert invoked(handler) == [("c1", "book", {"seats": 2})]
    assert handler.invocations[0].turn_id == "t1"


# --- events ---


def test_events_are_shown_too() -> None:
    made = ToolCall("c1", "add", {"a": 1})
    shown, handler = read(
        ThinkingStart(0), ThinkingDelta(0, "hm"), ThinkingEnd(0, "hm"),
        TextStart(1), TextDelta(1, "so"), TextEnd(1, "so"),
        ToolCallStart(2, "c1", "add"), ToolCallDelta(2, '{"a": 1}'), ToolCallEnd(2, made),
    )  # fmt: skip
    assert [(one.type, one.content) for one in shown] == [
        ("reasoning", "hm"),
        ("text", "so"),
        ("tool_call", '{"a": 1}'),
    ]
    assert invoked(handler) == [("c1", "add", {"a": 1})]


def test_a_call_without_deltas_shows_its_arguments_all_the_same() -> None:
    made = ToolCall("c1", "write_file", {"path": "p", "content": "x"})
    shown, _ = read(ToolCallEnd(0, made))
    metadata = {"tool_name": "write_file", "path": "p"}
    assert shown == [Shown("c1", "write_file", metadata, "x", {})]


@settings(max_examples=60, deadline=None)
@given(case=event_sequences())
def test_any_lawful_sequence_becomes_segments_that_say_the_same(
    case: tuple[list[Event], AssistantMessage],
) -> None:
    events, message = case
    handler = run(Handler("api_tool_call"), events)
    shown = fold(handler.events)
    assert all(one.end is not None for one in shown)
    for kind, block in (("text", Text), ("reasoning", Thinking)):
        said = sorted("".join(one.content for one in shown if one.type == kind))
        assert said == sorted("".join(b.text for b in message.content if isinstance(b, block)))
    runnable = [made for made in message.tool_calls if made.complete]
    assert sorted(made.name for made in handler.invocations) == sorted(
        made.name for made in runnable if made.name not in ("write_file", "edit_file")
    )
    assert handler.usage == message.usage


@settings(max_examples=60, deadline=None)
@given(arguments=ARGUMENTS, cuts=CUTS, name=st.sampled_from(["add", "write_file"]))
def test_no_cut_of_the_arguments_changes_anything(
    arguments: dict[str, Any], cuts: list[int], name: str
) -> None:
    text = json.dumps({**arguments, "path": "p", "content": "a\n\u2028"})
    pieces = [call(0, arguments=piece) for piece in cut_at(text, cuts)]
    shown, handler = read(call(0, "c1", name), *pieces)
    assert (shown, handler.invocations) == (
        (again := read(call(0, "c1", name, text)))[0],
        again[1].invocations,
    )


def test_a_long_file_costs_the_same_per_piece() -> None:
    def feed(pieces: int) -> None:
        handler = Handler("api_tool_call")
        handler.feed(call(0, "c1", "write_file", '{"path": "p", "content": "'))
        for _ in range(pieces):
            handler.feed(call(0, arguments="word\\n"))
        handler.feed(call(0, arguments='"}'))
        handler.finish()

    check_linear(feed, 300, 6000, at_most=3, tries=2)
