"""Classify failed responses: transient, caused by an overflow of the context, or neither.

Structured fields are trusted before text: the kind, the status, the provider's error type, and
whether the provider says that a retry helps. The message is searched last, and only if nothing else
decides: a "500" in it may be a line of the user's file.

An overflow is never transient: the same conversation is too long every time.
"""

from __future__ import annotations

from typing import Final, Literal

from penstock.agent.error_patterns import (
    CAPACITY,
    MAX_READ,
    NO_REASON,
    OVERFLOW_TYPES,
    PASSING,
    PERMANENT_TYPES,
    RATE,
    SERVER,
    THROTTLED,
    TOO_LONG,
    TRANSIENT_TYPES,
    USAGE_LIMIT_TYPES,
    USED_UP,
)
from penstock.apis.errors import RETRYABLE_STATUS
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, ToolCall, Usage

LimitReason = Literal["quota", "rate", "capacity", "server"]
"""Why an account is limited: its quota, its rate, the load of the model, a fault of the server."""

QUOTA_SECONDS: Final = 30 * 60.0
"""How long to wait for a quota: its windows are hours long."""

RATE_SECONDS: Final = 30.0
"""How long to wait for a rate limit: rates are counted by the minute, so half of one on average."""

CAPACITY_SECONDS: Final = (45.0, 75.0)
"""How long to wait for an overloaded model, at random: all other clients wait for it too."""

SERVER_SECONDS: Final = 20.0
"""How long to wait for a server that failed: about as long as one takes to start."""

EMPTY: Final = "empty_answer"
"""The error type of an empty response."""

_BAD_REQUEST: Final = 400
# 402 is what DeepSeek and OpenRouter return when an account has no credit left, 413 what Anthropic
# returns as `request_too_large`.
_PAYMENT_REQUIRED: Final = 402
_TOO_LARGE: Final = 413
_SERVER_ERROR: Final = 500
_EXHAUSTED: Final = "resource_exhausted"  # Gemini's type for every limit

_FINAL_KINDS: Final = frozenset({"aborted", "refusal", "filter"})
"""Kinds of errors that were chosen, and would be again."""

_PERMANENT_TRANSPORT: Final = frozenset({"tls_error"})
_PERMANENT_STATUS: Final = frozenset({501, 505, 511})
"""Server errors that do not pass: the server cannot do it."""

_CLIENT_STATUS: Final = frozenset({401, 402, 403, 404, 405, 407})
"""Refusals that have nothing to do with the length of the request."""


# --- limits of the account ---


def is_usage_limit(error: ErrorInfo) -> bool:
    """Return whether the account has reached a limit; another account would get a response."""
    return limit_reason(error) is not None


def limit_reason(error: ErrorInfo) -> LimitReason | None:
    """Return why the account is limited; None if *error* is something else."""
    if error.kind != "provider":
        return None
    type_, message = error.type.lower(), error.message[:MAX_READ]
    is_used_up = USED_UP.search(message)
    if not (error.status == _PAYMENT_REQUIRED or type_ in USAGE_LIMIT_TYPES or is_used_up):
        return None
    # The order matters: messages about capacity and rates often contain the word "quota" too.
    if "capacity" in type_ or CAPACITY.search(message):
        return "capacity"
    if RATE.search(message) or (type_ == _EXHAUSTED and not is_used_up):
        return "rate"
    return "server" if SERVER.search(message) else "quota"


def limit_wait(error: ErrorInfo, chance: float) -> float | None:
    """Return the seconds until the account may send requests again; None for other errors.

    The server's own time is used if it names one. *chance* is a random number from 0 to 1.
    """
    reason = limit_reason(error)
    if reason is None or error.retry_after is not None:
        return error.retry_after if reason else None
    shortest, longest = CAPACITY_SECONDS
    waits: dict[LimitReason, float] = {
        "quota": QUOTA_SECONDS,
        "rate": RATE_SECONDS,
        "capacity": shortest + (longest - shortest) * chance,
        "server": SERVER_SECONDS,
    }
    return waits[reason]


# --- retries ---


def is_transient(error: ErrorInfo) -> bool:
    """Return whether the same request may succeed a little later."""
    if error.kind in _FINAL_KINDS or is_overflow(error):
        return False
    # A stream that was cut is worth another try: nothing of it was kept. A certificate that is not
    # valid will not be valid a second later.
    if error.kind in ("transport", "truncated"):
        return error.type not in _PERMANENT_TRANSPORT
    if error.status is not None and error.status >= _SERVER_ERROR:
        return error.status not in _PERMANENT_STATUS
    if error.status is not None and error.status >= _BAD_REQUEST:
        # A client error that is marked as retryable comes from a server that named a time to wait.
        return error.status in RETRYABLE_STATUS or error.retryable
    type_ = error.type.lower()
    if type_ in TRANSIENT_TYPES or type_ in USAGE_LIMIT_TYPES:
        return True
    if type_ in PERMANENT_TYPES:
        return False
    says_so = error.kind == "provider" and PASSING.search(error.message[:MAX_READ])
    return error.retryable or (not error.type and bool(says_so))


def is_avoidable(error: ErrorInfo) -> bool:
    """Return whether another model may respond where this one failed with *error*.

    A refusal, a filter and an abort are decisions, which another model must not get around.
    """
    return error.kind not in _FINAL_KINDS


# --- overflow of the context ---


def is_overflow(
    error: ErrorInfo | None, usage: Usage | None = None, window: int | None = None
) -> bool:
    """Return whether the conversation was longer than the model's window.

    Either *error* says so, or *usage* exceeds *window*: some servers truncate the prompt silently
    and respond to the rest. Without a *window* only the error counts.
    """
    if error is not None and error.kind in ("provider", "malformed") and _is_too_long(error):
        return True
    if usage is None or not window:
        return False
    return usage.input + usage.cache_read + usage.cache_write > window


def is_overflow_response(message: AssistantMessage, window: int | None = None) -> bool:
    """Return whether *message* is the response to a conversation that was too long."""
    if message.raw_stop_reason.lower() in OVERFLOW_TYPES:
        return True
    return is_overflow(message.error, message.usage, window)


def _is_too_long(error: ErrorInfo) -> bool:
    if error.type.lower() in OVERFLOW_TYPES or error.status == _TOO_LARGE:
        return True
    if error.status in _CLIENT_STATUS:
        return False
    message = error.message[:MAX_READ]
    if error.status == _BAD_REQUEST and NO_REASON.search(message):
        return True  # Cerebras and Mistral refuse a request that is too long with an empty body.
    return bool(TOO_LONG.search(message)) and not THROTTLED.search(message)


# --- empty responses ---


def is_empty_response(message: AssistantMessage) -> bool:
    """Return whether a successful response has no text, no call and no opaque block.

    Reasoning alone does not count, nor does the stop reason ``tool_use`` without a call.
    """
    if message.stop_reason not in ("stop", "tool_use"):
        return False
    return not any(
        isinstance(block, ToolCall | Opaque) or (isinstance(block, Text) and block.text.strip())
        for block in message.content
    )


def make_empty_error() -> ErrorInfo:
    """Return the error of an empty response, which is retried once."""
    return ErrorInfo("the response was empty", "malformed", EMPTY, retryable=True)
