"""What Gemini's encoder writes, and what its checker would not let pass."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.gemini_cases import API, SAID, call, chunk, error_of, folded, message_of, sse
from laws import cut_at
from laws.checks import read
from laws.strategies import CUTS, TEXT
from penstock import UsageError
from penstock.apis.gemini.tables import restore_signature, seal, unseal
from penstock.builder import message_events
from penstock.events import (
    Done,
    Event,
    MessageStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, Thinking, ToolCall, Usage


def written(events: list[Event]) -> list[dict[str, Any]]:
    encoder = API.encoder(model="m", id="r")
    data = b"".join(map(encoder.encode, events)) + encoder.finish()
    assert API.check(data) == []
    return [
        json.loads(frame.removeprefix("data: ")) for frame in data.decode().split("\r\n\r\n")[:-1]
    ]


def parts_of(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for item in chunks for part in item["candidates"][0]["content"]["parts"]]


def test_a_call_goes_out_whole_when_it_ends() -> None:
    done = ToolCall("c", "f", {"a": 1}, signature="AA==")
    chunks = written(
        [
            MessageStart(), TextStart(0), TextDelta(0, "Hi"), TextEnd(0, "Hi", "BB=="),
            ToolCallStart(1, "c", "f"), ToolCallDelta(1, '{"a": 1}'), ToolCallEnd(1, done),
            Done("tool_use", AssistantMessage(stop_reason="tool_use", usage=Usage(1, 2))),
        ]
    )  # fmt: skip
    assert parts_of(chunks) == [
        {"text": "Hi"},
        {"text": "", "thoughtSignature": seal("BB==")},
        {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}, "thoughtSignature": "AA=="},
        {"text": ""},
    ]
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
    assert chunks[-1]["usageMetadata"]["totalTokenCount"] == 3
    assert {(item["modelVersion"], item["responseId"]) for item in chunks} == {("m", "r")}


WHOLE = AssistantMessage(
    "r",
    "m",
    [
        Thinking("Hm", "AA=="),
        Text("Hi"),
        Opaque("gemini", {"executableCode": {"language": "PYTHON", "code": "1"}}),
        Text("Ho", "CA=="),
        ToolCall("c", "f", {"a": {"b": [1, None]}}, signature="{no base64}"),
        Opaque("gemini", {"groundingMetadata": {"webSearchQueries": ["x"]}}),
    ],
    "tool_use",
    "STOP",
    Usage(5, 3, 2, reasoning=1, total=10),
)


def test_an_answer_reads_back_as_it_was_written_streamed_and_whole() -> None:
    chunks = written([*message_events(WHOLE)])
    for found in (message_of(*chunks), API.read_response(API.write_response(WHOLE))):
        found.usage.raw = None
        assert found == WHOLE


@pytest.mark.parametrize("finish", ["MALFORMED_FUNCTION_CALL", "SPII", "OTHER"])
def test_the_words_of_the_api_itself_go_out_as_they_came(finish: str) -> None:
    message = message_of(chunk(SAID), chunk(finish=finish, finishMessage="So."))
    again = message_of(*written([*message_events(message)]))
    assert (again.error, again.raw_stop_reason) == (message.error, finish)


def test_an_error_goes_out_with_its_delay() -> None:
    error = ErrorInfo("slow", "provider", "rate_limit_error", 429, 34.5, retryable=True)
    (chunk_,) = written([*message_events(AssistantMessage(stop_reason="error", error=error))])
    assert chunk_["error"]["status"] == "RESOURCE_EXHAUSTED"
    found = error_of(chunk_)
    assert (found.status, found.retry_after, found.retryable) == (429, 34.5, True)


def test_an_answer_that_failed_has_no_whole_form() -> None:
    with pytest.raises(UsageError, match="failed response"):
        API.write_response(AssistantMessage(stop_reason="error", error=ErrorInfo("no")))


def test_an_answer_of_nothing_still_has_a_part() -> None:
    body = API.write_response(AssistantMessage(stop_reason="stop"))
    assert body["candidates"][0]["content"]["parts"] == [{"text": ""}]


@given(text=TEXT | st.text("\u2028\u2029\x85a", max_size=5), cuts=CUTS)
def test_text_goes_out_on_one_line_whatever_a_client_takes_for_the_end_of_one(
    text: str, cuts: list[int]
) -> None:
    encoder = API.encoder()
    events: list[Event] = [MessageStart(), TextStart(0)]
    events += [TextDelta(0, piece) for piece in cut_at(text, cuts)]
    data = b"".join(map(encoder.encode, events))
    assert all(line.startswith("data: ") for line in data.decode().splitlines() if line)
    assert folded(read(API.decoder(), [data])).text == text


def test_a_server_that_refuses_is_read_and_written() -> None:
    body = b'[{"error": {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}}]'
    error = API.read_error(503, {"Retry-After": "2"}, body)
    assert (error.type, error.status, error.retry_after) == ("UNAVAILABLE", 503, 2.0)
    status, answer = API.write_error(error)
    assert (status, answer["error"]["status"]) == (503, "UNAVAILABLE")
    assert API.read_error(status, {}, json.dumps(answer).encode()) == error


# --- signatures ---


@given(signature=TEXT | st.binary(max_size=9).map(lambda data: seal(data.hex())))
def test_a_signature_survives_the_clients_alphabet(signature: str) -> None:
    out = seal(signature) if signature else ""
    assert unseal(out) == signature
    assert restore_signature(out.replace("+", "-").replace("/", "_").rstrip("=")) == signature


# --- the checker ---


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (sse(chunk(SAID)), "there is no finishReason"),
        (b": hi\r\n\r\n", "a line is not data"),
        (b"data:{}\r\n\r\n", "a line is not data"),
        ('data: {"a":"\u2028"}\r\n\r\n'.encode(), "a line is not data"),
        (b"data: [1]\r\n\r\n", "a frame is not a JSON object"),
        (b"data: [DONE]\r\n\r\n", "a chunk has no modelVersion"),
        (b"data: {\r\ndata: }\r\n\r\n", "a frame has several lines"),
        (sse({"candidates": [{"content": {"parts": "Hi"}}]}), "content is not an object"),
        (sse({"promptFeedback": {}}), "a blocked prompt has no reason"),
        (sse(chunk(SAID, finish="STOP")), "the last chunk has no usage"),
        (sse(chunk(SAID, finish="stop")), "finishReason is 'stop'"),
        (sse(chunk(SAID, finish="STOP"), chunk(SAID)), "something follows"),
        (sse(chunk({"text": 1})), "text is not a string"),
        (sse(chunk({"text": "a", "thought": 1})), "thought is not a boolean"),
        (sse(chunk({"text": "a", "thoughtSignature": "a b"})), "a signature is not base64"),
        (sse(chunk({"text": "a", **call("f")})), "a part has not exactly one kind"),
        (sse(chunk({})), "a part has not exactly one kind"),
        (sse(chunk(1)), "a part is not an object"),
        (sse(chunk(call("", args={}, id="a"))), "a call has no name"),
        (sse(chunk(call("f", args="{}", id="a"))), "the arguments of a call are not an object"),
        (sse(chunk(call("f", args={}))), "a call has no id"),
        (sse(chunk(*[call("f", args={}, id="a")] * 2)), "two calls have one id"),
        (sse(chunk({"functionCall": 1})), "a call is not an object"),
        (sse(chunk(SAID), chunk(SAID) | {"responseId": "x"}), "responseId changes"),
        (sse({"candidates": [], "modelVersion": "m", "responseId": "r"}), "exactly one candidate"),
        (sse(chunk(SAID, index=1)), "no index 0"),
        (sse({"error": {"code": 1}}), "an error has no code"),
        (sse({"error": {"code": 500}}), "an error has no message or no status"),
        (sse({"x": 1, "error": {}}), "`error` is not the first field"),
        (sse(chunk(SAID) | {"usageMetadata": {}}), "usage has no counts"),
    ],
)  # fmt: skip
def test_the_checker_sees_what_a_client_would_stumble_over(data: bytes, complaint: str) -> None:
    assert any(complaint in found for found in API.check(data))


def test_half_a_character_is_replaced_wherever_it_is_said() -> None:
    message = AssistantMessage("r\ud83d", "m\ud83d", [Text("Hi\ud83d")], "stop")
    encoder = API.encoder()
    data = b"".join(map(encoder.encode, message_events(message))) + encoder.finish()
    assert API.check(data) == []
    assert "\\ud" not in json.dumps(API.write_response(message))
    assert API.write_error(ErrorInfo("no \ud83d", "provider"))[1]["error"]["message"] == "no "
