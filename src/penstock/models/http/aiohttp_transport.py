"""The aiohttp transport: one connection pool per event loop, and sockets that close immediately.

A pool lives as long as its loop. The async generator `_keep_open` is suspended in the loop, and the
loop closes its generators at shutdown, which closes the pool. So nothing stays open after a script
that never calls `close`, or after `sync()`, which uses one loop per stream.

An orderly close sends unsent data or waits for the peer's TLS shutdown. An abort cannot wait for a
peer that may have stopped reading, so the socket of a call is recorded as soon as it exists and is
aborted.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import zlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextvars import ContextVar
from io import BytesIO
from typing import Any, Final, Self
from weakref import WeakSet

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from penstock.errors import UsageError
from penstock.models.http.endpoints import check_proxy, proxy_for
from penstock.models.http.transport import (
    ConnectError,
    ConnectionLostError,
    ConnectTimeoutError,
    HTTPCall,
    ProxyError,
    TLSError,
    TransportError,
    TruncatedError,
    UnreadableBodyError,
)

# --- decompression ---

# A server may send a body whose 260 kB unpack to 280 MB. aiohttp's own decompression is bounded
# only in some of its versions, so it is switched off and bodies are unpacked here: `feed` takes
# bytes from the network, `take` returns a bounded chunk of the body, and a body that unpacks to far
# more than a response can have is rejected.

try:
    import brotli
except ImportError:  # pragma: no cover - it comes with the extra `client`
    brotli = None

MAX_RATIO: Final = 400
"""The highest accepted compression ratio.

Frames of a stream that differ in one word only compress about 100 to 1. Deflate is limited to 1,032
to 1, brotli has no limit."""

MIN_BOMB: Final = 4 * 1024 * 1024
"""How many unpacked bytes are accepted at any ratio: fewer do no harm."""

ACCEPT_ENCODING: Final = "gzip, deflate" if brotli is None else "gzip, deflate, br"
"""The ``Accept-Encoding`` header."""


class Decompressor(ABC):
    """Unpacks one body: `feed` it, then `take` until it returns nothing, then `feed` again."""

    def __init__(self) -> None:
        self._packed = 0
        self._unpacked = 0

    def feed(self, data: bytes) -> None:
        """Add bytes from the network; everything from the previous ones has been taken."""
        self._packed += len(data)
        self._add(data)

    def take(self, limit: int) -> bytes:
        """Return the next bytes of the body, about *limit* at most; none if more input is needed.

        Raises `UnreadableBodyError` if the body cannot be unpacked or unpacks to too much.
        """
        try:
            data = self._take(limit)
        except _ERRORS as exc:
            raise UnreadableBodyError("the body cannot be decompressed") from exc
        self._unpacked += len(data)
        if self._unpacked > MIN_BOMB and self._unpacked > MAX_RATIO * self._packed:
            raise UnreadableBodyError(
                f"the body unpacks to more than {MAX_RATIO} times its {self._packed} bytes"
            )
        return data

    @abstractmethod
    def _add(self, data: bytes) -> None:
        """Add bytes from the network."""

    @abstractmethod
    def _take(self, limit: int) -> bytes:
        """Return the next bytes of the body."""


class ZlibDecompressor(Decompressor):
    """Unpacks gzip with one or more members, and deflate with or without the zlib header."""

    def __init__(self, *, is_gzip: bool) -> None:
        super().__init__()
        self._wbits = zlib.MAX_WBITS + (16 if is_gzip else 0)
        self._is_gzip = is_gzip
        self._object: Any = None
        self._waiting = b""

    def _add(self, data: bytes) -> None:
        self._waiting += data

    def _take(self, limit: int) -> bytes:
        while self._waiting:
            if self._object is None:
                if not self._is_gzip and self._waiting[0] & 0x0F != zlib.DEFLATED:
                    # RFC 9110, section 8.4.1.2, notes that some implementations send raw deflate
                    # data.
                    self._wbits = -zlib.MAX_WBITS  # Some servers omit the zlib header.
                self._object = zlib.decompressobj(self._wbits)
            elif self._object.eof:  # The next gzip member; deflate has only one.
                if not self._is_gzip:
                    self._waiting = b""
                    break
                self._object = zlib.decompressobj(self._wbits)
            data: bytes = self._object.decompress(self._waiting, limit)
            self._waiting = self._object.unused_data or self._object.unconsumed_tail
            if data:
                return data
        # zlib may hold data back when its output is full.
        return b"" if self._object is None else self._object.decompress(b"", limit)


class BrotliDecompressor(Decompressor):
    """Unpacks brotli, which returns at least 32 kB at a time if it has that much."""

    def __init__(self) -> None:
        super().__init__()
        self._object: Any = brotli.Decompressor()
        self._waiting = b""

    def _add(self, data: bytes) -> None:
        self._waiting += data

    def _take(self, limit: int) -> bytes:
        data, self._waiting = self._waiting, b""
        if self._object.is_finished():  # Data after the end is ignored.
            return b""
        return self._object.process(data, output_buffer_limit=limit)  # type: ignore[no-any-return]


def decompressor_for(encoding: str) -> Decompressor | None:
    """Return a decompressor for the content encoding *encoding*, or None without one.

    Raises `UnreadableBodyError` for a known encoding that is not supported. A value that is not an
    encoding (some servers send ``utf-8``) is ignored.
    """
    match encoding.strip().lower():
        case "gzip" | "x-gzip":
            return ZlibDecompressor(is_gzip=True)
        case "deflate":
            return ZlibDecompressor(is_gzip=False)
        case "br" if brotli is not None:
            return BrotliDecompressor()
        # Not announced in `Accept-Encoding`, so a server that sends it ignores the header.
        case "br" | "zstd" | "compress" | "x-compress" as name:
            raise UnreadableBodyError(f"the body is compressed with {name}, which is not supported")
    return None


_ERRORS: Final[tuple[type[Exception], ...]] = (
    (zlib.error,) if brotli is None else (zlib.error, brotli.error)
)

MAX_CONNECTIONS: Final = 1_024
"""The size of a pool; a call that waits for a free connection counts as connecting."""

READ_AHEAD: Final = 16_384
"""How many unread bytes of a body are buffered before the server has to wait.

