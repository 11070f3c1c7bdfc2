"""When to try again, in all the ways in which servers say it."""

from __future__ import annotations

import pytest

from penstock.apis.errors import (
    error_info,
    find_message,
    find_wait,
    parse_delay,
    parse_status,
    read_body,
    retry_after,
)

SPOKEN = {
    "Rate limit reached. Please try again in 8s. Visit us.": 8.0,
    "Please try again in 7m12s.": 432.0,
    "Please try again in 7m12.5s.": 432.5,
    "Please try again in 250ms": 0.25,
    "try again in 20 seconds": 20.0,
    "try again in 2 minutes 5 seconds": 125.0,
    "Please retry in 34.07s.": 34.07,
    "Your quota will reset after 1h2m3s.": 3723.0,
    "Please try again in a moment": None,
    "try again in 2 months": None,
    "try again in 0s": None,
    f"try again in {'9' * 400}s": None,
    "": None,
}


@pytest.mark.parametrize(("message", "seconds"), SPOKEN.items(), ids=[said[:40] for said in SPOKEN])
def test_a_wait_is_read_out_of_words(message: str, seconds: float | None) -> None:
    assert find_wait(message) == seconds


def test_a_wait_of_too_many_digits_is_none() -> None:
    assert parse_delay(f"{'9' * 400}s") is None


NOW = 1_763_200_000.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "2"}, 2.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Sat, 15 Nov 2025 09:46:50 GMT"}, 10.0),
        ({"retry-after": "Sat, 15 Nov 2025 09:46:30 GMT"}, None),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"x-ratelimit-reset-ms": "2500"}, 2.5),
        ({"x-ratelimit-reset": "3"}, 3.0),
        ({"x-ratelimit-reset": str(int(NOW) + 7)}, 7.0),
        ({"x-ratelimit-reset": str(int(NOW + 7) * 1000)}, 7.0),
        ({"x-ratelimit-reset": "1m"}, 60.0),
        ({"retry-after": "2", "x-ratelimit-reset": "9"}, 9.0),
    ],
)
def test_the_longest_wait_that_the_headers_ask_for_counts(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    "headers",
    [{"retry-after": "Sat, 15 Nov 2025 09:46:50 GMT"}, {"x-ratelimit-reset": str(int(NOW) + 7)}],
)
def test_a_moment_says_nothing_to_those_who_do_not_know_the_time(headers: dict[str, str]) -> None:
    assert retry_after(headers) is None
    assert retry_after({**headers, "retry-after-ms": "10"}) == 0.01


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("34s", 34.0),
        ("1.5m", 90.0),
        ("250ms", 0.25),
        ("2h", 7200.0),
        ("7", 7.0),
        ("x", None),
        (2, 2.0),
        (0.5, 0.5),
        (-1, None),
        (True, None),
        (float("nan"), None),
    ],
)
def test_durations_are_seconds(text: object, seconds: float | None) -> None:
    assert parse_delay(text) == seconds
    assert parse_delay(None) is None


def test_the_message_says_the_wait_once() -> None:
    once = error_info("slow", retry_after=1.2345)
    assert (once.message, once.retryable) == ("slow retry-after-ms=1235", True)
    again = error_info(once.message, retry_after=9.0)
    assert again.message == once.message


@pytest.mark.parametrize(
    ("status", "again"), [(429, True), (503, True), (400, False), (None, False)]
)
def test_the_status_tells_whether_to_try_again(status: int | None, *, again: bool) -> None:
    assert error_info("no", status=status).retryable is again


@pytest.mark.parametrize(
    "error",
    [
        "why",
        {"message": "why"},
        {"details": "why"},
        {"error": {"message": "why"}},
        {"msg": "why"},
        {"detail": [{"loc": ["body"], "msg": "why"}]},
        [{"error": {"message": "why"}}],
        {"errors": [{"message": "why"}]},
    ],
)
def test_a_message_is_found_in_any_shape(error: object) -> None:
    assert find_message(error) == "why"
    assert find_message({}) == "the provider gave no reason"
    assert find_message({"a": 1}) == '{"a":1}'
    assert find_message({"a": 1}, "no") == "no"


@pytest.mark.parametrize(
    ("code", "status"), [(429, 429), ("503", 503), (1, None), ("x", None), (True, None)]
)
def test_a_code_may_be_a_status(code: object, status: int | None) -> None:
    assert parse_status(code) == status


def test_a_body_is_its_json_or_its_text() -> None:
    assert read_body(b'{"a": 1}') == {"a": 1}
    assert read_body(b" odd\xff ") == "odd\ufffd"
    page = b" <!DOCTYPE html>\n<html><head><title>\n502 Bad &amp; Gateway</title></head></html>"
    assert read_body(page) == 'the server sent an HTML page: "502 Bad & Gateway"'
    assert read_body(b"<html>\xff ") == "the server sent an HTML page"
    assert read_body(b"<htmlish> is not a page") == "<htmlish> is not a page"
