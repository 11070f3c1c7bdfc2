"""Failures and how they are reported: refusals, cuts, stalls, timeouts, and retries."""

from __future__ import annotations

import asyncio
import gzip
import socket
from contextlib import ExitStack
from email.utils import formatdate
from math import ceil
from time import time
from typing import Any

import pytest

from models.loopback_servers import (
    ANSWER,
    CUT,
    RESET,
    STALL,
    Reply,
    Script,
    Upstream,
    refusal,
    script_for,
    serving,
    stream_of,
    streamed,
)
from penstock import HTTPModel, Request, _json, apis
from penstock.events import Done, Event, Failed
from penstock.messages import AssistantMessage, ErrorInfo, Text
from penstock.models.http import NO_RETRY, Report, RetryPolicy, Timeouts
from penstock.models.http.attempt import MAX_ERROR_BODY
from penstock.request import UserMessage

APIS = apis.names()
ASKED = Request(messages=[UserMessage([Text("When is high water?")])])
SOON = RetryPolicy(base=0.001)
HTML = b"<!doctype html><title>Bad gateway</title>"


class Outcome:
    """What came of a request."""

    def __init__(self, events: list[Event], report: Report, upstream: Upstream) -> None:
        self.events = events
        self.report = report
        self.upstream = upstream
        self.last = events[-1]

    @property
    def message(self) -> AssistantMessage:
        assert isinstance(self.last, Done | Failed)
        return self.last.message

    @property
    def error(self) -> ErrorInfo:
        assert isinstance(self.last, Failed)
        return self.last.error


async def ask(api: str, *script: Script, retry: RetryPolicy = NO_RETRY, **options: Any) -> Outcome:
    """Ask a server that answers by *script*."""
    async with serving(*script_for(api, *script)) as upstream:
        options.setdefault("base_url", upstream.url)
        async with HTTPModel(api, model="m", retry=retry, **options) as model:
            stream = model.stream(ASKED)
            events = [event async for event in stream]
    return Outcome(events, stream.report, upstream)


# --- refusals ---


@pytest.mark.parametrize("api", APIS)
async def test_a_limit_is_a_typed_error_with_the_time_to_wait(api: str) -> None:
    _, body = apis.get(api).write_error(ErrorInfo("slow down", type="rate_limit", status=429))
    error = (await ask(api, refusal(429, body, retry_after="7"))).error
    assert (error.kind, error.status, error.retry_after) == ("provider", 429, 7.0)
    assert error.retryable
    assert "slow down" in error.message
    assert "retry-after-ms=7000" in error.message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"Retry-After": "0.25"}, 0.25),
        ({"retry-after": formatdate(time() + 3600, usegmt=True)}, 3600),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"x-ratelimit-reset-ms": "1200"}, 1.2),
        ({"x-ratelimit-reset-ms": str(int((time() + 3600) * 1000))}, 3600),
        ({"x-ratelimit-reset": "12"}, 12),
        ({"X-RateLimit-Reset": str(int(time() + 3600))}, 3600),
        ({"x-ratelimit-reset": str(int((time() + 3600) * 1000))}, 3600),
        ({"retry-after": "2", "x-ratelimit-reset-ms": "900", "x-ratelimit-reset": "5"}, 5),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-3", "x-ratelimit-reset": "soon"}, None),
        ({"retry-after": formatdate(1_000_000_000, usegmt=True)}, None),
    ],
    ids=[
        "seconds",
        "a part of a second",
        "a date",
        "milliseconds",
        "a reset in milliseconds",
        "a reset at a moment in milliseconds",
        "a reset in seconds",
        "a reset at a moment in seconds",
        "a reset in seconds at a moment in milliseconds",
        "the longest of several",
        "nothing",
        "nonsense",
        "the past",
    ],
)
async def test_every_way_to_name_a_time_is_read(
    headers: dict[str, str], seconds: float | None
) -> None:
    error = (await ask("openai-chat", refusal(429, {"error": "slow down"}, **headers))).error
    if seconds is None:
        assert error.retry_after is None
        assert "retry-after-ms" not in error.message
    else:  # The test may be slow, and clocks tell whole seconds.
        assert error.retry_after is not None
        assert error.retry_after == pytest.approx(seconds, abs=3000 if seconds > 60 else 0)
        assert f"retry-after-ms={ceil(error.retry_after * 1000)}" in error.message


@pytest.mark.parametrize("api", APIS)
async def test_a_page_in_place_of_an_answer_is_no_answer(api: str) -> None:
    page = Reply(whole=HTML, headers={"content-type": "text/html"})
    outcome = await ask(api, page)
    assert outcome.error.kind in ("malformed", "provider")
    assert (await ask(api, refusal(502, HTML))).error.status == 502


async def test_a_long_refusal_is_not_read_to_its_end() -> None:
    flood: list[Any] = [b"x" * 65_536] * 200
    outcome = await ask("openai-chat", Reply([*flood, STALL], status=400))
    assert outcome.error.status == 400
    assert len(outcome.error.message) < MAX_ERROR_BODY
    assert outcome.upstream.hung_up == [] or len(outcome.upstream.hung_up) == 1


