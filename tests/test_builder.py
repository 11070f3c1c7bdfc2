"""`MessageBuilder`: any lawful sequence folds into its message, any other is refused."""

from __future__ import annotations

import pytest
from hypothesis import example, given

from laws import check_linear, check_monotone
from laws.strategies import ANY_TEXT, event_sequences, soup
from penstock import MessageBuilder
from penstock.errors import UsageError
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
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
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, Thinking, ToolCall, Usage


def fold(*events: Event) -> MessageBuilder:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder


@given(event_sequences())
def test_a_lawful_sequence_folds_into_its_message(
    case: tuple[list[Event], AssistantMessage],
) -> None:
    events, message = case
    assert fold(*events).message == message
    check_monotone(events)


@given(event_sequences())
def test_looking_at_the_message_on_the_way_changes_nothing(
    case: tuple[list[Event], AssistantMessage],
) -> None:
    events, message = case
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
        assert builder.message.stop_reason is None or builder.ended
    assert builder.message == message


def test_bare_blocks_fold_too() -> None:
    builder = fold(TextStart(0), TextDelta(0, "a"), TextEnd(0, "a"))
    assert builder.message.content == [Text("a")]
    assert not builder.ended


def test_the_message_is_one_live_object() -> None:
    builder = fold(MessageStart("m", "model"), TextStart(0))
    message = builder.message
    builder.add(TextDelta(0, "hel"))
    builder.add(TextDelta(0, "lo"))
    assert builder.message is message
    assert message.text == "hello"


def test_thinking_text_and_calls_are_told_apart() -> None:
    builder = fold(
        ThinkingStart(0),
        ThinkingDelta(0, "hm"),
        ThinkingEnd(0, "hm", "sig"),
        Part(1, Opaque("anthropic", {"type": "redacted_thinking"})),
        TextStart(2),
        TextEnd(2, ""),
        ToolCallStart(3, "c", "f"),
        ToolCallEnd(3, ToolCall("c", "f")),
    )
    message = builder.message
    assert message.content[0] == Thinking("hm", "sig")
    assert (message.thinking, message.text) == ("hm", "")
    assert message.tool_calls == [ToolCall("c", "f")]


PIECES = ['{"pa', 'th": "a.', 'md", "lines": [1', ", 2", '5], "deep": {"x": "\\u00', 'e9"}}']
SEEN = [
    {},
    {"path": "a."},
    {"path": "a.md", "lines": []},
    {"path": "a.md", "lines": [1]},
    {"path": "a.md", "lines": [1, 25], "deep": {}},
    {"path": "a.md", "lines": [1, 25], "deep": {"x": "é"}},
]


def test_an_open_call_shows_the_arguments_that_have_arrived() -> None:
    builder = fold(ToolCallStart(0, "c", "f"))
    for piece, seen in zip(PIECES, SEEN, strict=True):
        builder.add(ToolCallDelta(0, piece))
        (call,) = builder.message.tool_calls
        assert call.arguments == seen
        assert not call.complete


def test_the_end_of_a_call_brings_the_final_arguments() -> None:
    mended = ToolCall.from_text("c", "f", '{"a": 1,, "b": 2')
    builder = fold(ToolCallStart(0, "c", "f"), ToolCallDelta(0, '{"a": 1,, "b": 2'))
    builder.add(ToolCallEnd(0, mended))
    (call,) = builder.message.tool_calls
    assert call.arguments == {"a": 1, "b": 2}
    assert call.complete
    assert call.repairs


@pytest.mark.parametrize("junk", ["@@", '\\d"\n', "]]}", "\x00", "'", '"', "{{", ":,:"], ids=repr)
def test_a_malformed_piece_never_raises(junk: str) -> None:
    builder = fold(ToolCallStart(0, "c", "f"))
    for piece in ('{"a": 1, ', junk, '"b": 2}'):
        builder.add(ToolCallDelta(0, piece))
        assert builder.message.tool_calls[0].arguments.get("a", 1) == 1
    builder.add(ToolCallEnd(0, ToolCall("c", "f", complete=False)))


def test_later_pieces_recover_after_a_malformed_one() -> None:
    builder = fold(ToolCallStart(0, "c", "f"))
    for piece in ('{"a": "x\n\\d",', " @ ", '"b": 2}'):
        builder.add(ToolCallDelta(0, piece))
    assert builder.message.tool_calls[0].arguments == {"a": "x\n\\d", "b": 2}


@given(ANY_TEXT | soup('{"a": ', '", "b": "', "NaN}", "1e999}", '"}').map('{"a": '.__add__))
@example('{"a": NaN}')
@example('{"a": 1, "a": 1e999}')
@example('"{}"')
def test_what_from_text_reads_never_contradicts_its_deltas(text: str) -> None:
    call = ToolCall.from_text("c", "f", text)
    builder = fold(ToolCallStart(0, "c", "f"), ToolCallDelta(0, text), ToolCallEnd(0, call))
    assert builder.message.tool_calls == [call]


def test_arguments_that_are_no_object_show_as_none_at_all() -> None:
    builder = fold(ToolCallStart(0, "c", "f"), ToolCallDelta(0, "[1, 2]"))
    assert builder.message.tool_calls[0].arguments == {}


