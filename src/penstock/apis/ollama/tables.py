"""The words of the API beside ours: why an answer ended, what it cost, what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.apis.encoder import Ending
from penstock.apis.errors import body_of, error_info, message_of, retry_after
from penstock.apis.fields import clean, count_of
from penstock.messages import ErrorInfo, ErrorKind, Usage

NAME: Final = "ollama"

STOP: Final = frozenset({"", "stop"})
LENGTH: Final = frozenset({"length"})
EMPTY: Final = frozenset({"load", "unload"})
"""Values of `done_reason`; the last are the ends of requests that asked for no answer."""

DONE_REASONS: Final[dict[Ending, str]] = {
    "stop": "stop",
    "length": "length",
    "tool_use": "stop",
    "refusal": "refusal",
    "filter": "content_filter",
}
FILTER: Final = frozenset({"content_filter", "refusal"})

STATUSES: Final[dict[ErrorKind, int]] = {
    "provider": 500,
    "transport": 502,
    "truncated": 502,
    "malformed": 502,
    "refusal": 400,
    "filter": 400,
    "aborted": 499,
}


def read_usage(data: Mapping[str, Any]) -> Usage:
    """Read the counts on the last line; there is not a cache in them."""
    prompt, output = count_of(data, "prompt_eval_count"), count_of(data, "eval_count")
    raw = {key: value for key, value in data.items() if key.endswith(("_count", "_duration"))}
    return Usage(input=prompt, output=output, total=prompt + output, raw=raw or None)


def write_usage(usage: Usage) -> dict[str, int]:
    """Write the counts and durations of the last line; nobody here has a clock."""
    return {
        "total_duration": 0,
        "load_duration": 0,
        "prompt_eval_count": usage.input + usage.cache_read + usage.cache_write,
        "prompt_eval_duration": 0,
        "eval_count": usage.output,
        "eval_duration": 0,
    }


def find_error(data: Mapping[str, Any]) -> ErrorInfo | None:
    """Find the error on a line: it has a field of its own, or the line is of another server."""
    if data.get("error"):
        return read_error(data["error"])
    is_foreign = not data.keys() & {"message", "response", "done"}
    return read_error(data) if is_foreign and (data.get("detail") or data.get("errors")) else None


def read_error(data: Any, status: int | None = None, wait: float | None = None) -> ErrorInfo:
    """Read an error, which is a line of text."""
    return error_info(message_of(data), status=status, retry_after=wait)


def read_error_response(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float = 0.0
) -> ErrorInfo:
    """Read the answer of a server that refused."""
    return read_error(body_of(body), status, retry_after(headers, now))


def write_error_response(error: ErrorInfo) -> tuple[int, dict[str, Any]]:
    """Return the status and the body that tell a client of *error*."""
    return error.status or STATUSES[error.kind], {"error": clean(error.message)}