It is also the size of a read: decoded events are many times as large as their bytes, and aiohttp
would buffer more if asked for more."""

MAX_PIECES: Final = 1_024
"""How many unread pieces of a body are buffered before the server has to wait.

A server may send a chunk for every byte, and each piece is an object of its own."""

MAX_UNREAD: Final = 65_536
"""The receive buffer of a socket, in bytes.

By default Linux buffers megabytes and returns 256 kB at a time, which we would then hold."""

CONNECT_TIMEOUT: Final = 10.0
"""How many seconds connecting may take, including DNS, TLS and the proxy."""


class _Sockets(list[asyncio.BaseTransport]):
    """The sockets of a call; *is_reused* if the last one has served another call before."""

    __slots__ = ("is_reused",)

    def __init__(self) -> None:
        super().__init__()
        self.is_reused = False


_SOCKETS: Final[ContextVar[_Sockets | None]] = ContextVar("sockets", default=None)
"""Collects the sockets of the call that is being sent."""

_LOST: Final = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError)
"""The errors of a connection that the server has closed."""


class AiohttpTransport:
    """Sends calls over aiohttp; models that share a transport share its connections.

    *connect* is the connect timeout in seconds. *proxy* is the URL of a proxy; by default
    `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` of *environ* apply, and an empty string
    means no proxy. *ca* is a CA bundle that replaces the system's, or an `ssl.SSLContext`.
    Certificates are always verified and redirects are never followed.

    Raises `UsageError` for an invalid proxy URL and for a file without certificates.
    """

    def __init__(
        self,
        *,
        connect: float | None = CONNECT_TIMEOUT,
        proxy: str | None = None,
        ca: str | os.PathLike[str] | ssl.SSLContext | None = None,
        connections: int = MAX_CONNECTIONS,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect)
        self._proxy = check_proxy(proxy)
        self._tls = _make_tls(ca)
        self._connections = connections
        self._environ = os.environ if environ is None else environ
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"AiohttpTransport(connections={self._connections})"

    async def send(self, call: HTTPCall) -> AiohttpResponse:
        """Send *call* and return once the response headers have arrived.

        A server may close a connection while it is about to be used again: llama.cpp does so after
        every streamed response and does not announce it. If nothing was received on a connection
        that was used before, the call is sent once more.
        """
        for is_last in (False, True):
            sockets = _Sockets()
            try:
                response = await self._request(call, sockets)
                break
            except (aiohttp.ClientError, OSError) as exc:
                if is_last or not _was_closed_while_idle(exc, sockets):
                    raise _translate(exc) from exc
        result = AiohttpResponse(response, sockets)
        try:
            result.set_decompressor()
        except UnreadableBodyError:
            await result.aclose()
            raise
        return result

    async def _request(self, call: HTTPCall, sockets: _Sockets) -> aiohttp.ClientResponse:
        """Send *call* once; its sockets are added to *sockets*, and aborted if it fails."""
        session = await self._session()
        token = _SOCKETS.set(sockets)
        try:
            return await session.request(
                call.method,
                # As it was built: yarl would normalize it.
                URL(call.url, encoded=True),
                headers=call.headers,
                # Plain bytes would be written in one piece, whatever their size.
                data=BytesIO(call.body),
                proxy=proxy_for(call.url, self._proxy, self._environ),
                allow_redirects=False,
            )
        except BaseException:
            _abort(sockets)
            raise
        finally:
            _SOCKETS.reset(token)

    async def close(self) -> None:
        """Close all connections of this loop and refuse further calls.

        Connections of other loops are closed with their loops.
        """
        self._closed = True
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.keeper.aclose()

    async def _session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise UsageError("the transport is closed")
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            self._pools = {key: kept for key, kept in self._pools.items() if not key.is_closed()}
            pool = self._pools[loop] = _Pool(self._new_session())
            await anext(pool.keeper)
        return pool.session

    def _new_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=_Connector(limit=self._connections, ssl=self._tls),
            read_bufsize=READ_AHEAD,
            # Cloudflare sets cookies in front of several providers.
            cookie_jar=aiohttp.DummyCookieJar(),  # Users of one pool must not share cookies.
            timeout=self._timeout,
            response_class=_Response,
            headers={"accept-encoding": ACCEPT_ENCODING},
            auto_decompress=False,
        )


class AiohttpResponse:
    """A response that aiohttp reads."""

    __slots__ = ("_content", "_decompressor", "_response", "_sockets", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, sockets: _Sockets) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        if isinstance(response, _Response):
            response.drop_headers()
        self._response = response
        self._content = response.content
        _BodyReader.replace(self._content)
        self._decompressor: Decompressor | None = None
        self._sockets = sockets

    def set_decompressor(self) -> None:
        """Set up decompression; raise `UnreadableBodyError` for an unsupported encoding."""
        self._decompressor = decompressor_for(self.headers.get("content-encoding", ""))

    def __aiter__(self) -> AsyncIterator[bytes]:
        self.headers = {}  # The headers are not needed any more.
        # A coroutine around each read of a body that is not compressed would only cost time.
        is_plain = self._decompressor is None and isinstance(self._content, _BodyReader)
        return self._content if is_plain else self  # type: ignore[return-value]

    async def __anext__(self) -> bytes:
        decompressor = self._decompressor
        while decompressor is None or not (data := decompressor.take(READ_AHEAD)):
            try:
                data = await self._content.read(READ_AHEAD)
            except (aiohttp.ClientError, OSError) as exc:
                raise _translate(exc) from exc
            if not data:
                raise StopAsyncIteration
            if decompressor is None:
                break
            decompressor.feed(data)
        return data

    async def aclose(self) -> None:
        """Return the connection to the pool if the body was read to its end, or else abort it."""
        if not self._content.at_eof() or self._content.exception() is not None:
            _abort(self._sockets)
        self._response.close()


class _BodyReader(aiohttp.StreamReader):
    """aiohttp's reader with less work for each chunk.

    In aiohttp 3.14, every read calls the parser again and resumes the socket, whether it was paused
    or not, and every chunk of a chunked body is listed. Two coroutines wait for each read. All that
    takes about 5 µs. aiohttp's parser creates the reader itself, so a response gets this class in
    place of its own.
    """

    __slots__ = ()

    @classmethod
    def replace(cls, content: aiohttp.StreamReader) -> None:
        """Make *content* a reader of this class; a response without a body keeps its own."""
        if type(content) is aiohttp.StreamReader:
            content._http_chunk_splits = None  # noqa: SLF001
            content.__class__ = cls

    def begin_http_chunk_receiving(self) -> None:
        """Ignore the borders of chunks: they mean nothing in a body."""

    def end_http_chunk_receiving(self) -> None:
        """Ignore the borders of chunks."""

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        """Add *data*; pause the server while too much of it is not read."""
        del size
        if data:
            buffer = self._buffer
            buffer.append(data)
            self._size += len(data)
            waiter = self._waiter
            if waiter is not None:
                self._waiter = None
                if not waiter.done():
                    waiter.set_result(None)
            if self._size > self._high_water or len(buffer) > MAX_PIECES:
                self._protocol.pause_reading()
        return False

    def __aiter__(self) -> Self:  # type: ignore[override]
        return self

    async def __anext__(self) -> bytes:
        """Return what has arrived, at most `READ_AHEAD` bytes."""
        buffer = self._buffer
        try:
            while not buffer:
                if self._exception is not None:
                    raise self._exception
                if self._eof:
                    raise StopAsyncIteration
                self._waiter = waiter = self._loop.create_future()
                try:
                    await waiter
                finally:
                    self._waiter = None
        except (aiohttp.ClientError, OSError) as exc:
            raise _translate(exc) from exc
        if self._size > READ_AHEAD:
            data = self._take_pieces(READ_AHEAD)
        else:
            data = buffer.popleft() if len(buffer) == 1 else b"".join(buffer)
            buffer.clear()
        self._size -= len(data)
        is_paused = self._protocol._reading_paused  # noqa: SLF001 - there is no other way to know
        if is_paused and self._size < self._low_water:
            self._protocol.resume_reading()
        return data

    def _take_pieces(self, limit: int) -> bytes:
        """Return as many pieces as *limit* bytes have room for, or a part of a longer one.

        Most servers send each frame as a piece: a read that ends with a frame is decoded faster.
        """
        buffer = self._buffer
        if len(buffer[0]) > limit:
            data = buffer[0]
            buffer[0] = data[limit:]
            return data[:limit]
        taken: list[bytes] = []
        while buffer and len(buffer[0]) <= limit:
            taken.append(buffer.popleft())
            limit -= len(taken[-1])
        return b"".join(taken)


class _Response(aiohttp.ClientResponse):
    """aiohttp's response in less memory: hundreds may be open for minutes.

    Attributes that aiohttp sets later are set in `__init__`, so that all instances share the keys
    of one dict. Otherwise each response that starts before the first one is complete would get a
    large dict of its own.
    """

    _LATE: Final = (
        "_closed", "_connection", "_headers", "_history", "_output_size", "_protocol",
        "_raw_headers", "content", "reason", "status", "version",
    )  # fmt: skip
    _NO_HEADERS: Final = CIMultiDictProxy[str](CIMultiDict())
    _NO_REQUEST: Final = aiohttp.RequestInfo(URL(), "", _NO_HEADERS, URL())

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name in self._LATE:
            setattr(self, name, getattr(self, name, None))

    def drop_headers(self) -> None:
        """Free the headers of the response and of the request once they were read."""
        self._headers = self._NO_HEADERS
        self._raw_headers = ()
        self._request_info = self._NO_REQUEST


class _Pool:
    """The connections of one loop, and the generator that closes them."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.keeper = _keep_open(session)


