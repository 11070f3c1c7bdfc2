"""What goes over the wire, and what comes back, for each API."""

from __future__ import annotations

import asyncio
import gzip
import logging
import zlib
from importlib import import_module
from typing import Any

import pytest

from async_runner import run
from models.fake_upstream import script
from models.loopback_servers import (
    ANSWER,
    NEW_CHAT,
    Reply,
    Seen,
    call_of,
    script_for,
    serving,
    stream_of,
    streamed,
    whole,
)
from penstock import HTTPModel, Request, apis
from penstock.errors import UsageError
from penstock.events import Done, Event, TextDelta
from penstock.messages import AssistantMessage, Text, ToolResult
from penstock.models.http import NO_RETRY, Report
from penstock.request import ReasoningOptions, SystemMessage, ToolChoice, UserMessage
from penstock.tools import Tool

APIS = apis.names()
KEY = "sk-canary-0123456789"
TIDE = Tool("tide_at", "When is high water?", {"properties": {"port": {"type": "string"}}})


def asks(text: str = "When is high water?", **options: Any) -> Request:
    return Request(messages=[UserMessage([Text(text)])], **options)


async def collect(model: HTTPModel, request: Request) -> tuple[list[Event], Report]:
    stream = model.stream(request)
    return [event async for event in stream], stream.report


PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent",
    "ollama": "/api/chat",
    "qwen": "/api/v2/chat/completions",
}
KEYS = {
    "openai-chat": ("authorization", f"Bearer {KEY}"),
    "openai-responses": ("authorization", f"Bearer {KEY}"),
    "anthropic": ("x-api-key", KEY),
    "gemini": ("x-goog-api-key", KEY),
    "ollama": ("authorization", f"Bearer {KEY}"),
    "qwen": ("authorization", f"Bearer {KEY}"),
}


@pytest.mark.parametrize("api", APIS)
async def test_an_answer_streams_and_its_cost_is_recorded(api: str) -> None:
    async with (
        serving(*script_for(api, streamed(api))) as upstream,
        HTTPModel(api, upstream.url, "m", KEY, interval=0) as model,
    ):
        events, report = await collect(model, asks())
    assert isinstance(events[-1], Done)
    assert events[-1].message.text == ANSWER.text
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == ANSWER.text
    assert (report.usage.input, report.usage.output) == (12, 5)
    assert report.attempts == 1
    assert report.status == 200
    assert report.first_byte is not None
    assert report.first_token is not None
    assert report.duration is not None
    assert 0 < report.first_byte <= report.first_token <= report.duration
    seen = upstream.seen[-1]
    assert seen.path == PATHS[api]
    assert seen.headers[KEYS[api][0]] == KEYS[api][1]
    assert seen.headers["content-type"] == "application/json"
    assert KEY not in str(seen.query) + seen.path + seen.body.decode()


async def test_what_only_one_api_wants_is_there() -> None:
    async def asked(api: str) -> Seen:
        async with (
            serving(*script_for(api, streamed(api))) as upstream,
            HTTPModel(api, upstream.url, "m") as model,
        ):
            await model.complete(asks())
        return upstream.seen[-1]

    assert (await asked("anthropic")).headers["anthropic-version"] == "2023-06-01"
    assert (await asked("gemini")).query == {"alt": "sse"}
    assert (await asked("openai-chat")).json["stream_options"] == {"include_usage": True}
    qwen = await asked("qwen")
    assert qwen.query == {"chat_id": "chat-1"}
    assert qwen.json["chat_id"] == "chat-1"
    assert qwen.json["messages"][0]["fid"]
    assert 1.7e9 < qwen.json["timestamp"] < 1e11  # seconds


async def test_a_chat_is_begun_only_where_there_is_none() -> None:
    async with (
        serving(NEW_CHAT, streamed("qwen")) as upstream,
        HTTPModel("qwen", upstream.url, "m") as model,
    ):
        stream = model.stream(asks())
        await stream.result()
        session = stream.report.session
        more = {"chat_id": session["chat_id"], "parent_id": session["response_id"]}
        await model.complete(asks("And tomorrow?", extra=more))
    assert [seen.path for seen in upstream.seen] == [
        "/api/v2/chats/new",
        "/api/v2/chat/completions",
        "/api/v2/chat/completions",
    ]
    begun, _, second = (seen.json for seen in upstream.seen)
    assert begun["models"] == ["m"]
    assert begun["timestamp"] > 1e12  # milliseconds
    assert second["parent_id"] == "msg_1"


@pytest.mark.parametrize("body", [b'{"success": false, "data": {"code": "RateLimited"}}', b"<p>"])
async def test_a_chat_that_cannot_be_begun_is_a_failure(body: bytes) -> None:
    async with (
        serving(Reply(whole=body)) as upstream,
        HTTPModel("qwen", upstream.url, "m", retry=NO_RETRY) as model,
    ):
        message = await model.complete(asks())
    assert message.error is not None
    assert message.error.status in (429, 502)


