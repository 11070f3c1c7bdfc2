"""`HTTPExchange`: one request and its response over ASGI.

Handlers do not see ASGI messages. A request body is read within a size and a time limit. A response
is sent as a whole or in chunks; sending a chunk waits until the previous one has left, so a client
that reads slowly slows down the sender.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

from penstock import _json
from penstock.apis.fields import BYTES_A_TOKEN
from penstock.errors import JSONParseError
from penstock.gateway.errors import HTTPError

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON: Final = (b"content-type", b"application/json")
_SSE: Final = b"text/event-stream; charset=utf-8"
_STREAM: Final = [
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # nginx buffers responses by default
]

MAX_CONTAINERS: Final = 500_000
"""How many brackets and braces a request body may have, including those in strings.

Each may become a list or an object, and a body of 10 MB has room for three million: decoding those
takes 0.8 s, decoding half a million 0.1 s. Five megabytes of JSON in tool results have 250,000."""

_MAX_DIGITS: Final = 18
"""The most digits of a Content-Length; Python refuses to convert more than 4,300."""

DISCONNECT: Final = "penstock.disconnect"
"""The key of the `DisconnectSignal` in the ASGI scope, if the server is the gateway's own."""

CHUNK_WRITER: Final = "penstock.chunk_writer"
"""The key of the `ChunkWriter` in the ASGI scope, if the server is the gateway's own."""

_BOM: Final = b"\xef\xbb\xbf"


class ClientDisconnectedError(Exception):
    """The client disconnected: no response can be sent."""


