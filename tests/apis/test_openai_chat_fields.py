"""Chat completions in the field: signatures, refusals, repeats, and the client's own words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laws.checks import check_linear, read
from penstock import MessageBuilder, apis
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, ToolCall, ToolResult
from penstock.request import (
    Image,
    Message,
    ReasoningOptions,
    Request,
    ToolChoice,
    UserContent,
    UserMessage,
)
from penstock.tools import Tool

API = apis.get("openai-chat")
DONE = b"data: [DONE]\n\n"
SEARCH = {"type": "web_search"}


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def call(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": more.pop("name")} if "name" in more else {})}
    return {"tool_calls": [{"index": index, "function": function, **more}]}


def sealed(id_: str, data: str) -> dict[str, Any]:
    return {"reasoning_details": [{"type": "reasoning.encrypted", "id": id_, "data": data}]}


def message_of(*chunks: bytes) -> AssistantMessage:
    builder = MessageBuilder()
    for event in read(API.decoder(), [b"".join(chunks)]):
        builder.add(event)
    return builder.message


def written(name: str, events: list[Event]) -> bytes:
    encoder = apis.get(name).encoder()
    return b"".join(map(encoder.encode, events)) + encoder.finish()


# --- answers ---


@pytest.mark.parametrize("name", apis.names())
@pytest.mark.parametrize("said", ['"{\\"a\\":1}"', '```json\n{"a":1}\n```'])
def test_a_call_that_left_as_it_was_understood_is_no_error(name: str, said: str) -> None:
    mended = ToolCall("c", "f", {"a": 1}, repairs=["mended"])
    end = Done("tool_use", AssistantMessage(content=[mended], stop_reason="tool_use"))
    start: list[Event] = [MessageStart(), ToolCallStart(0, "c", "f")]
    data = written(name, [*start, ToolCallDelta(0, said), ToolCallEnd(0, mended), end])
    last = read(apis.get(name).decoder(), [data])[-1]
    assert isinstance(last, Done)
    assert [found.arguments for found in last.message.tool_calls] == [{"a": 1}]


@pytest.mark.parametrize("name", ["openai-chat", "anthropic", "qwen"])
def test_a_call_that_was_mended_after_it_left_is_an_error(name: str) -> None:
    mended = ToolCall("c", "f", {"a": 1}, repairs=["mended"])
    end = Done("tool_use", AssistantMessage(content=[mended], stop_reason="tool_use"))
    start: list[Event] = [MessageStart(), ToolCallStart(0, "c", "f")]
    data = written(name, [*start, ToolCallDelta(0, '{"a":1,}'), ToolCallEnd(0, mended), end])
    assert isinstance(read(apis.get(name).decoder(), [data])[-1], Failed)


def test_a_signature_finds_its_call_before_beside_and_behind_it() -> None:
    beside = {**call(1, "{}", id="b", name="g"), **sealed("b", "S2")}
    message = message_of(
        chunk(sealed("a", "S1")),
        chunk(call(0, "{}", id="a", name="f")),
        chunk(beside),
        chunk(call(2, "{}", id="c", name="h")),
        chunk(call(3, "{}", id="d", name="i")),
        chunk(sealed("c", "S3")),
        chunk({}, "tool_calls"),
        DONE,
    )
    assert [c.signature for c in message.tool_calls] == ["S1", "S2", "S3", ""]


def test_thoughts_that_stand_in_the_details_alone_are_thinking() -> None:
    details = [
        {"type": "reasoning.summary", "summary": "In short. "},
        {"type": "reasoning.text", "text": "At length.", "signature": "S"},
    ]
    message = message_of(chunk({"reasoning_details": details}), chunk({"content": "Hi"}), DONE)
    assert message.thinking == "In short. At length."
    assert message.content[0].signature == "S"  # type: ignore[union-attr]
    both = message_of(chunk({"reasoning": "Once", "reasoning_details": details[1:]}), DONE)
    assert both.thinking == "Once"


def test_a_call_that_is_said_once_more_is_one_call() -> None:
    whole = chunk(call(0, '{"a":1}', id="x", name="f"))
    message = message_of(whole, whole, chunk({}, "tool_calls"), DONE)
    assert message.error is None
    assert [c.arguments for c in message.tool_calls] == [{"a": 1}]


def test_a_name_on_every_delta_costs_no_more_than_its_text() -> None:
    piece = chunk(call(0, "x}" * 200, name="f"))

    def run(number: int) -> None:
        decoder = API.decoder()
        decoder.feed(chunk(call(0, '{"a":"', name="f")))
        for _ in range(number):
            decoder.feed(piece)

    check_linear(run, 300, 3_000, at_most=3, tries=3)


@pytest.mark.parametrize("finish", [None, ""])
def test_no_reason_to_end_is_no_reason(finish: str | None) -> None:
    message = message_of(chunk({"content": "Hi"}, finish), DONE)
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "")


def test_a_refusal_tells_its_reason_to_the_client_and_is_read_back_as_one() -> None:
    error = ErrorInfo("no way", "refusal")
    refused = AssistantMessage(stop_reason="error", error=error)
    data = written("openai-chat", [MessageStart(), Failed("error", error, refused)])
    assert b'"refusal":"no way"' in data
    assert API.check(data) == []
    for found in (message_of(data), API.read_response(API.write_response(refused))):
        assert found.error is not None
        assert (found.error.message, found.error.kind, found.text) == ("no way", "refusal", "")


@pytest.mark.parametrize(
    ("error", "status", "wait"),
    [
        ({"message": "slow", "retry_after": 2}, None, 2.0),
        ({"message": "slow", "metadata": {"headers": {"Retry-After": 3}}}, None, 3.0),
        ({"message": "slow", "code": "429"}, 429, None),
        ({"message": "Slow. Please try again in 7m12s."}, None, 432.0),
    ],
)
def test_an_error_says_when_to_try_again(
    error: dict[str, Any], status: int | None, wait: float | None
) -> None:
    found = message_of(b"data: " + json.dumps({"error": error}).encode() + b"\n\n").error
    assert found is not None
    assert (found.status, found.retry_after, found.retryable) == (status, wait, True)


@pytest.mark.parametrize(
    ("type_", "code", "said"),
    [
        ("invalid_request_error", "context_length_exceeded", "context_length_exceeded"),
        ("invalid_request_error", "invalid_request_error", "invalid_request_error"),
        ("invalid_request_error", None, "invalid_request_error"),
        ("invalid_request_error", "3230", "invalid_request_error"),
        ("BadRequestError", 400, "BadRequestError"),
        ("api_error", "context_length_exceeded", "context_length_exceeded"),
        ("tokens", "rate_limit_exceeded", "rate_limit_exceeded"),
        ("some_type", "some_code", "some_type"),
        ("tokens", "some_code", "some_code"),
        ("", "The model is not there", "The model is not there"),
    ],
)
def test_of_type_and_code_the_telling_one_is_kept(type_: str, code: Any, said: str) -> None:
    body = json.dumps({"error": {"message": "no", "type": type_, "code": code}}).encode()
    in_stream = message_of(b"data: " + body + b"\n\n").error
    assert in_stream is not None
    assert in_stream.type == API.read_error(400, {}, body).type == said


# --- requests ---


def sent(body: dict[str, Any]) -> dict[str, Any]:
    """Pass a request on to the API that it is of."""
    messages = [{"role": "user", "content": "Go"}]
    return API.write_request(API.read_request({"model": "m", "messages": messages, **body}))


@pytest.mark.parametrize(
    "own",
    [
        {"response_format": {"type": "grammar", "grammar": "g"}},
        {"response_format": {"type": "json_object", "schema": {"type": "object"}}},
        {"reasoning": {"max_tokens": 2000}},
        {"reasoning": {"effort": "high", "exclude": True}},
        {"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}},
        {
            "tools": [{"type": "function", "function": {"name": "f", "strict": True}}],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "name": "f"}]},
            },
        },
        {
            "messages": [
                {
                    "role": "system",
                    "content": [
                        {"type": "text", "text": "Be.", "cache_control": {"type": "ephemeral"}}
                    ],
                },
                {"role": "user", "name": "Ann", "content": "Hi"},
                {
                    "role": "assistant",
                    "content": "Ho",
                    "name": "Bob",
                    "reasoning_details": [{"type": "reasoning.text", "text": "Hm"}],
                },
            ]
        },
    ],
)
def test_the_clients_own_words_go_back_to_the_api_that_they_are_of(own: dict[str, Any]) -> None:
    body = sent(own)
    assert {key: body.get(key) for key in own} == own
    assert "reasoning_effort" not in body


def test_words_that_mean_something_else_by_now_are_not_said_again() -> None:
    tools = [{"type": "function", "function": {"name": "f", "strict": True}}]
    request = API.read_request({"messages": [{"role": "user", "content": "a"}], "tools": tools})
    request.tools = [Tool("f", "new")]
    request.messages = [UserMessage([Text("b")])]
    body = API.write_request(request)
    assert body["tools"] == [{"type": "function", "function": {"name": "f", "description": "new"}}]
    assert body["messages"] == [{"role": "user", "content": "b"}]


def test_a_refusal_in_parts_is_what_was_said() -> None:
    said = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    assert sent({"messages": [said]})["messages"] == [{"role": "assistant", "content": "no"}]


def test_nothing_is_chosen_where_there_is_nothing_to_choose() -> None:
    request = Request(tool_choice=ToolChoice("tool", "f"), parallel_tool_calls=False)
    assert not API.write_request(request).keys() & {"tool_choice", "parallel_tool_calls"}
    assert API.omitted_fields(request) == ["tool_choice", "parallel_tool_calls"]
    own = Request(tool_choice=ToolChoice(), source="openai-chat", extra={"tools": [SEARCH]})
    assert API.write_request(own)["tool_choice"] == "auto"


def test_the_usage_is_asked_for_in_streams_alone() -> None:
    assert "stream_options" not in API.write_request(Request(include_usage=True))
    assert "stream_options" in API.write_request(Request(include_usage=True, stream=True))


@pytest.mark.parametrize(
    ("budget", "effort"), [(0, "none"), (1024, "low"), (8192, "medium"), (31999, "high")]
)
def test_a_budget_is_an_effort_to_an_api_that_has_words_for_it(budget: int, effort: str) -> None:
    request = Request(reasoning=ReasoningOptions(budget=budget))
    assert API.write_request(request)["reasoning_effort"] == effort
    assert API.omitted_fields(request) == []


def test_pictures_that_a_tool_gave_back_are_shown_by_the_user_behind_all_results() -> None:
    picture = Image(media_type="image/png", data="aGk=")
    calls = AssistantMessage(content=[ToolCall("a", "f"), ToolCall("b", "g")])
    messages: list[Message] = [
        calls,
        ToolResult("a", "f", [picture]),
        ToolResult("b", "g", "text"),
        UserMessage([Text("Well?")]),
    ]
    _, one, two, shown, _ = API.write_request(Request(messages=messages))["messages"]
    assert [one["role"], two["role"], shown["role"]] == ["tool", "tool", "user"]
    assert isinstance(one["content"], str)
    assert [part["type"] for part in shown["content"]] == ["text", "image_url"]


def test_an_id_that_is_too_long_is_shortened_in_call_and_result() -> None:
    long = "x" * 41
    asks = AssistantMessage(content=[ToolCall(long, "f")])
    body = API.write_request(Request(messages=[asks, ToolResult(long, "f", "1")]))
    first, second = body["messages"]
    assert first["tool_calls"][0]["id"] == second["tool_call_id"]
    assert len(second["tool_call_id"]) <= 40


def test_mistrals_models_get_ids_of_nine_letters_and_digits() -> None:
    asks = AssistantMessage(content=[ToolCall("call_1", "f"), ToolCall("AbCdEf123", "g")])
    request = Request(model="mistral-large", messages=[asks, ToolResult("call_1", "f", "1")])
    first, *rest = API.write_request(request)["messages"]
    ids = [call["id"] for call in first["tool_calls"]]
    assert ids == ["call00001", "AbCdEf123"] == [result["tool_call_id"] for result in rest]


def by_user(block: UserContent) -> Request:
    return Request(messages=[UserMessage([Text("Look"), block])])


def test_files_of_other_apis_are_passed_on_where_there_is_a_form_for_them() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
    document = by_user(Opaque("anthropic", {"type": "document", "source": source}))
    [message] = API.write_request(document)["messages"]
    file = {"filename": "file.pdf", "file_data": "data:application/pdf;base64,aGk="}
    assert message["content"][1] == {"type": "file", "file": file}
    recording = Opaque("gemini", {"inlineData": {"mimeType": "audio/mpeg", "data": "aGk="}})
    [message] = API.write_request(by_user(recording))["messages"]
    assert message["content"][1]["input_audio"] == {"data": "aGk=", "format": "mp3"}
    assert API.omitted_fields(document) == API.omitted_fields(by_user(recording)) == []


def test_a_document_that_has_no_form_here_is_named_as_left_out() -> None:
    elsewhere = {"type": "document", "source": {"type": "url", "url": "https://e.test/a.pdf"}}
    assert API.omitted_fields(by_user(Opaque("anthropic", elsewhere))) == ["content: document"]


def test_the_type_of_a_picture_that_has_none_is_guessed() -> None:
    [message] = API.write_request(by_user(Image(data="/9j/4AAQ")))["messages"]
    assert message["content"][1]["image_url"]["url"] == "data:image/jpeg;base64,/9j/4AAQ"


@pytest.mark.parametrize(
    ("name", "api"),
    [("openaichat", "openai-chat"), ("claude", "anthropic"), ("Vertex", "gemini")],
)
def test_an_api_is_found_by_the_names_that_people_use(name: str, api: str) -> None:
    assert apis.get(name).name == api


# --- the limit, which has two names ---


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_client_of_the_api_names_the_limit(name: str) -> None:
    body = sent({name: 9, "reasoning_effort": "low"})
    assert {key: body[key] for key in body if key.startswith("max_")} == {name: 9}


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("m", "max_tokens"),
        ("qwen3:8b", "max_tokens"),
        ("o1", "max_completion_tokens"),
        ("o3-mini", "max_completion_tokens"),
        ("o4-mini-2025-04-16", "max_completion_tokens"),
        ("gpt-5.1", "max_completion_tokens"),
        ("openai/gpt-5-nano", "max_completion_tokens"),
        ("gpt-4o", "max_tokens"),
        ("olmo-2", "max_tokens"),
        ("o100", "max_tokens"),
    ],
)
@pytest.mark.parametrize("source", ["", "anthropic", "openai-responses"])
def test_others_get_the_name_that_the_model_knows(model: str, name: str, source: str) -> None:
    raw = {"max_completion_tokens": 1} if source else None
    thinks = ReasoningOptions("low")
    request = Request(model, max_tokens=9, reasoning=thinks, source=source, raw=raw)
    body = API.write_request(request)
    assert {key: body[key] for key in body if key.startswith("max_")} == {name: 9}
