"""The messages API as clients want it: what the encoder writes, and what the checker finds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from apis.anthropic_cases import (
    API,
    START,
    STOP,
    built,
    call,
    closes,
    delta,
    done,
    failed,
    frames_of,
    opens,
    says,
    stop,
    stream,
    text,
    written,
)
from laws import check_monotone, merged
from laws.checks import read
from laws.strategies import event_sequences
from penstock.errors import UsageError
from penstock.events import (
    Done,
    Event,
    MessageStart,
    Part,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, Thinking, ToolCall, Usage


def test_an_answer_is_framed_as_the_api_frames_it() -> None:
    usage = Usage(input=3, output=5, cache_read=2, cache_write=1, reasoning=4, total=11)
    data = written(MessageStart("msg_1", "claude"), *text(0, "Hi", " you"), done(usage=usage))
    counts = {
        "input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
        "output_tokens_details": {"thinking_tokens": 0},
    }
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant"}
    message |= {
        "model": "claude",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": counts,
    }
    assert frames_of(data)[:-2] == [
        {"type": "message_start", "message": message},
        opens(0, "text", text=""),
        says(0, "Hi"),
        says(0, " you"),
        closes(0),
    ]
    assert data == stream(*frames_of(data)).replace(b'": ', b'":').replace(b', "', b',"')
    *_, end, last = frames_of(data)
    assert end == {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 1,
            "cache_read_input_tokens": 2,
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": 4},
        },
    }
    assert last == {"type": "message_stop"}


def test_the_client_is_told_the_model_and_the_id_it_asked_for() -> None:
    data = written(MessageStart("a", "b"), done(), model="claude", id="msg_9")
    message = frames_of(data)[0]["message"]
    assert (message["id"], message["model"]) == ("msg_9", "claude")


def test_interleaved_calls_become_one_block_after_the_other() -> None:
    first, second = call(0, "f", '{"a":', "1}"), call(1, "g", "{}")
    data = written(
        first[0], second[0], first[1], second[1], second[2], *first[2:], done("tool_use")
    )
    indexes = [frame["index"] for frame in frames_of(data) if "index" in frame]
    assert indexes == sorted(indexes)
    message = built(read(API.decoder(), [data]))
    assert [c.arguments for c in message.tool_calls] == [{"a": 1}, {}]


def test_a_call_always_has_an_empty_first_delta_and_its_arguments() -> None:
    data = written(*call(0, "f"), done("tool_use"))
    pieces = [f["delta"]["partial_json"] for f in frames_of(data) if "partial_json" in str(f)]
    assert pieces == ["", "{}"]


def test_arguments_that_only_the_end_knows_are_written() -> None:
    end = ToolCallEnd(0, ToolCall("t", "f", {"a": 1}))
    data = written(ToolCallStart(0, "t", "f"), ToolCallDelta(0, "null"), end, done("tool_use"))
    assert built(read(API.decoder(), [data])).tool_calls == [ToolCall("t", "f", {"a": 1})]


def test_ids_are_such_as_the_api_takes_and_no_two_the_same() -> None:
    wanted = ["call.1:x", "", "call_9|item_3", "call_9", "ünï"]
    events = [e for index, id_ in enumerate(wanted) for e in call(index, "f", "{}", id=id_)]
    starts = [f for f in frames_of(written(*events, done("tool_use"))) if "tool_use" in str(f)]
    ids = [f["content_block"]["id"] for f in starts if "content_block" in f]
    assert ids[:1] + ids[2:3] == ["call_1_x", "call_9"]
    assert len({*ids}) == len(wanted)


def test_text_of_white_space_alone_is_not_written_and_leaves_no_gap() -> None:
    data = written(
        *call(0, "f", "{}"), *text(1, "\n", " \n"), *call(2, "g", "{}"), done("tool_use")
    )
    assert [f["index"] for f in frames_of(data) if f["type"] == "content_block_start"] == [0, 1]
    assert b"text_delta" not in data


def test_white_space_comes_with_the_text_that_it_begins() -> None:
    data = written(*text(0, "\n", "\n", "Hi", " "), done())
    assert built(read(API.decoder(), [data])).text == "\n\nHi "
    data = written(*text(0, "a"), *text(1, " "), *call(2, "f"), *text(3, "b"), done("tool_use"))
    message = built(read(API.decoder(), [data]))
    assert [block.text for block in message.content if isinstance(block, Text)] == ["a", " b"]


def test_a_flood_of_white_space_is_not_held_back_for_ever() -> None:
    encoder = API.encoder()
    encoder.encode(TextStart(0))
    assert any(encoder.encode(TextDelta(0, "\n")) for _ in range(2_000))


def test_a_signature_comes_once_and_just_before_its_block_stops() -> None:
    data = written(
        ThinkingStart(0),
        ThinkingDelta(0, "hm"),
        ThinkingEnd(0, "hm", "sig"),
        *text(1, "a"),
        done(),
    )
    kinds = [f.get("delta", f).get("type") for f in frames_of(data)]
    assert kinds[1:5] == [
        "content_block_start",
        "thinking_delta",
        "signature_delta",
        "content_block_stop",
    ]


def test_thinking_that_says_nothing_is_written_only_if_it_is_signed() -> None:
    assert b"thinking_delta" not in written(ThinkingStart(0), ThinkingEnd(0, ""), done())
    data = written(ThinkingStart(0), ThinkingEnd(0, "", "sig"), done())
    assert built(read(API.decoder(), [data])).content == [Thinking("", "sig")]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "é"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        {"type": "hologram", "glow": 0.4},
    ],
    ids=lambda block: str(block["type"]),
)
def test_a_part_of_this_api_goes_back_as_it_came(block: dict[str, Any]) -> None:
    part = Opaque("anthropic", block)
    data = written(Part(0, part), *text(1, "a"), done())
    assert built(read(API.decoder(), [data])).content == [part, Text("a")]
    assert API.check(data) == []


def test_parts_of_others_and_parts_that_make_no_sense_are_left_out() -> None:
    odd = [Opaque("gemini", {"type": "x"}), Opaque("anthropic", 5), Opaque("anthropic", {})]
    odd += [Opaque("anthropic", {"type": "tool_use"}), Opaque("anthropic", {"citations": [{}]})]
    odd += [Opaque("anthropic", {"type": "server_tool_use", "id": None, "input": {}})]
    events = [Part(index, part) for index, part in enumerate(odd)]
    assert [f["type"] for f in frames_of(written(*events, done()))] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]


def test_citations_are_deltas_of_the_text_before_them() -> None:
    part = Opaque("anthropic", {"citations": [{"type": "page_location"}]})
    data = written(*text(0, "so"), Part(1, part), *text(2, "on"), done())
    assert built(read(API.decoder(), [data])).content == [Text("so"), part, Text("on")]
    assert API.check(data) == []


@pytest.mark.parametrize("pieces", [(), ("null",), ('{"a": 1}',), ('{"a": 1', "}", " ")])
def test_a_call_that_is_not_complete_can_never_be_run(pieces: tuple[str, ...]) -> None:
    events = call(0, "f", *pieces, complete=False)
    for end in (done("length"), done("stop"), failed(ErrorInfo("cut", "truncated"))):
        data = written(*events, end)
        assert API.check(data) == []
        frames = frames_of(data)
        said = [f["delta"].get("partial_json", "") for f in frames if "delta" in f]
        with pytest.raises(ValueError, match="Expecting"):
            json.loads("".join(said))


def test_a_call_cut_by_the_limit_is_closed_and_the_answer_ends_in_max_tokens() -> None:
    *_, stopped, end, _ = frames_of(written(*call(0, "f", '{"a', complete=False), done("length")))
    assert stopped["type"] == "content_block_stop"
    assert end["delta"]["stop_reason"] == "max_tokens"


def test_a_call_cut_by_a_failure_is_left_open() -> None:
    *_, before, end = frames_of(written(*call(0, "f", '{"a', complete=False), done("stop")))
    assert (before["type"], end["type"]) == ("content_block_delta", "error")
    *_, before, end = frames_of(written(ToolCallStart(0, "t", "f")))
    assert (before["type"], end["type"]) == ("content_block_delta", "error")


def test_a_cut_call_is_closed_when_the_answer_goes_on() -> None:
    data = written(*call(0, "f", '{"a', complete=False), *text(1, "so"), done("length"))
    message = built(read(API.decoder(), [data]))
    assert [c.complete for c in message.tool_calls] == [False]
    assert message.text == "so"


@pytest.mark.parametrize("kind", ["refusal", "filter"])
def test_an_end_that_the_models_side_chose_is_a_refusal(kind: Any) -> None:
    *_, end, _ = frames_of(written(*text(0, "a"), failed(ErrorInfo("Not this.", kind))))
    assert end["delta"] == {
        "stop_reason": "refusal",
        "stop_sequence": None,
        "stop_details": {"type": "refusal", "category": None, "explanation": "Not this."},
    }


def test_a_refusal_keeps_its_words_on_the_way_through() -> None:
    error = ErrorInfo("refusal (cyber): No.", "refusal", "refusal")
    data = written(*text(0, "a"), failed(error))
    assert built(read(API.decoder(), [data])).error == error


def test_an_error_is_told_in_band_and_nothing_follows() -> None:
    error = ErrorInfo("Busy", "provider", "overloaded_error", 529, retryable=True)
    *_, last = frames_of(written(*text(0, "a"), failed(error)))
    assert last == {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorInfo("", "truncated"), "api_error"),
        (ErrorInfo("x", type="server_error"), "api_error"),
        (ErrorInfo("x", type="rate_limit_exceeded", status=429), "rate_limit_error"),
        (ErrorInfo("x", status=503), "overloaded_error"),
        (ErrorInfo("x", status=422), "invalid_request_error"),
    ],
)
def test_an_error_of_another_api_gets_a_type_of_this_one(error: ErrorInfo, expected: str) -> None:
    last = frames_of(written(failed(error)))[-1]
    assert last["error"]["type"] == expected
    assert last["error"]["message"]


def test_an_own_reason_to_stop_goes_back_as_it_came() -> None:
    data = written(*text(0, "a"), done(raw_stop_reason="pause_turn"))
    assert frames_of(data)[-2]["delta"]["stop_reason"] == "pause_turn"
    data = written(*text(0, "a"), done(raw_stop_reason="tool_calls"))
    assert frames_of(data)[-2]["delta"]["stop_reason"] == "end_turn"


def test_a_stream_without_an_end_ends_in_an_error() -> None:
    assert frames_of(written(TextStart(0), TextDelta(0, "a")))[-1]["type"] == "error"


def test_a_sign_of_life_is_a_ping_and_means_nothing() -> None:
    encoder = API.encoder()
    events: list[Event] = [MessageStart(), *text(0, "a"), done()]
    data = b"".join([encoder.keep_alive() + encoder.encode(event) for event in events])
    assert encoder.keep_alive() == b'event: ping\ndata: {"type":"ping"}\n\n'
    assert API.check(data) == []


def test_nothing_is_taken_after_the_end() -> None:
    encoder = API.encoder()
    encoder.encode(TextStart(0))
    encoder.encode(TextDelta(0, "a"))
    encoder.encode(done())
    assert encoder.encode(TextDelta(0, "b")) == b""
    encoder.finish()
    with pytest.raises(UsageError):
        encoder.encode(TextDelta(0, "c"))


@given(event_sequences())
@settings(max_examples=40)
def test_any_lawful_sequence_is_written_lawfully_and_read_back(
    sequence: tuple[list[Event], AssistantMessage],
) -> None:
    events, message = sequence
    data = written(*events)
    assert API.check(data) == []
    back_events = read(API.decoder(), [data])
    check_monotone(back_events)
    back = built(back_events)
    assert message.text.startswith(back.text)
    assert message.text.rstrip() == back.text.rstrip()
    assert back.thinking == message.thinking
    assert [(c.name, c.complete) for c in back.tool_calls] == [
        (c.name, c.complete) for c in message.tool_calls
    ]
    for one, other in zip(back.tool_calls, message.tool_calls, strict=True):
        assert one.arguments == other.arguments or not other.complete
    assert_same_end(back, message)
    again = read(API.decoder(), [written(*back_events)])
    assert merged(again)[:-1] == merged(back_events)[:-1]


def assert_same_end(back: AssistantMessage, message: AssistantMessage) -> None:
    is_whole = all(c.complete for c in message.tool_calls)
    if message.error is not None:
        assert back.error is not None
        assert back.error.kind == (
            message.error.kind if message.error.kind == "refusal" else "provider"
        )
        return
    if not is_whole and message.stop_reason != "length":
        assert back.stop_reason == "error"
        return
    ends = "tool_use" if message.tool_calls else "stop"
    assert back.stop_reason == ("length" if message.stop_reason == "length" else ends)
    usage, wanted = back.usage, message.usage
    assert (usage.input, usage.output) == (wanted.input, wanted.output)
    assert (usage.cache_read, usage.cache_write) == (wanted.cache_read, wanted.cache_write)
    assert usage.reasoning == wanted.reasoning


# --- the checker ---


@pytest.mark.parametrize(
    ("frames", "complaint"),
    [
        ([START], "the usage of message_start has no output_tokens"),
        ([opens(0, "text", text="")], "content_block_start precedes message_start"),
        ([says(0, "a")], "a delta for a block that is not open"),
        ([opens(1, "text", text="")], "the indexes of blocks are not in order"),
        (
            [opens(0, "text", text=""), opens(1, "text", text="")],
            "a block starts while another is open",
        ),
        (
            [opens(0, "text", text=""), delta(0, "thinking_delta", thinking="a")],
            "thinking_delta in a block of text",
        ),
        ([opens(0, "text", text=" "), says(0, " "), closes(0)], "a text block is empty"),
        ([opens(0, "tool_use", id="a b", name="f", input={})], "a call has the id 'a b'"),
        (
            [opens(0, "tool_use", id="a", name="f", input={}), closes(0)],
            "a call has no input_json_delta",
        ),
        ([opens(0, "tool_use", id="a", input={})], "a block of tool_use has no name"),
        ([stop("finished")], "stop_reason is 'finished'"),
        (
            [stop("end_turn", stop_sequence=None, stop_details={"type": "refusal"})],
            "stop_details of another reason",
        ),
        ([stop("tool_use", stop_sequence=None), STOP], "tool_use without calls"),
        (
            [stop("end_turn", stop_sequence=None), STOP, STOP],
            "message_stop follows message_stop",
        ),
        ([STOP], "message_stop without a stop_reason"),
        ([{"type": "error", "error": "no"}], "an error has no message"),
        ([{"type": "novelty"}], "a frame is of type 'novelty'"),
        ([closes(0)], "a block stops that is not open"),
        ([], "the stream has no end"),
    ],
)
def test_every_breach_is_found(frames: list[dict[str, Any]], complaint: str) -> None:
    assert complaint in API.check(stream(*frames))


def test_a_frame_without_its_name_is_found() -> None:
    data = written(*text(0, "a"), done()).replace(b"event: message_stop\n", b"")
    assert API.check(data) == ["a frame called '' is of type 'message_stop'"]


def test_calls_that_end_as_a_plain_stop_are_found() -> None:
    data = written(*call(0, "f", "{}"), done("tool_use")).replace(
        b'"tool_use","stop_s', b'"end_turn","stop_s'
    )
    assert API.check(data) == ["calls end in end_turn"]


# --- what a stream tells beside the answer ---


def test_the_prompt_is_counted_at_the_start_where_its_tokens_are_known() -> None:
    frames = frames_of(written(MessageStart(), *text(0, "Hi"), done(), input_tokens=42))
    assert frames[0]["message"]["usage"]["input_tokens"] == 42


def test_what_the_start_said_of_the_prompt_stands_where_nobody_counted() -> None:
    counted = [
        (Usage(), 42, True),
        (Usage(output=3, total=3), 42, None),
        (Usage(input=7, output=3, total=10), 7, None),
        (Usage(cache_read=50, output=3, total=53), 0, None),
    ]
    for usage, tokens, mark in counted:
        end = Done("stop", AssistantMessage(content=[Text("Hi")], stop_reason="stop", usage=usage))
        frames = frames_of(written(MessageStart(), *text(0, "Hi"), end, input_tokens=42))
        told = frames[-2]["usage"]
        assert (told["input_tokens"], told.get("estimated")) == (tokens, mark)


def test_what_stopped_an_answer_is_told() -> None:
    upstream = stream(
        START, opens(0, "text", text=""), delta(0, "text_delta", text="Hi"), closes(0),
        stop("stop_sequence", stop_sequence="###"), STOP,
    )  # fmt: skip
    events = read(API.decoder(), [upstream])
    found = frames_of(written(*events))[-2]["delta"]
    assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", "###")
    message = built(events)
    assert API.write_response(message)["stop_sequence"] == "###"
    assert message.text == "Hi"


def test_half_a_character_is_replaced_wherever_it_is_said() -> None:
    error = ErrorInfo("no \ud83d", "provider")
    found = frames_of(written(MessageStart("", "m\ud83d"), failed(error)))
    assert found[0]["message"]["model"] == "m\ufffd"
    assert found[-1]["error"]["message"] == "no \ufffd"
    assert API.write_error(error)[1]["error"]["message"] == "no "
    message = AssistantMessage("", "m", [Text("Hi\ud83d")], "stop")
    assert API.write_response(message)["content"][0]["text"] == "Hi"