async def test_a_refusal_that_stalls_keeps_its_status() -> None:
    outcome = await ask(
        "openai-chat", Reply([b'{"error', STALL], status=403), timeouts=Timeouts(idle=0.02)
    )
    assert outcome.error.status == 403


async def test_redirects_are_not_followed() -> None:
    error = (
        await ask("openai-chat", refusal(307, b"", location="http://127.0.0.1:9/elsewhere"))
    ).error
    assert error.status == 307
    assert "http://127.0.0.1:9/elsewhere" in error.message
    assert not error.retryable


# --- cuts ---


def parts_of(api: str) -> tuple[bytes, bytes]:
    data = stream_of(api)
    at = data.index(b"High water at ") + len(b"High water at ")
    end = data.index(b"\n", at) + 2
    return data[:end], data[end:]


@pytest.mark.parametrize("fault", [CUT, RESET])
@pytest.mark.parametrize("api", APIS)
async def test_a_cut_answer_is_a_failure_that_keeps_what_had_arrived(api: str, fault: str) -> None:
    begun, _ = parts_of(api)
    outcome = await ask(api, Reply([begun, 0.01, fault]), retry=SOON)
    assert (outcome.error.kind, outcome.error.type) == ("truncated", "truncated_body")
    assert outcome.error.retryable
    assert outcome.message.text.startswith("High water at")
    assert outcome.report.attempts == 1, "what went out is not asked for again"


async def test_an_answer_that_ended_is_done_whatever_becomes_of_the_connection() -> None:
    data = stream_of("openai-chat").removesuffix(b"data: [DONE]\n\n")
    for fault in (CUT, RESET):
        outcome = await ask("openai-chat", Reply([data, 0.01, fault]))
        assert isinstance(outcome.last, Done)
    stalled = await ask("openai-chat", Reply([data, STALL]), timeouts=Timeouts(idle=0.02))
    assert isinstance(stalled.last, Done)


@pytest.mark.parametrize("fault", [CUT, RESET])
@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"delta": {}, "finish_reason": "content_filter"}, "filter"),
        ({"delta": {"refusal": "No."}, "finish_reason": "content_filter"}, "refusal"),
    ],
    ids=["filter", "refusal"],
)
async def test_a_refusal_of_the_model_stays_one_whatever_becomes_of_the_connection(
    said: dict[str, Any], kind: str, fault: str
) -> None:
    frames = [
        {"choices": [{"index": 0, **choice}]} for choice in ({"delta": {"content": "Hm"}}, said)
    ]
    data = [b"data: " + _json.encode(frame) + b"\n\n" for frame in frames]
    outcome = await ask("openai-chat", Reply([*data, 0.02, fault]))
    assert outcome.error.kind == kind
    assert not outcome.error.retryable
    assert outcome.message.text == "Hm"


async def test_compression_that_cannot_be_undone_is_malformed() -> None:
    headers = {"content-encoding": "gzip"}
    outcome = await ask("openai-chat", Reply([b"no gzip at all"], headers=headers), retry=SOON)
    assert (outcome.error.kind, outcome.error.type) == ("malformed", "unreadable_body")
    data = gzip.compress(stream_of("openai-chat"))
    cut = await ask("openai-chat", Reply([data[:40]], headers=headers))
    assert isinstance(cut.last, Failed)


async def test_what_is_no_http_is_malformed() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 smtp.example ESMTP\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with HTTPModel("openai-chat", url, "m", retry=NO_RETRY) as model:
            error = (await model.complete(ASKED)).error
    assert error is not None
    assert error.type == "unreadable_body"


# --- timeouts ---


async def test_each_wait_has_an_error_of_its_own() -> None:
    async def told(*script: Script, **timeouts: float) -> str:
        error = (await ask("anthropic", *script, timeouts=Timeouts(**timeouts))).error
        assert error.kind == "transport"
        return error.type

    begun, _ = parts_of("anthropic")
    silent = Reply([STALL], status=0)
    assert await told(silent, first_byte=0.02) == "first_byte_timeout"
    assert await told(Reply([STALL]), first_byte=0.02) == "first_byte_timeout"
    assert await told(Reply([begun, STALL]), idle=0.02) == "idle_timeout"
    drip: list[Any] = [b": ping\n\n", 0.01] * 100
    assert await told(Reply(drip), idle=0.5, total=0.05) == "total_timeout"
    assert await told(silent, first_byte=1, total=0.02) == "total_timeout"


async def test_a_connection_that_is_not_made_in_time_is_told() -> None:
    """The backlog of the server is full: the system silently accepts no more connections."""

    async def main(url: str) -> AssistantMessage:
        timeouts = Timeouts(connect=0.05)
        async with HTTPModel("openai-chat", url, "m", timeouts=timeouts, retry=NO_RETRY) as model:
            return await model.complete(ASKED)

    with socket.socket() as server, ExitStack() as clients:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        error = (await main(f"http://127.0.0.1:{server.getsockname()[1]}")).error
    assert error is not None
    assert error.type == "connect_timeout"