class DisconnectSignal:
    """Reports that the client of one request has disconnected.

    Waiting for ASGI's ``http.disconnect`` takes a task, which occupies 1.5 kB for as long as the
    response takes.
    """

    __slots__ = ("_callback", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._callback: Callable[[], None] | None = None

    def watch(self, callback: Callable[[], None]) -> None:
        """Call *callback* when the client disconnects; immediately if it already has."""
        self._callback = callback
        if self.is_set:
            self.set()

    def unwatch(self) -> None:
        """Remove the callback."""
        self._callback = None

    def set(self) -> None:
        """Record that the client has disconnected and call the callback once."""
        self.is_set = True
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class ChunkWriter(Protocol):
    """Writes a chunk of a response that has started, without ASGI's message and coroutine."""

    def join_head(self) -> None:
        """Hold the head of the response, which comes next, until the chunk after it."""

    def write(self, data: bytes) -> bool:
        """Write *data* as a chunk; return False, and write nothing, if there is no room."""


class HTTPExchange:
    """One request of a client, and the response to it."""

    __slots__ = ("_callback", "_chunks", "_disconnect", "_head", "_query", "_receive", "_send",
                 "_unsent", "_watcher", "api", "extra_headers", "has_ended", "has_started",
                 "headers", "is_complete", "is_gone", "late_headers", "method", "path",
                 "stream_type")  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[str, bytes] = {
            name.decode("latin-1"): value for name, value in scope["headers"]
        }
        """The request headers by lower-case name; of repeated headers the last."""
        self.extra_headers: list[tuple[bytes, bytes]] = []
        """Response headers that are sent with any response."""
        self.late_headers: Callable[[], list[tuple[bytes, bytes]]] | None = None
        """Returns response headers that are known only when the response starts."""
        self.has_started = False
        """Whether the response has started."""
        self.has_ended = False
        """Whether the last chunk was passed to the server."""
        self.is_complete = False
        """Whether the server has taken the last chunk."""
        self.is_gone = False
        """Whether the client disconnected before the response was complete."""
        self.api = ""
        """The API of the client, once it is known: errors are sent in its format."""
        self.stream_type = _SSE
        """The content type of a response in chunks."""
        self._unsent = b""
        self._query: bytes = scope.get("query_string", b"")
        self._receive = receive
        self._send = send
        self._disconnect: DisconnectSignal | None = scope.get(DISCONNECT)
        # The scope lives as long as the connection, whose transport the writer holds.
        self._chunks: ChunkWriter | None = scope.pop(CHUNK_WRITER, None)
        self._head: list[tuple[bytes, bytes]] = scope["headers"]
        self._callback: Callable[[], None] | None = None
        self._watcher: asyncio.Task[None] | None = None

    # --- the request ---

    def header(self, name: str) -> str:
        """Return a request header; empty if it is missing."""
        # RFC 9110, section 5.5: bytes outside ASCII are opaque data. latin-1 keeps each of them.
        return self.headers.get(name, b"").decode("latin-1").strip()

    @property
    def query(self) -> dict[str, str]:
        """The query parameters; of repeated ones the last."""
        return dict(parse_qsl(self._query.decode("latin-1"), keep_blank_values=True))

    def drop_headers(self) -> None:
        """Free the request headers once they were read: a response may take minutes."""
        self.headers = {}
        if self._disconnect is not None:  # Only the scope of our own server may be changed.
            self._head.clear()

    async def read_body(self, limit: int, seconds: float) -> bytes:
        """Return the body: at most *limit* bytes, within *seconds*.

        Raises `HTTPError` for a body that is too long, which is not read to its end, or too slow,
        and `ClientDisconnectedError`.
        """
        announced = self.header("content-length")
        # A client that announces too much gets 413 before it sends the body. `int` refuses more
        # than 4,300 digits with an exception.
        if announced.isdecimal() and (len(announced) > _MAX_DIGITS or int(announced) > limit):
            raise _body_too_long(limit)
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(seconds):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        self.is_gone = True
                        raise ClientDisconnectedError
                    chunk = message.get("body", b"")
                    size += len(chunk)
                    if size > limit:
                        raise _body_too_long(limit)
                    chunks.append(chunk)
                    if not message.get("more_body", False):
                        return b"".join(chunks)
        except TimeoutError:
            reason = f"the request body did not arrive within {seconds:g} seconds"
            raise HTTPError(408, reason, close=True) from None

    # --- disconnects ---

    def watch(self, callback: Callable[[], None]) -> None:
        """Call *callback* if the client disconnects before the response is complete.

        Call `unwatch` afterwards. Our own server reports a disconnect; with any other server, a
        task waits for ``http.disconnect``.
        """
        self._callback = callback
        if self._disconnect is not None:
            self._disconnect.watch(self._on_disconnect)
        else:
            self._watcher = asyncio.create_task(self._wait(), name="penstock: wait for disconnect")

    def unwatch(self) -> None:
        """Remove the callback."""
        self._callback = None
        if self._disconnect is not None:
            self._disconnect.unwatch()
        if self._watcher is not None:
            self._watcher.cancel()

    def _on_disconnect(self) -> None:
        if not self.has_ended:
            self.is_gone = True
            if self._callback is not None:
                self._callback()

    async def _wait(self) -> None:
        await self.wait_for_disconnect()
        self._on_disconnect()

    async def wait_for_disconnect(self) -> None:
        """Wait until the client has disconnected; call this only after the body was read.

        Never returns if the response was completed: ASGI reports completion as a disconnect.
        """
        while (await self._receive())["type"] != "http.disconnect":
            pass
        # uvicorn sends `http.disconnect` after a complete response too.
        if self.has_ended:
            await asyncio.get_running_loop().create_future()
        self.is_gone = True

    # --- the response ---

    async def respond(
        self, status: int, value: object, *headers: tuple[bytes, bytes], is_json: bool = True
    ) -> None:
        """Send a whole response: *value* as JSON, or else as it is."""
        body = _json.encode_wire(value) if is_json else value
        data = body if isinstance(body, bytes) else str(body).encode()
        content_type = [JSON] if is_json else []
        length = (b"content-length", b"%d" % len(data))
        await self._start(status, [*content_type, *headers, length])
        await self.end_stream(data)

    async def start_stream(self, data: bytes = b"") -> None:
        """Start a response that is sent in chunks; *data* is the first of them, if there is one."""
        await self._start_stream(joins=bool(data))
        if data and not self.send_now(data):
            await self.send(data)

    async def _start_stream(self, *, joins: bool) -> None:
        """Start a response in chunks; its head waits for the first chunk if that *joins* it."""
        if joins and self._chunks is not None:
            self._chunks.join_head()
        await self._start(200, [(b"content-type", self.stream_type), *_STREAM])

    def send_now(self, data: bytes) -> bool:
        """Send a chunk if there is room for it; return whether it was sent."""
        return self._chunks is not None and self._chunks.write(data)

    async def send(self, data: bytes) -> None:
        """Send a chunk and wait until there is room for another.

        If this is cancelled, the chunk is sent with the last one.
        """
        self._unsent = data
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self._unsent = b""

    async def send_keepalive(self, data: bytes) -> None:
        """Send a chunk that is not sent again if this is cancelled."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end_stream(self, data: bytes = b"") -> None:
        """Send the last chunk, after one whose sending was cancelled, or as the whole stream."""
        if not self.has_started:
            await self._start_stream(joins=True)
        self.has_ended = True
        self._unsent = data = self._unsent + data
        await self._send({"type": "http.response.body", "body": data})
        self._unsent = b""
        self.is_complete = True

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.has_started = True
        late, self.late_headers = self.late_headers, None
        all_headers = [*headers, *self.extra_headers, *(late() if late is not None else ())]
        self.extra_headers = []
        await self._send({"type": "http.response.start", "status": status, "headers": all_headers})


def _body_too_long(limit: int) -> HTTPError:
    message = f"the request body is too long: at most {limit:,} bytes are accepted"
    return HTTPError(413, message, close=True)


# --- JSON bodies ---


def estimate_tokens(data: bytes) -> int:
    """Return about how many tokens the request body *data* has; the gateway has no tokenizer."""
    return max(1, len(data) // BYTES_A_TOKEN)


def parse_object(data: bytes, max_depth: int) -> dict[str, Any]:
    """Return the JSON object in *data*.

    Raises `HTTPError` for anything else, and for one that nests deeper than *max_depth*.
    """
    data = data.removeprefix(_BOM)  # Some clients send files as they are.
    if b"\0" in data:  # UTF-16 and UTF-32, which Python's own decoder would accept.
        raise HTTPError(400, "the request body is not JSON in UTF-8")
    # Counted in the bytes, strings included: a cheap upper bound. 15 million empty lists, 30 MB of
    # JSON, take about a gigabyte.
    containers = data.count(b"[") + data.count(b"{")
    if containers > MAX_CONTAINERS:
        message = f"the request body has {containers:,} brackets: at most {MAX_CONTAINERS:,}"
        raise HTTPError(400, f"{message} are accepted")
    try:
        value = _json.decode(data)
    except JSONParseError as exc:
        if exc.__cause__ is None or isinstance(exc.__cause__, RecursionError):  # only too deep
            raise _body_too_deep(max_depth) from None
        raise HTTPError(400, f"the request body is not valid JSON: {exc}") from None
    if containers > max_depth and _json.is_deeper(value, max_depth):
        raise _body_too_deep(max_depth)
    if not isinstance(value, dict):
        raise HTTPError(400, "the request body must be a JSON object")
    return value


def _body_too_deep(max_depth: int) -> HTTPError:
    return HTTPError(400, f"the request body nests deeper than {max_depth} levels")