def test_blocks_open_side_by_side_are_told_apart_by_index() -> None:
    builder = fold(ToolCallStart(0, "a", "f"), ToolCallStart(1, "b", "g"))
    builder.add(ToolCallDelta(1, '{"y": 2}'))
    builder.add(ToolCallDelta(0, '{"x": 1}'))
    builder.add(ToolCallEnd(1, ToolCall("b", "g", {"y": 2})))
    builder.add(ToolCallEnd(0, ToolCall("a", "f", {"x": 1})))
    assert [call.arguments for call in builder.message.tool_calls] == [{"x": 1}, {"y": 2}]


def test_the_terminal_event_brings_usage_reason_and_error() -> None:
    error = ErrorInfo("cut", "truncated")
    final = AssistantMessage("m", "x", raw_stop_reason="eof", usage=Usage(1, 2, total=3))
    builder = fold(TextStart(0), TextDelta(0, "a"), TextEnd(0, "a"), Failed("error", error, final))
    message = builder.message
    assert builder.ended
    assert (message.id, message.model, message.text) == ("m", "x", "a")
    assert (message.stop_reason, message.raw_stop_reason) == ("error", "eof")
    assert (message.usage.total, message.error) == (3, error)


TEXT_OPEN: list[Event] = [TextStart(0), TextDelta(0, "a")]
CALL_OPEN: list[Event] = [ToolCallStart(0, "c", "f"), ToolCallDelta(0, '{"a": 1}')]
STOP = Done("stop", AssistantMessage())

UNLAWFUL: list[tuple[str, list[Event], Event, str]] = [
    ("start comes twice", [MessageStart()], MessageStart(), "start"),
    ("start comes after a block", TEXT_OPEN, MessageStart(), "start"),
    ("a block is skipped", [], TextStart(1), "numbered"),
    ("a number is used twice", TEXT_OPEN, ThinkingStart(0), "numbered"),
    ("a part is out of order", [], Part(3, Opaque("x")), "numbered"),
    ("a delta has no block", [], TextDelta(0, "a"), "open block"),
    ("a delta has another kind of block", TEXT_OPEN, ThinkingDelta(0, "a"), "open block"),
    ("arguments go to text", TEXT_OPEN, ToolCallDelta(0, "{}"), "open block"),
    ("text goes to a call", CALL_OPEN, TextDelta(0, "a"), "open block"),
    ("thinking is ended as text", [ThinkingStart(0)], TextEnd(0, ""), "open block"),
    ("a delta follows the end", [*TEXT_OPEN, TextEnd(0, "a")], TextDelta(0, "b"), "open block"),
    ("a block ends twice", [*TEXT_OPEN, TextEnd(0, "a")], TextEnd(0, "a"), "open block"),
    ("the end says other text", TEXT_OPEN, TextEnd(0, "b"), "law 3"),
    ("the end drops text", TEXT_OPEN, TextEnd(0, ""), "law 3"),
    ("a call ends under another name", CALL_OPEN, ToolCallEnd(0, ToolCall("c", "g")), "law 3"),
    ("a call ends under another id", CALL_OPEN, ToolCallEnd(0, ToolCall("d", "f")), "law 3"),
    ("a call ends with other arguments", CALL_OPEN, ToolCallEnd(0, ToolCall("c", "f")), "law 3"),
    ("the end leaves a block open", TEXT_OPEN, STOP, "last"),
    ("something follows the end", [STOP], TextStart(0), "last"),
    ("the end comes twice", [STOP], STOP, "last"),
    (
        "a cut call is to be run",
        [ToolCallStart(0, "c", "f"), ToolCallEnd(0, ToolCall("c", "f", complete=False))],
        Done("tool_use", AssistantMessage()),
        "law 7",
    ),
]


@pytest.mark.parametrize(
    ("before", "event", "law"),
    [case[1:] for case in UNLAWFUL],
    ids=[case[0] for case in UNLAWFUL],
)
def test_an_unlawful_event_is_refused_by_law_and_changes_nothing(
    before: list[Event], event: Event, law: str
) -> None:
    builder = fold(*before)
    seen = fold(*before).message
    with pytest.raises(UsageError, match=law):
        builder.add(event)
    assert builder.message == seen


def test_a_delta_costs_the_same_whatever_came_before() -> None:
    delta, start = ToolCallDelta(0, "abcd"), ToolCallStart(0, "c", "f")

    def run(size: int) -> None:
        builder = fold(start, ToolCallDelta(0, '{"a": "'))
        for _ in range(size):
            builder.add(delta)
        assert len(builder.message.tool_calls[0].arguments["a"]) == 4 * size

    check_linear(run, 2_000, 40_000, at_most=2)


def test_halves_of_a_pair_in_the_arguments_are_what_their_escapes_are() -> None:
    builder = MessageBuilder()
    builder.add(ToolCallStart(0, "c", "f"))
    builder.add(ToolCallDelta(0, '{"a":"\\ud83d\\ude00"}'))
    builder.add(ToolCallEnd(0, ToolCall("c", "f", {"a": "\ud83d\ude00"})))
