"""What the gateway itself refuses: a status, a reason in words, and how each API says it."""

from __future__ import annotations

import math
from typing import Any, Final

from msgspec import structs

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

BAD_GATEWAY: Final = 502
"""What a client is told where the upstream's own status says nothing to it."""

PLAIN: Final = "openai-chat"
"""Whose words are used where a path belongs to no API."""

MAX_MESSAGE: Final = 1_500
"""How many characters a reason has at most: clients choose some of the words in it."""


class HTTPError(Exception):
    """A request that is refused with *status*, for the reason *message*.

    *retry_after* is how many seconds the client should wait. *close* ends the connection, for a
    client whose body was not read.
    """

    def __init__(
        self, status: int, message: str, *, retry_after: float | None = None, close: bool = False
    ) -> None:
        cut = len(message) > MAX_MESSAGE
        super().__init__(f"{message[:MAX_MESSAGE]}…" if cut else message)
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
    """Return the status and the body that tell a client of *api*.

    *error_id* is what the log knows it by, where the API has a place for it.
    """
    status, body = apis.get(api or PLAIN).write_error(presentable(error))
    inner = body.get("error")
    if error_id and isinstance(inner, dict) and api != "anthropic":
        inner["error_id"] = error_id
    elif error_id and api == "anthropic":
        body["request_id"] = error_id
    return status, body


def presentable(error: ErrorInfo) -> ErrorInfo:
    """Return *error* with a status that refuses, whatever the upstream's was.

    No other may go to a client: some make an answer without a body, some are not at all. Where a
    redirect led is nobody's business outside.
    """
    status = error.status
    if status is None or 400 <= status < 600:  # noqa: PLR2004 - those of refusals
        return error
    message = error.message
    if status // 100 == 3:  # noqa: PLR2004 - those of redirects
        message = "the upstream redirects, and redirects are not followed"
    return structs.replace(error, status=BAD_GATEWAY, message=message)


def headers_of(error: ErrorInfo, *, close: bool = False) -> list[tuple[bytes, bytes]]:
    """Return the headers that belong to an answer with *error*."""
    headers = [(b"connection", b"close")] if close else []
    if error.retry_after is not None and math.isfinite(error.retry_after):
        headers.append((b"retry-after", b"%d" % math.ceil(error.retry_after)))
    if error.status == 401:  # noqa: PLR2004 - the one that asks for a key
        headers.append((b"www-authenticate", b"Bearer"))
    return headers
