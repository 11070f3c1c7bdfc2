"""The fake upstream's side of a connection: requests come in, pieces of an answer go out."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from gateway.floods import Flood
from gateway.scenarios import Scenario

TURN: Final = 16
"""After how many pieces without a pause the other streams have their turn."""

_PART: Final = 60_000  # bytes of a flood in one HTTP chunk
_STREAM: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n"
)
_PAGE: Final = b"<!doctype html><html><body><h1>Bad gateway</h1></body></html>\n"


class Stats(Struct):
    """What a fake upstream saw and did."""

    requests: int = 0
    streams_started: int = 0
    streams_completed: int = 0
    client_gone: int = 0
    """How many clients left before their answer had ended."""
    chunks_written: int = 0
    bytes_written: int = 0
    open: int = 0
    """How many answers are on their way."""
    connections: int = 0
    drain_waits_ms: float = 0.0
    last_gone_chunk: int | None = None
    last_gone_ns: int | None = None
    """When the last of them left, by the monotonic clock."""
    last_headers: dict[str, str] = {}
    last_body: Any = None


class Call(Struct):
    """A request, as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Said:
    """What goes out over one connection in answer to one request."""

    def __init__(self, writer: asyncio.StreamWriter, stats: Stats) -> None:
        self.writer = writer
        self.count = 0
        """How many pieces have gone out."""
        self._stats = stats
        self._zip = zlib.compressobj(wbits=31)
        self._is_compressed = False

    def whole(
        self, status: int, value: object, headers: bytes = b"", *, compressed: bool = False
    ) -> None:
        """Send one JSON value."""
        body = msgspec.json.encode(value)
        if compressed:
            body = self._zip.compress(body) + self._zip.flush()
            headers += b"content-encoding: gzip\r\n"
        self._all(status, b"content-type: application/json\r\n" + headers, body)

    def page(self, status: int) -> None:
        """Send an HTML page."""
        self._all(status, b"content-type: text/html\r\n", _PAGE)

    def _all(self, status: int, headers: bytes, body: bytes) -> None:
        line = b"HTTP/1.1 %d Spoken\r\n" % status
        self.writer.write(b"%s%scontent-length: %d\r\n\r\n" % (line, headers, len(body)) + body)

    def begin(self, *, compressed: bool) -> None:
        """Begin a stream."""
        self._is_compressed = compressed
        encoding = b"content-encoding: gzip\r\n" if compressed else b""
        self.writer.write(_STREAM + encoding + b"\r\n")

    def write(self, data: bytes) -> None:
        """Send *data* in its own HTTP chunk, without counting it."""
        if self._is_compressed:
            data = self._zip.compress(data) + self._zip.flush(zlib.Z_SYNC_FLUSH)
        if data:
            self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))

    async def piece(self, data: bytes) -> None:
        """Send one piece when the client has received those before it."""
        self.write(data)
        began = time.monotonic_ns()
        await self.writer.drain()
        self._stats.drain_waits_ms += (time.monotonic_ns() - began) / 1e6
        self._stats.chunks_written += 1
        self._stats.bytes_written += len(data)
        self.count += 1

    async def flood(self, flood: Flood) -> None:
        """Send a flood as fast as the client reads it."""
        encoding = f"content-encoding: {flood.encoding}\r\n" if flood.encoding else ""
        head = f"content-type: {flood.content_type}\r\ntransfer-encoding: chunked\r\n{encoding}"
        self.writer.write(b"HTTP/1.1 200 OK\r\n" + head.encode() + b"\r\n")
        for data in flood.body():
            for at in range(0, len(data), _PART):
                part = data[at : at + _PART]
                if flood.in_bytes:
                    self.writer.write(b"".join(b"1\r\n%c\r\n" % byte for byte in part))
                else:
                    self.writer.write(b"%x\r\n%s\r\n" % (len(part), part))
                await self.writer.drain()
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def end(self) -> None:
        """End the body."""
        if self._is_compressed:
            self._is_compressed = False
            self.write(self._zip.flush())
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()


async def paced(frames: Iterator[bytes], scenario: Scenario) -> AsyncIterator[bytes]:
    """Return *frames* at the pace of *scenario*."""
    for number, data in enumerate(frames, 1):
        yield data
        if scenario.pause:
            await asyncio.sleep(scenario.pause)
        elif number % TURN == 0:
            await asyncio.sleep(0)


async def while_there(reader: asyncio.StreamReader, speech: Coroutine[Any, Any, bool]) -> bool:
    """Run *speech* while the client is there; raises `ConnectionError` when it hangs up."""
    speaking = asyncio.ensure_future(speech)
    leaving = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait((speaking, leaving), return_when=asyncio.FIRST_COMPLETED)
        if speaking.done():
            return speaking.result()
        raise ConnectionResetError("the client hung up")
    finally:
        speaking.cancel()
        leaving.cancel()
        await asyncio.gather(speaking, leaving, return_exceptions=True)


async def read_call(reader: asyncio.StreamReader) -> Call:
    """Read one request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ", 2)
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    if "chunked" in headers.get("transfer-encoding", ""):
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Call(method, target.partition("?")[0], headers, body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    chunks: list[bytes] = []
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        chunks.append((await reader.readexactly(size + 2))[:-2])
    await reader.readuntil(b"\r\n")
    return b"".join(chunks)
