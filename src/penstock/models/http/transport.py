"""The seam between a model and the network: one call goes out, an answer of bytes comes back.

`HTTPModel` knows paths, headers and events; a `Transport` knows sockets. Whoever has an HTTP client
of their own, or none at all, writes the two small classes here and passes `transport=`. Timeouts
but the one for connecting, retries and limits are the model's, so they hold for any transport.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import ClassVar, Protocol

from msgspec import Struct, field

from penstock.errors import PenstockError
from penstock.messages import ErrorInfo, ErrorKind


class HTTPCall(Struct, frozen=True):
    """One request over HTTP; the names of its headers are in lower case."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    method: str = "POST"

    def __repr__(self) -> str:
        """Show where it goes, and no header: the key is among them."""
        return f"HTTPCall({self.method} {self.url.partition('?')[0]}, {len(self.body)} bytes)"


class Answer(Protocol):
    """An answer that has begun: its status and headers are there, its bytes are on their way."""

    @property
    def status(self) -> int:
        """The status, such as 200."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by their names in lower case; only until the body is read."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Give the body as it comes, with compression undone."""

    async def aclose(self) -> None:
        """Let the connection go: at once, unless the body was read to its end."""


class Transport(Protocol):
    """Sends calls; many at the same time."""

    async def send(self, call: HTTPCall) -> Answer:
        """Send *call* and wait for the headers of its answer, whatever its status.

        Follows no redirect. A failure is a `TransportError`, or an `OSError` of any kind. When it
        is cancelled, the connection is closed at once.
        """

    async def close(self) -> None:
        """Close all connections."""


class TransportError(PenstockError):
    """The way to the server failed; each way to fail has a class and a word of its own."""

    kind: ClassVar[ErrorKind] = "transport"
    type: ClassVar[str] = "transport_error"
    retryable: ClassVar[bool] = True

    @property
    def info(self) -> ErrorInfo:
        """What consumers of a stream are told."""
        return ErrorInfo(str(self), self.kind, self.type, retryable=self.retryable)


class ConnectError(TransportError):
    """No connection: nobody listens, or the name is unknown."""

    type = "connect_error"


class TLSError(TransportError):
    """The server did not prove who it is."""

    type = "tls_error"
    retryable = False


class ProxyError(TransportError):
    """The proxy refused, or is not there."""

    type = "proxy_error"


class ConnectionLostError(TransportError):
    """The connection broke before the headers of the answer."""

    type = "connection_lost"


class TruncatedError(TransportError):
    """The body was cut: its announced end did not come."""

    kind = "truncated"
    type = "truncated_body"


class UnreadableError(TransportError):
    """What came back is no HTTP, or its compression cannot be undone."""

    kind = "malformed"
    type = "unreadable_body"
    retryable = False


class ConnectTimeoutError(TransportError):
    """No connection in time."""

    type = "connect_timeout"


class FirstByteTimeoutError(TransportError):
    """The first byte of the answer did not come in time."""

    type = "first_byte_timeout"


class IdleTimeoutError(TransportError):
    """Nothing came for too long in the middle of the answer."""

    type = "idle_timeout"


class TotalTimeoutError(TransportError):
    """The whole answer, with all tries, took too long."""

    type = "total_timeout"
    retryable = False
