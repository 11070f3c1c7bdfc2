"""What went wrong, in one vocabulary: errors of providers as `ErrorInfo`, and when to try again."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from penstock import _json
from penstock.apis.fields import clean
from penstock.errors import JSONParseError
from penstock.messages import ErrorInfo, ErrorKind

RETRYABLE_STATUS: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""Answers that another try may change: the server was busy, slow or away."""

MAX_SHOWN: Final = 2_000
"""How many characters of a body that is no JSON an error shows."""

_REASONS: Final = ("message", "details", "detail", "error", "errors", "msg")
_DEPTH: Final = 8  # how deep servers put the reason
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
    """Make an `ErrorInfo`; its message ends in ``retry-after-ms=N`` where a time is known.

    Unless *retryable* says it, the status and a time to wait tell whether to try again.
    """
    if retryable is None:
        retryable = status in RETRYABLE_STATUS or retry_after is not None
    if retry_after is not None and _HINT not in message:
        message = f"{message} {_HINT}{math.ceil(retry_after * 1000)}".lstrip()
    return ErrorInfo(clean(message), kind, clean(type), status, retry_after, retryable)


def retry_after(headers: Mapping[str, str], now: float = 0.0) -> float | None:
    """Return the seconds that *headers* ask to wait: the longest of all the ways to say it.

    *now* is the time in seconds since 1970, for headers that name a moment; without it (0) nobody
    knows how long that is, and such a header says nothing.
    """
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    waits = [
        _seconds(lowered.get("retry-after-ms", ""), 0.001),
        _seconds(lowered.get("retry-after", ""), 1.0) or _date(lowered.get("retry-after", ""), now),
        _moment(lowered.get("x-ratelimit-reset-ms", ""), 0.001, now),
        _moment(lowered.get("x-ratelimit-reset", ""), 1.0, now),
    ]
    return max((wait for wait in waits if wait), default=None)


def delay_of(text: object) -> float | None:
    """Return the seconds that a number, or a duration such as ``34s`` or ``250ms``, names."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text) if 0 < text < _EPOCH_S else None
    match = _DELAY.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        return None
    return float(match[1]) * _SECONDS[match[2]] or None


def wait_named(message: str) -> float | None:
    """Return the seconds that *message* asks to wait in words.

    So do ``Please try again in 7m12s`` (OpenAI, Groq), ``retry in 34.07s`` and ``reset after 1h2m``
    (Gemini).
    """
    found = _ADVICE.search(message[:MAX_SHOWN])
    pieces = _PIECE.findall(found[0]) if found else []
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in pieces) or None


def message_of(error: Any, default: str = "") -> str:
    """Return the message of an error in any of the usual shapes.

    Where there is not one it is *default*, and without that the error as it came.
    """
    found = error
    for _ in range(_DEPTH):
        if isinstance(found, Mapping):
            said = (found.get(key) for key in _REASONS)
            found = next((reason for reason in said if _is_reason(reason)), None)
        elif isinstance(found, list):
            found = next((reason for reason in found if _is_reason(reason)), None)
    if isinstance(found, str) and found:
        return found
    return default or _as_text(error) or "the provider gave no reason"


def status_of(code: object) -> int | None:
    """Return the status that the *code* of an error is, as a number or as text."""
    if isinstance(code, str) and len(code) == 3 and code.isdecimal():  # noqa: PLR2004
        code = int(code)
    is_status = isinstance(code, int) and 400 <= code < 600  # noqa: PLR2004
    return code if isinstance(code, int) and is_status else None


def body_of(body: bytes) -> Any:
    """Read the body of an answer that is an error: its JSON, or its text."""
    try:
        return _json.decode(body)
    except JSONParseError:
        return body.decode("utf-8", "replace").strip()[:MAX_SHOWN]


def _is_reason(value: object) -> bool:
    return isinstance(value, str | Mapping | list) and len(value) > 0


def _as_text(error: object) -> str:
    is_json = isinstance(error, Mapping | list) and len(error) > 0
    return _json.encode(error).decode()[:MAX_SHOWN] if is_json else ""


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


def _moment(text: str, unit: float, now: float) -> float | None:
    """Read a time to wait, or the moment to wait for in seconds or milliseconds since 1970."""
    number = _seconds(text, 1.0)
    if number is None:
        return delay_of(text)
    if number > _EPOCH_S and not now:
        return None
    if number > _EPOCH_MS:
        wait = number / 1000 - now
    elif number > _EPOCH_S:
        wait = number - now
    else:
        wait = number * unit
    return wait if wait > 0 else None
