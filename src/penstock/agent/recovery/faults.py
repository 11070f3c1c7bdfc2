"""What kind of failure an answer met: one that passes, one that a shorter conversation cures, none.

What is told in a field counts before what is told in words: the kind, the status, the provider's
own word for it, and whether it says that another try helps. The text of a message is read last,
and only where nothing else speaks: words travel, and a "500" may be a line of somebody's file.

An overflow is never transient: the same conversation is too long every time.
"""

from __future__ import annotations

from typing import Final

from penstock.agent.recovery.wordings import (
    MAX_READ,
    NO_REASON,
    OVERFLOW_TYPES,
    PASSING,
    PERMANENT_TYPES,
    THROTTLED,
    TOO_LONG,
    TRANSIENT_TYPES,
    USAGE_LIMIT_TYPES,
)
from penstock.apis.faults import RETRYABLE_STATUS
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, ToolCall, Usage

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
    """Tell whether the same question may well be answered a little later."""
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
    """Tell whether the conversation was longer than the model's window.

    The error says so, or *usage* does: some servers answer all the same, having read no more than
    a part of it. Without a *window* usage says nothing.
    """
    if error is not None and error.kind in ("provider", "malformed") and _is_too_long(error):
        return True
    if usage is None or not window:
        return False
    return usage.input + usage.cache_read + usage.cache_write > window


def overflowed(message: AssistantMessage, window: int | None = None) -> bool:
    """Tell whether *message* is what came of a conversation that was too long."""
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


# --- an answer that is none ---


def is_empty(message: AssistantMessage) -> bool:
    """Tell an answer that ended well and says nothing: no word, no call, no part of a provider.

    Thoughts alone are no answer. Nor is an end for calls that never came.
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
