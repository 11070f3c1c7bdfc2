"""What kind of failure an answer met: one that passes, one that a shorter conversation cures, none.

What is told in a field counts before what is told in words: the kind, the status, the provider's
own word for it, and whether it says that another try helps. The text of a message is read last,
and only where nothing else speaks: words travel, and a "500" may be a line of somebody's file.

An overflow is never transient: the same conversation is too long every time.
"""

from __future__ import annotations

from typing import Final, Literal

from penstock.agent.recovery.error_patterns import (
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

# An account that has used up what it may: why, and after how long it may have more.
#
# A server that names a time is believed. Where none does, the reason tells how long it usually
# takes.


LimitReason = Literal["quota", "rate", "capacity", "server"]
"""Why an account gets no more: what it paid for, how fast it asks, how many others do, a fault."""

QUOTA_SECONDS: Final = 30 * 60.0
"""How long a quota is waited for: such windows are hours, and half of one is soon enough."""

RATE_SECONDS: Final = 30.0
"""How long a rate is waited for: it is counted by the minute, so half of one is its mean."""

CAPACITY_SECONDS: Final = (45.0, 75.0)
"""Between which times a crowded model is waited for, by chance: all others wait for it too."""

SERVER_SECONDS: Final = 20.0
"""How long a server that failed is waited for: about as long as one takes to start."""

_PAYMENT: Final = 402
_EXHAUSTED: Final = "resource_exhausted"  # Gemini's word for any limit


def is_usage_limit(error: ErrorInfo) -> bool:
    """Return whether the account has used up what it may; another account would be answered."""
    return limit_reason(error) is not None


def limit_reason(error: ErrorInfo) -> LimitReason | None:
    """Say why the account gets no more; None where it is not the account."""
    if error.kind != "provider":
        return None
    word, said = error.type.lower(), error.message[:MAX_READ]
    is_limit = error.status == _PAYMENT or word in USAGE_LIMIT_TYPES or USED_UP.search(said)
    if not is_limit:
        return None
    if "capacity" in word or CAPACITY.search(said):
        return "capacity"
    if RATE.search(said) or (word == _EXHAUSTED and not USED_UP.search(said)):
        return "rate"
    return "server" if SERVER.search(said) else "quota"


def limit_wait(error: ErrorInfo, chance: float) -> float | None:
    """Return the seconds until the account may send requests again; None for other errors.

    *chance* is a number from 0 to 1.
    """
    reason = limit_reason(error)
    if reason is None or error.retry_after is not None:
        return error.retry_after if reason else None
    least, most = CAPACITY_SECONDS
    waits: dict[LimitReason, float] = {
        "quota": QUOTA_SECONDS,
        "rate": RATE_SECONDS,
        "capacity": least + (most - least) * chance,
        "server": SERVER_SECONDS,
    }
    return waits[reason]


EMPTY: Final = "empty_answer"
"""Our word for an answer that says nothing."""

_BAD_REQUEST: Final = 400
_TOO_LARGE: Final = 413
_SERVER_FAULT: Final = 500
_CHOSEN: Final = frozenset({"aborted", "refusal", "filter"})
"""Ends that somebody chose: they would choose so again."""

_NEVER: Final = frozenset({"tls_error"})
"""Failures of the way that stay: a server that is not who it should be."""

_UNABLE: Final = frozenset({501, 505, 511})
"""Faults of a server that will not pass: it does not know how."""

_ABOUT_THE_CALLER: Final = frozenset({401, 402, 403, 404, 405, 407})
"""Refusals that have nothing to do with the length of what was asked."""


# --- another try ---


def is_transient(error: ErrorInfo) -> bool:
    """Return whether the same question may well be answered a little later."""
    if error.kind in _CHOSEN or is_overflow(error):
        return False
    if error.kind in ("transport", "truncated"):
        return error.type not in _NEVER
    told = _by_status(error)
    told = _by_type(error) if told is None else told
    if told is not None:
        return told
    return error.retryable or (not error.type and _says_so(error))


def _by_status(error: ErrorInfo) -> bool | None:
    status = error.status
    if status is None or status < _BAD_REQUEST:
        return None
    if status >= _SERVER_FAULT:
        return status not in _UNABLE
    # A refusal that is marked all the same was marked by the server: it named a time to wait.
    return status in RETRYABLE_STATUS or error.retryable


def _by_type(error: ErrorInfo) -> bool | None:
    word = error.type.lower()
    if word in TRANSIENT_TYPES or word in USAGE_LIMIT_TYPES:
        return True
    return False if word in PERMANENT_TYPES else None


def _says_so(error: ErrorInfo) -> bool:
    return error.kind == "provider" and bool(PASSING.search(error.message[:MAX_READ]))


# --- a conversation that is too long ---


def is_overflow(
    error: ErrorInfo | None, usage: Usage | None = None, window: int | None = None
) -> bool:
    """Return whether the conversation was longer than the model's window.

    The error says so, or *usage* does: some servers answer all the same, having read no more than
    a part of it. Without a *window* usage says nothing.
    """
    if error is not None and error.kind in ("provider", "malformed") and _is_too_long(error):
        return True
    if usage is None or not window:
        return False
    return usage.input + usage.cache_read + usage.cache_write > window


def overflowed(message: AssistantMessage, window: int | None = None) -> bool:
    """Return whether *message* is what came of a conversation that was too long."""
    if message.raw_stop_reason.lower() in OVERFLOW_TYPES:
        return True
    return is_overflow(message.error, message.usage, window)


def _is_too_long(error: ErrorInfo) -> bool:
    if error.type.lower() in OVERFLOW_TYPES or error.status == _TOO_LARGE:
        return True
    if error.status in _ABOUT_THE_CALLER:
        return False
    said = error.message[:MAX_READ]
    if error.status == _BAD_REQUEST and NO_REASON.search(said):
        return True  # Cerebras and Mistral refuse with an empty body what is too long.
    return bool(TOO_LONG.search(said)) and not THROTTLED.search(said)


# --- an answer that is not one ---


def is_empty(message: AssistantMessage) -> bool:
    """Return an answer that ended well and says nothing: no word, no call, no part of a provider.

    Thoughts alone are not answer. Nor is an end for calls that never came.
    """
    if message.stop_reason not in ("stop", "tool_use"):
        return False
    return not any(
        isinstance(block, ToolCall | Opaque) or (isinstance(block, Text) and block.text.strip())
        for block in message.content
    )


def empty_answer() -> ErrorInfo:
    """Return the error of an answer that is empty: worth another try, and no more than one."""
    return ErrorInfo("the answer was empty", "malformed", EMPTY, retryable=True)
