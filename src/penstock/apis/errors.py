"""Errors of providers, transports and sources as `ErrorInfo`, and how long to wait."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any, Final

from penstock import _json
from penstock.apis.fields import clean
from penstock.errors import JSONParseError, LimitError, ParseError, ProviderError, UsageError
from penstock.messages import ErrorInfo, ErrorKind

RETRYABLE_STATUS: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""Statuses after which a retry may succeed: the server was busy, slow or unreachable.

520, 522 and 524 are Cloudflare's, 529 is Anthropic's ``overloaded_error``.
"""

# Statuses of a `ProviderError` after which a retry may succeed.
_TRANSIENT_STATUS: Final = {408, 409, 425, 429, *range(500, 600)}

MAX_ERROR_TEXT: Final = 2_000
"""How many characters of a body that is not JSON an error message quotes."""

# Messages of servers that could not parse the output of their model.
_UNPARSED: Final = re.compile(
    r"Failed to parse input at pos \d"  # llama.cpp, since its parsers come from the template
    r"|Failed to parse tool call arguments as JSON"  # llama.cpp, of a call in the conversation
    r"|Invalid diff: "  # llama.cpp, where a longer text is parsed differently
    r"|error parsing tool call"  # Ollama
    r"|expecting start token|remaining in message header|HarmonyError"  # vLLM and SGLang, gpt-oss
)

_REASONS: Final = ("message", "details", "detail", "error", "errors", "msg")
_PAGE: Final = re.compile(r"(?:<!doctype html|<html)\b", re.IGNORECASE)
_TITLE: Final = re.compile(r"<(title|h1)\b[^<>]{0,99}>([^<>]{1,200})</\1", re.IGNORECASE)
_DEPTH: Final = 8  # how deep servers nest the reason
_HINT: Final = "retry-after-ms="
_DELAY: Final = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)(ms|s|m|h)?")
_DURATION: Final = r"\d{1,9}(?:\.\d{1,9})? ?(?:ms|s|m|h|seconds?|minutes?|hours?)(?=\d|\b)"
_ADVICE: Final = re.compile(
    rf"\b(?:again|retry) in (?:{_DURATION} ?)+|\breset after (?:{_DURATION} ?)+", re.IGNORECASE
)
_PIECE: Final = re.compile(r"(\d[\d.]*) ?(ms|[smh])", re.IGNORECASE)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_EPOCH_MS: Final = 1e12
_EPOCH_S: Final = 1e9


def error_info(
    message: str,
    *,
    kind: ErrorKind = "provider",
    type: str = "",  # noqa: A002 - the field's name
    status: int | None = None,
    retry_after: float | None = None,
    retryable: bool | None = None,
) -> ErrorInfo:
    """Make an `ErrorInfo`; its message ends in ``retry-after-ms=N`` if a time to wait is known.

    If *retryable* is None, it follows from the status and from whether there is a time to wait.
    """
    if retryable is None:
        retryable = status in RETRYABLE_STATUS or retry_after is not None
    if retry_after is not None and _HINT not in message:
        message = f"{message} {_HINT}{math.ceil(retry_after * 1000)}".lstrip()
    return ErrorInfo(clean(message), kind, clean(type), status, retry_after, retryable)


def error_from_exception(exc: Exception) -> ErrorInfo:
    """Return the error that consumers of a stream see if its source raises *exc*.

    The kind follows from the type of the exception, never from its message. `type` is the
    provider's word if there is one, otherwise the name of the exception.
    """
    if isinstance(exc, ProviderError):
        return error_info(
            str(exc) or "the provider failed",
            type=exc.type or "",
            status=exc.status,
            retry_after=exc.retry_after,
            retryable=exc.status in _TRANSIENT_STATUS,
        )
    name = type(exc).__name__
    if isinstance(exc, TimeoutError | OSError | EOFError):
        return ErrorInfo(str(exc) or name, "transport", name, retryable=True)
    if isinstance(exc, LimitError | ParseError | UsageError | ValueError):
        return ErrorInfo(str(exc) or name, "malformed", name)
    # Most likely a bug in the source's own code. A bare "'id'" of a KeyError would not help.
    return ErrorInfo(f"{name}: {exc}" if str(exc) else name, "provider", name)


def is_unparsed_output(error: ErrorInfo) -> bool:
    """Return whether the server failed because it could not parse what its model wrote.

    The status is 500, or the error is a frame of a stream. Without native tools the server has
    nothing to parse.
    """
    return error.kind == "provider" and _UNPARSED.search(error.message[:MAX_ERROR_TEXT]) is not None


def truncated_error() -> ErrorInfo:
    """Return the error of a stream that ended without a terminal event."""
    message = "the stream ended before the response was complete"
    return ErrorInfo(message, "truncated", retryable=True)


