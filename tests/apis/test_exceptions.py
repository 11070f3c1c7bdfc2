from __future__ import annotations

import asyncio

import pytest

from penstock.apis.errors import aborted_error, error_from_exception, truncated_error
from penstock.errors import JSONParseError, LimitError, ProviderError, UsageError
from penstock.messages import ErrorInfo, ErrorKind


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (ConnectionResetError("peer"), "transport"),
        (TimeoutError("45 s"), "transport"),
        (asyncio.IncompleteReadError(b"", 9), "transport"),
        (JSONParseError("no JSON"), "malformed"),
        (LimitError("too long", limit="MAX_LINE", value=1), "malformed"),
        (UsageError("unlawful event"), "malformed"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "malformed"),
        (KeyError("id"), "provider"),
        (RuntimeError(), "provider"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_type_of_the_exception_tells_the_kind(exc: Exception, kind: ErrorKind) -> None:
    info = error_from_exception(exc)
    assert (info.kind, info.type) == (kind, type(exc).__name__)
    assert info.retryable is (kind == "transport")
    assert info.message


def test_an_exception_that_nobody_expected_is_named_in_the_message() -> None:
    assert error_from_exception(KeyError("id")).message == "KeyError: 'id'"
    assert error_from_exception(RuntimeError()).message == "RuntimeError"
    assert error_from_exception(TimeoutError()).message == "TimeoutError"


def test_a_provider_speaks_for_itself() -> None:
    exc = ProviderError("slow down", status=429, type="rate_limit_error", retry_after=1.5)
    assert error_from_exception(exc) == ErrorInfo(
        "slow down retry-after-ms=1500", "provider", "rate_limit_error", 429, 1.5, retryable=True
    )


def test_the_time_to_wait_is_named_once() -> None:
    exc = ProviderError("wait retry-after-ms=7", retry_after=0.007)
    assert error_from_exception(exc).message == "wait retry-after-ms=7"


@pytest.mark.parametrize(
    ("status", "retryable"), [(400, False), (None, False), (408, True), (503, True), (529, True)]
)
def test_the_status_tells_whether_trying_again_may_help(
    status: int | None, *, retryable: bool
) -> None:
    assert error_from_exception(ProviderError("no", status=status)).retryable is retryable


def test_ends_have_kinds_of_their_own() -> None:
    assert (truncated_error().kind, truncated_error().retryable) == ("truncated", True)
    assert (aborted_error().kind, aborted_error("why").message) == ("aborted", "why")
