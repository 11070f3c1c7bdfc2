"""Who stops listening hangs up: at once, whatever the other side is doing."""

from __future__ import annotations

import asyncio
import socket

import pytest

from async_runner import Loops, count_descriptors, run
from models.loopback_servers import (
    STALL,
    Reply,
    Step,
    Upstream,
    refusal,
    script_for,
    serving,
    stream_of,
    streamed,
)
from penstock import EventStream, HTTPModel, Request, ToolMiddleware, apis
from penstock.events import Done, TextDelta
from penstock.messages import Text
from penstock.models import Model
from penstock.models.http import HTTPStream, RetryPolicy
from penstock.models.http.attempt import REMAINDER_SECONDS
from penstock.request import Image, UserMessage

APIS = apis.names()
ASKED = Request(messages=[UserMessage([Text("When is high water?")])])
SOON = 5.0
"""Within how many seconds a server has to see the close: at once, on a machine that may be busy."""


BOTH = pytest.mark.parametrize("tools", [False, True], ids=["http", "middleware"])


def with_tools(model: HTTPModel, *, tools: bool) -> Model:
    return ToolMiddleware(model, "hermes") if tools else model


async def aborted(stream: EventStream, upstream: Upstream) -> float:
    """Abort *stream*; return the seconds until the server saw the close."""
    before = asyncio.get_running_loop().time()
    stream.abort()
    message = await stream.result()
    assert message.stop_reason == "aborted"
    async with asyncio.timeout(SOON):
        await upstream.left.wait()
    return upstream.hung_up[0] - before


@BOTH
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [0, 200], ids=["before the headers", "before the first byte"])
async def test_an_abort_before_the_first_byte_is_seen(
    api: str, status: int, *, tools: bool
) -> None:
    silent = Reply([STALL], status=status)
    async with (
        serving(*script_for(api, silent)) as upstream,
        HTTPModel(api, upstream.url, "m") as model,
    ):
        stream = with_tools(model, tools=tools).stream(ASKED)
        waiting = asyncio.create_task(stream.result())
        await upstream.stalls.wait()
        assert await aborted(stream, upstream) < SOON
        await waiting
        assert upstream.open == 0


@BOTH
@pytest.mark.parametrize("api", APIS)
async def test_an_abort_in_the_middle_is_seen(api: str, *, tools: bool) -> None:
    data = stream_of(api)
    begun = data[: data.index(b"\n", data.index(b"High water")) + 2]
    async with (
        serving(*script_for(api, Reply([begun, STALL]))) as upstream,
        HTTPModel(api, upstream.url, "m") as model,
    ):
        stream = with_tools(model, tools=tools).stream(ASKED)
        async for event in stream:
            if isinstance(event, TextDelta):
                break
        assert await aborted(stream, upstream) < SOON
        assert stream.message.text.startswith("High water")
        if isinstance(stream, HTTPStream):
            assert stream.report.duration is not None


async def test_an_abort_of_a_server_that_writes_without_end_is_seen() -> None:
    data = stream_of("openai-chat")
    first, rest = data.split(b"\n\n", 1)
    second = rest.split(b"\n\n", 1)[0]
    chunk = second + b"\n\n"
    flood: list[Step] = [chunk * 50, 0.001] * 2000
    async with (
        serving(Reply([first + b"\n\n", *flood])) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as model,
    ):
        stream = model.stream(ASKED)
        async for event in stream:
            if isinstance(event, TextDelta):
                break
        stream.abort()
        await stream.result()
        async with asyncio.timeout(SOON):
            await upstream.alone.wait()


async def test_leaving_the_stream_is_an_abort() -> None:
    data = stream_of("openai-chat")[:200]
    async with (
        serving(Reply([data, STALL])) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as model,
    ):
        async with model.stream(ASKED) as stream:
            await anext(stream)
        async with asyncio.timeout(SOON):
            await upstream.left.wait()


@BOTH
async def test_an_abort_after_the_end_changes_nothing(*, tools: bool) -> None:
    async with (
        serving(streamed("openai-chat")) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as http,
    ):
        model = with_tools(http, tools=tools)
        stream = model.stream(ASKED)
        events = [event async for event in stream]
        stream.abort()
        assert isinstance(events[-1], Done)
        assert (await stream.result()).stop_reason == "stop"
        assert upstream.hung_up == []
        assert (await model.complete(ASKED)).error is None
        assert upstream.connections == 1, "the connection was given back"