@pytest.mark.parametrize("api", APIS)
async def test_whole_answers_come_as_streams_too(api: str) -> None:
    message = call_of("tide_at", port="Leith")
    async with (
        serving(*script_for(api, whole(api, message))) as upstream,
        HTTPModel(api, upstream.url, "m", streaming=False) as model,
    ):
        answer = await model.complete(asks(tools=[TIDE]))
    assert answer.error is None
    assert answer.text == "Let me look."
    if api != "qwen":  # whose whole answers have no calls and no usage
        assert [call.arguments for call in answer.tool_calls] == [{"port": "Leith"}]
        assert answer.stop_reason == "tool_use"
        assert answer.usage.output == 9
    seen = upstream.seen[-1]
    assert seen.query.get("alt") is None
    if api == "gemini":
        assert seen.path == "/v1beta/models/m:generateContent"
    else:
        assert seen.json.get("stream", False) is False


@pytest.mark.parametrize("api", APIS)
async def test_a_server_that_does_not_stream_is_read_all_the_same(api: str) -> None:
    async with (
        serving(*script_for(api, whole(api))) as upstream,
        HTTPModel(api, upstream.url, "m") as model,
    ):
        answer = await model.complete(asks())
    assert (answer.text, answer.stop_reason) == (ANSWER.text, "stop")


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("br", import_module("brotli").compress),  # which has no types
    ],
)
async def test_compression_is_undone(encoding: str, compress: Any) -> None:
    data = compress(stream_of("anthropic"))
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    reply = Reply(list(pieces), headers={"content-encoding": encoding})
    async with (
        serving(reply) as upstream,
        HTTPModel("anthropic", upstream.url, "m") as model,
    ):
        message = await model.complete(asks())
        assert encoding in upstream.seen[0].headers["accept-encoding"]
    assert message.text == ANSWER.text


async def test_options_are_mapped_and_what_an_api_lacks_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    request = asks(
        seed=7,
        temperature=0.5,
        max_tokens=99,
        tools=[TIDE],
        tool_choice=ToolChoice("required"),
        reasoning=ReasoningOptions("low"),
    )

    async def main(api: str) -> tuple[Any, Report]:
        async with (
            serving(*script_for(api, streamed(api))) as upstream,
            HTTPModel(api, upstream.url, "m") as model,
        ):
            stream = model.stream(request)
            await stream.result()
            await model.complete(request)
        return upstream.seen[-1].json, stream.report

    with caplog.at_level(logging.WARNING, "penstock.models"):
        body, report = await main("openai-chat")
        assert (body["seed"], body["temperature"], body["reasoning_effort"]) == (7, 0.5, "low")
        assert body["tool_choice"] == "required"
        assert report.omitted_fields == []
        assert not caplog.records
        body, report = await main("openai-responses")
        assert "seed" not in body
        assert report.omitted_fields == ["seed"]
        assert [record.getMessage() for record in caplog.records] == [
            "openai-responses cannot express 'seed': omitted"
        ]


async def test_the_session_and_headers_go_along() -> None:
    async with (
        serving(streamed("openai-responses")) as upstream,
        HTTPModel(
            "responses", upstream.url, "m", headers={"X-Team": "tides", "X-Two": "model"}
        ) as model,
    ):
        request = asks(
            session="s-1", headers={"x-two": "request", "Content-Length": "1", "Host": "h"}
        )
        await model.complete(request)
    seen = upstream.seen[0]
    assert seen.json["prompt_cache_key"] == "s-1"
    assert seen.headers["x-session-id"] == "s-1"
    assert (seen.headers["x-team"], seen.headers["x-two"]) == ("tides", "request")
    assert seen.headers["content-length"] == str(len(seen.body))
    assert seen.headers["host"].startswith("127.0.0.1")


async def test_the_model_of_the_request_counts_where_the_model_has_no_name() -> None:
    async with (
        serving(streamed("gemini")) as upstream,
        HTTPModel("gemini", upstream.url) as model,
    ):
        await model.complete(asks(model="models/a b?c"))
        assert model.name == ""
    assert upstream.seen[0].path == "/v1beta/models/a%20b%3Fc:streamGenerateContent"


@pytest.mark.parametrize("api", APIS)
async def test_a_request_may_be_changed_once_its_stream_is_there(api: str) -> None:
    async with (
        serving(*script_for(api, streamed(api))) as upstream,
        HTTPModel(api, upstream.url, "m") as model,
    ):
        words = UserMessage([Text("When is high water?")])
        request = Request(messages=[words])
        stream = model.stream(request)
        request.messages.append(UserMessage([Text("too late")]))
        words.content.append(Text("too late"))
        request.extra["too late"] = "too late"
        await stream.result()
    body = upstream.seen[-1].body
    assert b"high water" in body
    assert b"too late" not in body


@pytest.mark.parametrize("api", ["gemini", "ollama"])
async def test_calls_that_bring_no_id_are_named_anew_in_the_conversation(api: str) -> None:
    async with (
        serving(script(api)) as upstream,
        HTTPModel(api, upstream.url, "fake-mpar", environ={}) as model,
    ):
        request = asks(tools=[TIDE])
        for _ in range(2):
            called = await model.complete(request)
            results = [ToolResult(call.id, call.name, "x") for call in called.tool_calls]
            request.messages += [called, *results]
    answers = [m for m in request.messages if isinstance(m, AssistantMessage)]
    ids = [call.id for answer in answers for call in answer.tool_calls]
    assert len(ids) == len(set(ids)) == 6


