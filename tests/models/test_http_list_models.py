"""The models of a server are listed in the words of its API, and never more than is sensible."""

from __future__ import annotations

from typing import Any

import pytest

from models.loopback_servers import STALL, Reply, Seen, Upstream, refusal, serving
from penstock import _json, apis
from penstock.errors import ProviderError, UsageError
from penstock.models.http import list_models as module
from penstock.models.http.aiohttp_transport import AiohttpTransport
from penstock.models.http.list_models import list_models
from penstock.models.http.transport import TransportError

CANARY = "sk-Canary7d21f0c2e5"


def json_reply(value: object) -> Reply:
    return Reply(whole=_json.encode(value), headers={"content-type": "application/json"})


async def listed(
    api: str, *script: Any, path: str = "", key: str = "", **options: Any
) -> tuple[list[str], Upstream]:
    """Return the models that a server which follows *script* lists, and the server."""

    async with serving(*script) as server:
        transport = AiohttpTransport()
        try:
            url = server.url + path
            return await list_models(api, url, key, transport=transport, **options), server
        finally:
            await transport.close()


@pytest.mark.parametrize(
    ("api", "page", "path"),
    [
        ("openai-chat", {"data": [{"id": "a"}, {"id": "b"}]}, "/v1/models"),
        ("openai-responses", {"data": [{"id": "a"}, {"id": "b"}]}, "/v1/models"),
        ("anthropic", {"data": [{"id": "a"}, {"id": "b"}], "has_more": False}, "/v1/models"),
        ("gemini", {"models": [{"name": "models/a"}, {"name": "models/b"}]}, "/v1beta/models"),
        ("ollama", {"models": [{"name": "a"}, {"model": "b"}]}, "/api/tags"),
        ("qwen", {"data": [{"id": "a"}, {"id": "b"}]}, "/api/models"),
        ("qwen", {"success": True, "data": {"data": [{"id": "a"}, {"id": "b"}]}}, "/api/models"),
        ("openai-chat", [{"id": "a"}, {"id": "b"}], "/v1/models"),
    ],
)
async def test_every_api_lists_its_models(api: str, page: object, path: str) -> None:
    names, server = await listed(api, json_reply(page))
    assert names == ["a", "b"]
    assert [seen.path for seen in server.seen] == [path]


def test_every_api_has_a_listing() -> None:
    assert set(module.LIST_ENDPOINTS) == set(apis.names())


@pytest.mark.parametrize(
    ("api", "path", "asked"),
    [
        ("openai-chat", "/v1", "/v1/models"),
        ("openai-chat", "/v1/chat/completions", "/v1/models"),
        ("openai-chat", "/api/v3/chat/completions", "/api/v3/models"),
        ("openai-responses", "/v1/responses", "/v1/models"),
        ("anthropic", "/v1/messages", "/v1/models"),
        ("gemini", "/v1beta", "/v1beta/models"),
        ("ollama", "/api/chat", "/api/tags"),
        ("ollama", "/api", "/api/tags"),
        ("qwen", "/api/v2/chat/completions", "/api/models"),
        ("qwen", "/api/v2", "/api/models"),
    ],
)
async def test_a_base_url_may_have_some_of_the_path_or_all(api: str, path: str, asked: str) -> None:
    key = module.LIST_ENDPOINTS[api].key
    _, server = await listed(api, json_reply({key: []}), path=path)
    assert server.seen[0].path == asked


async def test_pages_are_read_to_their_end_and_names_are_given_once() -> None:
    def page(seen: Seen) -> Reply:
        if seen.query.get("pageToken") == "two":
            return json_reply({"models": [{"name": "models/b"}, {"name": "models/c"}]})
        names = [{"name": "models/a"}, {"name": "models/b"}]
        return json_reply({"models": names, "nextPageToken": "two"})

    assert (await listed("gemini", page))[0] == ["a", "b", "c"]


async def test_pages_without_end_are_left() -> None:
    endless = json_reply({"data": [{"id": "a"}], "has_more": True, "last_id": "a"})
    names, server = await listed("anthropic", endless)
    assert names == ["a"]
    assert len(server.seen) == module.MAX_PAGES


async def test_the_key_and_the_headers_go_along_as_the_api_wants_them() -> None:
    headers = {"X-Team": "tides"}
    _, server = await listed("anthropic", json_reply({"data": []}), key=CANARY, headers=headers)
    sent = server.seen[0].headers
    assert (sent["x-api-key"], sent["x-team"]) == (CANARY, "tides")
    assert sent["anthropic-version"]
    _, server = await listed("openai-chat", json_reply({"data": []}), key=CANARY)
    assert server.seen[0].headers["authorization"] == f"Bearer {CANARY}"


async def test_a_refusal_has_its_status_and_not_the_key() -> None:
    refused = refusal(401, {"error": {"message": f"bad key {CANARY}"}})
    with pytest.raises(ProviderError, match="bad key") as raised:
        await listed("openai-chat", refused, key=CANARY)
    assert raised.value.status == 401
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize(
    "body", [b"<html>", b"", b"3", b'{"data": 3}', b'{"models": []}', b"[" * 100_000]
)
async def test_what_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(ProviderError):
        await listed("openai-chat", Reply(whole=body))


async def test_entries_that_name_nothing_are_left_out() -> None:
    page = {"data": [{"id": "a"}, {"id": ""}, {"id": 3}, "b", None, {"name": "c"}]}
    assert (await listed("openai-chat", json_reply(page)))[0] == ["a"]


async def test_a_list_that_is_too_long_is_not_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_LIST", 1000)
    with pytest.raises(TransportError, match="1000 bytes"):
        await listed("openai-chat", Reply([b" " * 600, b" " * 600, STALL]))


async def test_a_server_that_hangs_is_left_in_time() -> None:
    with pytest.raises(TimeoutError):
        await listed("openai-chat", Reply([STALL], 0), seconds=0.2)


async def test_an_api_that_nobody_has_is_the_callers_fault() -> None:
    with pytest.raises(UsageError, match="soap"):
        await listed("soap", Reply())
