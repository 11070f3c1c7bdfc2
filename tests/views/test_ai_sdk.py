"""`views.ai_sdk`: any lawful sequence becomes lawful parts that say the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

import penstock
from laws import check_linear
from laws.strategies import event_sequences
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
from penstock.messages import (
    AssistantMessage,
    ErrorInfo,
    ErrorKind,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from penstock.views.ai_sdk import Parts, StreamPart, content, parts

Case = tuple[list[Event], AssistantMessage]


def of(*events: Event) -> list[StreamPart]:
    return list(parts(events))


def part(kind: str, id: str = "", **fields: Any) -> StreamPart:  # noqa: A002 - the part's name
    return {"type": kind, **({"id": id} if id else {}), **fields}


def call_part(id: str, name: str, written: str, **fields: Any) -> StreamPart:  # noqa: A002
    return part("tool-call", toolCallId=id, toolName=name, input=written, **fields)


def text(index: int, *pieces: str, signature: str = "") -> list[Event]:
    whole = TextEnd(index, "".join(pieces), signature)
    return [TextStart(index), *(TextDelta(index, piece) for piece in pieces), whole]


def call(index: int, made: ToolCall, *pieces: str) -> list[Event]:
    deltas = (ToolCallDelta(index, piece) for piece in pieces)
    return [ToolCallStart(index, made.id, made.name), *deltas, ToolCallEnd(index, made)]


def noted(**notes: object) -> dict[str, object]:
    return {"penstock": notes}


READ = ToolCall("c1", "read", {"n": 1})
USED = Usage(input=5, output=7, cache_read=3, cache_write=2, reasoning=4, total=17)
FINISHED = {
    "inputTokens": 10,
    "outputTokens": 7,
    "totalTokens": 17,
    "reasoningTokens": 4,
    "cachedInputTokens": 3,
}

SEQUENCES = [
    pytest.param([], [], id="nothing gives nothing"),
    pytest.param([MessageStart("m", "model")], [], id="the start of the answer is no part"),
    pytest.param(
        text(0, "a", "", "b"),
        [
            part("text-start", "text-1"),
            part("text-delta", "text-1", delta="a"),
            part("text-delta", "text-1", delta="b"),
            part("text-end", "text-1"),
        ],
        id="a text block is one pair and its empty deltas are left out",
    ),
    pytest.param(
        [*text(0, "a"), *text(1, "b", signature="s")],
        [
            part("text-start", "text-1"),
            part("text-delta", "text-1", delta="a"),
            part("text-end", "text-1"),
            part("text-start", "text-2"),
            part("text-delta", "text-2", delta="b"),
            part("text-end", "text-2", providerMetadata=noted(signature="s")),
        ],
        id="two text blocks are two pairs and a signature stays with its own",
    ),
    pytest.param(
        [ThinkingStart(0), ThinkingDelta(0, "hm"), ThinkingEnd(0, "hm", "s")],
        [
            part("reasoning-start", "reasoning-1"),
            part("reasoning-delta", "reasoning-1", delta="hm"),
            part("reasoning-end", "reasoning-1", providerMetadata=noted(signature="s")),
        ],
        id="thinking is reasoning and keeps its signature",
    ),
    pytest.param(
        [*text(0, "a"), *call(1, READ, '{"n"', ": 1}"), *text(2, "b")],
        [
            part("text-start", "text-1"),
            part("text-delta", "text-1", delta="a"),
            part("text-end", "text-1"),
            part("tool-input-start", "c1", toolName="read"),
            part("tool-input-delta", "c1", delta='{"n"'),
            part("tool-input-delta", "c1", delta=": 1}"),
            part("tool-input-end", "c1"),
            call_part("c1", "read", '{"n": 1}'),
            part("text-start", "text-2"),
            part("text-delta", "text-2", delta="b"),
            part("text-end", "text-2"),
        ],
        id="a call stands between two texts and its input is what the deltas said",
    ),
    pytest.param(
        [
            TextStart(0),
            TextDelta(0, "a"),
            ToolCallStart(1, "c1", "read"),
            TextDelta(0, "b"),
            ToolCallDelta(1, '{"n":1}'),
            TextDelta(0, "c"),
            ToolCallEnd(1, READ),
            TextDelta(0, "d"),
            TextEnd(0, "abcd"),
        ],
        [
            part("text-start", "text-1"),
            part("text-delta", "text-1", delta="a"),
            part("text-end", "text-1"),
            part("tool-input-start", "c1", toolName="read"),
            part("text-start", "text-2"),
            part("text-delta", "text-2", delta="b"),
            part("tool-input-delta", "c1", delta='{"n":1}'),
            part("text-delta", "text-2", delta="c"),
            part("text-end", "text-2"),
            part("tool-input-end", "c1"),
            call_part("c1", "read", '{"n":1}'),
            part("text-start", "text-3"),
            part("text-delta", "text-3", delta="d"),
            part("text-end", "text-3"),
        ],
        id="a call closes open text when it begins and when it is complete",
    ),
    pytest.param(
        [TextStart(0), *call(1, READ, '{"n":1}'), TextEnd(0, "")],
        [
            part("text-start", "text-1"),
            part("text-end", "text-1"),
            part("tool-input-start", "c1", toolName="read"),
            part("tool-input-delta", "c1", delta='{"n":1}'),
            part("tool-input-end", "c1"),
            call_part("c1", "read", '{"n":1}'),
        ],
        id="text that a call closed and that says no more is not opened again",
    ),
    pytest.param(
        [TextStart(0), ToolCallStart(1, "c1", "read"), TextEnd(0, "", "s"), ToolCallEnd(1, READ)],
        [
            part("text-start", "text-1"),
            part("text-end", "text-1"),
            part("tool-input-start", "c1", toolName="read"),
            part("text-start", "text-2"),
            part("text-end", "text-2", providerMetadata=noted(signature="s")),
            part("tool-input-delta", "c1", delta='{"n":1}'),
            part("tool-input-end", "c1"),
            call_part("c1", "read", '{"n":1}'),
        ],
        id="a signature that comes after a call closed its text is not lost",
    ),
    pytest.param(
        [
            ToolCallStart(0, "a", "read"),
            ToolCallStart(1, "b", "read"),
            ToolCallDelta(1, "{}"),
            ToolCallDelta(0, "{}"),
            ToolCallEnd(1, ToolCall("b", "read")),
            ToolCallEnd(0, ToolCall("a", "read", signature="s")),
        ],
        [
            part("tool-input-start", "a", toolName="read"),
            part("tool-input-start", "b", toolName="read"),
            part("tool-input-delta", "b", delta="{}"),
            part("tool-input-delta", "a", delta="{}"),
            part("tool-input-end", "b"),
            call_part("b", "read", "{}"),
            part("tool-input-end", "a"),
            call_part("a", "read", "{}", providerMetadata=noted(signature="s")),
        ],
        id="parallel calls stay apart",
    ),
    pytest.param(
        call(0, ToolCall("c1", "now")),
        [
            part("tool-input-start", "c1", toolName="now"),
            part("tool-input-delta", "c1", delta="{}"),
            part("tool-input-end", "c1"),
            call_part("c1", "now", "{}"),
        ],
        id="a call without deltas gets one",
    ),
    pytest.param(
        call(0, ToolCall("c1", "read", {"n": True}, repairs=["mended"]), '{"n": 1'),
        [
            part("tool-input-start", "c1", toolName="read"),
            part("tool-input-delta", "c1", delta='{"n": 1'),
            part("tool-input-end", "c1"),
            call_part("c1", "read", '{"n":true}', providerMetadata=noted(repairs=["mended"])),
        ],
        id="a mended call says what it means and not what came",
    ),
    pytest.param(
        call(0, ToolCall("c1", "read", {"n": True}, repairs=["mended"]), '{"n": 1}'),
        [
            part("tool-input-start", "c1", toolName="read"),
            part("tool-input-delta", "c1", delta='{"n": 1}'),
            part("tool-input-end", "c1"),
            call_part("c1", "read", '{"n":true}', providerMetadata=noted(repairs=["mended"])),
        ],
        id="one and true are not the same input",
    ),
    pytest.param(
        call(0, ToolCall("c1", "read", {"n": 1}, complete=False, repairs=["cut"]), '{"n": 1'),
        [
            part("tool-input-start", "c1", toolName="read"),
            part("tool-input-delta", "c1", delta='{"n": 1'),
            part("tool-input-end", "c1", providerMetadata=noted(incomplete=True, repairs=["cut"])),
        ],
        id="an incomplete call is never called",
    ),
    pytest.param(
        [*call(0, READ, '{"n":1}'), *call(1, READ, '{"n":1}'), *call(2, ToolCall("", "now"), "{}")],
        [
            part("tool-input-start", "c1", toolName="read"),
            part("tool-input-delta", "c1", delta='{"n":1}'),
            part("tool-input-end", "c1"),
            call_part("c1", "read", '{"n":1}'),
            part("tool-input-start", "c1-2", toolName="read"),
            part("tool-input-delta", "c1-2", delta='{"n":1}'),
            part("tool-input-end", "c1-2"),
            call_part("c1-2", "read", '{"n":1}'),
            part("tool-input-start", "call", toolName="now"),
            part("tool-input-delta", "call", delta="{}"),
            part("tool-input-end", "call"),
            call_part("call", "now", "{}"),
        ],
        id="calls that share an id or have none are told apart",
    ),
    pytest.param(
        [
            Part(0, Opaque("anthropic", {"type": "redacted_thinking", "data": "x"})),
            Part(1, Opaque("ai-sdk", {"type": "source", "id": "s1", "url": "https://a.example"})),
            Part(2, Opaque("x", {"type": "finish"})),
            Part(3, Opaque("x", {"type": ["list"]})),
            Part(4, Opaque("x", "words")),
        ],
        [
            part("raw", rawValue={"type": "redacted_thinking", "data": "x"}),
            part("source", "s1", url="https://a.example"),
            part("raw", rawValue={"type": "finish"}),
            part("raw", rawValue={"type": ["list"]}),
            part("raw", rawValue="words"),
        ],
        id="a part of another kind passes and what the AI SDK does not know is raw",
    ),
    pytest.param(
        [TextStart(0), TextDelta(0, "a"), ThinkingStart(1), ToolCallStart(2, "c1", "read")],
        [
            part("text-start", "text-1"),
            part("text-delta", "text-1", delta="a"),
            part("reasoning-start", "reasoning-2"),
            part("text-end", "text-1"),
            part("tool-input-start", "c1", toolName="read"),
            part("reasoning-end", "reasoning-2"),
            part("tool-input-end", "c1", providerMetadata=noted(incomplete=True)),
        ],
        id="what is open at the end of the events is closed",
    ),
    pytest.param(
        [MessageStart(), *text(0, "a"), Done("stop", AssistantMessage(usage=USED))],
        [
            part("text-start", "text-1"),
            part("text-delta", "text-1", delta="a"),
            part("text-end", "text-1"),
            part("finish", finishReason="stop", usage=FINISHED),
        ],
        id="the answer finishes once with its usage",
    ),
]


@pytest.mark.parametrize(("events", "expected"), SEQUENCES)
def test_a_sequence_becomes_these_parts(events: list[Event], expected: list[StreamPart]) -> None:
    assert of(*events) == expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", "stop"), ("length", "length"), ("tool_use", "tool-calls")],
)
def test_a_good_end_has_its_reason(reason: Any, expected: str) -> None:
    [finish] = of(Done(reason, AssistantMessage()))
    assert finish["finishReason"] == expected
    assert set(finish["usage"].values()) == {0}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("provider", "error"),
        ("truncated", "error"),
        ("aborted", "error"),
        ("refusal", "content-filter"),
        ("filter", "content-filter"),
    ],
)
def test_a_bad_end_shows_the_error_and_then_finishes(kind: ErrorKind, expected: str) -> None:
    info = ErrorInfo("too bad", kind, status=529, retryable=True)
    error, finish = of(Failed("error", info, AssistantMessage(usage=USED)))
    assert error["type"] == "error"
    assert error["error"] == {
        "message": "too bad",
        "kind": kind,
        "type": "",
        "status": 529,
        "retry_after": None,
        "retryable": True,
    }
    assert finish == part("finish", finishReason=expected, usage=FINISHED)


def test_the_total_is_counted_where_the_provider_did_not() -> None:
    [finish] = of(Done("stop", AssistantMessage(usage=Usage(input=1, output=2, cache_read=3))))
    assert finish["usage"]["totalTokens"] == 6


def test_a_cut_call_never_finishes_with_tool_calls() -> None:
    cut = ToolCall("c1", "read", complete=False)
    assert of(*call(0, cut), Done("tool_use", AssistantMessage()))[-1]["finishReason"] == "error"
    still_open = of(ToolCallStart(0, "c1", "read"), Done("tool_use", AssistantMessage()))
    assert [one["type"] for one in still_open] == ["tool-input-start", "tool-input-end", "finish"]
    assert still_open[-1]["finishReason"] == "error"


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([TextDelta(0, "a")], id="a delta of no block"),
        pytest.param([TextStart(0), ThinkingDelta(0, "a")], id="a delta of another kind"),
        pytest.param([TextStart(0), ToolCallEnd(0, READ)], id="an end of another kind"),
        pytest.param([*text(0, "a"), TextEnd(0, "a")], id="a second end"),
        pytest.param([TextStart(0), ToolCallStart(0, "c1", "read")], id="a second start"),
        pytest.param([Done("stop", AssistantMessage()), TextStart(0)], id="text after the end"),
    ],
)
def test_an_unlawful_event_is_refused(events: list[Event]) -> None:
    with pytest.raises(UsageError):
        of(*events)


def test_a_number_behind_an_id_meets_no_other_id() -> None:
    ids = ["c1", "c1", "c1-2", "c1", "", ""]
    stream = of(*(ToolCallStart(index, id_, "now") for index, id_ in enumerate(ids)))
    opened = [one["id"] for one in stream if one["type"] == "tool-input-start"]
    assert opened == ["c1", "c1-2", "c1-2-2", "c1-3", "call", "call-2"]


@pytest.mark.parametrize("piece", ["null", " ", "{'n': 1,}"])
def test_the_input_is_an_object_whatever_the_deltas_were(piece: str) -> None:
    made = ToolCall.from_text("c1", "read", piece)
    [*_, whole] = of(*call(0, made, piece))
    assert json.loads(whole["input"]) == made.arguments


def test_parts_come_as_their_events_do() -> None:
    view = Parts()
    assert view.feed(TextStart(0)) == [part("text-start", "text-1")]
    assert view.feed(TextDelta(0, "a")) == [part("text-delta", "text-1", delta="a")]
    ended_early = view.ended
    assert view.finish() == [part("text-end", "text-1")]
    assert (ended_early, view.ended) == (False, True)
    assert view.finish() == []


def test_the_view_is_reached_from_the_top() -> None:
    assert list(penstock.views.ai_sdk.parts([TextStart(0)])) == of(TextStart(0))
    assert penstock.views.ai_sdk.content(AssistantMessage()) == []


def test_the_content_of_a_message_is_its_blocks() -> None:
    message = AssistantMessage(
        content=[
            Thinking("hm", "s"),
            Text("a"),
            READ,
            ToolCall("c1", "read", complete=False),
            ToolCall("c1", "read", {"é": "\ud83d"}),
            Opaque("x", {"type": "file", "mediaType": "image/png"}),
        ]
    )
    assert content(message) == [
        part("reasoning", text="hm", providerMetadata=noted(signature="s")),
        part("text", text="a"),
        call_part("c1", "read", '{"n":1}'),
        call_part("c1-3", "read", '{"\\u00e9":"\\ud83d"}'),
        part("file", mediaType="image/png"),
    ]


# --- any lawful sequence ---


PAIRED = ("text", "reasoning", "tool-input")


def check_grammar(stream: list[StreamPart]) -> None:
    """Check that every pair opens and closes once, and what stands where."""
    seen: set[tuple[str, str]] = set()
    opened: set[tuple[str, str]] = set()
    inputs: dict[str, str] = {}
    for at, one in enumerate(stream):
        kind, _, step = one["type"].rpartition("-")
        pair = (kind, one.get("id", ""))
        if step == "start" and kind in PAIRED:
            assert pair not in seen
            assert kind != "tool-input" or not has_text(opened)
            seen.add(pair)
            opened.add(pair)
        elif step == "delta":
            assert pair in opened
            assert one["delta"]
            if kind == "tool-input":
                inputs[one["id"]] = inputs.get(one["id"], "") + one["delta"]
        elif step == "end":
            opened.remove(pair)
        elif one["type"] == "tool-call":
            assert not has_text(opened)
            assert stream[at - 1] == part("tool-input-end", one["toolCallId"])
            assert inputs[one["toolCallId"]] == one["input"]
        elif one["type"] == "finish":
            assert at == len(stream) - 1
    assert not opened


def has_text(opened: set[tuple[str, str]]) -> bool:
    return any(kind == "text" for kind, _ in opened)


@given(event_sequences())
def test_the_parts_of_any_sequence_keep_the_grammar(case: Case) -> None:
    events, _ = case
    stream = of(*events)
    check_grammar(stream)
    assert stream[-1]["type"] == "finish"


@given(event_sequences())
def test_the_parts_of_any_cut_sequence_keep_the_grammar(case: Case) -> None:
    events, _ = case
    for end in range(len(events)):
        stream = of(*events[:end])
        check_grammar(stream)
        assert all(one["type"] != "finish" for one in stream)


@given(event_sequences())
def test_the_parts_say_what_the_message_says(case: Case) -> None:
    events, message = case
    view = Parts()
    called = 0
    texts: dict[int, str] = {}
    for event in events:
        for one in view.feed(event):
            called += one["type"] == "tool-call"
            if one["type"] in ("text-delta", "reasoning-delta"):
                assert isinstance(event, TextDelta | ThinkingDelta)
                texts[event.index] = texts.get(event.index, "") + one["delta"]
    for index, block in enumerate(message.content):
        if isinstance(block, Text | Thinking):
            assert texts.get(index, "") == block.text
    assert called == sum(made.complete for made in message.tool_calls)


@given(event_sequences())
def test_the_reason_is_honest(case: Case) -> None:
    events, message = case
    stream = of(*events)
    reason = stream[-1]["finishReason"]
    assert (reason == "tool-calls") == (message.stop_reason == "tool_use")
    assert (reason in ("error", "content-filter")) == (message.error is not None)
    assert any(one["type"] == "error" for one in stream) == (message.error is not None)


@given(event_sequences())
def test_the_content_agrees_with_the_stream(case: Case) -> None:
    events, message = case
    calls = {one["toolCallId"]: one for one in of(*events) if one["type"] == "tool-call"}
    whole = content(message)
    assert "".join(one["text"] for one in whole if one["type"] == "text") == message.text
    made = [one for one in whole if one["type"] == "tool-call"]
    assert {one["toolCallId"] for one in made} == set(calls)
    for one in made:
        streamed = calls[one["toolCallId"]]
        assert json.loads(one.pop("input")) == json.loads(streamed.pop("input"))
        assert one == streamed
    passing = [one for one in of(*events) if one["type"] == "raw"]
    assert passing == [one for one in whole if one["type"] == "raw"]


@given(event_sequences())
def test_the_parts_can_be_written_as_json(case: Case) -> None:
    events, message = case
    stream = of(*events)
    assert json.loads(json.dumps(stream)) == stream
    assert json.loads(json.dumps(content(message))) == content(message)


def test_many_calls_of_one_id_beside_open_texts_cost_linear_time() -> None:
    def run(count: int) -> None:
        view = Parts()
        for index in range(count):
            view.feed(TextStart(index))
        for index in range(count, 2 * count):
            for event in call(index, READ, '{"n":1}'):
                view.feed(event)

    check_linear(run, 500, 4000, at_most=3)
