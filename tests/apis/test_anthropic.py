"""The messages API as servers really speak it, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apis.anthropic_cases import (
    API,
    START,
    STOP,
    WHOLE,
    answer,
    built,
    closes,
    delta,
    events_of,
    message_of,
    opens,
    says,
    stop,
)
from laws import check_monotone
from laws.checks import read
from penstock.errors import UsageError
from penstock.events import Done
from penstock.messages import AssistantMessage, Content, ErrorInfo, Opaque, Text, Thinking, ToolCall


def test_a_call_whose_input_is_in_its_start_alone_has_it() -> None:
    message = answer(opens(0, "tool_use", id="t", name="f", input={"a": 1}), closes(0))
    assert message.tool_calls == [ToolCall("t", "f", {"a": 1})]


def test_what_comes_in_deltas_goes_before_the_input_of_the_start() -> None:
    message = answer(
        opens(0, "tool_use", id="t", name="f", input={"a": 1}),
        delta(0, "input_json_delta", partial_json='{"a": 2}'),
        closes(0),
    )
    assert message.tool_calls == [ToolCall("t", "f", {"a": 2})]


def test_input_that_is_json_text_is_read() -> None:
    message = answer(opens(0, "tool_use", id="t", name="f", input='{"a": 1}'), closes(0))
    assert message.tool_calls == [ToolCall("t", "f", {"a": 1})]


def test_a_call_without_any_input_has_no_arguments() -> None:
    message = answer(opens(0, "tool_use", id="t", name="f"), closes(0), reason="tool_use")
    assert message.tool_calls == [ToolCall("t", "f", {})]
    assert message.stop_reason == "tool_use"


def test_blocks_that_are_open_side_by_side_are_told_apart_by_index() -> None:
    message = answer(
        opens(0, "tool_use", id="a", name="f", input={}),
        opens(1, "tool_use", id="b", name="g", input={}),
        delta(1, "input_json_delta", partial_json='{"y"'),
        delta(0, "input_json_delta", partial_json='{"x": 1}'),
        delta(1, "input_json_delta", partial_json=": 2}"),
        closes(1),
        closes(0),
    )
    assert [c.arguments for c in message.tool_calls] == [{"x": 1}, {"y": 2}]


def test_a_block_whose_start_is_missing_starts_with_its_first_delta() -> None:
    message = answer(delta(4, "thinking_delta", thinking="hm"), says(7, "Hi"), says(7, "!"))
    assert message.content == [Thinking("hm"), Text("Hi!")]


def test_a_call_whose_start_is_missing_is_never_complete() -> None:
    message = answer(delta(0, "input_json_delta", partial_json='{"a": 1}'), reason="tool_use")
    assert [(call.name, call.complete) for call in message.tool_calls] == [("unknown", False)]
    assert message.stop_reason == "error"


def test_reasoning_in_a_block_of_text_is_reasoning() -> None:
    odd = delta(0, "thinking_delta", thinking="hm")
    message = answer(opens(0, "text", text="a"), odd, says(0, "b"), closes(0))
    assert message.content == [Text("a"), Thinking("hm"), Text("b")]


@pytest.mark.parametrize(
    "frames",
    [
        (opens(0, "text", text=""), delta(0, "input_json_delta", partial_json="{}")),
        (opens(0, "tool_use", id="c", name="f"), says(0, "lost")),
        (opens(0, "tool_use", id="c", name="f"), delta(0, "thinking_delta", thinking="lost")),
    ],
    ids=["arguments in text", "text in a call", "reasoning in a call"],
)
def test_content_that_a_block_cannot_have_is_damage(frames: tuple[dict[str, Any], ...]) -> None:
    message = answer(*frames, closes(0))
    assert (message.stop_reason, message.error and message.error.kind) == ("error", "malformed")


def test_a_delta_after_the_end_of_its_block_is_counted() -> None:
    decoder = API.decoder()
    frames = [START, opens(0, "text", text="a"), closes(0), says(0, "late"), stop("end_turn"), STOP]
    message = built(read(decoder, [f"data: {json.dumps(f)}\n\n".encode() for f in frames]))
    assert (message.content, decoder.skipped) == ([Text("a")], 1)


def test_an_index_that_is_used_again_is_another_block() -> None:
    message = answer(
        opens(0, "thinking", thinking=""),
        delta(0, "thinking_delta", thinking="hm"),
        opens(0, "tool_use", id="t", name="f"),
        delta(0, "input_json_delta", partial_json='{"a":1}'),
        closes(0),
    )
    assert message.content == [Thinking("hm"), ToolCall("t", "f", {"a": 1})]


def test_blocks_without_an_index_follow_one_another() -> None:
    frames = [
        opens(0, "text", text="a"),
        says(0, "b"),
        closes(0),
        opens(0, "text", text="c"),
        closes(0),
    ]
    for frame in frames:
        del frame["index"]
    assert answer(*frames).content == [Text("ab"), Text("c")]


def test_a_second_message_start_begins_no_second_answer() -> None:
    message = message_of(START, START, opens(0, "text", text="a"), stop("end_turn"), STOP)
    assert (message.id, message.text) == ("msg_7", "a")


def test_a_signature_is_kept_with_its_thinking_and_makes_no_event() -> None:
    events = events_of(
        START,
        opens(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="ab"),
        delta(0, "signature_delta", signature="cd"),
        closes(0),
        stop("end_turn"),
        STOP,
    )
    assert [e.type for e in events][1:-1] == [
        "thinking_start",
        "thinking_delta",
        "thinking_end",
    ]
    assert built(events).content == [Thinking("hm", "abcd")]


def test_thinking_that_is_hidden_keeps_its_signature() -> None:
    message = answer(opens(0, "thinking", thinking="", signature="s"), closes(0))
    assert message.content == [Thinking("", "s")]


def test_server_tools_and_their_results_are_parts() -> None:
    result = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]}
    message = answer(
        opens(0, "server_tool_use", id="s", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":'),
        delta(0, "input_json_delta", partial_json=' "tide"}'),
        closes(0),
        {"type": "content_block_start", "index": 1, "content_block": result},
        closes(1),
    )
    use = {
        "type": "server_tool_use",
        "id": "s",
        "name": "web_search",
        "input": {"query": "tide"},
    }
    assert message.content == [Opaque("anthropic", use), Opaque("anthropic", result)]
    assert message.tool_calls == []
    assert message.stop_reason == "stop"


def test_a_server_tool_whose_input_was_cut_is_left_out() -> None:
    message = answer(
        opens(0, "server_tool_use", id="s", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":'),
        reason="max_tokens",
    )
    assert message.content == []


def test_citations_follow_their_text_as_a_part() -> None:
    cited = [{"type": "char_location", "cited_text": "x"}, {"type": "page_location"}]
    message = answer(
        opens(0, "text", text="", citations=[]),
        says(0, "so"),
        delta(0, "citations_delta", citation=cited[0]),
        delta(0, "citations_delta", citation=cited[1]),
        closes(0),
    )
    assert message.content == [Text("so"), Opaque("anthropic", {"citations": cited})]


def test_deltas_of_unknown_blocks_add_to_the_fields_they_name() -> None:
    message = answer(
        opens(0, "compaction", content=None),
        delta(0, "compaction_delta", content="short", encrypted_content=None),
        delta(0, "compaction_delta", content=" story"),
        closes(0),
    )
    assert message.content == [
        Opaque("anthropic", {"type": "compaction", "content": "short story"})
    ]


def test_halves_of_surrogate_pairs_in_parts_are_joined_or_left_out() -> None:
    message = answer(
        opens(0, "hologram", glow="\\ud83d \ud83d"),
        delta(0, "glow_delta", glow="\ude00 \ud83d"),
        closes(0),
    )
    assert message.content == [Opaque("anthropic", {"type": "hologram", "glow": "\\ud83d 😀 "})]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("compaction", "stop"),
        ("something_new", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "error"),
        ("sensitive", "error"),
    ],
)
def test_every_reason_to_stop_has_its_word_and_is_kept(reason: str, expected: str) -> None:
    message = answer(opens(0, "text", text="a"), closes(0), reason=reason)
    assert (message.stop_reason, message.raw_stop_reason) == (expected, reason)


def test_a_refusal_says_what_it_is_about() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "No."}
    message = message_of(START, stop("refusal", stop_details=details), STOP)
    assert message.error == ErrorInfo("refusal (bio): No.", "refusal", "refusal")


def test_a_call_that_the_limit_cut_is_not_complete() -> None:
    for pieces in (["{"], [""], ['{"a": "b']):
        frames = [delta(0, "input_json_delta", partial_json=piece) for piece in pieces]
        message = answer(
            opens(0, "tool_use", id="t", name="f"), *frames, closes(0), reason="max_tokens"
        )
        assert message.stop_reason == "length"
        assert [c.complete for c in message.tool_calls] == [False]


def test_an_answer_whose_stop_is_missing_is_whole_if_its_reason_came() -> None:
    message = message_of(START, opens(0, "text", text="a"), closes(0), stop("end_turn"))
    assert (message.stop_reason, message.error) == ("stop", None)


def test_an_answer_that_stops_without_a_reason_ends_as_its_calls_say() -> None:
    frames = [opens(0, "tool_use", id="t", name="f"), closes(0)]
    assert message_of(START, *frames, STOP).stop_reason == "tool_use"
    assert message_of(START, *frames, stop(None), stop(""), STOP).stop_reason == "tool_use"


def test_counts_in_the_delta_replace_only_where_they_are_counts() -> None:
    start = {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 1}
    later = {
        "input_tokens": None,
        "output_tokens": 20,
        "cache_creation_input_tokens": 3,
        "output_tokens_details": {"thinking_tokens": 11},
    }
    message = message_of(
        {"type": "message_start", "message": {"usage": start}},
        {**stop("end_turn"), "usage": later},
        {"type": "message_delta", "delta": {}, "usage": None},
        STOP,
    )
    usage = message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (5, 20, 7, 3)
    assert (usage.reasoning, usage.total) == (11, 35)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("overloaded_error", 529),
        ("rate_limit_error", 429),
        ("timeout_error", 504),
        ("api_error", 500),
        ("invalid_request_error", 400),
        ("conflict_error", 409),
        ("new_error", None),
    ],
)
def test_an_error_in_the_stream_is_typed(error: str, status: int | None) -> None:
    frame = {"type": "error", "error": {"type": error, "message": "Oh"}, "request_id": "r"}
    info = message_of(START, opens(0, "text", text="a"), frame).error
    retryable = status in (529, 429, 504, 500)
    assert info == ErrorInfo("Oh", "provider", error, status, None, retryable)


def test_an_error_without_a_type_of_its_own_is_known_by_its_frame() -> None:
    data = b'event: error\ndata: {"message": "gone"}\n\n'
    error = built(read(API.decoder(), [data])).error
    assert error is not None
    assert error.message == "gone"


def test_an_error_in_another_shape_is_an_error() -> None:
    error = built(read(API.decoder(), [b'data: {"error": {"message": "gone"}}\n\n'])).error
    assert error is not None
    assert error.message == "gone"


def test_a_body_that_is_an_error_is_read_as_one() -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"Busy"}}'
    error = built(read(API.decoder(), [body])).error
    assert error is not None
    assert (error.message, error.type, error.retryable) == ("Busy", "overloaded_error", True)


def test_a_body_that_is_a_whole_answer_is_read_as_one() -> None:
    body = json.dumps(WHOLE).encode()
    assert built(read(API.decoder(), [body])).text == "Hello"


def test_frames_without_names_and_garbage_between_them_are_read() -> None:
    frames = [START, opens(0, "text", text=""), says(0, "a"), closes(0), stop("end_turn"), STOP]
    lines = [f"data: {json.dumps(frame)}" for frame in frames]
    lines.insert(2, "data: {oh no")
    decoder = API.decoder()
    message = built(read(decoder, ["\n\n".join(lines).encode()]))
    assert (message.text, message.stop_reason, decoder.skipped) == ("a", "stop", 1)


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_start", "index": 0, "content_block": "text"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": None}},
        {"type": "content_block_delta", "index": 0, "delta": []},
        {"type": "content_block_delta", "index": "x", "delta": {"type": "text_delta"}},
        {"type": "content_block_stop"},
        {"type": "message_start", "message": None},
        {"type": "message_start", "message": {"id": 1, "model": [], "usage": []}},
        {"type": "message_delta", "delta": 5, "usage": {"output_tokens": "many"}},
        {"type": ["odd"]},
        {"type": None},
        {},
    ],
)
def test_frames_of_an_odd_shape_do_no_harm(frame: dict[str, Any]) -> None:
    events = read(
        API.decoder(),
        [f"data: {json.dumps(f)}\n\n".encode() for f in (START, frame, stop("end_turn"), STOP)],
    )
    check_monotone(events)
    assert isinstance(events[-1], Done)


# --- whole answers ---


def test_an_answer_is_read() -> None:
    message = API.read_response(WHOLE)
    assert message.content == [
        Thinking("hm", "s"),
        Opaque("anthropic", {"type": "redacted_thinking", "data": "xyz"}),
        Text("Hello"),
        Opaque("anthropic", {"citations": [{"type": "page_location"}]}),
        ToolCall("toolu_1", "f", {"a": [1]}),
    ]
    assert (message.id, message.model, message.stop_reason) == (
        "msg_2",
        "claude-test",
        "tool_use",
    )
    assert message.usage.total == 9


def test_an_answer_is_written_as_it_was_read() -> None:
    assert API.write_response(API.read_response(WHOLE)) == WHOLE


def test_a_refusal_is_an_answer() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": None}
    data = {**WHOLE, "content": [], "stop_reason": "refusal", "stop_details": details}
    message = API.read_response(data)
    assert message.error is not None
    assert message.error.kind == "refusal"
    assert API.write_response(message) == data


def test_an_answer_that_is_an_error_has_it() -> None:
    data = {"type": "error", "error": {"type": "api_error", "message": "Oh"}}
    assert API.read_response(data).error == ErrorInfo(
        "Oh", "provider", "api_error", 500, None, True
    )


def test_an_answer_that_failed_cannot_be_written() -> None:
    with pytest.raises(UsageError):
        API.write_response(AssistantMessage(stop_reason="error"))


def test_what_is_empty_or_cut_is_left_out() -> None:
    content: list[Content] = [Text(" "), Thinking(), ToolCall("t", "f", complete=False), Text("a")]
    message = AssistantMessage(content=content, stop_reason="length")
    assert API.write_response(message)["content"] == [{"type": "text", "text": "a"}]


def test_an_error_response_is_read_with_the_time_to_wait() -> None:
    body = b'{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"}}'
    error = API.read_error(429, {"Retry-After": "2"}, body)
    assert error == ErrorInfo(
        "Slow down retry-after-ms=2000", "provider", "rate_limit_error", 429, 2.0, True
    )


def test_an_error_response_is_written() -> None:
    status, body = API.write_error(ErrorInfo("Busy", type="overloaded_error"))
    assert (status, body["error"]["type"]) == (529, "overloaded_error")


def test_a_whole_answer_that_is_an_error_says_so_without_a_type() -> None:
    message = API.read_response({"error": {"type": "overloaded_error", "message": "busy"}})
    assert message.error is not None
    assert (message.error.message, message.error.kind) == ("busy", "provider")


@pytest.mark.parametrize("end", [[], [{"type": "error", "error": {"message": "busy"}}]])
def test_citations_and_results_are_kept_though_the_answer_was_cut(end: list[Any]) -> None:
    result = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    cited = {"type": "page_location"}
    message = message_of(
        START,
        {"type": "content_block_start", "index": 0, "content_block": result},
        opens(1, "text", text=""),
        delta(1, "text_delta", text="Hel"),
        delta(1, "citations_delta", citation=cited),
        *end,
    )
    kept = [block.data for block in message.content if isinstance(block, Opaque)]
    assert kept == [result, {"citations": [cited]}]
    assert (message.text, message.stop_reason) == ("Hel", "error")


def test_hidden_thoughts_are_kept_though_the_answer_was_cut() -> None:
    message = message_of(START, opens(0, "redacted_thinking", data="xyz"))
    assert message.content == [Opaque("anthropic", {"type": "redacted_thinking", "data": "xyz"})]
