"""Tables of the API: stop reasons, token counts and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.apis.encoder import Ending
from penstock.apis.errors import (
    error_info,
    find_message,
    find_wait,
    parse_delay,
    parse_status,
    read_inner_error,
    retry_after,
)
from penstock.apis.fields import clean, count_at, estimate_mark, object_at, string_at
from penstock.messages import ErrorInfo, ErrorKind, Usage

NAME: Final = "openai-chat"

# `end`, `error`, `network_error`, `insufficient_system_resource` and `abort` are not OpenAI's.
STOP: Final = frozenset({"stop", "end", "eos", "stop_sequence", "end_turn"})
LENGTH: Final = frozenset({"length", "max_tokens", "model_length"})
TOOL_USE: Final = frozenset({"tool_calls", "function_call", "tool_use"})
FILTER: Final = frozenset({"content_filter", "safety", "refusal"})
FAILURES: Final = frozenset({"error", "network_error", "insufficient_system_resource", "abort"})
"""Values of `finish_reason` that servers send, in any case; any other is a failure too."""

FINISH_REASONS: Final[dict[Ending, str]] = {
    "stop": "stop",
    "length": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "filter": "content_filter",
}

RETRYABLE: Final = frozenset(
    {
        "server_error", "rate_limit_exceeded", "rate_limit_error", "overloaded", "overloaded_error",
        "timeout", "api_error", "internal_error", "internal_server_error", "service_unavailable",
        "engine_overloaded",
    }
)  # fmt: skip
"""Values of an error's `type` or `code` after which a retry may succeed."""

GENERAL: Final = frozenset(
    {
        "api_error", "bad_request", "badrequesterror", "error", "invalid_request",
        "invalid_request_error",
        "requests", "tokens",  # OpenAI and Groq: what is limited by a rate limit
    }
)  # fmt: skip
"""Values of an error's `type` that are less specific than any `code`."""

ERRORS: Final[dict[ErrorKind, tuple[int, str]]] = {
    "provider": (502, "api_error"),
    "transport": (502, "connection_error"),
    "truncated": (502, "stream_error"),
    "malformed": (502, "stream_error"),
    "refusal": (400, "refusal"),
    "filter": (400, "content_filter"),
    # 499 is nginx's "client closed request"; no RFC has a status for it.
    "aborted": (499, "aborted"),
}
"""The status and the type of an error that has none."""

_WORD: Final = re.compile(r"[A-Za-z][\w.-]*")  # xAI sends a sentence there, others a number


def read_usage(data: Mapping[str, Any]) -> Usage:
    """Read token counts: the prompt includes the cache, the completion the reasoning."""
    prompt, completion = count_at(data, "prompt_tokens"), count_at(data, "completion_tokens")
    details = object_at(data, "prompt_tokens_details")
    # OpenAI, others flat, DeepSeek (which has `prompt_cache_miss_tokens` as well).
    cached = (
        count_at(details, "cached_tokens")
        or count_at(data, "cached_tokens")
        or count_at(data, "prompt_cache_hit_tokens")
    )
    written = count_at(details, "cache_write_tokens")
    return Usage(
        input=max(0, prompt - cached - written),
        output=completion,
        cache_read=cached,
        cache_write=written,
        reasoning=count_at(object_at(data, "completion_tokens_details"), "reasoning_tokens"),
        total=count_at(data, "total_tokens") or prompt + completion,
        raw=dict(data),
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Write token counts as the API counts them."""
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
    """Read the object under ``error``, or a bare message; *wait* is from the headers.

    The more specific of `type` and `code` is the type of the error: one after which a retry may
    succeed, or else the code if the type is general, or else the type.
    """
    fields = data if isinstance(data, Mapping) else {}
    code = fields.get("code")
    status = parse_status(code) if status is None else status
    words = [word for word in (fields.get("type"), code) if isinstance(word, str) and word]
    specific = [word for word in words if word.lower() not in GENERAL and _WORD.fullmatch(word)]
    message = find_message(data)
    metadata = object_at(fields, "metadata")  # OpenRouter's, about its upstream
    raw = string_at(metadata, "raw")
    headers = {str(k): str(v) for k, v in object_at(metadata, "headers").items()}
    known = [word for word in words if word.lower() in RETRYABLE]
    best = [word for word in known if word in specific] or specific or words or [""]
    return error_info(
        message if not raw or raw in message else f"{message}: {raw}",
        type=best[0],
        status=status,
        retry_after=wait
        or parse_delay(fields.get("retry_after"))
        or retry_after(headers)
        or find_wait(message),
        retryable=True if known else None,
    )


def find_error(data: Mapping[str, Any]) -> ErrorInfo | None:
    """Return the error in a frame or a body, in any of the shapes that servers use."""
    error = data.get("error")
    if error:
        return read_error(data if isinstance(error, str) else error)
    # vLLM sends ``{"object": "error", "message": …}``, servers built on FastAPI ``{"detail": …}``,
    # and Cloudflare a list under ``errors``.
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


def read_error_body(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float = 0.0
) -> ErrorInfo:
    """Read an error response."""
    return read_error(read_inner_error(body), status, retry_after(headers, now))


def write_error_body(error: ErrorInfo) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of the response that reports *error*."""
    return error.status or ERRORS[error.kind][0], {"error": write_error(error)}
