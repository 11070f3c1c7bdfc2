"""Hardened HTTP/1.1: limits on header size and time, and rejection of ambiguous framing.

uvicorn and httptools do most of the work. Added here is what a server on the open network needs and
they leave to a proxy:

* The head of a request has a size and a time limit. So has the framing of its body: chunk
  extensions and trailers are not used and could be endless.
* A head that two servers could interpret differently is rejected (request smuggling), and trailers
  never count as headers.
* Little data is buffered for a slow client.
* A client that is rejected while it still sends can read the response: our side of the connection
  is closed first, and what the client still sends is discarded for a while. If the socket were
  closed at once, the response would be lost with the reset.
* With pipelined requests, each of them is notified when the client disconnects.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from penstock.gateway.http_exchange import CHUNK_WRITER, DISCONNECT, DisconnectSignal

# --- memory-light replacements ---

# `asyncio.Event`, uvicorn's `FlowControl` and `deque` take 0.7 kB each while they are empty, and a
# connection has three of them: without these replacements an open stream takes 2 to 3 kB more, of
# about 42 (500 open streams).


_Item = TypeVar("_Item")


class LightEvent:
    """An `asyncio.Event` that takes little memory while no task waits."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self, *, is_set: bool = False) -> None:
        self._is_set = is_set
        self._waiting: tuple[asyncio.Future[None], ...] = ()

    def set(self) -> None:
        """Wake all waiting tasks; later calls of `wait` return at once."""
        self._is_set = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def clear(self) -> None:
        """Make later calls of `wait` wait again."""
        self._is_set = False

    async def wait(self) -> None:
        """Wait until it is set."""
        if self._is_set:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting += (waiter,)
        try:
            await waiter
        finally:
            self._waiting = tuple(other for other in self._waiting if other is not waiter)


