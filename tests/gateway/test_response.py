"""Response writers: whatever happens, a client gets all content and exactly one end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock import apis
from penstock.config.routes import ModelOptions
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    TextDelta,
    TextEnd,
    TextStart,
)
from penstock.gateway.http_exchange import HTTPExchange, Message
from penstock.gateway.request_log import RequestLog
from penstock.gateway.response import (
    ApiEndpointFormat,
    MultiChoiceResponseWriter,
    ResponseWriter,
    make_endpoint_format,
)
from penstock.messages import AssistantMessage, ErrorInfo, Text
from penstock.models.base import Batches
from penstock.redaction import Redactor
from penstock.request import Request
from penstock.store import RequestStarted

APIS = pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic"])


class Client:
    """The other side of ASGI: it takes what it is sent, or stops taking."""

    def __init__(self) -> None:
        self.body = b""
        self.status = self.sent = 0
        self.ended = False
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.waits = asyncio.Event()
        self.hangs_up = asyncio.Event()
        self._arrived = asyncio.Event()
        scope = {"method": "POST", "path": "/v1/chat/completions", "headers": []}
        self.caller = HTTPExchange(scope, self._receive, self._send)

    def stop_reading(self) -> None:
        self._has_room.clear()

    def read_on(self) -> None:
        self._has_room.set()

    async def has_heard(self, enough: Callable[[bytes], bool]) -> None:
        """Wait until what arrived is *enough*."""
        while not enough(self.body):
            self._arrived.clear()
            await self._arrived.wait()

    async def _receive(self) -> Message:
        await self.hangs_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if not self._has_room.is_set():
            self.waits.set()
            await self._has_room.wait()
        self.sent += 1
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")
        self._arrived.set()
        self.ended = message["type"] == "http.response.body" and not message.get("more_body")


def journal(id_: str = "1") -> RequestLog:
    started = RequestStarted(id=id_, created=0.0)
    return RequestLog(started, ModelOptions(), [], None, Redactor(), bodies=False)


def dialect(api: str) -> ApiEndpointFormat:
    return make_endpoint_format(api, Request(model="m", stream=True, include_usage=True), "1")


async def keep_nothing(message: AssistantMessage) -> None:
    del message


def answering(client: Client, api: str) -> ResponseWriter:
    return ResponseWriter(client.caller, dialect(api), journal(), keep_nothing, keepalive_seconds=0)


def choosing(client: Client, number: int) -> MultiChoiceResponseWriter:
    journals = [journal(str(each)) for each in range(number)]
    told = dialect("openai-chat")
    return MultiChoiceResponseWriter(
        client.caller, told, journals, keep_nothing, keepalive_seconds=0
    )


BEGUN: list[Event] = [MessageStart("a", "m"), TextStart(0), TextDelta(0, "Once upon ")]
TALE = AssistantMessage("a", "m", [Text("Once upon a time")], "stop")
END: list[Event] = [TextDelta(0, "a time"), TextEnd(0, "Once upon a time"), Done("stop", TALE)]


async def told(*batches: list[Event]) -> Batches:
    for batch in batches:
        yield batch


async def told_for_ever(*batches: list[Event]) -> Batches:
    for batch in batches:
        yield batch
    await asyncio.Event().wait()


async def told_until(ended: asyncio.Event, *batches: list[Event]) -> Batches:
    try:
        for batch in batches:
            yield batch
        await ended.wait()
    finally:
        await ended.wait()


async def told_and_broken(*batches: list[Event]) -> Batches:
    for batch in batches:
        yield batch
    raise RecursionError("too deep")


def run(script: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(script(), 30))


@APIS
async def test_what_waits_for_a_slow_client_goes_out_when_the_gateway_ends(api: str) -> None:
    client = Client()
    answer = answering(client, api)
    client.caller.has_started = True  # so that the first thing to wait is a piece
    client.stop_reading()
    task = asyncio.create_task(answer.run(told(BEGUN, END), stream=True))
    await client.waits.wait()
    answer.close()
    await asyncio.sleep(0)
    client.read_on()
    await task
    assert client.ended
    assert b"Once upon " in client.body
    assert b"shutting down" in client.body
    assert apis.check(api, client.body) == []


@APIS
async def test_an_end_that_waits_for_a_slow_client_goes_out_once(api: str) -> None:
    client = Client()
    answer = answering(client, api)
    client.caller.has_started = True
    client.stop_reading()
    task = asyncio.create_task(answer.run(told(BEGUN + END), stream=True))
    await client.waits.wait()
    answer.close()
    await asyncio.sleep(0)
    client.read_on()
    await task
    assert client.ended
    assert b"a time" in client.body
    assert apis.check(api, client.body) == []


@APIS
async def test_a_client_that_takes_nothing_any_more_holds_nobody_up(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.gateway.response.LAST_CHUNK_SECONDS", 0.05)
    client = Client()
    answer = answering(client, api)
    client.caller.has_started = True
    client.stop_reading()
    task = asyncio.create_task(answer.run(told(BEGUN + END), stream=True))
    await client.waits.wait()
    answer.close()
    await task
    assert isinstance(answer.end, Failed)  # the client has not received the end
    assert answer.end.reason == "aborted"


@APIS
async def test_a_reader_that_fails_ends_the_stream_with_an_error(api: str) -> None:
    client = Client()
    answer = answering(client, api)
    await answer.run(told_and_broken(BEGUN), stream=True)
    assert client.ended
    assert b"too deep" in client.body
    assert apis.check(api, client.body) == []
    assert isinstance(answer.end, Failed)


async def test_a_reader_that_fails_before_it_began_is_for_the_gateway_to_tell() -> None:
    client = Client()
    with pytest.raises(RecursionError):
        await answering(client, "openai-chat").run(told_and_broken(), stream=True)
    assert not client.caller.has_started


@APIS
async def test_a_client_that_disconnects_once_it_has_the_end_has_all_of_it(api: str) -> None:
    client, ended = Client(), asyncio.Event()
    answer = answering(client, api)
    task = asyncio.create_task(answer.run(told_until(ended, BEGUN, END), stream=True))
    await client.has_heard(lambda body: not apis.check(api, body))
    client.hangs_up.set()  # as the OpenAI SDK does after `[DONE]`
    for _ in range(10):
        await asyncio.sleep(0)
    ended.set()
    await task
    assert answer.status == 200
    assert answer.aborted is None
    assert client.ended


@APIS
async def test_a_gateway_that_ends_after_the_end_adds_nothing(api: str) -> None:
    client, ended = Client(), asyncio.Event()
    answer = answering(client, api)
    task = asyncio.create_task(answer.run(told_until(ended, BEGUN, END), stream=True))
    await client.has_heard(lambda body: not apis.check(api, body))
    await asyncio.sleep(0)
    answer.close()
    ended.set()
    await task
    assert client.sent == 3  # the start, a chunk, and the end
    assert isinstance(answer.end, Done)


# --- several choices ---


async def test_a_choice_that_is_cut_by_the_end_of_the_gateway_is_not_told_as_complete() -> None:
    client = Client()
    answer = choosing(client, 2)
    sources = told(BEGUN + END), told_for_ever(BEGUN)
    task = asyncio.create_task(answer.run(*sources, stream=True))
    await client.has_heard(lambda body: body.count(b"Once upon ") > 1 and b'"stop"' in body)
    answer.close()
    await task
    assert client.ended
    assert b"shutting down" in client.body
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert client.body.count(b"[DONE]") == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_one_choice_that_fails_fails_them_all_and_nobody_waits(*, stream: bool) -> None:
    client = Client()
    answer = choosing(client, 2)
    sources = told_for_ever(BEGUN) if stream else told(BEGUN + END), told_and_broken(BEGUN)
    await answer.run(*sources, stream=stream)
    assert client.ended
    assert b"too deep" in client.body
    assert client.status == (200 if stream else 500) or not stream


async def test_what_a_client_must_not_see_is_hidden_in_every_choice() -> None:
    client = Client()
    key = "a-key-of-the-upstream"
    journals = [journal("0"), journal("1")]
    for each in journals:
        each.redactor = Redactor([key])
    told_as = dialect("openai-chat")
    answer = MultiChoiceResponseWriter(
        client.caller, told_as, journals, keep_nothing, keepalive_seconds=0
    )
    error = ErrorInfo(f"no such key: {key}", "provider", status=401)
    failed: list[Event] = [Failed("error", error, AssistantMessage(error=error))]
    await answer.run(told(BEGUN + END), told(BEGUN, failed), stream=True)
    assert key.encode() not in client.body
    assert b"rejected the gateway's credentials" in client.body
