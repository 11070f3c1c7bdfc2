"""List the models of a server, through any of the APIs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from penstock import _json, apis
from penstock.errors import JSONParseError, ProviderError
from penstock.models.http import endpoints
from penstock.models.http.transport import HTTPCall, HTTPResponse, Transport, TransportError
from penstock.redaction import Redactor, Secret, find_header_secrets, find_url_secrets

LIST_SECONDS: Final = 10.0
"""How long to wait for a list: servers read it from memory."""

MAX_LIST: Final = 16 * 1024 * 1024
"""How many bytes a list may have: those of the largest resellers have two million."""

MAX_MODELS: Final = 20_000
"""How many models are taken from a list, over all its pages."""

MAX_PAGES: Final = 20
"""How many pages of a list are read."""

_OK: Final = 200


class ListEndpoint(Struct, frozen=True):
    """How an API lists its models: *path* of the list, *key* of its entries, *names* of their name.

    The first of *names* that an entry has is used. *cursor* is the field of a page that names the
    next page, and *cursor_query* the query parameter that requests it.
    """

    path: str
    key: str = "data"
    names: tuple[str, ...] = ("id",)
    prefix: str = ""  # precedes every name and is not a part of it
    cursor: str = ""
    cursor_query: str = ""


LIST_ENDPOINTS: Final[dict[str, ListEndpoint]] = {
    "openai-chat": ListEndpoint("/v1/models"),
    "openai-responses": ListEndpoint("/v1/models"),
    "anthropic": ListEndpoint("/v1/models", cursor="last_id", cursor_query="after_id"),
    "gemini": ListEndpoint(
        "/v1beta/models",
        key="models",
        names=("name",),
        prefix="models/",
        cursor="nextPageToken",
        cursor_query="pageToken",
    ),
    "ollama": ListEndpoint("/api/tags", key="models", names=("name", "model")),
    "qwen": ListEndpoint("/api/models"),
}


async def list_models(
    api: str,
    base_url: str,
    api_key: str = "",
    *,
    transport: Transport,
    headers: Mapping[str, str] | None = None,
    seconds: float = LIST_SECONDS,
) -> list[str]:
    """Return the names of the models that *api* lists at *base_url*, in the server's order.

    Raises `ProviderError` if the server refuses or responds with anything but a list, and a
    `TransportError`, an `OSError` or a `TimeoutError` (after *seconds*) if it does not respond. No
    message contains the key.
    """
    api = apis.get(api).name
    request = _ListRequest(api, base_url, Secret(api_key), dict(headers or {}), transport)
    async with asyncio.timeout(seconds):
        return await request.read_names()


class _ListRequest:
    """Reads the list of one server page by page."""

    def __init__(
        self, api: str, base_url: str, key: Secret, headers: dict[str, str], transport: Transport
    ) -> None:
        endpoint = endpoints.ENDPOINTS[api]
        self._api = api
        self._list = LIST_ENDPOINTS[api]
        self._url = _strip_endpoint(api, endpoints.base_url_for(api, base_url, {}))
        self._headers = {"accept": "application/json", **endpoint.headers}
        if key:
            self._headers[endpoint.key_header] = endpoint.key_prefix + key.reveal()
        self._headers |= {name.lower(): value for name, value in headers.items()}
        secrets = [key.reveal(), *find_header_secrets(self._headers), *find_url_secrets(base_url)]
        self._redactor = Redactor(secrets)
        self._transport = transport

    async def read_names(self) -> list[str]:
        endpoint = self._list
        found: dict[str, None] = {}
        query: dict[str, str] = {}
        for _ in range(MAX_PAGES):
            page = await self._read_page(query)
            names = [*_find_names(page, endpoint)]
            found |= dict.fromkeys(names)
            following = page.get(endpoint.cursor) if endpoint.cursor else None
            # Anthropic names a last id on every page, and ends with `has_more: false`.
            has_more = page.get("has_more", True) and isinstance(following, str) and following
            if not has_more or not names or len(found) >= MAX_MODELS:
                break
            query = {endpoint.cursor_query: str(following)}
        return [*found][:MAX_MODELS]

    async def _read_page(self, query: dict[str, str]) -> dict[str, Any]:
        url = endpoints.join(self._url, self._list.path, query)
        response = await self._transport.send(HTTPCall(url, self._headers, method="GET"))
        headers = response.headers
        try:
            body = self._redactor.body(await _read_body(response))
        finally:
            await response.aclose()
        if response.status != _OK:
            info = apis.get(self._api).read_error(response.status, headers, body, now=time.time())
            raise ProviderError(info.message, status=response.status)
        try:
            page = _json.decode(body)
        except JSONParseError as exc:
            raise ProviderError("the list of models is not JSON", status=_OK) from exc
        if isinstance(page, list):  # Some servers send the bare list.
            page = {self._list.key: page}
        if not isinstance(page, dict) or _find_entries(page, self._list.key) is None:
            raise ProviderError("the response is not a list of models", status=_OK)
        return page


async def _read_body(response: HTTPResponse) -> bytes:
    body = bytearray()
    async for data in response:
        body += data
        if len(body) > MAX_LIST:
            raise TransportError(f"the list of models is longer than {MAX_LIST} bytes")
    return bytes(body)


def _find_entries(page: dict[str, Any], key: str) -> list[Any] | None:
    """Return the entries of a page; chat.qwen.ai nests its list one level deeper."""
    value = page.get(key)
    if isinstance(value, dict):
        value = value.get(key)
    return value if isinstance(value, list) else None


def _find_names(page: dict[str, Any], endpoint: ListEndpoint) -> Iterator[str]:
    for entry in _find_entries(page, endpoint.key) or []:
        fields = entry if isinstance(entry, dict) else {}
        name = next((fields[key] for key in endpoint.names if fields.get(key)), "")
        if isinstance(name, str) and name:
            yield name.removeprefix(endpoint.prefix)


def _strip_endpoint(api: str, base_url: str) -> str:
    """Return *base_url* without the path of the chat endpoint, which it may contain."""
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    own = endpoints.ENDPOINTS[api].path.strip("/").split("/")
    for length in range(len(own) - 1, 0, -1):
        tail = "/" + "/".join(own[len(own) - length :])
        if path.endswith(tail):
            path = path.removesuffix(tail)
            break
    if api == "qwen":  # whose version is in the middle of the path
        path = path.removesuffix("/v2")
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
