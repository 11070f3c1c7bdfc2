"""HTTP/1.1 as the gateway takes it: heads within limits, in time, and never in two readings.

uvicorn and httptools do the work. What is added here is what a server on the open network needs and
they leave to a proxy:

* the head of a request has a size and a time, and so has what frames its body: chunk extensions and
  trailers are read by nobody and could be endless;
* a head that two readers could understand differently, which is how requests are smuggled, is
  refused, and trailers never count as headers;
* what waits for a slow client stays small;
* a client that is refused while it still sends can read why: the connection is closed for it to
  read first, and what it continues sending is thrown away for a while. Closed at once, the refusal
  would be lost with the reset;
* with requests in a pipeline, every one of them learns that the client is gone.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final, Literal, TypeVar

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from penstock.gateway.http_exchange import HANGUP, DisconnectSignal

# What tasks wait for at a connection, in little room.
#
# A connection has several such things, and nobody waits at most of them for most of its life.
# `asyncio.Event` and `deque` take 0.7 kB each before anybody comes; these take what is needed.


_Item = TypeVar("_Item")


class LightEvent:
    """Lets pass whoever waits once it is set, as `asyncio.Event` does."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self, *, is_set: bool = False) -> None:
        self._is_set = is_set
        self._waiting: tuple[asyncio.Future[None], ...] = ()

    def set(self) -> None:
        """Let everybody pass, from now on."""
        self._is_set = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def clear(self) -> None:
        """Let nobody pass who comes from now on."""
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
    """Whether a client has room for more, and whether more is read from it."""

    __slots__ = ("_transport", "_writable", "read_paused", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        # What the class above would make is too large.
        self._transport = transport
        self._writable = LightEvent(is_set=True)
        self.read_paused = False
        self.write_paused = False

    async def drain(self) -> None:
        """Wait until the client has room."""
        await self._writable.wait()

    def pause_writing(self) -> None:
        """Let whoever writes wait."""
        self.write_paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let whoever writes continue."""
        self.write_paused = False
        self._writable.set()


class LightQueue(list[_Item]):
    """A queue that is nearly always empty; its next is the last."""

    __slots__ = ()

    def appendleft(self, item: _Item) -> None:
        """Put *item* after all others."""
        self.insert(0, item)


# Answers to clients of HTTP/1.0, which know no chunks: the end of the connection ends them.
#
# uvicorn closes the connection after such an answer, but writes one of unknown length in
# chunks all the same. Told that the answer is not chunked, it would count what goes out against
# a length. So the length is one that anything fits.


def unframe(cycle: RequestResponseCycle) -> None:
    """Let the answer of *cycle* go out without chunks, however long it gets."""
    cycle.chunked_encoding = False
    cycle.expected_content_length = _AnyLength()


class _AnyLength(int):
    """The length of a body that nobody knows before its end: never exceeded, and reached anytime.

    It stays what it is while parts are taken off, in whatever order signs of life and pieces of the
    answer are written.
    """

    def __lt__(self, size: int) -> bool:
        return False

    def __sub__(self, size: int) -> _AnyLength:
        return self

    def __ne__(self, size: object) -> bool:
        return False


MAX_UNACKNOWLEDGED: Final = 65_536
"""How many bytes of an answer the system holds for a client: a window that long distances fill."""

MAX_UNSENT: Final = 32_768
"""How many bytes wait for a client before whoever writes has to wait."""

LINGER: Final = 5.0
"""How many seconds a client has to stop sending once its answer is out."""

FRAMING: Final = 8
"""How many bytes may frame one byte of a body: a chunk of one byte has five, and some have more."""

MAX_PIPELINE: Final = 16
"""How many requests may wait after one that is being answered; nobody needs more than a few."""

_Place = Literal["between", "head", "body"]
"""Where in a request the next byte belongs."""

_REASONS: Final = {
    400: (b"Bad Request", b"this is no request of HTTP/1.1, or one with two readings"),
    408: (b"Request Timeout", b"the head of the request did not come in time"),
    431: (b"Request Header Fields Too Large", b"the head of the request is too long"),
}


class HeadLimits:
    """How long the head of a request may be, and how long it may take."""

    max_bytes = 32_768
    seconds = 10.0


def protocol_of(max_bytes: int, seconds: float) -> type[HttpToolsProtocol]:
    """Return the protocol of connections whose heads have these limits."""
    limits = HeadLimits()
    limits.max_bytes, limits.seconds = max_bytes, seconds

    class Connection(HardenedProtocol):
        head_limits = limits

    return Connection


class HardenedProtocol(HttpToolsProtocol):
    """One connection of a client."""

    # Beside uvicorn's own they would be too many for the small kind of dict.
    __slots__ = (
        "_answering",
        "_body_size",
        "_framing",
        "_head_size",
        "_is_deaf",
        "_place",
        "_timer",
        "_unparsed",
    )

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
        self._place: _Place = "between"
        self._head_size = 0
        self._body_size = 0
        self._framing = 0  # what came with a body and is not one
        self._unparsed = 0  # what is left of a body after a wish for another protocol
        self._is_deaf = False  # refused: what still comes is thrown away
        self._answering: RequestResponseCycle | None = None  # the first of those in the pipeline
        self._timer: asyncio.TimerHandle | None = None

    # --- the connection ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self.flow = LightFlowControl(transport)
        transport.set_write_buffer_limits(high=MAX_UNSENT)
        listener = transport.get_extra_info("socket")
        if listener is not None:  # The system would buffer megabytes that nobody reads.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_UNACKNOWLEDGED)
        self._wait(self.head_limits.seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever answers, and wait for nothing any more."""
        self._end_wait()
        self._give_up()
        self._let_go()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what came, unless there is too much of it already."""
        if self._is_deaf:
            return
        place, body_size = self._place, self._body_size
        if place != "body" and not self._is_busy:
            self._wait(self.head_limits.seconds)
        self._read(data)
        if self._place == place == "body":
            self._framing += len(data) - (self._body_size - body_size)
            if self._framing > self.head_limits.max_bytes + FRAMING * self._body_size:
                self._refuse(431)
        elif self._place == "head":
            self._head_size += len(data) if place == "head" else len(self.url)
            if self._head_size > self.head_limits.max_bytes:
                self._refuse(431)

    def _read(self, data: bytes) -> None:
        if self._unparsed:
            self._take_unparsed(data)
            return
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            self._take_unparsed(data[exc.args[0] :])
        except httptools.HttpParserError:
            self._refuse(400)

    def _take_unparsed(self, data: bytes) -> None:
        """Take the body of a request that wished for another protocol, and does not get it."""
        taken = data[: self._unparsed]
        self._unparsed -= len(taken)
        if taken:
            self.on_body(taken)
        if not self._unparsed:
            self.on_message_complete()

    # --- one request ---

    def on_message_begin(self) -> None:
        """Wait for the rest of the head from now on."""
        super().on_message_begin()
        self._place, self._head_size = "head", 0
        if not self._is_busy and not self._is_deaf:
            self._wait(self.head_limits.seconds)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; what comes after the body is not one."""
        if self._place == "head":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Look at the head before anybody acts on it."""
        if self._is_deaf:
            return
        self._place, self._body_size, self._framing = "body", 0, 0
        self._end_wait()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.head_limits.max_bytes:
            self._refuse(431)
        elif _is_ambiguous(self.headers, self.parser.get_http_version()):
            self._refuse(400)
        else:
            self._begin_answer()

    def _begin_answer(self) -> None:
        is_first = not self._is_busy
        super().on_headers_complete()
        self.scope[HANGUP] = DisconnectSignal()  # type: ignore[typeddict-unknown-key]
        self.cycle.message_event = LightEvent()  # type: ignore[assignment]
        self.cycle.transport = _Parting(self)  # type: ignore[assignment]
        if self.parser.get_http_version() == "1.0":
            unframe(self.cycle)
        if is_first:
            self._answering = self.cycle
        elif len(self.pipeline) < MAX_PIPELINE:
            self.flow.resume_reading()  # Else nobody sees the client hang up.
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False  # The parser reads nothing after this request.
            self._unparsed = next((int(v) for k, v in self.headers if k == b"content-length"), 0)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body, unless its request was refused."""
        self._body_size += len(body)
        if not self._is_deaf:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for another request from now on."""
        if self._is_deaf or self._unparsed:
            return
        self._place = "between"
        self._end_wait()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next of the pipeline; what is still coming has some time left."""
        self._let_go()
        self._answering = self.pipeline[-1][0] if self.pipeline else None
        if self._place != "between" and not self._is_busy:
            self._wait(LINGER if self._place == "body" else self.head_limits.seconds)
        super().on_response_complete()

    @property
    def _is_busy(self) -> bool:
        """Whether an answer is on its way, or being thought of."""
        return self._answering is not None and not self._answering.response_complete

    def _give_up(self) -> None:
        """Let whoever answers know that nobody listens."""
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
            self._answering.scope[HANGUP].come()  # type: ignore[typeddict-item]

    def _let_go(self) -> None:
        """Forget an answer that is over; it and the connection would hold each other for long."""
        if self._answering is not None:
            self._answering.transport = self.transport
            self._answering = None

    # --- waiting and refusing ---

    def _wait(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(seconds, self._on_time)

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        self._timer = None
        if self._place == "head" and not self._is_deaf:
            self._refuse(408)
        else:  # Nothing was asked, or nobody listens any more: there is nothing to answer.
            self.transport.close()

    def _refuse(self, status: int) -> None:
        """Say why, unless an answer is going out, and part."""
        if self._is_deaf or self.transport.is_closing():
            return
        if not self._is_busy or (self._answering and not self._answering.response_started):
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
        self.part()

    def close(self) -> None:
        """Close now, or when the client has had time to read what answers half a request."""
        cycle = self._answering
        if cycle is not None and cycle.more_body and cycle.response_complete:
            self.part()
        else:
            self.transport.close()

    def part(self) -> None:
        """Say no more, and let the client read what was said before the connection is closed."""
        if self.transport.is_closing():
            return
        self._is_deaf = True
        self._end_wait()
        self._give_up()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._wait(LINGER)


class _Parting:
    """The connection as an answer sees it: closed in peace where the request is still coming."""

    __slots__ = ("_connection", "write")

    def __init__(self, connection: HardenedProtocol) -> None:
        self._connection = connection
        self.write = connection.transport.write

    def is_closing(self) -> bool:
        """Return whether the connection is about to be closed."""
        return self._connection.transport.is_closing()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _is_ambiguous(headers: list[tuple[bytes, bytes]], version: str) -> bool:
    """Return whether two readers could see the end of the body in different places."""
    lengths = [value for name, value in headers if name == b"content-length"]
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    hosts = [value for name, value in headers if name == b"host"]
    return (
        len(lengths) > 1
        or len(hosts) > 1
        or (bool(codings) and (bool(lengths) or codings != [b"chunked"] or version != "1.1"))
        or any(not length.isdigit() for length in lengths)
        or any(b"\r" in value or b"\n" in value for _, value in headers)
    )
