"""Calls over aiohttp: a pool of connections for each event loop, and sockets that close at once.

A pool lives as long as its loop. The generator `_kept` waits in the loop and is closed with it, as
every generator is; it closes the pool then. So a script that never calls `close`, and `sync()`,
which has a loop for each stream, leave nothing open.

Closing a connection politely means to send what is still unsent, or to wait for the other side's
part of TLS. An abort cannot wait for a peer that may have stopped listening, so the socket under a
call is known from the moment it is there, and is torn down.
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
from penstock.models.http import proxies
from penstock.models.http.decompression import ACCEPT_ENCODING, Decompressor, decompressor_for
from penstock.models.http.transport import (
    ConnectError,
    ConnectionLostError,
    ConnectTimeoutError,
    HTTPCall,
    ProxyError,
    TLSError,
    TransportError,
    TruncatedError,
    UnreadableError,
)

MAX_CONNECTIONS: Final = 1_024
"""How many connections a pool has at most; who waits for one is still connecting."""

READ_AHEAD: Final = 16_384
"""How many bytes of an answer wait for whoever reads it, before its server has to wait.

No more are read at a time either, for what they say is many times as large for a moment; and asked
for more, aiohttp would wait for more."""

MAX_UNREAD: Final = 65_536
"""How many bytes of an answer the system takes from its server for nobody to read yet.

Left alone it takes megabytes, and hands over a quarter of one at a time, which we hold then."""

CONNECT_TIMEOUT: Final = 10.0
"""How many seconds it may take to be connected, names, TLS and proxy included."""

_Sockets = list[asyncio.BaseTransport]
_SOCKETS: Final[ContextVar[_Sockets | None]] = ContextVar("sockets", default=None)
"""Where the sockets of the call that is being sent are noted."""


class AiohttpTransport:
    """Sends calls over aiohttp; models that share one share its connections.

    *connect* is how many seconds it may take to be connected. *proxy* is the URL of a proxy: left
    out, `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` in *environ* say it; empty, there
    is none. *ca* is a file of certificates that are trusted in place of the system's, or an
    `ssl.SSLContext` of your own. Certificates are always verified, redirects are never followed.

    Raises `UsageError` for a proxy that cannot be one and for a file without certificates.
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
        self._proxy = proxies.checked(proxy)
        self._tls = _tls(ca)
        self._connections = connections
        self._environ = os.environ if environ is None else environ
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"AiohttpTransport(connections={self._connections})"

    async def send(self, call: HTTPCall) -> AiohttpAnswer:
        """Send *call* and wait for the headers of its answer."""
        session = await self._session()
        sockets: _Sockets = []
        token = _SOCKETS.set(sockets)
        try:
            response = await session.request(
                call.method,
                URL(call.url, encoded=True),
                headers=call.headers,
                data=BytesIO(call.body),  # Bytes would be sent in one go, however many they are.
                proxy=proxies.proxy_for(call.url, self._proxy, self._environ),
                allow_redirects=False,
            )
        except BaseException as exc:
            _tear_down(sockets)
            if isinstance(exc, aiohttp.ClientError | OSError):
                raise _translated(exc) from exc
            raise
        finally:
            _SOCKETS.reset(token)
        answer = AiohttpAnswer(response, sockets)
        try:
            answer.unpack()
        except UnreadableError:
            await answer.aclose()
            raise
        return answer

    async def close(self) -> None:
        """Close all connections of this loop, and send nothing any more.

        Those of other loops are closed with their loops.
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
            self._pools = {one: kept for one, kept in self._pools.items() if not one.is_closed()}
            pool = self._pools[loop] = _Pool(self._new_session())
            await anext(pool.keeper)
        return pool.session

    def _new_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=_Connector(limit=self._connections, ssl=self._tls),
            read_bufsize=READ_AHEAD,
            cookie_jar=aiohttp.DummyCookieJar(),  # Callers of one pool are no acquaintances.
            timeout=self._timeout,
            response_class=_Response,
            headers={"accept-encoding": ACCEPT_ENCODING},
            auto_decompress=False,
        )


class AiohttpAnswer:
    """An answer that aiohttp reads."""

    __slots__ = ("_content", "_packed", "_response", "_sockets", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, sockets: _Sockets) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        if isinstance(response, _Response):
            response.forget_heads()
        self._response = response
        self._content = response.content
        self._packed: Decompressor | None = None
        self._sockets = sockets

    def unpack(self) -> None:
        """Undo the compression that the headers tell; raises `UnreadableError` if it is unknown."""
        self._packed = decompressor_for(self.headers.get("content-encoding", ""))

    def __aiter__(self) -> Self:
        self.headers = {}  # Whoever reads the body has read the head.
        return self

    async def __anext__(self) -> bytes:
        packed = self._packed
        while packed is None or not (data := packed.take(READ_AHEAD)):
            try:
                data = await self._content.read(READ_AHEAD)
            except (aiohttp.ClientError, OSError) as exc:
                raise _translated(exc) from exc
            if not data:
                raise StopAsyncIteration
            if packed is None:
                break
            packed.feed(data)
        return data

    async def aclose(self) -> None:
        """Give the connection back to the pool if the body was read to its end, else cut it."""
        if not self._content.at_eof() or self._content.exception() is not None:
            _tear_down(self._sockets)
        self._response.close()


class _Response(aiohttp.ClientResponse):
    """aiohttp's answer in little room: hundreds may be open at once, for minutes.

    What it learns later has a place from the start. Else each answer would get a large dict of its
    own, if a few had begun before the first of them learnt anything.
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

    def forget_heads(self) -> None:
        """Let the headers go, the request's too, once they were read."""
        self._headers = self._NO_HEADERS
        self._raw_headers = ()
        self._request_info = self._NO_REQUEST


