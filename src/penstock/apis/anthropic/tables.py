"""Tables of the API: stop reasons, token counts and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock._json import without_lone_surrogates
from penstock.apis.encoder import Ending
from penstock.apis.errors import (
    error_info,
    find_message,
    parse_delay,
    read_inner_error,
    retry_after,
)
from penstock.apis.fields import count_at, estimate_mark, object_at
from penstock.messages import ErrorInfo, ErrorKind, Usage

NAME: Final = "anthropic"

CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
"""The ids of calls that the API accepts."""

ENDINGS: Final[dict[str, Ending]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    # `pause_turn`: a server tool takes long, and the client may continue by sending the message
    # back.
    "pause_turn": "stop",
    "compaction": "stop",
    "max_tokens": "length",
    # Sent by models from Claude Sonnet 4.5 on instead of an error, when prompt and output fill the
    # context window.
    "model_context_window_exceeded": "length",
    "tool_use": "tool_use",
    "refusal": "refusal",
    "sensitive": "filter",  # sent by servers, in no specification
}
"""Values of `stop_reason`; any other is a normal end."""

STOP_REASONS: Final[dict[Ending, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_use": "tool_use",
    "refusal": "refusal",
    "filter": "refusal",
}

CATEGORIES: Final = ("cyber", "bio", "frontier_llm", "reasoning_extraction", "general_harms")
"""The categories of a refusal."""

STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The types of errors and their status."""

RETRYABLE: Final = frozenset({"rate_limit_error", "timeout_error", "api_error", "overloaded_error"})
"""Types of errors after which a retry may succeed."""

KINDS: Final[dict[ErrorKind, str]] = {
    "provider": "api_error",
    "transport": "api_error",
    "truncated": "api_error",
    "malformed": "api_error",
    "refusal": "invalid_request_error",
    "filter": "invalid_request_error",
    "aborted": "api_error",
}
"""The type of an error that has only a kind."""

_KEPT_COUNTS: Final = ("cache_creation", "server_tool_use")  # no other API has these
_REFUSED: Final = re.compile(rf"(?s)refusal(?: \(({'|'.join(CATEGORIES)})\))?(?:: (.+))?")


# --- usage ---


def read_usage(data: Mapping[str, Any], before: Usage) -> Usage:
    """Read the token counts so far; a count that is null or missing stays as *before*.

    The count of the prompt excludes the cache here, so the total is the sum of all four.
    """
    # The counts of `message_delta` are cumulative, and any but `output_tokens` may be null or
    # missing.
    raw = {**(before.raw or {}), **{k: v for k, v in data.items() if v is not None}}
    input_, output = count_at(raw, "input_tokens"), count_at(raw, "output_tokens")
    written = count_at(raw, "cache_creation_input_tokens")
    read = count_at(raw, "cache_read_input_tokens")
    return Usage(
        input=input_,
        output=output,
        cache_read=read,
        cache_write=written,
        reasoning=count_at(object_at(raw, "output_tokens_details"), "thinking_tokens"),
        total=input_ + output + read + written,
        raw=raw,
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Write token counts; all are present, since clients add them up without checking."""
    raw = usage.raw or {}
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
        **{key: raw[key] for key in _KEPT_COUNTS if isinstance(raw.get(key), dict)},
        **estimate_mark(usage),
    }


# --- ends ---


def write_stop(
    ending: Ending, raw_reason: str, error: ErrorInfo | None, sequence: str | None = None
) -> dict[str, Any]:
    """Write the stop reason; *raw_reason* is written as it is if it is a value of this API.

    *sequence* is the stop sequence of the client that ended the response.
    """
    reason = raw_reason if ENDINGS.get(raw_reason) == ending != "filter" else STOP_REASONS[ending]
    sequence = sequence if reason == "stop_sequence" else None
    stop: dict[str, Any] = {"stop_reason": reason, "stop_sequence": sequence}
    if reason == "refusal":
        stop["stop_details"] = _write_refusal(error.message if error else "")
    return stop


def read_refusal(reason: str, details: object) -> ErrorInfo:
    """Return the error of a refusal, with its category and explanation."""
    fields = details if isinstance(details, Mapping) else {}
    category, explanation = fields.get("category"), fields.get("explanation")
    message = f"{reason} ({category})" if isinstance(category, str) and category else reason
    if isinstance(explanation, str) and explanation:
        message = f"{message}: {explanation}"
    return ErrorInfo(message, "filter" if ENDINGS[reason] == "filter" else "refusal", reason)


def _write_refusal(message: str) -> dict[str, Any]:
    """Split a message that `read_refusal` made; any other message is the explanation."""
    match = _REFUSED.fullmatch(message)
    category, explanation = match.groups() if match else (None, message or None)
    return {"type": "refusal", "category": category, "explanation": explanation}


# --- errors ---


def read_error(data: Any, status: int | None = None, wait: float | None = None) -> ErrorInfo:
    """Read the object under ``error``, or a bare message; *wait* is from the headers."""
    fields = data if isinstance(data, Mapping) else {}
    type_ = fields.get("type") if isinstance(fields.get("type"), str) else ""
    return error_info(
        find_message(data),
        type=type_ or "",
        status=status or STATUSES.get(type_ or ""),
        retry_after=wait or parse_delay(fields.get("retry_after")),
        retryable=type_ in RETRYABLE if type_ in STATUSES else None,
    )


def write_error(error: ErrorInfo) -> dict[str, Any]:
    """Write *error* as an ``error`` event."""
    type_ = error.type if error.type in STATUSES else _find_type(error)
    message = error.message or f"the response failed: {error.kind}"
    return {"type": "error", "error": {"type": type_, "message": message}}


def read_error_body(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float = 0.0
) -> ErrorInfo:
    """Read an error response."""
    return read_error(read_inner_error(body), status, retry_after(headers, now))


def write_error_body(error: ErrorInfo) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of the response that reports *error*."""
    body = write_error(error)
    return error.status or STATUSES[body["error"]["type"]], without_lone_surrogates(body)


def _find_type(error: ErrorInfo) -> str:
    """Return the type for an error of another API, by its status or else by its kind."""
    by_status = {status: type_ for type_, status in STATUSES.items()}
    if error.status in by_status:
        return by_status[error.status]
    if error.status is not None and 400 <= error.status < 500:  # noqa: PLR2004 - the client's
        return "invalid_request_error"
    # 529 is Anthropic's own status for overload; other providers send 503 for it.
    return "overloaded_error" if error.status == 503 else KINDS[error.kind]  # noqa: PLR2004
