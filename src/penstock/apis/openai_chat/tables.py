"""The words of the API beside ours: why an answer ended, what it cost, what went wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.apis.encoder import Ending
from penstock.apis.errors import (
    body_of,
    delay_of,
    error_info,
    message_of,
    retry_after,
    status_of,
    wait_named,
)
from penstock.apis.fields import clean, count_of, counts_of, estimate_mark
from penstock.messages import ErrorInfo, ErrorKind, Usage

NAME: Final = "openai-chat"

STOP: Final = frozenset({"stop", "end", "eos", "stop_sequence", "end_turn"})
LENGTH: Final = frozenset({"length", "max_tokens", "model_length"})
TOOL_USE: Final = frozenset({"tool_calls", "function_call", "tool_use"})
FILTER: Final = frozenset({"content_filter", "safety", "refusal"})
FAILURES: Final = frozenset({"error", "network_error", "insufficient_system_resource", "abort"})
"""Values of `finish_reason` in the field, without regard to case; any other is a failure too."""

FINISH_REASONS: Final[dict[Ending, str]] = {
    "stop": "stop",
    "length": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "filter": "content_filter",
}

RETRYABLE: Final = frozenset(
    {
        "server_error",
        "rate_limit_exceeded",
        "rate_limit_error",
        "overloaded",
        "overloaded_error",
        "timeout",
        "api_error",
        "internal_error",
        "internal_server_error",
        "service_unavailable",
        "engine_overloaded",
    }
)
"""Values of an error's `type` or `code` that another try may change."""

GENERAL: Final = frozenset(
    {
        "api_error",
        "bad_request",
        "badrequesterror",
        "error",
        "invalid_request",
        "invalid_request_error",
        "requests",  # of which there were too many: OpenAI and Groq name there what is limited
        "tokens",
    }
)
"""Values of an error's `type` that say less than any `code` beside them."""

ERRORS: Final[dict[ErrorKind, tuple[int, str]]] = {
    "provider": (502, "api_error"),
    "transport": (502, "connection_error"),
    "truncated": (502, "stream_error"),
    "malformed": (502, "stream_error"),
    "refusal": (400, "refusal"),
    "filter": (400, "content_filter"),
    "aborted": (499, "aborted"),
}
"""The status and the type of an error that has none of its own."""

_WORD: Final = re.compile(r"[A-Za-z][\w.-]*")  # xAI has a sentence there, others a number


def read_usage(data: Mapping[str, Any]) -> Usage:
    """Read tokens: the prompt's count includes the cache, the answer's includes the reasoning."""
    prompt, completion = count_of(data, "prompt_tokens"), count_of(data, "completion_tokens")
    details = counts_of(data, "prompt_tokens_details")
    cached = (
        count_of(details, "cached_tokens")
        or count_of(data, "cached_tokens")
        or count_of(data, "prompt_cache_hit_tokens")
    )
    written = count_of(details, "cache_write_tokens")
    return Usage(
        input=max(0, prompt - cached - written),
        output=completion,
        cache_read=cached,
        cache_write=written,
        reasoning=count_of(counts_of(data, "completion_tokens_details"), "reasoning_tokens"),
        total=count_of(data, "total_tokens") or prompt + completion,
        raw=dict(data),
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Write tokens as the API counts them."""
    prompt = usage.input + usage.cache_read + usage.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.total or prompt + usage.output,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        **estimate_mark(usage),
    }


def read_error(data: Any, status: int | None = None, wait: float | None = None) -> ErrorInfo:
    """Read the object under ``error``, or a bare message; *wait* is what the headers asked for.

    Of its two words the telling one is the error's type: one that another try may change, else the
    code where the type is general, else the type.
    """
    fields = data if isinstance(data, Mapping) else {}
    code = fields.get("code")
    status = status_of(code) if status is None else status
    words = [word for word in (fields.get("type"), code) if isinstance(word, str) and word]
    telling = [word for word in words if word.lower() not in GENERAL and _WORD.fullmatch(word)]
    message = message_of(data)
    raw = _raw_of(fields)
    known = [word for word in words if word.lower() in RETRYABLE]
    best = [word for word in known if word in telling] or telling or words or [""]
    return error_info(
        message if not raw or raw in message else f"{message}: {raw}",
        type=best[0],
        status=status,
        retry_after=(
            wait or delay_of(fields.get("retry_after")) or _wait_of(fields) or wait_named(message)
        ),
        retryable=True if known else None,
    )


def find_error(data: Mapping[str, Any]) -> ErrorInfo | None:
    """Find the error in a frame or a body, in any of the shapes that servers give it."""
    error = data.get("error")
    if error:
        return read_error(data if isinstance(error, str) else error)
    is_error = data.get("object") == "error" or data.get("type") == "error"
    if is_error or ("choices" not in data and (data.get("detail") or data.get("errors"))):
        return read_error(data)
    return None


def write_error(error: ErrorInfo) -> dict[str, Any]:
    """Write *error* as the object under ``error``."""
    _, type_ = ERRORS[error.kind]
    return {
        "message": clean(error.message),
        "type": clean(error.type) or type_,
        "param": None,
        "code": error.status if error.status is not None else clean(error.type) or type_,
    }


def read_error_response(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float = 0.0
) -> ErrorInfo:
    """Read the answer of a server that refused."""
    data = body_of(body)
    if isinstance(data, list) and data:
        data = data[0]
    inner = data.get("error") if isinstance(data, Mapping) else None
    return read_error(inner or data, status, retry_after(headers, now))


def write_error_response(error: ErrorInfo) -> tuple[int, dict[str, Any]]:
    """Return the status and the body that tell a client of *error*."""
    return error.status or ERRORS[error.kind][0], {"error": write_error(error)}


def _raw_of(fields: Mapping[str, Any]) -> str:
    """Return what OpenRouter's upstream said, in its own words."""
    metadata = fields.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    return raw if isinstance(raw, str) else ""


def _wait_of(fields: Mapping[str, Any]) -> float | None:
    """Return the wait in the headers of OpenRouter's upstream."""
    metadata = fields.get("metadata")
    headers = metadata.get("headers") if isinstance(metadata, Mapping) else None
    if not isinstance(headers, Mapping):
        return None
    return retry_after({str(name): str(value) for name, value in headers.items()})
