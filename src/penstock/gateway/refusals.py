"""What the gateway itself refuses: a status, a reason in words, and how each API says it."""

from __future__ import annotations

import math
from typing import Any, Final

from penstock import apis
from penstock.messages import ErrorInfo, ErrorKind

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
"""The word for each status; all APIs have words like these."""

PLAIN: Final = "openai-chat"
"""Whose words are used where a path belongs to no API."""


class Refusal(Exception):  # noqa: N818 - it is the answer, not a mistake
    """A request that is refused with *status*, for the reason *message*.

    *retry_after* is how many seconds the client should wait. *close* ends the connection, for a
    client whose body was not read.
    """

    def __init__(
        self, status: int, message: str, *, retry_after: float | None = None, close: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.close = close

    @property
    def info(self) -> ErrorInfo:
        """The same in the vocabulary of all errors."""
        kind: ErrorKind = "provider"
        type_ = _TYPES.get(self.status, "api_error")
        return ErrorInfo(str(self), kind, type_, self.status, self.retry_after)


def write(error: ErrorInfo, api: str = "", error_id: str = "") -> tuple[int, dict[str, Any]]:
    """Give the status and the body that tell a client of *api*.

    *error_id* is what the log knows it by, where the API has a place for it.
    """
    status, body = apis.get(api or PLAIN).write_error(error)
    inner = body.get("error")
    if error_id and isinstance(inner, dict) and api != "anthropic":
        inner["error_id"] = error_id
    elif error_id and api == "anthropic":
        body["request_id"] = error_id
    return status, body


def headers_of(error: ErrorInfo, *, close: bool = False) -> list[tuple[bytes, bytes]]:
    """Give the headers that belong to an answer with *error*."""
    headers = [(b"connection", b"close")] if close else []
    if error.retry_after is not None and math.isfinite(error.retry_after):
        headers.append((b"retry-after", b"%d" % math.ceil(error.retry_after)))
    if error.status == 401:  # noqa: PLR2004 - the one that asks for a key
        headers.append((b"www-authenticate", b"Bearer"))
    return headers