class _Pool:
    """The connections of one loop, and what closes them."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.keeper = _kept(session)


async def _kept(session: aiohttp.ClientSession) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await session.close()


class _Connector(aiohttp.TCPConnector):
    """Notes which socket a call was given, and lets the system take little of its answer ahead."""

    async def connect(self, *args: Any, **options: Any) -> aiohttp.connector.Connection:
        connection = await super().connect(*args, **options)
        sockets, transport = _SOCKETS.get(), connection.transport
        if sockets is not None and transport is not None:
            sockets.append(transport)
            link = transport.get_extra_info("socket")
            if link is not None:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MAX_UNREAD)
        return connection


def _tear_down(sockets: _Sockets) -> None:
    for each in sockets:
        abort = getattr(each, "abort", None)  # uvloop's own are no `asyncio.WriteTransport`
        if callable(abort):
            abort()


def _tls(ca: str | os.PathLike[str] | ssl.SSLContext | None) -> ssl.SSLContext | bool:
    if ca is None or isinstance(ca, ssl.SSLContext):
        return True if ca is None else ca
    try:
        return ssl.create_default_context(cafile=os.fspath(ca))
    except (OSError, ssl.SSLError) as exc:
        raise UsageError(f"no certificates could be read from {os.fspath(ca)!r}") from exc


def _translated(exc: aiohttp.ClientError | OSError) -> TransportError:
    """Give our word for what aiohttp says; its own messages tell URLs and headers."""
    match exc:
        case aiohttp.ConnectionTimeoutError():
            return ConnectTimeoutError("no connection in time")
        case aiohttp.ClientProxyConnectionError():
            return ProxyError(f"no connection to the proxy: {exc.strerror}")
        case aiohttp.ClientHttpProxyError():
            return ProxyError(f"the proxy refused: {exc.status} {exc.message}")
        case aiohttp.ClientSSLError():
            return TLSError(f"no trust in {exc.host}: {_reason(exc)}")
        case aiohttp.ClientConnectorError():
            return ConnectError(f"no connection to {exc.host}:{exc.port}: {exc.strerror}")
        case aiohttp.ClientPayloadError():
            return TruncatedError("the body ended before its announced end")
        case aiohttp.ClientResponseError():
            return UnreadableError("the body is no HTTP that can be read")
        case aiohttp.InvalidURL():
            return UnreadableError("the URL is none that can be asked")
        case _:
            return ConnectionLostError(f"the connection was lost: {_reason(exc)}")


def _reason(exc: BaseException) -> str:
    inner = getattr(exc, "certificate_error", None) or getattr(exc, "os_error", None) or exc
    return str(inner) or type(inner).__name__
