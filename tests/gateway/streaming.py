"""Many clients at once, each with a stream of its own, and how long each of them waited."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Self

from gateway.serving import DEADLINE, request_of
from models.loopback_servers import Reply, Step, stream_of

PIECES = 12
PAUSE = 0.02
"""How many seconds lie between two pieces of the upstream's answer."""

_ID = re.compile(rb"x-request-id: (\w+)", re.IGNORECASE)
_FIRST = b'"content":"'


def spoken(*end: Step) -> Reply:
    """Return an answer of an upstream that takes its time; *end* is in place of its last piece."""
    data = stream_of("openai-chat")
    size = -(-len(data) // PIECES)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    kept = pieces[:-1] if end else pieces
    steps: list[Step] = [step for piece in kept for step in (piece, PAUSE)]
    return Reply([*steps, *end])


@dataclass
class Stream:
    """One answer as a client sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    began: float
    data: bytes = b""
    first: float = 0.0
    """Seconds until the first words."""
    duration: float = 0.0

    @classmethod
    async def ask(cls, port: int, model: str, **more: Any) -> Self:
        """Ask for an answer."""
        began = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = json.dumps(request_of("openai-chat", model, **more)).encode()
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: "
        writer.write(f"{head}{len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        return cls(reader, writer, began)

    async def read(self, *, to_first: bool = False) -> Self:
        """Read to the end, or to the first words."""
        async with asyncio.timeout(DEADLINE):
            while data := await self.reader.read(65_536):
                self.data += data
                if not self.first and _FIRST in self.data:
                    self.first = time.monotonic() - self.began
                if self.first and to_first:
                    return self
        assert self.data.startswith(b"HTTP/1.1 200 "), self.data
        self.duration = time.monotonic() - self.began
        self.close()
        return self

    def close(self) -> None:
        """Hang up."""
        self.writer.transport.abort()

    @property
    def id(self) -> str:
        """The id of the request."""
        found = _ID.search(self.data)
        assert found is not None, self.data
        return found.group(1).decode()

    @property
    def is_whole(self) -> bool:
        """Whether the client saw the end."""
        return b"data: [DONE]" in self.data


@dataclass
class Load:
    """What a number of answers took."""

    streams: list[Stream] = field(default_factory=list)

    @property
    def first(self) -> float:
        """The seconds until the first words, of half of the streams."""
        return median(stream.first for stream in self.streams)

    @property
    def duration(self) -> float:
        """The seconds until the end, of half of the streams."""
        return median(stream.duration for stream in self.streams)


async def load(port: int, model: str, *, streams: int, rounds: int) -> Load:
    """Ask *rounds* times for as many *streams* at once; raise what went wrong with any of them."""
    found = Load()
    for _ in range(rounds):
        asked = (_answered(port, model) for _ in range(streams))
        answered = await asyncio.gather(*asked, return_exceptions=True)  # no client is left waiting
        for one in answered:
            if isinstance(one, BaseException):
                raise one
            found.streams.append(one)
    return found


async def _answered(port: int, model: str) -> Stream:
    stream = await Stream.ask(port, model)
    try:
        return await stream.read()
    finally:
        stream.close()
