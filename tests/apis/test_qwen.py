"""The web API of chat.qwen.ai: phases, sessions, refusals with the status 200, and requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from laws import check_bytes_chunk_free, one_by_one
from laws.checks import read
from penstock import MessageBuilder, UsageError, apis, parse_events
from penstock.apis.qwen import Decoder
from penstock.events import Event
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, ToolResult
from penstock.request import Image, Message, ReasoningOptions, Request, UserMessage

API = apis.get("qwen")
LINES = (Path(__file__).parents[1] / "vectors" / "qwen_sse.jsonl").read_text(encoding="utf-8")
VECTORS = [json.loads(line) for line in LINES.splitlines()]
EVERY = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["id"]))
FINISHES = {"tool_use": "tool_calls", "stop": "stop", "length": "length"}


def folded(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


def message_of(*chunks: dict[str, Any] | bytes) -> AssistantMessage:
    data = b"".join(
        c if isinstance(c, bytes) else b"data: " + json.dumps(c).encode() + b"\n\n" for c in chunks
    )
    return folded(read(API.decoder(), [data]))


def chunk(content: str = "", phase: str | None = "answer", **more: Any) -> dict[str, Any]:
    delta = {"content": content, **({"phase": phase} if phase else {}), **more}
    return {"choices": [{"delta": delta}]}


CREATED = {"response.created": {"chat_id": "c", "parent_id": "p", "response_id": "r"}}
FINISHED = chunk(status="finished")


@EVERY
def test_a_stream_of_the_web_becomes_text_thinking_and_calls(vector: dict[str, Any]) -> None:
    decoder, expect = Decoder(), vector["expect"]
    events = read(decoder, [vector["upstream_sse"].encode()])
    tools = vector["request_tools"]
    message = folded([*parse_events(events, "qwen_web", tools, trim=True)])
    if vector["content_mode"] == "exact":
        assert message.text == expect["content"]
    elif vector["content_mode"] == "strip":
        assert message.text.split() == (expect["content"] or "").split()
    assert [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls] == (
        expect["tool_calls"]
    )
    if expect["reasoning"] is not None:
        assert message.thinking.strip() == expect["reasoning"].strip()
    if expect["finish_reason"] is not None:
        assert FINISHES[str(message.stop_reason)] == expect["finish_reason"]
    assert_usage(message, expect["usage"])
    if expect.get("session"):
        assert decoder.session == expect["session"]


def assert_usage(message: AssistantMessage, expected: dict[str, int] | None) -> None:
    if expected is not None:
        given = message.usage.input + message.usage.cache_read
        found = (given, message.usage.output, message.usage.total)
        assert found == tuple(expected.values())


@EVERY
def test_any_cut_of_the_bytes_gives_the_same_events(vector: dict[str, Any]) -> None:
    data = vector["upstream_sse"].encode()
    check_bytes_chunk_free(API.decoder, one_by_one(data))
    for size in (2, 7, 61):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        check_bytes_chunk_free(API.decoder, pieces)


# --- phases and ends ---


def test_the_end_of_the_thoughts_is_not_the_end() -> None:
    message = message_of(
        CREATED, chunk("Hm", "think"), chunk("", "think", status="finished"), chunk("Yes"), FINISHED
    )
    assert (message.thinking, message.text, message.stop_reason) == ("Hm", "Yes", "stop")


def test_summaries_of_thoughts_grow_and_come_once() -> None:
    def summary(*texts: str) -> dict[str, Any]:
        extra = {"summary_thought": {"content": list(texts)}}
        return chunk("", "thinking_summary", extra=extra)

    message = message_of(CREATED, summary("One"), summary("One", "Two"), chunk("Yes"), FINISHED)
    assert message.thinking == "One\n\nTwo"


def test_a_search_is_kept_aside() -> None:
    found = {"web_search_info": [{"url": "https://e.test"}]}
    message = message_of(
        CREATED, chunk("", "web_search", name="web_search", extra=found), chunk("Yes"), FINISHED
    )
    (part,) = [block for block in message.content if isinstance(block, Opaque)]
    assert (part.provider, part.data["extra"], message.text) == ("qwen", found, "Yes")


@pytest.mark.parametrize("end", [FINISHED, b"data: [DONE]\n\n"])
def test_either_end_alone_is_a_good_one(end: Any) -> None:
    assert message_of(chunk("Hi", None), end).stop_reason == "stop"


def test_an_answer_without_an_end_was_cut() -> None:
    message = message_of(CREATED, chunk("Half"))
    assert message.error is not None
    assert (message.text, message.error.kind) == ("Half", "truncated")


def test_frames_of_another_answer_are_ignored() -> None:
    other = {**chunk("no"), "response_id": "x"}
    assert message_of(CREATED, other, {**chunk("yes"), "response_id": "r"}, FINISHED).text == "yes"


def test_the_last_usage_counts() -> None:
    one = {"usage": {"input_tokens": 9, "output_tokens": 1}}
    two = {"usage": {"input_tokens": 9, "output_tokens": 4, "cached_tokens": 5}}
    usage = message_of(CREATED, chunk("a") | one, chunk("b") | two, FINISHED).usage
    assert (usage.input, usage.cache_read, usage.output, usage.total) == (4, 5, 4, 13)


# --- refusals ---

LIMIT = {"success": False, "data": {"code": "RateLimited", "details": "daily limit", "num": 2}}
GUARD = {"ret": ["FAIL_SYS_USER_VALIDATE", "RGV587_ERROR::SM"], "data": {"url": "https://e.test"}}


@pytest.mark.parametrize(
    ("body", "type_", "status"),
    [
        (json.dumps(LIMIT).encode(), "RateLimited", 429),
        (json.dumps(GUARD).encode(), "FAIL_SYS_USER_VALIDATE", 403),
        (b"<!doctype html><html>", "challenge", 403),
        (b'data: {"error": {"code": "Bad_Request", "details": "no"}}\n\n', "Bad_Request", 400),
    ],
)
def test_a_refusal_with_the_status_200_is_a_typed_error(
    body: bytes, type_: str, status: int
) -> None:
    error = message_of(body).error
    assert error is not None
    assert (error.kind, error.type, error.status) == ("provider", type_, status)


def test_a_limit_says_how_long_it_lasts() -> None:
    error = API.read_error(200, {}, json.dumps(LIMIT).encode())
    assert (error.retry_after, error.retryable) == (7200.0, True)
    assert error.message == "daily limit retry-after-ms=7200000"


def test_an_error_in_the_middle_leaves_what_had_arrived() -> None:
    message = message_of(CREATED, chunk("Half"), {"error": {"code": "x", "details": "broke"}})
    assert message.error is not None
    assert (message.text, message.error.message) == ("Half", "broke")


# --- whole answers and requests ---


def test_a_whole_answer_reads_back() -> None:
    message = AssistantMessage("r", "", [Text("Hi")], "stop")
    assert API.read_response(API.write_response(message)) == message
    with pytest.raises(UsageError, match="failed response"):
        API.write_response(AssistantMessage(stop_reason="error", error=ErrorInfo("no")))
    assert API.read_response(LIMIT).error is not None


@pytest.mark.parametrize("kind", ["refusal", "filter"])
def test_an_answer_that_was_stopped_reads_back_as_what_it_is(kind: Any) -> None:
    stopped = AssistantMessage("r", "", [Text("Hm")], "error", error=ErrorInfo("I will not.", kind))
    message = API.read_response(API.write_response(stopped))
    assert message.error is not None
    assert (message.error.kind, message.text) == (kind, "Hm")


def test_a_whole_answer_ends_with_its_body_and_one_without_a_message_is_none() -> None:
    said = {"index": 0, "message": {"role": "assistant", "content": "Hi"}}
    for choice in (said, {**said, "finish_reason": None}):
        message = API.read_response({"success": True, "data": {"choices": [choice]}})
        assert (message.text, message.stop_reason, message.raw_stop_reason) == ("Hi", "stop", "")
    cut = API.read_response({"data": {"choices": [{**said, "finish_reason": "length"}]}})
    assert cut.stop_reason == "length"
    for choices in ([], None, [{"index": 0}]):
        assert API.read_response({"success": True, "data": {"choices": choices}}).error is not None
    assert API.read_response({"success": True, "data": {}}).error is not None


def test_a_new_chat_is_told_everything_as_one_text() -> None:
    messages: list[Message] = [
        UserMessage([Text("Hi")]),
        AssistantMessage(content=[Text("Hello")]),
        UserMessage([Text("Go on")]),
    ]
    body = API.write_request(Request("m", system="Be brief.", messages=messages))
    (message,) = body["messages"]
    assert message["content"] == "Be brief.\n\nUser: Hi\n\nAssistant: Hello\n\nUser: Go on"
    assert message["feature_config"]["output_schema"] == "phase"


def test_a_chat_that_goes_on_is_told_what_is_new() -> None:
    messages: list[Message] = [
        UserMessage([Text("Hi")]),
        AssistantMessage(content=[Text("Hello")]),
        ToolResult("c", "read", "text"),
        ToolResult("d", "run", " "),
    ]
    extra = {"chat_id": "c", "parent_id": "r", "fid": "f", "timestamp": 5}
    request = Request("m", "Be brief.", messages, extra=extra, source="qwen", stream=True)
    request.reasoning = ReasoningOptions("medium")
    body = API.write_request(request)
    (message,) = body["messages"]
    assert message["content"] == (
        "Tool Result from read:\ntext\n\n"
        "Tool Result from run:\n(Command completed successfully with no output)"
    )
    assert (body["parent_id"], message["parentId"], message["timestamp"]) == ("r", "r", 5)
    found = API.read_request(body)
    assert (found.extra["fid"], found.reasoning, found.stream) == ("f", request.reasoning, True)


def test_what_the_api_has_no_word_for_is_named() -> None:
    request = Request("m", temperature=0.5, stop=["x"], extra={"chat_id": "c", "other": 1})
    assert API.omitted_fields(request) == ["temperature", "stop", "other"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": {}},
        {"messages": [1]},
        {"messages": [{"content": "Hi"}]},
        {"messages": [{"role": "judge", "content": "Hi"}]},
        {"messages": [], "timestamp": "now"},
        {"messages": [], "timestamp": 0.5},
        {"messages": [], "chat_id": ["c"]},
        {"messages": [], "parent_id": 7},
    ],
)
def test_what_is_no_request_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        API.read_request(body)


def test_everybody_who_speaks_in_a_chat_is_told_apart() -> None:
    roles = ("system", "user", "assistant", "user")
    said = [{"role": role, "content": role} for role in roles]
    body = API.write_request(API.read_request({"messages": said}))
    (message,) = body["messages"]
    assert message["content"] == "system\n\nUser: user\n\nAssistant: assistant\n\nUser: user"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "there is no end"),
        (b"data: {}\n\n", "precedes response.created"),
        (b'data: {"response.created": {}}\n\n', "has no chat_id"),
        (b"data: [DONE]\n\ndata: [DONE]\n\n", "something follows"),
    ],
)
def test_the_checker_sees_what_breaks_the_grammar(data: bytes, complaint: str) -> None:
    assert any(complaint in found for found in API.check(data))


def test_a_summary_may_grow_where_it_stands() -> None:
    def thought(*texts: str) -> dict[str, Any]:
        return chunk(phase="thinking_summary", extra={"summary_thought": {"content": [*texts]}})

    shown = [thought("One"), thought("One more"), thought("One more", "Two"), thought("One more")]
    assert message_of(*shown).thinking == "One more\n\nTwo"


@pytest.mark.parametrize(("budget", "thinks"), [(31999, True), (0, False)])
def test_a_budget_is_a_wish_to_think(budget: int, *, thinks: bool) -> None:
    body = API.write_request(Request(reasoning=ReasoningOptions(budget=budget)))
    assert body["messages"][0]["feature_config"]["thinking_enabled"] is thinks


def test_pictures_are_named_as_left_out() -> None:
    result = ToolResult("a", "f", [Image(data="aGk=")])
    assert API.omitted_fields(Request(messages=[result])) == ["content: image"]