@BOTH
async def test_closing_batches_behind_their_last_event_gives_the_connection_back(
    *, tools: bool
) -> None:
    async with (
        serving(streamed("openai-chat")) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as http,
    ):
        model = with_tools(http, tools=tools)
        answer = model.batches(ASKED)
        async for batch in answer:
            if isinstance(batch[-1], Done):
                break
        await answer.aclose()
        assert upstream.hung_up == []
        assert (await model.complete(ASKED)).error is None
        assert upstream.connections == 1


async def test_a_server_that_holds_the_connection_after_the_end_is_left() -> None:
    async with (
        serving(Reply([stream_of("openai-chat"), STALL])) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as model,
    ):
        assert (await model.complete(ASKED)).stop_reason == "stop"
        async with asyncio.timeout(REMAINDER_SECONDS + SOON):
            await upstream.left.wait()


async def test_an_abort_before_the_stream_is_read_sends_nothing() -> None:
    async with (
        serving(streamed("openai-chat")) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as model,
    ):
        stream = model.stream(ASKED)
        stream.abort()
        assert (await stream.result()).stop_reason == "aborted"
        assert upstream.connections == 0


LOOPS = pytest.mark.parametrize("kind", ["asyncio", "uvloop"])


def loops_of(kind: str) -> Loops:
    if kind == "asyncio":
        return asyncio.new_event_loop
    loops: Loops = pytest.importorskip("uvloop").new_event_loop
    loops().close()  # The first one opens a pipe for signals, for good.
    return loops


@LOOPS
def test_an_abort_does_not_wait_for_a_peer_that_does_not_read(kind: str) -> None:
    """The request is too long for the socket buffers, and the server does not read it."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        picture = UserMessage([Image("image/png", "A" * 16_000_000)])
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            async with HTTPModel("openai-chat", url, "m") as model:
                stream = model.stream(Request(messages=[picture]))
                waiting = asyncio.create_task(stream.result())
                peer, _ = await loop.sock_accept(server)
                with peer:
                    await asyncio.sleep(0.03)
                    before = count_descriptors()
                    stream.abort()
                    assert (await waiting).stop_reason == "aborted"
                    await asyncio.sleep(0)  # uvloop closes with its next turn
                    assert count_descriptors() == before - 1, "the socket is gone"

    run(main(), loops_of(kind))


@LOOPS
@pytest.mark.parametrize("status", [0, 200], ids=["before the headers", "in the body"])
def test_an_abort_is_seen_on_every_loop(kind: str, status: int) -> None:
    async def main() -> None:
        async with (
            serving(Reply([b": begun\n\n", STALL] if status else [STALL], status)) as upstream,
            HTTPModel("openai-chat", upstream.url, "m") as model,
        ):
            stream = model.stream(ASKED)
            waiting = asyncio.create_task(stream.result())
            await upstream.stalls.wait()
            assert await aborted(stream, upstream) < SOON
            await waiting

    run(main(), loops_of(kind))


@BOTH
async def test_cancelling_who_waits_for_a_whole_answer_is_an_abort(*, tools: bool) -> None:
    async with (
        serving(Reply([STALL])) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as http,
    ):
        waiting = asyncio.create_task(with_tools(http, tools=tools).complete(ASKED))
        await upstream.stalls.wait()
        waiting.cancel()
        before = asyncio.get_running_loop().time()
        with pytest.raises(asyncio.CancelledError) as kept:  # and all that its frames hold
            await waiting
        async with asyncio.timeout(10):
            await upstream.left.wait()
        assert upstream.hung_up[0] - before < SOON
        assert kept.type is asyncio.CancelledError


@BOTH
async def test_an_answer_that_is_cancelled_at_any_moment_leaves_nothing(*, tools: bool) -> None:
    async def read(model: Model) -> None:
        async for _ in model.batches(ASKED):
            pass

    busy = refusal(503, {})
    script = [busy, streamed("openai-chat"), Reply([stream_of("openai-chat")[:300], STALL])]
    async with serving(*script * 12, Reply([STALL], status=0)) as upstream:
        retry = RetryPolicy(base=0.0)
        async with HTTPModel("openai-chat", upstream.url, "m", retry=retry) as http:
            model = with_tools(http, tools=tools)
            for turns in range(0, 80, 2):
                reading = asyncio.create_task(read(model))
                for _ in range(turns):
                    await asyncio.sleep(0)
                reading.cancel()
                await asyncio.wait([reading])
    assert upstream.open == 0


async def test_closing_the_model_ends_its_streams() -> None:
    async with serving(Reply([STALL])) as upstream:
        model = HTTPModel("openai-chat", upstream.url, "m")
        waiting = asyncio.create_task(model.complete(ASKED))
        await upstream.stalls.wait()
        await model.close()
        message = await waiting
        assert message.error is not None
        assert len(upstream.seen) == 1