# --- the same conversation over every API ---


def port_master(api: str, seen: Seen) -> Reply:
    """Answer as a model would: call the tool, then say what it gave."""
    asked = apis.get(api).read_request(seen.json)
    last = asked.messages[-1]
    result = last.content if isinstance(last, ToolResult) else last.text
    if isinstance(last, ToolResult) or "Tool Result" in result:
        found = "06:12" if "06:12" in str(result) else "lost"
        return streamed(api, AssistantMessage("a2", "m", [Text(f"At {found}.")], "stop"))
    return streamed(api, call_of("tide_at", port="Leith"))


@pytest.mark.parametrize("api", APIS)
async def test_a_call_its_result_and_an_answer_are_the_same_over_every_api(api: str) -> None:
    script = script_for(api, lambda seen: port_master(api, seen))
    async with (
        serving(*script) as upstream,
        HTTPModel(api, upstream.url, "m") as model,
    ):
        messages: list[Any] = [SystemMessage("Be short."), *asks().messages]
        first = await model.complete(Request(messages=messages, tools=[TIDE]))
        (call,) = first.tool_calls
        result = ToolResult(call.id, call.name, "06:12")
        messages = [*messages, first, result]
        second = await model.complete(Request(messages=messages, tools=[TIDE]))
        if api != "qwen":
            assert_keeps_ids(api, upstream.seen[-1])
    assert [
        first.text,
        [(call.name, call.arguments, call.complete) for call in first.tool_calls],
        first.stop_reason,
        second.text,
        second.stop_reason,
    ] == [
        "Let me look.",
        [("tide_at", {"port": "Leith"}, True)],
        "tool_use",
        "At 06:12.",
        "stop",
    ]


def assert_keeps_ids(api: str, seen: Seen) -> None:
    """A result that goes back belongs to its call."""
    asked = apis.get(api).read_request(seen.json)
    calls = [m.tool_calls for m in asked.messages if isinstance(m, AssistantMessage)]
    results = [m for m in asked.messages if isinstance(m, ToolResult)]
    assert [call.id for call in calls[0]] == [result.id for result in results]


async def test_the_connections_are_used_again_and_closed_with_the_model() -> None:
    async with serving(streamed("openai-chat")) as upstream:
        async with HTTPModel("openai-chat", upstream.url, "m") as model:
            for _ in range(3):
                await model.complete(asks())
            await asyncio.gather(*(model.complete(asks()) for _ in range(3)))
            assert upstream.connections == 3
        message = await model.complete(asks())
        assert message.error is not None
        assert message.error.message == "the transport is closed"


async def test_scripts_without_a_loop_leave_nothing_open() -> None:
    """Each stream has a loop of its own then, and the connections go with it."""
    async with serving(streamed("openai-chat")) as upstream:
        model = HTTPModel("openai-chat", upstream.url, "m")

        def script() -> list[str]:
            return [model.stream(asks()).sync().result().text for _ in range(2)]

        assert await asyncio.to_thread(script) == [ANSWER.text] * 2
        assert upstream.connections == 2


def test_a_model_that_nobody_closes_is_closed_with_its_loop() -> None:
    async def main() -> str:
        async with serving(streamed("openai-chat")) as upstream:
            return (await HTTPModel("openai-chat", upstream.url, "m").complete(asks())).text

    assert run(main()) == ANSWER.text


async def test_what_an_answer_took_is_told_at_its_end() -> None:
    reports: list[Report] = []
    async with (
        serving(streamed("openai-chat")) as upstream,
        HTTPModel("openai-chat", upstream.url, "m", on_report=reports.append) as model,
    ):
        await model.complete(asks())
    assert [(report.api, report.model, report.usage.total) for report in reports] == [
        ("openai-chat", "m", 17)
    ]


async def test_a_request_that_makes_no_sense_fails_in_the_stream() -> None:
    async with HTTPModel("openai-chat", "http://127.0.0.1:9", "m") as model:
        message = await model.complete(asks(metadata={"key": object()}))
    assert message.error is not None
    assert message.stop_reason == "error"


@pytest.mark.parametrize(
    "options",
    [
        {"api": "smoke-signals"},
        {"base_url": "localhost:8000"},
        {"base_url": "ftp://host"},
        {"base_url": "https://user:canary@host"},
        {"api_key": "two\nlines"},
        {"proxy": "socks5://user:canary@host"},
        {"ca": "/no/such/canary/../file.pem"},
        {"interval": -1.0},
    ],
    ids=str,
)
def test_what_no_model_can_be_made_of_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        HTTPModel(**{"api": "openai-chat", "base_url": "http://h", "model": "m", **options})
    if "canary" in str(options) and "ca" not in options:
        assert "canary" not in str(refused.value)
