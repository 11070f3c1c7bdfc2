"""Who stops listening hangs up: at once, whatever the other side is doing."""

from __future__ import annotations

import asyncio
import socket

import pytest

from models.loopback_servers import (
    STALL,
    Reply,
    Step,
    Upstream,
    descriptors,
    run,
    script_for,
    serving,
    stream_of,
    streamed,
)
from penstock import HTTPModel, Request, apis
from penstock.events import Done, TextDelta
from penstock.messages import Text
from penstock.models.http import HTTPStream
from penstock.models.http.attempt import GRACE
from penstock.requests import Image, UserMessage

APIS = apis.names()
ASKED = Request(messages=[UserMessage([Text("When is high water?")])])
SOON = 0.05
"""Within how many seconds a server has to see the close."""


async def aborted(stream: HTTPStream, upstream: Upstream) -> float:
    """Abort *stream*; give the seconds until the server saw the close."""
    before = asyncio.get_running_loop().time()
    stream.abort()
    message = await stream.result()
    assert message.stop_reason == "aborted"
    async with asyncio.timeout(5):
        await upstream.left.wait()
    return upstream.hung_up[0] - before


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [0, 200], ids=["before the headers", "before the first byte"])
def test_an_abort_before_the_first_byte_is_seen(api: str, status: int) -> None:
    async def main() -> None:
        silent = Reply([STALL], status=status)
        async with (
            serving(*script_for(api, silent)) as upstream,
            HTTPModel(api, upstream.url, "m") as model,
        ):
            stream = model.stream(ASKED)
            waiting = asyncio.create_task(stream.result())
            await upstream.stalls.wait()
            assert await aborted(stream, upstream) < SOON
            await waiting
            assert upstream.open == 0

    run(main())


@pytest.mark.parametrize("api", APIS)
def test_an_abort_in_the_middle_is_seen(api: str) -> None:
    async def main() -> None:
        data = stream_of(api)
        begun = data[: data.index(b"\n", data.index(b"High water")) + 2]
        async with (
            serving(*script_for(api, Reply([begun, STALL]))) as upstream,
            HTTPModel(api, upstream.url, "m") as model,
        ):
            stream = model.stream(ASKED)
            async for event in stream:
                if isinstance(event, TextDelta):
                    break
            assert await aborted(stream, upstream) < SOON
            assert stream.message.text.startswith("High water")
            assert stream.report.duration is not None

    run(main())


def test_an_abort_of_a_server_that_writes_without_end_is_seen() -> None:
    async def main() -> None:
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
            async with asyncio.timeout(1):
                await upstream.alone.wait()

    run(main())


def test_leaving_the_stream_is_an_abort() -> None:
    async def main() -> None:
        data = stream_of("openai-chat")[:200]
        async with (
            serving(Reply([data, STALL])) as upstream,
            HTTPModel("openai-chat", upstream.url, "m") as model,
        ):
            async with model.stream(ASKED) as stream:
                await anext(stream)
            async with asyncio.timeout(SOON):
                await upstream.left.wait()

    run(main())


def test_an_abort_after_the_end_changes_nothing() -> None:
    async def main() -> None:
        async with (
            serving(streamed("openai-chat")) as upstream,
            HTTPModel("openai-chat", upstream.url, "m") as model,
        ):
            stream = model.stream(ASKED)
            events = [event async for event in stream]
            stream.abort()
            assert isinstance(events[-1], Done)
            assert (await stream.result()).stop_reason == "stop"
            assert upstream.hung_up == []
            assert (await model.complete(ASKED)).error is None
            assert upstream.connections == 1, "the connection was given back"

    run(main())


def test_a_server_that_holds_the_connection_after_the_end_is_left() -> None:
    async def main() -> None:
        async with (
            serving(Reply([stream_of("openai-chat"), STALL])) as upstream,
            HTTPModel("openai-chat", upstream.url, "m") as model,
        ):
            assert (await model.complete(ASKED)).stop_reason == "stop"
            async with asyncio.timeout(GRACE + SOON):
                await upstream.left.wait()

    run(main())


def test_an_abort_before_the_stream_is_read_sends_nothing() -> None:
    async def main() -> None:
        async with (
            serving(streamed("openai-chat")) as upstream,
            HTTPModel("openai-chat", upstream.url, "m") as model,
        ):
            stream = model.stream(ASKED)
            stream.abort()
            assert (await stream.result()).stop_reason == "aborted"
            assert upstream.connections == 0

    run(main())


def test_an_abort_does_not_wait_for_a_peer_that_does_not_read() -> None:
    """The request is too long for the system's buffers, and nobody takes it."""

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
                    before = descriptors()
                    stream.abort()
                    assert (await waiting).stop_reason == "aborted"
                    assert descriptors() == before - 1, "the socket is gone"

    run(main())


def test_closing_the_model_ends_its_streams() -> None:
    async def main() -> None:
        async with serving(Reply([STALL])) as upstream:
            model = HTTPModel("openai-chat", upstream.url, "m")
            waiting = asyncio.create_task(model.complete(ASKED))
            await upstream.stalls.wait()
            await model.close()
            message = await waiting
            assert message.error is not None
            assert len(upstream.seen) == 1

    run(main())
