"""What an exception out of a source means: the error that consumers are told of.

Nothing is raised out of a stream: whoever reads it sees `Failed`. The kind is told by the type of
the exception, never by its words. `type` is the provider's own word where there is one, otherwise
the name of the exception.
"""

from __future__ import annotations

from typing import Final

from penstock.apis.errors import error_info
from penstock.errors import LimitError, ParseError, ProviderError, UsageError
from penstock.messages import ErrorInfo, ErrorKind

TRUNCATED: Final = "the stream ended before the answer did"
ABORTED: Final = "the answer was aborted"
CANCELLED: Final = "the source was cancelled"
LOOP_ENDED: Final = "the event loop ended before the answer did"

_TRANSIENT: Final = {408, 409, 425, 429, *range(500, 600)}
"""The statuses after which the same request may succeed."""

_KINDS: Final[tuple[tuple[tuple[type[Exception], ...], ErrorKind], ...]] = (
    ((TimeoutError, OSError, EOFError), "transport"),
    ((LimitError, ParseError, UsageError, ValueError), "malformed"),
)


def truncated() -> ErrorInfo:
    """Return the error of a source that ended without a terminal event."""
    return ErrorInfo(TRUNCATED, "truncated", retryable=True)


def aborted(why: str = ABORTED) -> ErrorInfo:
    """Return the error of an answer that nobody waits for any more."""
    return ErrorInfo(why, "aborted")


def error_of(exc: Exception) -> ErrorInfo:
    """Return what consumers are told when a source raises *exc*."""
    if isinstance(exc, ProviderError):
        return _refused(exc)
    name = type(exc).__name__
    for types, kind in _KINDS:
        if isinstance(exc, types):
            return ErrorInfo(str(exc) or name, kind, name, retryable=kind == "transport")
    # Most likely a mistake in the source's own code: a bare "'id'" would help nobody.
    return ErrorInfo(f"{name}: {exc}" if str(exc) else name, "provider", name)


def _refused(exc: ProviderError) -> ErrorInfo:
    return error_info(
        str(exc) or "the provider failed",
        type=exc.type or "",
        status=exc.status,
        retry_after=exc.retry_after,
        retryable=exc.status in _TRANSIENT,
    )
