"""Keys: where they come from, and where they never go."""

from __future__ import annotations

import logging
import pickle
from base64 import b64encode
from typing import Any

import pytest

from models.loopback_servers import (
    CUT,
    STALL,
    Reply,
    Script,
    refusal,
    script_for,
    serving,
    stream_of,
    streamed,
)
from penstock import HTTPModel, Request, apis
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, Text
from penstock.models.http import HTTPCall, Report, RetryPolicy, Timeouts
from penstock.redaction import (
    Redactor,
    Secret,
    find_header_secrets,
    find_secret,
    find_url_secrets,
)
from penstock.request import UserMessage

APIS = apis.names()
KEY = "sk-canary-0123456789-abcdefghij/+="
ASKED = Request(messages=[UserMessage([Text("When is high water?")])])
ECHO = f"Incorrect API key provided: {KEY}. Find yours at example.org."


def echoes(api: str) -> list[Script]:
    """Return every way in which a server may say a key back."""
    return [
        refusal(401, {"error": {"message": ECHO, "type": KEY, "code": KEY}}),
        refusal(401, {"type": "error", "error": {"type": KEY, "message": ECHO}}),
        refusal(401, {"error": ECHO}),
        refusal(403, f"<html>{ECHO}".encode()),
        refusal(500, b"x" * 1990 + KEY.encode()),  # which is cut within the key
        refusal(500, b"x" * (65_536 - 9) + KEY.encode()),
        refusal(302, b"", location=f"http://h/?key={KEY}"),
        refusal(401, {"error": {"message": ECHO}}, x_request_id=KEY),
        Reply(whole=f"<p>{'x' * 180}{ECHO}".encode(), headers={"content-type": "text/html"}),
        Reply(whole=f'{{"error": {{"message": "{ECHO}"}}}}'.encode()),
        Reply([f'data: {{"error": {{"message": "{ECHO}", "code": "x"}}}}\n\n'.encode()]),
        Reply(
            [f'event: error\ndata: {{"type":"error","error":{{"message":"{ECHO}"}}}}\n\n'.encode()]
        ),
        Reply([stream_of(api)[:-40], f'data: {{"error": {{"message": "{ECHO}"}}}}\n\n'.encode()]),
        Reply([stream_of(api)[:60], CUT]),
        Reply([STALL]),
        Reply([CUT], status=0),
        Reply(status=299, headers={"x-key": KEY}),
        Reply([b"x"], headers={"content-encoding": "gzip", "x-key": KEY}),
    ]


