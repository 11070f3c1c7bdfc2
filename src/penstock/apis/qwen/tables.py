"""The words of chat.qwen.ai beside ours: phases, tokens, and the many ways in which it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.apis.encoder import Ending
from penstock.apis.errors import body_of, error_info, message_of, retry_after
from penstock.apis.fields import clean, count_of, counts_of
from penstock.messages import ErrorInfo, Usage

NAME: Final = "qwen"

THINKING: Final = frozenset({"think", "thinking_summary"})
ASIDE: Final = frozenset({"web_search", "local_tool", "image_gen", "image_gen_tool"})
"""Phases of an answer; what is neither is the answer itself."""

FINISH_REASONS: Final[dict[Ending, str]] = {
    "length": "length",
    "refusal": "content_filter",
    "filter": "content_filter",
}
"""How an answer ends that did not end by itself, in the words of chat completions: the web API has
none of its own."""

STATUSES: Final = {
    "ratelimited": 429,
    "rate_limited": 429,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "bad_request": 400,
}
"""Codes of errors that come with the status 200, and the status that they mean."""

_CHALLENGE: Final = ("FAIL_SYS_USER_VALIDATE", "RGV587_ERROR")
_HOUR: Final = 3600.0


def read_usage(data: Mapping[str, Any]) -> Usage:
    """Read tokens; the input includes the cache."""
    given, output = count_of(data, "input_tokens"), count_of(data, "output_tokens")
    cached = count_of(data, "cached_tokens")
    details = counts_of(data, "output_tokens_details")
    return Usage(
        input=max(0, given - cached),
        output=output,
        cache_read=cached,
        reasoning=count_of(details, "reasoning_tokens"),
        total=count_of(data, "total_tokens") or given + output,
        raw=dict(data),
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Write tokens as the API counts them."""
    given = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": given,
        "output_tokens": usage.output,
        "total_tokens": usage.total or given + usage.output,
        "cached_tokens": usage.cache_read,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def find_error(data: Mapping[str, Any]) -> ErrorInfo | None:
    """Find the error in a body or a frame, in any of the shapes that come with a status of 200."""
    if data.get("error"):
        return _coded(data["error"])
    if isinstance(data.get("ret"), list) and "choices" not in data:
        return _challenge(data["ret"])
    if data.get("success") is False:
        inner = data.get("data")
        return _coded(inner if isinstance(inner, Mapping) else data)
    return None


def read_error_response(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float = 0.0
) -> ErrorInfo:
    """Read the answer of a server that refused."""
    data = body_of(body)
    found = find_error(data) if isinstance(data, Mapping) else None
    wait = retry_after(headers, now)
    if found is None and isinstance(data, str):
        return read_page(data, status)
    if found is None:
        return error_info(message_of(data), status=status, retry_after=wait)
    return error_info(
        found.message,
        type=found.type,
        status=found.status or status,
        retry_after=wait or found.retry_after,
    )


def write_error(error: ErrorInfo) -> dict[str, Any]:
    """Write *error* as a frame has it."""
    return {"error": _details(error)}


def write_error_response(error: ErrorInfo) -> tuple[int, dict[str, Any]]:
    """Return the status and the body that tell a client of *error*."""
    body = {"success": False, "request_id": "", "data": _details(error)}
    return error.status or 502, body


def _details(error: ErrorInfo) -> dict[str, Any]:
    return {"code": clean(error.type) or error.kind, "details": clean(error.message)}


def read_page(text: str, status: int | None = None) -> ErrorInfo:
    """Read a page of HTML: the guard in front wants a browser; any other text is not an answer."""
    if text[:1] == "<":
        message = "the server asks for a browser in place of an answer"
        return error_info(message, type="challenge", status=status or 403)
    return error_info(text or "the server gave no reason", kind="malformed", status=status)


def _coded(error: Any) -> ErrorInfo:
    fields = error if isinstance(error, Mapping) else {}
    code = fields.get("code")
    word = code if isinstance(code, str) else ""
    status = code if isinstance(code, int) else STATUSES.get(word.lower())
    wait = count_of(fields, "num") * _HOUR  # how many hours a limit lasts
    return error_info(
        message_of(error, word or "no reason"),
        type=word,
        status=status,
        retry_after=wait or None if status == STATUSES["ratelimited"] else None,
    )


def _challenge(words: list[Any]) -> ErrorInfo:
    said = [word for word in words if isinstance(word, str)]
    is_guard = any(word.startswith(_CHALLENGE) for word in said)
    type_ = said[0].partition("::")[0] if said else "ret"
    return error_info("; ".join(said) or "refused", type=type_, status=403 if is_guard else 502)
