"""Tables of the API: stop reasons, token counts and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock._json import without_lone_surrogates
from penstock.apis.errors import error_info, find_message, find_wait, read_inner_error, retry_after
from penstock.apis.fields import count_at, estimate_mark, object_at, text_at
from penstock.apis.openai_chat import tables as chat
from penstock.messages import ErrorInfo, Usage

NAME: Final = "openai-responses"

STOP: Final = frozenset({"completed", "in_progress", "queued"})
LENGTH: Final = frozenset({"incomplete"})
"""Values of a response's `status`; `failed`, `cancelled` and any other are failures."""

FILTER: Final = frozenset({"content_filter"})
"""Values of ``incomplete_details.reason`` that are not a limit."""

CODES: Final = frozenset(
    {
        "server_error", "rate_limit_exceeded", "invalid_prompt", "data_residency_mismatch",
        "bio_policy", "misalignment_policy_violation", "vector_store_timeout",
        "image_content_policy_violation",
    }
)  # fmt: skip
"""Values of ``error.code`` that can end a response; any other value is written to `type`."""

RETRYABLE: Final = chat.RETRYABLE | {"vector_store_timeout", "server_is_overloaded", "slow_down"}
"""Values of an error's `code` or `type` after which a retry may succeed."""

ERRORS: Final = {**chat.ERRORS, "provider": (502, "server_error")}
"""The status and the type of an error that has none."""

REFUSALS: Final = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_exceeded",
}
"""Types of client errors, by status; all others are ``invalid_request_error``."""

_TOO_MANY: Final = 429
_NO_REASON: Final = "Unknown error (no error details in response)"


def read_usage(data: Mapping[str, Any]) -> Usage:
    """Read token counts: the input includes the cache, the output the reasoning."""
    given, made = count_at(data, "input_tokens"), count_at(data, "output_tokens")
    details = object_at(data, "input_tokens_details")
    cached, written = count_at(details, "cached_tokens"), count_at(details, "cache_write_tokens")
    return Usage(
        input=max(0, given - cached - written),
        output=made,
        cache_read=cached,
        cache_write=written,
        reasoning=count_at(object_at(data, "output_tokens_details"), "reasoning_tokens"),
        total=count_at(data, "total_tokens") or given + made,
        raw=dict(data),
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Write token counts as the API counts them."""
    given = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": given,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total or given + usage.output,
        **estimate_mark(usage),
    }


def read_error(data: Any, status: int | None = None, wait: float | None = None) -> ErrorInfo:
    """Read an object with `code` and `message`, or a bare message.

    *wait* is from the headers; the API also puts it into the message.
    """
    fields = data if isinstance(data, Mapping) else {}
    code, type_ = text_at(fields, "code"), text_at(fields, "type")
    if type_ == "error":  # This is the type of the event.
        type_ = ""
    words = [word for word in (code, type_) if word]
    message = find_message(data, _NO_REASON)
    return error_info(
        message,
        type=type_ if type_ and code in ("", "server_error") else code,
        status=status,
        retry_after=wait or find_wait(message),
        retryable=True if any(word.lower() in RETRYABLE for word in words) else None,
    )


def read_failure(response: Mapping[str, Any], status: str) -> ErrorInfo:
    """Return the error of a failed *response*, or the reason why it is incomplete."""
    if response.get("error"):
        return read_error(response["error"])
    reason = text_at(object_at(response, "incomplete_details"), "reason")
    if reason:
        return ErrorInfo(f"incomplete: {reason}", "provider", reason)
    if status == "cancelled":
        return ErrorInfo("the provider cancelled the response", "provider", status)
    return read_error(None)


def write_error(error: ErrorInfo) -> dict[str, Any]:
    """Write *error* as ``response.error``: a code of the API, and our type."""
    is_busy = error.status == _TOO_MANY or error.type.startswith("rate_limit")
    code = "rate_limit_exceeded" if is_busy else "server_error"
    word = error.type or (code if is_busy else _find_type(error))
    if word in CODES:
        return {"code": word, "message": error.message}
    return {"code": code, "message": error.message, "type": word}


def _find_type(error: ErrorInfo) -> str:
    """Return the type of an error without one, by its status or its kind."""
    status = error.status
    if error.kind == "provider" and status is not None and 400 <= status < 500:  # noqa: PLR2004
        return REFUSALS.get(status, "invalid_request_error")
    return ERRORS[error.kind][1]


def read_error_body(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float = 0.0
) -> ErrorInfo:
    """Read an error response."""
    return read_error(read_inner_error(body), status, retry_after(headers, now))


def write_error_body(error: ErrorInfo) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of the response that reports *error*."""
    status, word = ERRORS[error.kind][0], error.type or _find_type(error)
    body = {"message": error.message, "type": word, "param": None, "code": word}
    return error.status or status, {"error": without_lone_surrogates(body)}