async def _keep_open(session: aiohttp.ClientSession) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await session.close()


class _Connector(aiohttp.TCPConnector):
    """Records the socket of each call and limits its receive buffer."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._used: WeakSet[asyncio.BaseProtocol] = WeakSet()  # the protocols of used connections

    async def connect(self, *args: Any, **options: Any) -> aiohttp.connector.Connection:
        connection = await super().connect(*args, **options)
        sockets, transport = _SOCKETS.get(), connection.transport
        if sockets is not None and transport is not None:
            sockets.append(transport)
            sockets.is_reused = connection.protocol in self._used
            if sockets.is_reused or connection.protocol is None:
                return connection
            self._used.add(connection.protocol)
            sock = transport.get_extra_info("socket")
            if sock is not None:
                # TCP's flow control is the only way to slow a server down: what is not read stays
                # there.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MAX_UNREAD)
        return connection


def _was_closed_while_idle(exc: BaseException, sockets: _Sockets) -> bool:
    """Return whether a connection was used before and the server sent nothing for this call."""
    if isinstance(exc, aiohttp.ServerDisconnectedError) and not isinstance(exc.message, str):
        return False  # The message is the part of a head that was received.
    return sockets.is_reused and isinstance(exc, _LOST)


def _abort(sockets: _Sockets) -> None:
    for each in sockets:
        abort = getattr(each, "abort", None)  # uvloop's transports are not `asyncio.WriteTransport`
        if callable(abort):
            abort()


def _make_tls(ca: str | os.PathLike[str] | ssl.SSLContext | None) -> ssl.SSLContext | bool:
    if ca is None or isinstance(ca, ssl.SSLContext):
        return True if ca is None else ca
    try:
        return ssl.create_default_context(cafile=os.fspath(ca))
    except (OSError, ssl.SSLError) as exc:
        raise UsageError(f"cannot read certificates from {os.fspath(ca)!r}") from exc


def _translate(exc: aiohttp.ClientError | OSError) -> TransportError:
    """Return *exc* as one of our errors; aiohttp's messages contain URLs and headers."""
    match exc:
        case aiohttp.ConnectionTimeoutError():
            return ConnectTimeoutError("could not connect in time")
        case aiohttp.ClientProxyConnectionError():
            return ProxyError(f"cannot connect to the proxy: {_describe(exc)}")
        case aiohttp.ClientHttpProxyError():
            return ProxyError(f"the proxy refused the request: {exc.status} {exc.message}")
        case aiohttp.ClientConnectorCertificateError():
            return TLSError(f"cannot verify the certificate of {exc.host}: {_reason(exc)}")
        case aiohttp.ClientSSLError():
            return TLSError(f"TLS with {exc.host}:{exc.port} failed: {_reason(exc)}")
        case aiohttp.ClientConnectorError():
            return ConnectError(f"cannot connect to {exc.host}:{exc.port}: {_describe(exc)}")
        # A chunked body without its last chunk, or one shorter than its Content-Length.
        case aiohttp.ClientPayloadError():
            return TruncatedError("the response body ended early")
        case aiohttp.ClientResponseError():
            return UnreadableBodyError("the response is not valid HTTP")
        case aiohttp.InvalidURL():
            return UnreadableBodyError("the URL is invalid")
        case _:
            return ConnectionLostError(f"the connection was lost: {_reason(exc)}")


def _describe(exc: aiohttp.ClientConnectorError) -> str:
    """Return why a connection failed; asyncio's own text is "Connect call failed (address)"."""
    code = exc.os_error.errno
    # Failures of name resolution are negative numbers, which `strerror` does not know.
    return os.strerror(code).lower() if code is not None and code > 0 else str(exc.strerror)


def _reason(exc: BaseException) -> str:
    inner = getattr(exc, "certificate_error", None) or getattr(exc, "os_error", None) or exc
    return str(inner) or type(inner).__name__
