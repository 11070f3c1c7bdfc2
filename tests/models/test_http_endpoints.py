"""What needs no socket: addresses, proxies by name, waits between tries."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import UsageError
from penstock.messages import ErrorInfo
from penstock.models.http import NO_RETRY, RetryPolicy, Timeouts
from penstock.models.http.endpoints import base_url_for, is_loopback, join, proxy_for, url_for


@pytest.mark.parametrize(
    ("api", "base", "url"),
    [
        ("openai-chat", "https://h", "https://h/v1/chat/completions"),
        ("openai-chat", "https://h/", "https://h/v1/chat/completions"),
        ("openai-chat", "https://h/v1", "https://h/v1/chat/completions"),
        ("openai-chat", "https://h/v1/", "https://h/v1/chat/completions"),
        ("openai-chat", "https://h/api/v3", "https://h/api/v3/chat/completions"),
        ("openai-chat", "https://h/v1beta/openai/", "https://h/v1beta/openai/chat/completions"),
        ("openai-chat", "https://h/v1/chat/completions", "https://h/v1/chat/completions"),
        ("openai-chat", "https://h/d/x/chat/completions?v=1", "https://h/d/x/chat/completions?v=1"),
        ("openai-chat", "https://h/proxy", "https://h/proxy/v1/chat/completions"),
        ("openai-responses", "https://h/v1", "https://h/v1/responses"),
        ("openai-responses", "https://h/x/responses", "https://h/x/responses"),
        ("anthropic", "https://h", "https://h/v1/messages"),
        ("anthropic", "https://h/anthropic", "https://h/anthropic/v1/messages"),
        ("anthropic", "https://h/v1/messages", "https://h/v1/messages"),
        ("gemini", "https://h", "https://h/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("gemini", "https://h/v1", "https://h/v1/models/m:streamGenerateContent?alt=sse"),
        ("gemini", "https://h?key=k", "https://h/v1beta/models/m:streamGenerateContent?key=k&alt=sse"),
        ("ollama", "http://h:1", "http://h:1/api/chat"),
        ("ollama", "http://h:1/api", "http://h:1/api/chat"),
        ("qwen", "https://h/api/v2/", "https://h/api/v2/chat/completions"),
    ],
)  # fmt: skip
def test_a_base_url_may_have_as_much_of_the_path_as_it_likes(api: str, base: str, url: str) -> None:
    assert url_for(api, base, "m", stream=True) == url


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("models/m", "/v1beta/models/m:generateContent"),
        ("tunedModels/m", "/v1beta/tunedModels/m:generateContent"),
        ("m?x#y:z", "/v1beta/models/m%3Fx%23y%3Az:generateContent"),
    ],
)
def test_a_model_is_part_of_an_address_of_gemini(model: str, path: str) -> None:
    assert url_for("gemini", "https://h", model, stream=False) == f"https://h{path}"


@pytest.mark.parametrize("model", ["", "..", "../../files/x", "models//x", "models/./x"])
def test_a_model_leads_to_no_other_path(model: str) -> None:
    with pytest.raises(UsageError):
        url_for("gemini", "https://h", model, stream=True)


def test_what_begins_elsewhere_is_joined_as_well() -> None:
    assert join("https://h/a", "/api/v2/chats/new", {"a": "b c"}) == (
        "https://h/a/api/v2/chats/new?a=b+c"
    )


@pytest.mark.parametrize(
    ("api", "given", "environ", "url"),
    [
        ("anthropic", "", {}, "https://api.anthropic.com"),
        ("anthropic", "", {"ANTHROPIC_BASE_URL": "http://e"}, "http://e"),
        ("anthropic", "http://g", {"ANTHROPIC_BASE_URL": "http://e"}, "http://g"),
        ("ollama", "", {}, "http://127.0.0.1:11434"),
        ("ollama", "", {"OLLAMA_HOST": "box"}, "http://box:11434"),
        ("ollama", "", {"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434"),  # noqa: S104
        ("ollama", "", {"OLLAMA_HOST": ":8080"}, "http://127.0.0.1:8080"),
        ("ollama", "", {"OLLAMA_HOST": "[::1]:8080"}, "http://[::1]:8080"),
        ("ollama", "", {"OLLAMA_HOST": "https://box/path/"}, "https://box/path"),
    ],
)
def test_an_address_is_given_or_the_environments_or_the_providers(
    api: str, given: str, environ: dict[str, str], url: str
) -> None:
    assert base_url_for(api, given, environ) == url


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://h", {}, None),
        ("https://h", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://h", {"https_proxy": "p:1"}, "http://p:1"),
        ("http://h", {"HTTPS_PROXY": "http://p:1"}, None),
        ("http://h", {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ("http://localhost:1", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://127.0.0.2:1", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://[::1]:1", {"HTTP_PROXY": "http://p:1"}, None),
        ("https://a.h.org", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x, .h.org"}, None),
        ("https://ah.org", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "h.org"}, "http://p:1"),
        ("https://h.org", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("https://h.org:8", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "h.org:8"}, None),
        ("https://h.org:9", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "h.org:8"}, "http://p:1"),
    ],
)
def test_the_environment_names_a_proxy(url: str, environ: dict[str, str], proxy: str) -> None:
    assert proxy_for(url, None, environ) == proxy
    assert proxy_for(url, "", environ) is None
    assert proxy_for(url, "http://mine", environ) == "http://mine"


def test_this_machine_is_known_by_its_names() -> None:
    assert is_loopback("localhost")
    assert is_loopback("127.1.2.3")
    assert not is_loopback("10.0.0.1")
    assert not is_loopback("localhost.example")


# --- tries ---

BUSY = ErrorInfo("busy", status=503, retryable=True)


def test_waits_double_up_to_the_longest() -> None:
    retry = RetryPolicy(attempts=9, base=1, longest=5, jitter=0)
    assert [retry.delay(tried, BUSY, 1.0) for tried in range(1, 6)] == [1, 2, 4, 5, 5]
    assert retry.delay(9, BUSY, 0) is None
    assert RetryPolicy(attempts=10_000).delay(9_000, BUSY, 0) == 8.0


def test_chance_takes_a_share_off_a_wait() -> None:
    retry = RetryPolicy(base=1, jitter=0.5)
    assert (retry.delay(1, BUSY, 0.0), retry.delay(1, BUSY, 1.0)) == (1.0, 0.5)


def test_a_server_is_waited_for_as_long_as_it_asks_within_reason() -> None:
    def asked(seconds: float) -> float | None:
        error = ErrorInfo("busy", retry_after=seconds, retryable=True)
        return RetryPolicy(base=1, jitter=0).delay(1, error, 0)

    assert (asked(0.1), asked(30), asked(60), asked(61)) == (1, 30, 60, None)


def test_what_will_not_pass_has_no_wait() -> None:
    assert RetryPolicy().delay(1, ErrorInfo("no", status=400), 0) is None
    assert NO_RETRY.delay(1, BUSY, 0) is None


@pytest.mark.parametrize(
    "options", [{"attempts": 0}, {"base": -1}, {"jitter": 1.5}, {"longest_asked": -1}], ids=str
)
def test_tries_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        RetryPolicy(**options)


@pytest.mark.parametrize("name", ["connect", "first_byte", "idle", "total"])
def test_a_timeout_is_more_than_nothing(name: str) -> None:
    with pytest.raises(UsageError):
        Timeouts(**{name: 0})
    assert Timeouts(**{name: None}) is not None
