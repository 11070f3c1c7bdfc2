"""The words of the API beside ours: why an answer ended, what it cost, what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock._json import without_lone_surrogates
from penstock.apis.encoder import Ending
from penstock.apis.errors import body_of, delay_of, error_info, message_of, retry_after, wait_named
from penstock.apis.fields import count_of
from penstock.messages import ErrorInfo, ErrorKind, Usage

NAME: Final = "gemini"

STOP: Final = frozenset({"STOP"})
LENGTH: Final = frozenset({"MAX_TOKENS"})
FILTER: Final = frozenset(
    {
        "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER",
    }
)  # fmt: skip
MALFORMED: Final = frozenset(
    {
        "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
    }
)  # fmt: skip
FAILURES: Final = frozenset({"LANGUAGE", "OTHER", "NO_IMAGE", "CONTINUATION"})
"""Values of `finishReason`; one that is not known is a failure too."""

UNSPECIFIED: Final = frozenset({"FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})
"""Words that say nothing: some servers send them before there is anything to say."""

FINISH_REASONS: Final[dict[Ending, str]] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_use": "STOP",
    "refusal": "SAFETY",
    "filter": "SAFETY",
}

METADATA: Final = ("citationMetadata", "groundingMetadata", "urlContextMetadata")
"""Fields of a candidate that say where its words are from."""

KINDS: Final = frozenset(
    {
        "inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall",
        "toolResponse", "functionResponse", "audioTranscription",
    }
)  # fmt: skip
"""Kinds of parts that only the API understands."""

STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""The word of an error beside its code."""

RETRYABLE: Final = frozenset(
    {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "DEADLINE_EXCEEDED", "ABORTED", "UNKNOWN"}
)
"""Words of errors that another try may change."""

CODES: Final[dict[ErrorKind, int]] = {
    "provider": 500,
    "transport": 503,
    "truncated": 503,
    "malformed": 500,
    "refusal": 400,
    "filter": 400,
    "aborted": 499,
}
"""The code of an error that has no status of its own."""

_WORDS: Final = frozenset({*STATUSES.values(), *RETRYABLE, "FAILED_PRECONDITION", "OUT_OF_RANGE"})
_RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"


def finish_reason(ending: Ending, raw: str) -> str:
    """Return the word for *ending*: the provider's own, where *raw* is one that means the same."""
    return raw if ending in ("refusal", "filter") and raw in FILTER else FINISH_REASONS[ending]


def read_usage(data: Mapping[str, Any]) -> Usage:
    """Read tokens: the prompt's count includes the cache, the answer's leaves out the reasoning."""
    prompt, cached = count_of(data, "promptTokenCount"), count_of(data, "cachedContentTokenCount")
    thoughts = count_of(data, "thoughtsTokenCount")
    read = prompt + count_of(data, "toolUsePromptTokenCount")
    output = count_of(data, "candidatesTokenCount") + thoughts
    return Usage(
        input=max(0, read - cached),
        output=output,
        cache_read=cached,
        reasoning=thoughts,
        total=count_of(data, "totalTokenCount") or read + output,
        raw=dict(data),
    )


def write_usage(usage: Usage) -> dict[str, int]:
    """Write tokens as the API counts them; counts of nothing are omitted."""
    prompt = usage.input + usage.cache_read + usage.cache_write
    thoughts = min(usage.reasoning, usage.output)
    written = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": usage.output - thoughts,
        "totalTokenCount": usage.total or prompt + usage.output,
    }
    if thoughts:
        written["thoughtsTokenCount"] = thoughts
    if usage.cache_read:
        written["cachedContentTokenCount"] = usage.cache_read
    return written


def read_error(data: Any, status: int | None = None, wait: float | None = None) -> ErrorInfo:
    """Read the object under ``error``; *wait* is what the headers asked for."""
    fields = data if isinstance(data, Mapping) else {}
    code, word = fields.get("code"), fields.get("status")
    if status is None and isinstance(code, int) and 400 <= code < 600:  # noqa: PLR2004
        status = code
    word = word if isinstance(word, str) else ""
    message = message_of(data)
    return error_info(
        message,
        type=word,
        status=status,
        retry_after=_delay_in(fields.get("details")) or wait or wait_named(message),
        retryable=True if word in RETRYABLE else None,
    )


def write_error(error: ErrorInfo) -> dict[str, Any]:
    """Write *error* as the object under ``error``."""
    code = _code_of(error)
    written: dict[str, Any] = {
        "code": code,
        "message": error.message or "the answer failed",
        "status": error.type if error.type in _WORDS else STATUSES.get(code, "UNKNOWN"),
    }
    if error.retry_after is not None:
        delay = f"{error.retry_after:.3f}".rstrip("0").rstrip(".") + "s"
        written["details"] = [{"@type": _RETRY_INFO, "retryDelay": delay}]
    return written


def read_error_response(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float = 0.0
) -> ErrorInfo:
    """Read the answer of a server that refused; without ``alt=sse`` it comes in an array."""
    data = body_of(body)
    if isinstance(data, list) and data:
        data = data[0]
    inner = data.get("error") if isinstance(data, Mapping) else None
    return read_error(inner or data, status, retry_after(headers, now))


def write_error_response(error: ErrorInfo) -> tuple[int, dict[str, Any]]:
    """Return the status and the body that tell a client of *error*."""
    return _code_of(error), without_lone_surrogates({"error": write_error(error)})


def _code_of(error: ErrorInfo) -> int:
    status = error.status
    is_error = status is not None and 400 <= status < 600  # noqa: PLR2004
    return status if status is not None and is_error else CODES[error.kind]


def _delay_in(details: object) -> float | None:
    for detail in details if isinstance(details, list) else ():
        delay = delay_of(detail.get("retryDelay")) if isinstance(detail, Mapping) else None
        if delay is not None:
            return delay
    return None
