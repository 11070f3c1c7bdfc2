"""Gemini's stream as it is read: parts and signatures, two framings, ends in many words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apis.gemini_cases import API, SAID, STOP, call, chunk, error_of, folded, message_of, sse
from laws import check_bytes_chunk_free, one_by_one
from laws.checks import read
from penstock.events import ToolCallDelta
from penstock.messages import ErrorInfo, Opaque, Text, Thinking, ToolCall

# --- parts ---


def test_thoughts_are_told_from_text_by_their_mark_and_never_by_a_signature() -> None:
    thought, text = {"text": "Hm", "thought": True}, {"text": "Yes", "thoughtSignature": "AA=="}
    message = message_of(chunk(thought), chunk(text), STOP)
    assert message.content == [Thinking("Hm"), Text("Yes", "AA==")]
    assert (message.id, message.model) == ("r", "m")


def test_an_empty_part_signs_the_text_before_it() -> None:
    message = message_of(chunk(SAID), chunk({"text": "", "thoughtSignature": "AA=="}), STOP)
    assert message.content == [Text("a", "AA==")]


def test_the_last_signature_of_a_passage_counts() -> None:
    parts = [{"text": "a", "thoughtSignature": "AA=="}, {"text": "b", "thoughtSignature": "BB=="}]
    assert message_of(chunk(*parts), STOP).content == [Text("ab", "BB==")]


@pytest.mark.parametrize(
    "part", [{"text": "", "thoughtSignature": "AA=="}, {"thoughtSignature": "AA=="}]
)
def test_a_signature_with_no_text_to_sign_keeps_a_block_of_its_own(part: dict[str, Any]) -> None:
    thoughts = {"text": "Hm", "thought": True}
    assert message_of(chunk(thoughts, part), STOP).content == [Thinking("Hm"), Text("", "AA==")]
    calls = message_of(chunk(call("f", id="c"), part), STOP).content
    assert calls == [ToolCall("c", "f"), Text("", "AA==")]


def test_a_signed_thought_keeps_its_signature() -> None:
    part = {"text": "Hm", "thought": True, "thoughtSignature": "AA=="}
    assert message_of(chunk(part), STOP).content == [Thinking("Hm", "AA==")]


def test_empty_parts_open_nothing() -> None:
    message = message_of(
        chunk({"text": ""}, {}, {"thought": True}, {"text": "", "thought": True}), STOP
    )
    assert (message.content, message.stop_reason) == ([], "stop")


def test_side_fields_do_not_hide_the_text_beside_them() -> None:
    assert message_of(chunk({"text": "a", "partMetadata": {"x": 1}}), STOP).text == "a"


def test_calls_without_an_id_and_with_that_of_another_get_one() -> None:
    parts = [call("f"), call("f", id="a"), call("g", id="a"), call("h", id="")]
    ids = [found.id for found in message_of(chunk(*parts), STOP).tool_calls]
    assert ids[1] == "a"
    assert len({*ids}) == 4
    assert all(ids)


@pytest.mark.parametrize("args", [{}, None, {"args": None}, {"args": {}}])
def test_a_call_without_arguments_has_none(args: dict[str, Any] | None) -> None:
    events = read(API.decoder(), [sse(chunk(call("f", **(args or {}))), STOP)])
    assert [event.arguments for event in events if isinstance(event, ToolCallDelta)] == ["{}"]
    assert folded(events).tool_calls[0].complete


def test_arguments_that_are_no_object_are_never_run() -> None:
    message = message_of(chunk(call("f", args=[1])), STOP)
    assert not message.tool_calls[0].complete
    assert message.error is not None
    assert message.error.kind == "malformed"


def test_a_call_without_a_name_is_seen_and_never_run() -> None:
    message = message_of(chunk({"functionCall": {"args": {"a": 1}}}), STOP)
    assert not message.tool_calls[0].complete


def test_an_empty_call_that_ends_nothing_is_nothing() -> None:
    assert message_of(chunk(SAID, {"functionCall": {}}), STOP).content == [Text("a")]


@pytest.mark.parametrize(
    "part",
    [
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
        {"fileData": {"mimeType": "image/png", "fileUri": "gs://a"}, "thoughtSignature": "AA=="},
        {"toolCall": {"id": "t", "toolType": "X", "args": {}}},
        {"toolResponse": {"id": "t", "toolType": "X", "response": {}}},
        {"somethingNew": {"x": 1}},
        {"text": "", "inlineData": {"mimeType": "audio/wav", "data": "AA=="}},
    ],
)
def test_what_only_gemini_understands_is_kept_in_its_place(part: dict[str, Any]) -> None:
    message = message_of(chunk(SAID, part, {"text": "b"}), STOP)
    assert message.content == [Text("a"), Opaque("gemini", part), Text("b")]


def test_what_is_said_of_the_whole_answer_is_kept_at_its_end() -> None:
    sources = [{"uri": "a"}, {"uri": "b"}, {"uri": "c"}]
    message = message_of(
        chunk(SAID, citationMetadata={"citationSources": sources[:1]}),
        chunk(
            {"text": "b"}, citationMetadata={"citationSources": sources[:2]}, groundingMetadata={}
        ),
        chunk(citationMetadata={"citationSources": sources[2:]}),
        chunk(finish="STOP", groundingMetadata={"webSearchQueries": ["x"]}),
    )
    said = {
        "citationMetadata": {"citationSources": sources},
        "groundingMetadata": {"webSearchQueries": ["x"]},
    }
    assert message.content == [Text("ab"), Opaque("gemini", said)]


def test_only_the_first_candidate_counts() -> None:
    other = {"index": 1, "content": {"parts": [{"text": "no"}]}}
    both = {"candidates": [other, *chunk(SAID)["candidates"]]}
    assert message_of(both, STOP).text == "a"


def test_chunks_that_are_wrapped_once_more_are_opened() -> None:
    assert message_of({"response": chunk(SAID), "traceId": "t"}, {"response": STOP}).text == "a"


# --- usage ---


def test_usage_is_what_was_said_last_and_half_a_report_takes_nothing_back() -> None:
    first = {"promptTokenCount": 10, "cachedContentTokenCount": 4, "toolUsePromptTokenCount": 3}
    last = {"candidatesTokenCount": 5, "thoughtsTokenCount": 2, "totalTokenCount": 20}
    message = message_of(
        chunk(SAID) | {"usageMetadata": first},
        STOP | {"usageMetadata": last},
        {"usageMetadata": {"trafficType": "ON_DEMAND"}},
    )
    usage = message.usage
    assert (usage.input, usage.output, usage.cache_read) == (9, 7, 4)
    assert (usage.reasoning, usage.total) == (2, 20)
    assert usage.raw == {**first, **last, "trafficType": "ON_DEMAND"}


# --- ends ---


def test_a_call_makes_stop_a_tool_use_but_the_limit_stays_a_length() -> None:
    assert message_of(chunk(call("f")), STOP).stop_reason == "tool_use"
    assert message_of(chunk(call("f"), finish="MAX_TOKENS")).stop_reason == "length"


def test_stop_in_every_chunk_ends_nothing_before_the_last() -> None:
    message = message_of(chunk(SAID, finish="STOP"), chunk({"text": "b"}, finish="STOP"))
    assert (message.text, message.stop_reason) == ("ab", "stop")
    assert error_of(chunk(SAID, finish="STOP"), chunk(finish="SAFETY")).kind == "filter"


def test_a_word_that_says_nothing_is_no_end_unless_nothing_else_is_said() -> None:
    unsaid = "FINISH_REASON_UNSPECIFIED"
    assert message_of(chunk(SAID, finish=unsaid), STOP).stop_reason == "stop"
    assert message_of(STOP, chunk(SAID, finish=unsaid)).stop_reason == "stop"
    assert unsaid in error_of(chunk(SAID, finish=unsaid)).message


@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        *[(word, "filter") for word in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT")],
        *[(word, "filter") for word in ("SPII", "IMAGE_SAFETY", "IMAGE_OTHER", "IMAGE_RECITATION")],
        *[(word, "malformed") for word in ("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE")],
        *[(word, "malformed") for word in ("UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS")],
        *[(word, "provider") for word in ("LANGUAGE", "OTHER", "NO_IMAGE", "CONTINUATION", "NEW")],
    ],
)
def test_every_other_end_is_an_error_of_its_kind(finish: str, kind: str) -> None:
    message = message_of(chunk(SAID), chunk(finish=finish, finishMessage="Because."))
    assert message.error is not None
    assert (message.error.kind, message.error.type) == (kind, finish)
    assert (message.raw_stop_reason, message.text) == (finish, "a")
    assert finish in message.error.message
    assert "Because." in message.error.message


def test_a_prompt_that_is_blocked_says_why() -> None:
    feedback = {"blockReason": "JAILBREAK", "blockReasonMessage": "No."}
    error = error_of({"promptFeedback": feedback})
    assert (error.kind, error.type) == ("filter", "JAILBREAK")
    assert "No." in error.message
    assert message_of({"promptFeedback": {"safetyRatings": []}}, STOP).error is None


def test_an_error_in_the_stream_ends_it_with_what_had_arrived() -> None:
    details = [
        {"@type": "type.googleapis.com/google.rpc.Help"},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"},
    ]
    error = {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED", "details": details}
    message = message_of(chunk(SAID), {"error": error})
    assert message.text == "a"
    assert message.error == ErrorInfo(
        "Quota. retry-after-ms=34000", "provider", "RESOURCE_EXHAUSTED", 429, 34.0, retryable=True
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please retry in 34.5s.", 34.5),
        ("Your quota will reset after 1h2m3s.", 3723.0),
        ("Please retry in 250ms", 0.25),
        ("Please retry later", None),
    ],
)
def test_a_delay_may_stand_in_the_words_of_an_error(text: str, seconds: float | None) -> None:
    assert error_of({"error": {"code": 429, "message": text}}).retry_after == seconds


def test_a_stream_that_ends_without_a_word_was_cut() -> None:
    chunks: list[dict[str, Any]] = [chunk(SAID), chunk(call("f")), {"usageMetadata": {}}]
    for said in chunks:
        error = error_of(said)
        assert (error.kind, error.retryable) == ("truncated", True)


# --- framing ---


ANSWER = [
    chunk({"text": 'a "é😀'}),
    chunk({"text": "[", "thought": True}, call("f", args={"a": [1]})),
    STOP,
]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_body_that_is_an_array_says_the_same(indent: int | None) -> None:
    data = json.dumps(ANSWER, indent=indent, ensure_ascii=False).encode()
    expected = message_of(*ANSWER)
    for chunks in ([data], one_by_one(data), [b"\n ", data], [b"\xef\xbb\xbf", data]):
        assert folded(read(API.decoder(), chunks)) == expected
    check_bytes_chunk_free(API.decoder, one_by_one(data))


def test_an_array_that_is_cut_is_cut() -> None:
    data = json.dumps([chunk(SAID), STOP]).encode()
    for at in range(len(data) - 2):
        message = folded(read(API.decoder(), [data[:at]]))
        assert message.stop_reason == "error"
        assert message.text in ("", "a")


BAD = '{\n"error": {"code": 400, "message": "Bad."}}'


@pytest.mark.parametrize("body", [BAD, f"[{BAD}]"])
def test_an_error_may_be_the_whole_body(body: str) -> None:
    error = folded(read(API.decoder(), [body.encode()])).error
    assert error is not None
    assert (error.message, error.status, error.retryable) == ("Bad.", 400, False)


def test_a_whole_answer_may_be_the_body() -> None:
    body = json.dumps(chunk(SAID, finish="STOP"), indent=1).encode()
    assert folded(read(API.decoder(), [body])).content == [Text("a")]


def test_blank_lines_may_be_missing_and_the_answer_comes_as_it_is_written() -> None:
    lines = [b"data: " + json.dumps(each).encode() + b"\n" for each in ANSWER]
    assert folded(read(API.decoder(), [b"".join(lines)])) == message_of(*ANSWER)
    decoder = API.decoder()
    decoder.feed(lines[0])
    assert decoder.feed(lines[1]), "the second frame ends the first"


def test_a_mark_that_is_not_of_this_api_is_passed_over() -> None:
    data = sse(chunk(SAID), STOP) + b"data: [DONE]\n\n"
    assert folded(read(API.decoder(), [data])).stop_reason == "stop"


def test_a_line_that_is_no_json_is_skipped_and_a_call_that_streams_is_not_complete() -> None:
    decoder = API.decoder()
    begun = chunk(call("f", willContinue=True))
    data = sse(begun) + b"data: {oops\r\n\r\n" + sse(chunk({"functionCall": {}}), STOP)
    message = folded(read(decoder, [data]))
    assert decoder.skipped == 1
    assert not message.tool_calls[0].complete