@pytest.mark.parametrize("api", APIS)
async def test_a_slow_first_byte_is_waited_for(api: str) -> None:
    outcome = await ask(api, Reply([0.03, stream_of(api)]), timeouts=Timeouts(first_byte=5))
    assert outcome.message.text == ANSWER.text
    assert outcome.report.first_byte is not None
    assert outcome.report.first_byte > 0.03


async def test_an_error_of_the_connection_names_the_call_without_its_secrets() -> None:
    with socket.socket() as bound:  # not listening, so nothing else can take the port
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        url = f"http://{address}/v1?token=hunter2"
        async with HTTPModel("openai-chat", url, "m", retry=NO_RETRY, environ={}) as model:
            message = await model.complete(ASKED)
    assert message.error is not None
    assert message.error.message.endswith(f"(POST http://{address}/v1/chat/completions)")
    assert "hunter2" not in message.error.message


async def test_nobody_there_is_a_connect_error() -> None:
    outcome = await ask("ollama", Reply(), base_url="http://127.0.0.1:9", retry=SOON)
    assert (outcome.error.kind, outcome.error.type) == ("transport", "connect_error")
    assert outcome.report.attempts == 3


async def test_a_consumer_that_reads_slowly_is_no_idle_server() -> None:
    async with (
        serving(streamed("openai-chat")) as upstream,
        HTTPModel(
            "openai-chat", upstream.url, "m", interval=0, timeouts=Timeouts(idle=0.02)
        ) as model,
    ):
        stream = model.stream(ASKED)
        async for _ in stream:
            await asyncio.sleep(0.015)
        assert (await stream.result()).error is None


# --- other tries ---


@pytest.mark.parametrize(
    "fault",
    [
        refusal(500, {"error": {"message": "oops"}}),
        refusal(429, {"error": {"message": "slow"}}, retry_after="0.01"),
        Reply([RESET], status=0),
        Reply([CUT], status=0),
        Reply([CUT]),
        Reply([b": a comment only\n\n", RESET]),
        Reply([b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n']),
    ],
    ids=["500", "429", "reset", "closed", "cut", "comment", "overloaded"],
)
async def test_what_may_pass_is_tried_again_before_anything_went_out(fault: Reply) -> None:
    outcome = await ask("anthropic", fault, streamed("anthropic"), retry=SOON)
    assert outcome.message.text == ANSWER.text
    assert outcome.report.attempts == 2
    assert len(outcome.report.failures) == 1
    assert outcome.upstream.seen[0].body == outcome.upstream.seen[1].body


@pytest.mark.parametrize(
    "fault",
    [
        refusal(401, {"error": {"message": "who?"}}),
        refusal(400, {"error": {"message": "what?"}}),
        refusal(500, {}, x_should_retry="false"),
        refusal(429, {}, retry_after="61"),
        Reply(whole=HTML, headers={"content-type": "text/html"}),
    ],
    ids=["401", "400", "advised", "too long", "a page"],
)
async def test_what_will_not_pass_is_not_tried_again(fault: Reply) -> None:
    outcome = await ask("openai-chat", fault, streamed("openai-chat"), retry=SOON)
    assert isinstance(outcome.last, Failed)
    assert outcome.report.attempts == 1


async def test_the_last_failure_is_what_consumers_see() -> None:
    outcome = await ask(
        "openai-chat", refusal(500, {}), refusal(503, {}), retry=RetryPolicy(2, 0.001)
    )
    assert outcome.error.status == 503
    assert [error.status for error in outcome.report.failures] == [500]


async def test_no_try_begins_that_could_not_end_in_time() -> None:
    outcome = await ask(
        "openai-chat", refusal(500, {}), retry=RetryPolicy(base=5), timeouts=Timeouts(total=0.5)
    )
    assert outcome.error.status == 500


async def test_an_abort_ends_the_wait_for_another_try() -> None:
    async with (
        serving(refusal(500, {})) as upstream,
        HTTPModel("openai-chat", upstream.url, "m", retry=RetryPolicy(base=8)) as model,
    ):
        stream = model.stream(ASKED)
        waiting = asyncio.create_task(stream.result())
        await upstream.arrived.wait()
        await asyncio.sleep(0.02)
        stream.abort()
        assert (await waiting).stop_reason == "aborted"
        assert len(upstream.seen) == 1


async def test_a_chat_is_begun_anew_with_each_try() -> None:
    outcome = await ask("qwen", refusal(500, {}), streamed("qwen"), retry=SOON)
    assert outcome.message.text == ANSWER.text
    assert [seen.path[8:] for seen in outcome.upstream.seen] == [
        "chats/new",
        "chat/completions",
        "chats/new",
        "chat/completions",
    ]
