"""The aiohttp transport: one connection pool per event loop, and sockets that close immediately.

A pool lives as long as its loop. The async generator `_keep_open` is suspended in the loop, and the
loop closes its generators at shutdown, which closes the pool. So nothing stays open after a script
that never calls `close`, nor after `sync()`, which uses one loop per stream.

An orderly close sends unsent data or waits for the peer's TLS shutdown. An abort cannot wait for a
peer that may have stopped reading, so the socket of a call is recorded as soon as it exists and is
aborted.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextvars import ContextVar
from io import BytesIO
from typing import Any, Final, Self

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from penstock.errors import UsageError
from penstock.models.http.decompression import ACCEPT_ENCODING, Decompressor, decompressor_for
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

MAX_CONNECTIONS: Final = 1_024
"""The size of a pool; a call that waits for a free connection counts as connecting."""

READ_AHEAD: Final = 16_384
"""How many unread bytes of a body are buffered before the server has to wait.

It is also the size of a read: decoded events are many times as large as their bytes, and aiohttp
would wait for more data if asked for more."""

MAX_UNREAD: Final = 65_536
"""The receive buffer of a socket, in bytes.

By default Linux buffers megabytes and returns 256 kB at a time, which we would then hold."""

CONNECT_TIMEOUT: Final = 10.0
"""How many seconds connecting may take, including DNS, TLS and the proxy."""

_Sockets = list[asyncio.BaseTransport]
_SOCKETS: Final[ContextVar[_Sockets | None]] = ContextVar("sockets", default=None)
"""Collects the sockets of the call that is being sent."""


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
        """Send *call* and return once the response headers have arrived."""
        session = await self._session()
        sockets: _Sockets = []
        token = _SOCKETS.set(sockets)
        try:
            response = await session.request(
                call.method,
                URL(call.url, encoded=True),
                headers=call.headers,
                data=BytesIO(
                    call.body
                ),  # Plain bytes would be written in one piece, whatever their size.
                proxy=proxy_for(call.url, self._proxy, self._environ),
                allow_redirects=False,
            )
        except BaseException as exc:
            _abort(sockets)
            if isinstance(exc, aiohttp.ClientError | OSError):
                raise _translate(exc) from exc
            raise
        finally:
            _SOCKETS.reset(token)
        result = AiohttpResponse(response, sockets)
        try:
            result.set_decompressor()
        except UnreadableBodyError:
            await result.aclose()
            raise
        return result

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
        self._decompressor: Decompressor | None = None
        self._sockets = sockets

    def set_decompressor(self) -> None:
        """Set up decompression; raises `UnreadableBodyError` for an unsupported encoding."""
        self._decompressor = decompressor_for(self.headers.get("content-encoding", ""))

    def __aiter__(self) -> Self:
        self.headers = {}  # The headers are not needed any more.
        return self

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
    _NO_REQUEST: Final = aiohttp.RequestInfo(URL(), "", _NO_HEADERS)

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

    async def connect(self, *args: Any, **options: Any) -> aiohttp.connector.Connection:
        connection = await super().connect(*args, **options)
        sockets, transport = _SOCKETS.get(), connection.transport
        if sockets is not None and transport is not None:
            sockets.append(transport)
            link = transport.get_extra_info("socket")
            if link is not None:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MAX_UNREAD)
        return connection


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
            return ProxyError(f"cannot connect to the proxy: {exc.strerror}")
        case aiohttp.ClientHttpProxyError():
            return ProxyError(f"the proxy refused the request: {exc.status} {exc.message}")
        case aiohttp.ClientSSLError():
            return TLSError(f"cannot verify the certificate of {exc.host}: {_reason(exc)}")
        case aiohttp.ClientConnectorError():
            return ConnectError(f"cannot connect to {exc.host}:{exc.port}: {exc.strerror}")
        case aiohttp.ClientPayloadError():
            return TruncatedError("the response body ended early")
        case aiohttp.ClientResponseError():
            return UnreadableBodyError("the response is not valid HTTP")
        case aiohttp.InvalidURL():
            return UnreadableBodyError("the URL is invalid")
        case _:
            return ConnectionLostError(f"the connection was lost: {_reason(exc)}")


def _reason(exc: BaseException) -> str:
    inner = getattr(exc, "certificate_error", None) or getattr(exc, "os_error", None) or exc
    return str(inner) or type(inner).__name__
