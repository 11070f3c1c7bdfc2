"""One try at an answer: whatever ends it, its connection is let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from penstock.events import Done, Failed
from penstock.messages import Text
from penstock.models import HTTPModel
from penstock.models.http import NO_RETRY, HTTPCall
from penstock.models.http.transport import ConnectionLostError
from penstock.request import Request, UserMessage

TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
REQUEST = Request(model="m", messages=[UserMessage([Text("Hello.")])])


class Wire:
    """A transport whose answer says *pieces*, and then does what *then* says."""

    status = 200
    headers = {"content-type": "text/event-stream"}  # noqa: RUF012 - it is not changed

    def __init__(self, *pieces: bytes, then: str) -> None:
        self._pieces = pieces
        self._then = then
        self.closed = 0
        self.is_waiting = asyncio.Event()

    async def send(self, call: HTTPCall) -> Wire:
        del call
        return self

    async def close(self) -> None:
        """Have nothing to close."""

    async def aclose(self) -> None:
        self.closed += 1

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._then == "break":
            raise ConnectionLostError("gone")
        self.is_waiting.set()
        await asyncio.Event().wait()


def model(wire: Wire) -> HTTPModel:
    return HTTPModel("openai-chat", "http://h", transport=wire, retry=NO_RETRY, api_key="")


async def test_a_connection_that_broke_is_let_go_before_anybody_is_told() -> None:
    wire = Wire(TEXT, then="break")
    async with aclosing(model(wire).batches(REQUEST)) as batches:
        async for batch in batches:
            assert wire.closed == isinstance(batch[-1], Failed)
    assert wire.closed == 1


async def test_who_is_cancelled_behind_the_last_word_lets_the_connection_go() -> None:
    async def read(wire: Wire) -> None:
        async with aclosing(model(wire).batches(REQUEST)) as batches:
            async for batch in batches:
                if isinstance(batch[-1], Done):
                    return

    async def cancel() -> None:
        wire = Wire(TEXT, END, then="wait")
        reading = asyncio.create_task(read(wire))
        await wire.is_waiting.wait()  # for what may follow the terminal event
        reading.cancel()
        await asyncio.wait([reading])
        assert wire.closed == 1

    await cancel()
