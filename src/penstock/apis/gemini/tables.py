"""Tables of the API: stop reasons, token counts, errors and signatures."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping
from typing import Any, Final

from penstock._json import without_lone_surrogates
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
from penstock.apis.fields import count_at
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
"""Values of `finishReason`; an unknown one is a failure too."""

UNSPECIFIED: Final = frozenset({"FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})
"""Values without a meaning: some servers send them before the end."""

FINISH_REASONS: Final[dict[Ending, str]] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    # The API has no finish reason for calls.
    "tool_use": "STOP",
    "refusal": "SAFETY",
    "filter": "SAFETY",
}

METADATA: Final = ("citationMetadata", "groundingMetadata", "urlContextMetadata")
"""Fields of a candidate about the sources of its text."""

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
    # google.rpc.Code names, with the HTTP statuses that Google maps them to.
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""The `status` of an error, by its code."""

RETRYABLE: Final = frozenset(
    {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "DEADLINE_EXCEEDED", "ABORTED", "UNKNOWN"}
)
"""Values of `status` after which a retry may succeed."""

CODES: Final[dict[ErrorKind, int]] = {
    "provider": 500,
    "transport": 503,
    "truncated": 503,
    "malformed": 500,
    "refusal": 400,
    "filter": 400,
    "aborted": 499,
}
"""The code of an error without a status."""

_WORDS: Final = frozenset({*STATUSES.values(), *RETRYABLE, "FAILED_PRECONDITION", "OUT_OF_RANGE"})
_RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"


def finish_reason(ending: Ending, raw: str) -> str:
    """Return the finish reason for *ending*; *raw* if it is a value with the same meaning."""
    return raw if ending in ("refusal", "filter") and raw in FILTER else FINISH_REASONS[ending]


def read_usage(data: Mapping[str, Any]) -> Usage:
    """Read token counts: the prompt includes the cache, the candidates exclude the reasoning."""
    # `toolUsePromptTokenCount`, the results of tools that the server ran, is not in the prompt's.
    prompt, cached = count_at(data, "promptTokenCount"), count_at(data, "cachedContentTokenCount")
    reasoning = count_at(data, "thoughtsTokenCount")
    read = prompt + count_at(data, "toolUsePromptTokenCount")
    output = count_at(data, "candidatesTokenCount") + reasoning
    return Usage(
        input=max(0, read - cached),
        output=output,
        cache_read=cached,
        reasoning=reasoning,
        total=count_at(data, "totalTokenCount") or read + output,
        raw=dict(data),
    )


def write_usage(usage: Usage) -> dict[str, int]:
    """Write token counts as the API counts them; optional counts of 0 are omitted."""
    prompt = usage.input + usage.cache_read + usage.cache_write
    # `thoughtsTokenCount` is beside `candidatesTokenCount`, not inside of it as at OpenAI.
    reasoning = min(usage.reasoning, usage.output)
    written = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": usage.output - reasoning,
        "totalTokenCount": usage.total or prompt + usage.output,
    }
    if reasoning:
        written["thoughtsTokenCount"] = reasoning
    if usage.cache_read:
        written["cachedContentTokenCount"] = usage.cache_read
    return written


def read_error(data: Any, status: int | None = None, wait: float | None = None) -> ErrorInfo:
    """Read the object under ``error``; *wait* is from the headers."""
    fields = data if isinstance(data, Mapping) else {}
    code, word = fields.get("code"), fields.get("status")
    status = parse_status(code) if status is None and isinstance(code, int) else status
    word = word if isinstance(word, str) else ""
    message = find_message(data)
    return error_info(
        message,
        type=word,
        status=status,
        retry_after=_delay_in(fields.get("details")) or wait or find_wait(message),
        retryable=True if word in RETRYABLE else None,
    )


def write_error(error: ErrorInfo) -> dict[str, Any]:
    """Write *error* as the object under ``error``."""
    code = _find_code(error)
    written: dict[str, Any] = {
        "code": code,
        "message": error.message or "the response failed",
        "status": error.type if error.type in _WORDS else STATUSES.get(code, "UNKNOWN"),
    }
    if error.retry_after is not None:
        # The JSON form of protobuf's Duration: seconds with up to nine decimals and an "s".
        delay = f"{error.retry_after:.3f}".rstrip("0").rstrip(".") + "s"
        written["details"] = [{"@type": _RETRY_INFO, "retryDelay": delay}]
    return written


def read_error_body(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float = 0.0
) -> ErrorInfo:
    """Read an error response."""
    return read_error(read_inner_error(body), status, retry_after(headers, now))


def write_error_body(error: ErrorInfo) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of the response that reports *error*."""
    return _find_code(error), without_lone_surrogates({"error": write_error(error)})


def _find_code(error: ErrorInfo) -> int:
    return parse_status(error.status) or CODES[error.kind]


def _delay_in(details: object) -> float | None:
    for detail in details if isinstance(details, list) else ():
        delay = parse_delay(detail.get("retryDelay")) if isinstance(detail, Mapping) else None
        if delay is not None:
            return delay
    return None


# --- signatures ---
#
# The API's clients parse a signature as base64, fail on anything else, and send it back in the
# alphabet for URLs. So a signature of another provider that is not base64 is sent "sealed": as
# base64 of its text after a mark. What comes back is converted to the form that was sent.

_MARK: Final = b"penstock:"
_SEAL: Final = b64encode(_MARK).decode()  # nine bytes, so there is no padding
_STANDARD: Final = str.maketrans("-_", "+/")

UNCHECKED: Final = "skip_thought_signature_validator"
"""The signature of a call that the model did not make: the API accepts this value."""


def seal(signature: str) -> str:
    """Return *signature* as base64: unchanged if it is base64 and not sealed, otherwise sealed."""
    if is_base64(signature) and not signature.startswith(_SEAL):
        return signature
    return _SEAL + b64encode(signature.encode("utf-8", "replace")).decode()


def unseal(signature: str) -> str:
    """Return the signature that was sealed, or *signature* itself."""
    if not signature.startswith(_SEAL):
        return signature
    try:
        return _decode_base64(signature)[len(_MARK) :].decode()
    except ValueError:
        return signature


def restore_signature(signature: str) -> str:
    """Return a signature that a client sent back in the form in which it was sent to it."""
    if signature == UNCHECKED:
        return ""
    padded = standard_base64(signature) + "=" * (-len(signature) % 4)
    return unseal(padded if is_base64(padded) else signature)


def standard_base64(base64: str) -> str:
    """Return *base64* in the standard alphabet; the client uses that for URLs."""
    return base64.translate(_STANDARD)


def is_base64(signature: object) -> bool:
    """Return whether *signature* is canonical base64."""
    if not isinstance(signature, str):
        return False
    try:
        return b64encode(_decode_base64(signature)).decode() == signature
    except ValueError:
        return False


def _decode_base64(signature: str) -> bytes:
    try:
        return b64decode(signature, validate=True)
    except Error as exc:
        raise ValueError(str(exc)) from exc
