"""`HTTPError`: a request that the gateway rejects, and how each API expresses an error."""

from __future__ import annotations

import math
from typing import Any, Final

from msgspec import structs

from penstock import apis
from penstock.errors import shorten
from penstock.messages import ErrorInfo

_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    431: "invalid_request_error",
    503: "overloaded_error",
}
"""The error type of each status: Anthropic's names, which OpenAI's clients accept too."""

BAD_GATEWAY: Final = 502
"""Replaces an upstream status that is meaningless to the client."""

DEFAULT_API: Final = "openai-chat"
"""The API whose errors are sent for paths that belong to no API."""

_CREDENTIAL_STATUSES: Final = (401, 407)
"""Statuses about the gateway's own key and proxy, not the client's."""

RETRY_SOON: Final = 1.0
"""How many seconds a client is asked to wait for something that lasts a moment."""

RETRY_LATER: Final = 5.0
"""How many seconds a client is asked to wait if the gateway is full or shutting down."""

MAX_MESSAGE: Final = 1_500
"""The longest error message, in characters: some of its words come from the client."""


class HTTPError(Exception):
    """Rejects a request with *status* and *message*.

    *retry_after* is the time in seconds that the client should wait. *close* closes the connection,
    for a request whose body was not read.
    """

    def __init__(
        self, status: int, message: str, *, retry_after: float | None = None, close: bool = False
    ) -> None:
        super().__init__(shorten(message, MAX_MESSAGE))
        self.status = status
        self.retry_after = retry_after
        self.close = close

    @property
    def info(self) -> ErrorInfo:
        """The error as an `ErrorInfo`."""
        type_ = _TYPES.get(self.status, "api_error")
        return ErrorInfo(str(self), "provider", type_, self.status, self.retry_after)


def write_error(error: ErrorInfo, api: str = "", error_id: str = "") -> tuple[int, dict[str, Any]]:
    """Return the status and the body that report *error* to a client of *api*.

    *error_id* is the id of the request in the log; it is added where the API has a field for it.
    """
    status, body = apis.get(api or DEFAULT_API).write_error(with_error_status(error))
    inner = body.get("error")
    # Anthropic has `request_id` beside `error`; OpenAI's clients ignore unknown fields of `error`.
    if error_id and api == "anthropic":
        body["request_id"] = error_id
    elif error_id and isinstance(inner, dict):
        inner["error_id"] = error_id
    return status, body


def with_error_status(error: ErrorInfo) -> ErrorInfo:
    """Return *error* with a status of 4xx or 5xx, whatever the upstream sent.

    Other statuses would produce a response without a body, or one that is not valid HTTP. The
    target of a redirect is not disclosed.
    """
    status = error.status
    if status is None or 400 <= status < 600:  # noqa: PLR2004 - the statuses of errors
        return error
    message = error.message
    if status // 100 == 3:  # noqa: PLR2004 - the statuses of redirects
        message = "the upstream redirects, and redirects are not followed"
    return structs.replace(error, status=BAD_GATEWAY, message=message)


def adapt_upstream_error(error: ErrorInfo) -> None:
    """Change an upstream's *error* into one for the client, in place.

    An upstream that rejects the gateway's own key or proxy is not a fault of the client.
    """
    if error.kind == "provider" and error.status in _CREDENTIAL_STATUSES:
        error.message = f"the upstream rejected the gateway's credentials: {error.message}"
        error.type, error.status = "api_error", BAD_GATEWAY
    adapted = with_error_status(error)
    error.message, error.status = adapted.message, adapted.status


def error_headers(error: ErrorInfo, *, close: bool = False) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response that reports *error*."""
    headers = [(b"connection", b"close")] if close else []
    if error.retry_after is not None and math.isfinite(error.retry_after):
        headers.append((b"retry-after", b"%d" % math.ceil(error.retry_after)))
    if error.status == 401:  # noqa: PLR2004 - RFC 9110 requires the header for this status
        headers.append((b"www-authenticate", b"Bearer"))
    return headers