def aborted_error(message: str = "the response was aborted") -> ErrorInfo:
    """Return the error of a response that was aborted."""
    return ErrorInfo(message, "aborted")


def retry_after(headers: Mapping[str, str], now: float = 0.0) -> float | None:
    """Return how many seconds *headers* ask to wait: the longest of all that are given.

    *now* is the time in seconds since 1970, for headers that name a point in time. If it is 0,
    such headers are ignored.
    """
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    waits = [
        _seconds(lowered.get("retry-after-ms", ""), 0.001),
        _seconds(lowered.get("retry-after", ""), 1.0) or _date(lowered.get("retry-after", ""), now),
        _point_in_time(lowered.get("x-ratelimit-reset-ms", ""), 0.001, now),
        _point_in_time(lowered.get("x-ratelimit-reset", ""), 1.0, now),
    ]
    return max((wait for wait in waits if wait), default=None)


def parse_delay(text: object) -> float | None:
    """Parse a number of seconds, or a duration such as ``34s`` or ``250ms``."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text) if 0 < text < _EPOCH_S else None
    match = _DELAY.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        return None
    return float(match[1]) * _SECONDS[match[2]] or None


def find_wait(message: str) -> float | None:
    """Return how many seconds an error *message* asks to wait.

    Examples are ``Please try again in 7m12s`` (OpenAI, Groq), ``retry in 34.07s`` and ``reset
    after 1h2m`` (Gemini).
    """
    found = _ADVICE.search(message[:MAX_ERROR_TEXT])
    pieces = _PIECE.findall(found[0]) if found else []
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in pieces) or None


def find_message(error: Any, default: str = "") -> str:
    """Return the message of an error in any of the usual shapes.

    Without one, return *default*, or else the error itself as JSON.
    """
    found = error
    for _ in range(_DEPTH):
        if isinstance(found, Mapping):
            reasons = (found.get(key) for key in _REASONS)
            found = next((reason for reason in reasons if _is_reason(reason)), None)
        elif isinstance(found, list):
            found = next((reason for reason in found if _is_reason(reason)), None)
    if isinstance(found, str) and found:
        return found
    return default or _as_text(error) or "the provider gave no reason"


def parse_status(code: object) -> int | None:
    """Return *code*, a number or text, if it is an HTTP error status."""
    if isinstance(code, str) and len(code) == 3 and code.isdecimal():  # noqa: PLR2004
        code = int(code)
    return code if isinstance(code, int) and 400 <= code < 600 else None  # noqa: PLR2004


def read_inner_error(body: bytes) -> Any:
    """Return the `error` of an error response, or all of it if it has none."""
    data = read_body(body)
    # Gemini wraps its error in an array unless `alt=sse` is set, also at its OpenAI endpoint.
    if isinstance(data, list) and data:
        data = data[0]
    inner = data.get("error") if isinstance(data, Mapping) else None
    return inner or data


def read_body(body: bytes) -> Any:
    """Return the JSON of an error response, or its text; of an HTML page, its title or heading."""
    try:
        return _json.decode(body)
    except JSONParseError:
        text = body.decode("utf-8", "replace").strip()
    if not _PAGE.match(text):
        return text[:MAX_ERROR_TEXT]
    # Proxies and web servers send pages: "502 Bad Gateway", "Just a moment...".
    title = _TITLE.search(text[:MAX_ERROR_TEXT])
    named = " ".join(unescape(title[2]).split()) if title else ""
    return f'the server sent an HTML page: "{named}"' if named else "the server sent an HTML page"


def _is_reason(value: object) -> bool:
    return isinstance(value, str | Mapping | list) and len(value) > 0


def _as_text(error: object) -> str:
    is_json = isinstance(error, Mapping | list) and len(error) > 0
    return _json.encode(error).decode()[:MAX_ERROR_TEXT] if is_json else ""


def _seconds(text: str, unit: float) -> float | None:
    try:
        seconds = float(text) * unit
    except ValueError:
        return None
    return seconds if 0 < seconds < math.inf else None


def _date(text: str, now: float) -> float | None:
    try:
        wait = parsedate_to_datetime(text).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return wait if wait > 0 and now else None


def _point_in_time(text: str, unit: float, now: float) -> float | None:
    """Parse a time to wait, or a point in time in seconds or milliseconds since 1970."""
    number = _seconds(text, 1.0)
    if number is None:
        return parse_delay(text)
    if number > _EPOCH_S and not now:
        return None
    if number > _EPOCH_MS:
        wait = number / 1000 - now
    elif number > _EPOCH_S:
        wait = number - now
    else:
        wait = number * unit
    return wait if wait > 0 else None
