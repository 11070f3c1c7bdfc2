"""What an API is: its stream, its requests and its answers, each both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from penstock.apis.decoder import StreamDecoder
from penstock.apis.encoder import StreamEncoder
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.request import Request


class Api(Protocol):
    """One provider's API.

    Readers take what servers and clients really send: what is unknown is kept aside or omitted,
    and only a request that makes no sense raises `UsageError`.
    """

    @property
    def name(self) -> str:
        """The name that `apis.get` finds it by."""

    def decoder(self, *, ids: Callable[[], str] | None = None) -> StreamDecoder:
        """Make a decoder of one answer's stream; *ids* names calls that bring no id."""

    def encoder(
        self,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
    ) -> StreamEncoder:
        """Make an encoder of one answer's stream.

        *model* and *id* are what the client is told, if not what the answer itself says; *created*
        is the time in seconds since 1970; *usage* says whether the client asked for the tokens,
        where an API leaves that to the client.
        """

    def read_request(self, data: Mapping[str, Any]) -> Request:
        """Read what a client sent; raise `UsageError` for what is not a request."""

    def write_request(self, request: Request) -> dict[str, Any]:
        """Write *request* for this API; what the API has no word for is omitted."""

    def left_out(self, request: Request) -> list[str]:
        """Name the fields of *request* that `write_request` leaves out."""

    def read_response(self, data: Mapping[str, Any]) -> AssistantMessage:
        """Read a whole answer; one that is an error has `error` set."""

    def write_response(self, message: AssistantMessage, *, created: int = 0) -> dict[str, Any]:
        """Write a whole answer; one that failed raises `UsageError`: see `write_error`."""

    def read_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, now: float = 0.0
    ) -> ErrorInfo:
        """Read the answer of a server that refused.

        *now* is the time in seconds since 1970; without it, headers that name a moment to wait for
        say nothing.
        """

    def write_error(self, error: ErrorInfo) -> tuple[int, dict[str, Any]]:
        """Return the status and the body that tell a client of *error*."""

    def check(self, data: bytes) -> list[str]:
        """List every way in which the stream *data* breaks the grammar of the API."""