class LightFlowControl(FlowControl):
    """Whether writing to and reading from a client are paused."""

    __slots__ = ("_transport", "_writable", "read_paused", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        # `FlowControl.__init__` would create an `asyncio.Event`.
        self._transport = transport
        self._writable = LightEvent(is_set=True)
        self.read_paused = False
        self.write_paused = False

    async def drain(self) -> None:
        """Wait until writing is not paused."""
        await self._writable.wait()

    def pause_writing(self) -> None:
        """Make `drain` wait."""
        self.write_paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        """Make `drain` return."""
        self.write_paused = False
        self._writable.set()


class LightQueue(list[_Item]):
    """The pipeline of uvicorn as a list: the next item is the last one."""

    __slots__ = ()

    def appendleft(self, item: _Item) -> None:
        """Add *item* as the last one in line."""
        self.insert(0, item)


# --- HTTP/1.0 ---

# Not only old clients use it: 1.0 is the default of nginx's `proxy_http_version` in most versions.
# HTTP/1.0 has no chunked encoding: the end of the connection ends the body. uvicorn closes the
# connection after such a response, but sends one of unknown length in chunks all the same. Without
# chunks it compares the sent bytes with a content length, so it gets one that always fits.


def disable_chunks(cycle: RequestResponseCycle) -> None:
    """Send the response of *cycle* without chunked encoding, whatever its length."""
    cycle.chunked_encoding = False
    cycle.expected_content_length = _AnyLength()


class _AnyLength(int):
    """The unknown length of a body: it is never exceeded and counts as reached at any time.

    Subtraction does not change it: keep-alives and chunks are written in any order.
    """

    def __lt__(self, size: int) -> bool:
        return False

    def __sub__(self, size: int) -> _AnyLength:
        return self

    def __ne__(self, size: object) -> bool:
        return False


# --- the protocol ---


SEND_BUFFER: Final = 65_536
"""The send buffer of a client's socket in bytes: by default the kernel buffers megabytes."""

MAX_UNSENT: Final = 32_768
"""How many bytes are buffered for a client before the writer has to wait."""

LINGER_SECONDS: Final = 5.0
"""How many seconds a client has to stop sending after its response was sent."""

FRAMING: Final = 8
"""How many bytes of framing are accepted per byte of a body: a chunk of one byte has five."""

MAX_PIPELINE: Final = 16
"""How many requests may wait for the one in progress: clients rarely pipeline more than a few."""

_State = Literal["between", "head", "body"]
"""The part of a request that the next byte belongs to."""

_REASONS: Final = {
    400: (b"Bad Request", b"malformed or ambiguous HTTP request"),
    408: (b"Request Timeout", b"the request headers did not arrive in time"),
    431: (b"Request Header Fields Too Large", b"the request headers are too long"),
}


class HeadLimits:
    """The size and time limits of a request's head."""

    max_bytes = 32_768
    seconds = 10.0


def make_protocol(max_bytes: int, seconds: float) -> type[HttpToolsProtocol]:
    """Return a protocol class with these limits for the heads of requests."""
    limits = HeadLimits()
    limits.max_bytes, limits.seconds = max_bytes, seconds

    class Connection(HardenedProtocol):
        head_limits = limits

    return Connection


class HardenedProtocol(HttpToolsProtocol):
    """One connection from a client."""

    # In the instance dict, together with uvicorn's attributes, these would not fit a small one.
    __slots__ = ("_body_size", "_current", "_framing", "_head_size", "_is_discarding", "_state",
                 "_timer", "_unparsed")  # fmt: skip

    head_limits = HeadLimits()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.pipeline = LightQueue()  # type: ignore[assignment]
        self._state: _State = "between"
        self._head_size = 0
        self._body_size = 0
        self._framing = 0  # bytes received beside the body itself
        self._unparsed = 0  # bytes left of a body after an Upgrade header
        self._is_discarding = False  # The request was rejected: further data is discarded.
        self._current: RequestResponseCycle | None = None  # whose response is being sent
        self._timer: asyncio.TimerHandle | None = None

    # --- the connection ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Limit the buffers, and start the timeout of the first head."""
        super().connection_made(transport)
        self.flow = LightFlowControl(transport)
        # asyncio's default is 64 KiB for each connection.
        transport.set_write_buffer_limits(high=MAX_UNSENT)
        client = transport.get_extra_info("socket")
        if client is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._start_timer(self.head_limits.seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the handler of the request and stop the timeout."""
        self._stop_timer()
        self._notify_disconnect()
        self._release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse *data*, and reject a head or a framing that is too long."""
        if self._is_discarding:
            return
        state, body_size = self._state, self._body_size
        if state != "body" and not self._is_busy:
            self._start_timer(self.head_limits.seconds)
        self._parse(data)
        if self._state == state == "body":
            self._framing += len(data) - (self._body_size - body_size)
            if self._framing > self.head_limits.max_bytes + FRAMING * self._body_size:
                self._reject(431)
        elif self._state == "head":
            self._head_size += len(data) if state == "head" else len(self.url)
            if self._head_size > self.head_limits.max_bytes:
                self._reject(431)

    def _parse(self, data: bytes) -> None:
        if self._unparsed:
            self._take_unparsed(data)
            return
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            # httptools stops at the end of a head with `Upgrade`, whatever the server supports.
            # curl sends `Upgrade: h2c` with --http2 on plain HTTP.
            self._take_unparsed(data[exc.args[0] :])
        except httptools.HttpParserError:
            self._reject(400)

    def _take_unparsed(self, data: bytes) -> None:
        """Read the body of a request with an Upgrade header, which is ignored."""
        taken = data[: self._unparsed]
        self._unparsed -= len(taken)
        if taken:
            self.on_body(taken)
        if not self._unparsed:
            self.on_message_complete()

    # --- one request ---

    def on_message_begin(self) -> None:
        """Start the timeout of the head."""
        super().on_message_begin()
        self._state, self._head_size = "head", 0
        if not self._is_busy and not self._is_discarding:
            self._start_timer(self.head_limits.seconds)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; trailers are ignored."""
        # RFC 9110, section 6.5.1: trailers must not be merged into the headers unless their
        # definition allows it.
        if self._state == "head":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check the head before the request is handled."""
        if self._is_discarding:
            return
        self._state, self._body_size, self._framing = "body", 0, 0
        self._stop_timer()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.head_limits.max_bytes:
            self._reject(431)
        elif _is_ambiguous(self.headers, self.parser.get_http_version()):
            self._reject(400)
        else:
            self._handle_request()

    def _handle_request(self) -> None:
        is_first = not self._is_busy
        super().on_headers_complete()
        signal = DisconnectSignal()
        is_chunked = self.parser.get_http_version() != "1.0"
        self.scope[DISCONNECT] = signal  # type: ignore[typeddict-unknown-key]
        writer = DirectWriter(self.transport, self.flow, signal, is_chunked=is_chunked)
        self.scope[CHUNK_WRITER] = writer  # type: ignore[typeddict-unknown-key]
        self.cycle.message_event = LightEvent()  # type: ignore[assignment]
        self.cycle.transport = _ClosingTransport(self, writer)  # type: ignore[assignment]
        if not is_chunked:
            disable_chunks(self.cycle)
        if is_first:
            self._current = self.cycle
        elif len(self.pipeline) < MAX_PIPELINE:
            self.flow.resume_reading()  # Otherwise a disconnect is not seen.
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False  # The parser stops after this request.
            self._unparsed = next((int(v) for k, v in self.headers if k == b"content-length"), 0)

    def on_body(self, body: bytes) -> None:
        """Add a part of the body, unless its request was rejected."""
        self._body_size += len(body)
        if not self._is_discarding:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request; another may follow."""
        if self._is_discarding or self._unparsed:
            return
        self._state = "between"
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continue with the next pipelined request; unread data of this one has a timeout."""
        self._release()
        self._current = self.pipeline[-1][0] if self.pipeline else None
        if self._state != "between" and not self._is_busy:
            self._start_timer(LINGER_SECONDS if self._state == "body" else self.head_limits.seconds)
        super().on_response_complete()

    @property
    def _is_busy(self) -> bool:
        """Whether a response is in progress."""
        return self._current is not None and not self._current.response_complete

    def _notify_disconnect(self) -> None:
        """Notify the handler of the current request that the client is gone."""
        if self._current is not None and not self._current.response_complete:
            # uvicorn notifies only the request that it parsed last; with pipelining that is another
            # one.
            self._current.disconnected = True
            self._current.message_event.set()
            self._current.scope[DISCONNECT].set()  # type: ignore[typeddict-item]

    def _release(self) -> None:
        """Drop a response that is over, and with it the reference cycle with this connection."""
        if self._current is not None:
            self._current.transport = self.transport
            self._current = None

    # --- timeouts and rejections ---

    def _start_timer(self, seconds: float) -> None:
        # A running timer is kept: bytes that trickle in do not extend it (Slowloris).
        if self._timer is None:
            self._timer = self.loop.call_later(seconds, self._on_time)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        self._timer = None
        if self._state == "head" and not self._is_discarding:
            self._reject(408)
        else:  # No request is waiting for a response.
            self.transport.close()

    def _reject(self, status: int) -> None:
        """Respond with *status*, unless a response is being sent, and close our side."""
        if self._is_discarding or self.transport.is_closing():
            return
        if not self._is_busy or (self._current and not self._current.response_started):
            phrase, reason = _REASONS[status]
            lines = [
                b"HTTP/1.1 %d %s" % (status, phrase),
                b"content-type: text/plain",
                b"content-length: %d" % len(reason),
                b"connection: close",
                b"",
                reason,
            ]
            self.transport.write(b"\r\n".join(lines))
        self.close_writing()

    def close(self) -> None:
        """Close at once; if the request is still arriving, let the client read the response."""
        cycle = self._current
        if cycle is not None and cycle.more_body and cycle.response_complete:
            self.close_writing()
        else:
            self.transport.close()

    def close_writing(self) -> None:
        """Close our side of the connection, and the other after `LINGER_SECONDS` seconds."""
        if self.transport.is_closing():
            return
        self._is_discarding = True
        self._stop_timer()
        self._notify_disconnect()
        # TLS connections cannot be closed on one side.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._start_timer(LINGER_SECONDS)


class DirectWriter:
    """Writes chunks of a streamed response to *transport*, as the `send` of uvicorn does.

    That takes a message and a coroutine for each chunk. The caller has started the response, with
    neither a length nor an end yet.

    uvloop makes a system call for each write, which takes longer than all else that the gateway
    does with a chunk. So the head of a response can be written together with its first chunk.
    """

    __slots__ = ("_flow", "_held", "_is_chunked", "_signal", "_transport", "write_framed")

    def __init__(
        self,
        transport: asyncio.Transport,
        flow: FlowControl,
        signal: DisconnectSignal,
        *,
        is_chunked: bool,
    ) -> None:
        self._transport = transport
        self._flow = flow
        self._signal = signal
        self._is_chunked = is_chunked
        self._held = b""
        self.write_framed: Callable[[bytes], None] = transport.write
        """Writes bytes as they are."""

    def join_head(self) -> None:
        """Hold the head of the response, which comes next, until more is written."""
        self.write_framed = self._hold

    def write(self, data: bytes) -> bool:
        """Write *data* as a chunk; return False, and write nothing, if the client is too slow."""
        if self._flow.write_paused or self._signal.is_set:
            return False
        self.write_framed(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)
        return True

    def _hold(self, data: bytes) -> None:
        self._held = data
        self.write_framed = self._write_both

    def _write_both(self, data: bytes) -> None:
        held, self._held = self._held, b""
        self.write_framed = self._transport.write
        self.write_framed(held + data)


class _ClosingTransport:
    """The transport that a response uses: it is closed by `HardenedProtocol.close`."""

    __slots__ = ("_connection", "_writer")

    def __init__(self, connection: HardenedProtocol, writer: DirectWriter) -> None:
        self._connection = connection
        self._writer = writer

    def write(self, data: bytes) -> None:
        """Write *data*."""
        self._writer.write_framed(data)

    def is_closing(self) -> bool:
        """Return whether the connection is about to be closed."""
        return self._connection.transport.is_closing()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _is_ambiguous(headers: list[tuple[bytes, bytes]], version: str) -> bool:
    """Return whether two servers could see the end of the body in different places.

    RFC 9112, section 6.3: a message with both Content-Length and Transfer-Encoding ought to be
    handled as an error, and so must differing lengths.
    """
    lengths = [value for name, value in headers if name == b"content-length"]
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    hosts = [value for name, value in headers if name == b"host"]
    return (
        # RFC 9112, section 3.2: a request with more than one Host must be rejected. Section 6.1:
        # chunked must be the last coding, and HTTP/1.0 has none.
        len(lengths) > 1
        or len(hosts) > 1
        or (bool(codings) and (bool(lengths) or codings != [b"chunked"] or version != "1.1"))
        or any(not length.isdigit() for length in lengths)
        or any(b"\r" in value or b"\n" in value for _, value in headers)
    )