@pytest.mark.parametrize("api", APIS)
async def test_no_error_no_log_and_no_report_tells_the_key(
    api: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask(reply: Script) -> tuple[AssistantMessage, Report]:
        async with (
            serving(*script_for(api, reply)) as upstream,
            HTTPModel(
                api,
                upstream.url,
                "m",
                KEY,
                retry=RetryPolicy(2, 0.001),
                timeouts=Timeouts(first_byte=0.02),
            ) as model,
        ):
            assert KEY not in repr(model) + str(vars(model))
            stream = model.stream(ASKED)
            return await stream.result(), stream.report

    caplog.set_level(logging.DEBUG)
    for reply in echoes(api):
        message, report = await ask(reply)
        assert message.error is not None or message.stop_reason == "stop"
        told = f"{message} {report} {caplog.text}"
        assert KEY not in told
        assert KEY[:10] not in told, "not even the beginning of it"


async def test_the_rest_of_what_a_server_says_stays() -> None:
    async with (
        serving(refusal(401, {"error": {"message": ECHO}})) as upstream,
        HTTPModel("openai-chat", upstream.url, "m", KEY) as model,
    ):
        error = (await model.complete(ASKED)).error
    assert error is not None
    assert error.message == "Incorrect API key provided: ***. Find yours at example.org."


async def test_keys_in_headers_are_hidden_too() -> None:
    async with (
        serving(refusal(401, {"error": {"message": ECHO}})) as upstream,
        HTTPModel("openai-chat", upstream.url, "m", "") as model,
    ):
        request = Request(messages=ASKED.messages, headers={"Authorization": f"Bearer {KEY}"})
        message = await model.complete(request)
        assert upstream.seen[0].headers["authorization"] == f"Bearer {KEY}"
        assert KEY[:8] not in str(message)


@pytest.mark.parametrize(
    "value",
    [f"Bearer {KEY}\r\nx: y", f"Bearer {KEY}".encode(), None, 12_345_678],
    ids=["two lines", "bytes", "nothing", "a number"],
)
async def test_a_header_that_cannot_be_sent_fails_in_the_stream_and_is_not_shown(
    value: Any,
) -> None:
    async with (
        serving(streamed("openai-chat")) as upstream,
        HTTPModel("openai-chat", upstream.url, "m", headers={"Authorization": value}) as model,
    ):
        message = await model.complete(ASKED)
        assert upstream.seen == []
    assert message.error is not None
    assert KEY[:8] not in str(message)
    assert "12345678" not in str(message)


# --- where they come from ---


@pytest.mark.parametrize(
    ("api", "name", "header"),
    [
        ("openai-chat", "OPENAI_API_KEY", "authorization"),
        ("openai-responses", "OPENAI_API_KEY", "authorization"),
        ("anthropic", "ANTHROPIC_API_KEY", "x-api-key"),
        ("gemini", "GEMINI_API_KEY", "x-goog-api-key"),
        ("gemini", "GOOGLE_API_KEY", "x-goog-api-key"),
        ("ollama", "OLLAMA_API_KEY", "authorization"),
        ("qwen", "QWEN_API_KEY", "authorization"),
    ],
)
async def test_a_key_comes_from_the_environment_unless_one_is_given(
    api: str, name: str, header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sent(**options: Any) -> str | None:
        async with (
            serving(*script_for(api, streamed(api))) as upstream,
            HTTPModel(api, upstream.url, "m", **options) as model,
        ):
            await model.complete(ASKED)
        return upstream.seen[-1].headers.get(header)

    monkeypatch.setenv(name, f"{KEY}\n")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    found = await sent()
    assert found is not None
    assert found.removeprefix("Bearer ") == KEY
    assert (await sent(api_key="mine-0001") or "").endswith("mine-0001")
    assert await sent(api_key="") is None
    assert await sent(environ={}) is None


async def test_an_address_comes_from_the_environment_too() -> None:
    async with serving(streamed("ollama")) as upstream:
        host = upstream.url.removeprefix("http://")
        model = HTTPModel("ollama", model="m", environ={"OLLAMA_HOST": host})
        async with model:
            assert (await model.complete(ASKED)).error is None
        assert repr(model) == f"HTTPModel('ollama', '{upstream.url}', 'm')"


# --- the parts ---


def test_a_key_shows_itself_to_nobody() -> None:
    key = Secret(f" {KEY}\n")
    assert key.reveal() == KEY
    assert bool(key)
    assert not Secret("")
    assert KEY not in f"{key!r}{key}{[key]}"
    assert repr(HTTPCall("http://h/?key=k", {"authorization": KEY}, b"12")) == (
        "HTTPCall(POST http://h/, 2 bytes)"
    )
    with pytest.raises(TypeError):
        pickle.dumps(key)
    with pytest.raises(UsageError) as refused:
        Secret(f"{KEY}\x00")
    assert KEY not in str(refused.value)


def test_the_first_name_that_the_environment_has_counts() -> None:
    assert find_secret(None, ("A", "B"), {"A": "", "B": "two"}).reveal() == "two"
    assert find_secret("one", ("A",), {"A": "two"}).reveal() == "one"
    assert not find_secret("", ("A",), {"A": "two"})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nothing to hide", "nothing to hide"),
        (KEY, "***"),
        (f"{KEY}{KEY}!", "******!"),
        (f"cut: {KEY[:12]}", "cut: ***"),
        (f"cut: {KEY[:12]} retry-after-ms=1", "cut: *** retry-after-ms=1"),
        ("sk-canary-0123456789-abcdefghij%2F%2B%3D", "***"),
        (f"{KEY[:8]}and another end", "***and another end"),
    ],
)
def test_a_mask_hides_a_key_and_its_beginning(text: str, shown: str) -> None:
    assert Redactor([KEY, "x", ""]).text(text) == shown
    assert Redactor([KEY]).body(text.encode() + b"\xff") == shown.encode() + b"\xff"


def test_a_mask_hides_a_key_as_a_url_and_as_json_have_it_and_half_a_character_is_no_trouble() -> (
    None
):
    mask = Redactor(['sk-"quoted"\\0123', f"{KEY}\ud800"])
    assert mask.body(b'{"key": "sk-\\"quoted\\"\\\\0123"}') == b'{"key": "***"}'
    assert mask.text("?key=sk-%22quoted%22%5C0123") == "?key=***"
    assert KEY[:8] not in mask.text(KEY)


def test_a_mask_is_quick_on_hostile_text() -> None:
    assert Redactor([KEY]).text(KEY[:9] * 8_000).count("***") == 8_000


def test_secrets_are_found_where_they_stand() -> None:
    assert "c2VjcmV0" in find_header_secrets({"Authorization": "Basic c2VjcmV0", "Accept": "x"})
    cookie = "theme=dark; token=eyJhbGciOi"
    parts = ["theme=dark", "token=eyJhbGciOi", "eyJhbGciOi"]
    assert find_header_secrets({"Cookie": cookie}) == [cookie, *parts]
    assert "Bearer" not in find_header_secrets({"authorization": "Bearer sk-123"})
    assert find_url_secrets("http://h/?key=one&alt=sse") == ["one"]
    found = find_url_secrets("http://user:pa%20ss@proxy:1")
    assert found == ["pa%20ss", "pa ss", b64encode(b"user:pa ss").decode()]
