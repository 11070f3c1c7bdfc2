"""The interface between a model and the network: send one call, read the bytes of its response.

`HTTPModel` handles paths, headers and events; a `Transport` handles sockets. To use another HTTP
client, or none, implement `Transport` and `HTTPResponse` and pass `transport=`. Retries, limits and
all timeouts except the one for connecting belong to the model, so they apply to every transport.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import ClassVar, Final, Protocol

from msgspec import Struct, field

from penstock.errors import PenstockError
from penstock.messages import ErrorInfo, ErrorKind
from penstock.redaction import mask_url

# RFC 9110, section 7.6.1: these belong to one connection, so a sender must not copy them.
# aiohttp adds `host`, `accept-encoding` and the framing of the body.
TRANSPORT_HEADERS: Final = frozenset(
    {"host", "connection", "keep-alive", "content-length", "transfer-encoding"}
    | {"accept-encoding", "upgrade", "te", "trailer"}
)
"""Headers that the transport sets; those of a caller are dropped."""


class HTTPCall(Struct, frozen=True):
    """One HTTP request; header names are in lower case."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    method: str = "POST"

    def __repr__(self) -> str:
        """Return the target without headers and query, which may contain keys."""
        return f"HTTPCall({describe_target(self.method, self.url)}, {len(self.body)} bytes)"


def describe_target(method: str, url: str) -> str:
    """Return *method* and *url*, without its query and credentials."""
    return f"{method} {mask_url(url.partition('?')[0])}"


class HTTPResponse(Protocol):
    """A response whose status and headers have arrived and whose body is still to be read."""

    @property
    def status(self) -> int:
        """The status, such as 200."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, with names in lower case; available until the body is read."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the body in chunks as it arrives, decompressed."""

    async def aclose(self) -> None:
        """Release the connection; close it immediately unless the body was read to its end."""


class Transport(Protocol):
    """Sends HTTP calls, many at the same time."""

    async def send(self, call: HTTPCall) -> HTTPResponse:
        """Send *call* and return once the response headers have arrived, whatever the status.

        Redirects are not followed. Raises a `TransportError` or an `OSError`. On cancellation the
        connection is closed immediately.
        """

    async def close(self) -> None:
        """Close all connections."""


# --- errors: one class and one `type` for each way to fail ---


class TransportError(PenstockError):
    """The connection to the server failed."""

    kind: ClassVar[ErrorKind] = "transport"
    type: ClassVar[str] = "transport_error"
    retryable: ClassVar[bool] = True

    @property
    def info(self) -> ErrorInfo:
        """The error as stream consumers receive it."""
        return ErrorInfo(str(self), self.kind, self.type, retryable=self.retryable)


class ConnectError(TransportError):
    """The connection could not be made: refused, unreachable, or an unknown host name."""

    type = "connect_error"


class TLSError(TransportError):
    """The server's certificate could not be verified."""

    type = "tls_error"
    retryable = False


class ProxyError(TransportError):
    """The proxy is unreachable or refused the request."""

    type = "proxy_error"


class ConnectionLostError(TransportError):
    """The connection was lost before the response was complete."""

    type = "connection_lost"


class TruncatedError(TransportError):
    """The body ended before its announced length or final chunk."""

    kind = "truncated"
    type = "truncated_body"


class UnreadableBodyError(TransportError):
    """The response is not valid HTTP, or its body cannot be decompressed."""

    kind = "malformed"
    type = "unreadable_body"
    retryable = False


class ConnectTimeoutError(TransportError):
    """The connection was not made in time."""

    type = "connect_timeout"


class FirstByteTimeoutError(TransportError):
    """The first byte of the body did not arrive in time."""

    type = "first_byte_timeout"


class IdleTimeoutError(TransportError):
    """No data arrived for too long in the middle of the body."""

    type = "idle_timeout"


class TotalTimeoutError(TransportError):
    """The whole response, including retries, took too long."""

    type = "total_timeout"
    retryable = False
