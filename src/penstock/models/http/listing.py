"""Which models a server has: asked in the words of its API, read as a list of names."""

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
from penstock.models.http.keys import Key, Mask, secrets_in_headers, secrets_in_url
from penstock.models.http.transport import Answer, HTTPCall, Transport, TransportError

LIST_SECONDS: Final = 10.0
"""How long a list is waited for: nobody has to think about it."""

MAX_LIST: Final = 16 * 1024 * 1024
"""How many bytes a list may have: those of the largest resellers have two million."""

MAX_MODELS: Final = 20_000
"""How many models are taken from a list, over all its pages."""

MAX_PAGES: Final = 20
"""How many pages of a list are read."""

_AGREED: Final = 200


class Listing(Struct, frozen=True):
    """How an API lists its models: at *path*, under *key*, by the first of *names* there is.

    *cursor* is the field of a page that names the next one, and *asks* how that is asked for.
    """

    path: str
    key: str = "data"
    names: tuple[str, ...] = ("id",)
    prefix: str = ""  # before every name, and no part of it
    cursor: str = ""
    asks: str = ""


LISTINGS: Final[dict[str, Listing]] = {
    "openai-chat": Listing("/v1/models"),
    "openai-responses": Listing("/v1/models"),
    "anthropic": Listing("/v1/models", cursor="last_id", asks="after_id"),
    "gemini": Listing(
        "/v1beta/models",
        key="models",
        names=("name",),
        prefix="models/",
        cursor="nextPageToken",
        asks="pageToken",
    ),
    "ollama": Listing("/api/tags", key="models", names=("name", "model")),
    "qwen": Listing("/api/models"),
}


async def model_names(
    api: str,
    base_url: str,
    api_key: str = "",
    *,
    transport: Transport,
    headers: Mapping[str, str] | None = None,
    seconds: float = LIST_SECONDS,
) -> list[str]:
    """Give the names of the models behind *api* at *base_url*, in the server's order.

    Raises `ProviderError` where the server refuses or answers with something else, and a
    `TransportError`, an `OSError` or a `TimeoutError` (after *seconds*) where it does not answer.
    Neither shows the key.
    """
    api = apis.get(api).name
    asking = _Asking(api, base_url, Key(api_key), dict(headers or {}), transport)
    async with asyncio.timeout(seconds):
        return await asking.names()


class _Asking:
    """Asks one server for its models, page by page."""

    def __init__(
        self, api: str, base_url: str, key: Key, headers: dict[str, str], transport: Transport
    ) -> None:
        endpoint = endpoints.ENDPOINTS[api]
        self._api = api
        self._listing = LISTINGS[api]
        self._url = _server_of(api, endpoints.base_url_for(api, base_url, {}))
        self._headers = {"accept": "application/json", **endpoint.headers}
        if key:
            self._headers[endpoint.key_header] = endpoint.key_prefix + key.reveal()
        self._headers |= {name.lower(): value for name, value in headers.items()}
        secrets = [key.reveal(), *secrets_in_headers(self._headers), *secrets_in_url(base_url)]
        self._mask = Mask(secrets)
        self._transport = transport

    async def names(self) -> list[str]:
        listing = self._listing
        found: dict[str, None] = {}
        query: dict[str, str] = {}
        for _ in range(MAX_PAGES):
            page = await self._page(query)
            names = [*_names_in(page, listing)]
            found |= dict.fromkeys(names)
            following = page.get(listing.cursor) if listing.cursor else None
            has_more = page.get("has_more", True) and isinstance(following, str) and following
            if not has_more or not names or len(found) >= MAX_MODELS:
                break
            query = {listing.asks: str(following)}
        return [*found][:MAX_MODELS]

    async def _page(self, query: dict[str, str]) -> dict[str, Any]:
        url = endpoints.join(self._url, self._listing.path, query)
        answer = await self._transport.send(HTTPCall(url, self._headers, method="GET"))
        headers = answer.headers
        try:
            body = self._mask.body(await _body_of(answer))
        finally:
            await answer.aclose()
        if answer.status != _AGREED:
            info = apis.get(self._api).read_error(answer.status, headers, body, now=time.time())
            raise ProviderError(info.message, status=answer.status)
        return self._read(body)

    def _read(self, body: bytes) -> dict[str, Any]:
        try:
            page = _json.decode(body)
        except JSONParseError as exc:
            raise ProviderError("the list of models is no JSON", status=_AGREED) from exc
        if isinstance(page, list):  # Some have no envelope around it.
            page = {self._listing.key: page}
        if not isinstance(page, dict) or _entries(page, self._listing.key) is None:
            raise ProviderError("the answer is no list of models", status=_AGREED)
        return page


async def _body_of(answer: Answer) -> bytes:
    body = bytearray()
    async for data in answer:
        body += data
        if len(body) > MAX_LIST:
            raise TransportError(f"a list of models of over {MAX_LIST} bytes")
    return bytes(body)


def _entries(page: dict[str, Any], key: str) -> list[Any] | None:
    """Give the entries of a page; chat.qwen.ai wraps its list once more."""
    value = page.get(key)
    if isinstance(value, dict):
        value = value.get(key)
    return value if isinstance(value, list) else None


def _names_in(page: dict[str, Any], listing: Listing) -> Iterator[str]:
    for entry in _entries(page, listing.key) or []:
        fields = entry if isinstance(entry, dict) else {}
        name = next((fields[key] for key in listing.names if fields.get(key)), "")
        if isinstance(name, str) and name:
            yield name.removeprefix(listing.prefix)


def _server_of(api: str, base_url: str) -> str:
    """Give *base_url* without the path of the endpoint, which it may have."""
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    own = endpoints.ENDPOINTS[api].path.strip("/").split("/")
    for length in range(len(own) - 1, 0, -1):
        tail = "/" + "/".join(own[len(own) - length :])
        if path.endswith(tail):
            path = path.removesuffix(tail)
            break
    if api == "qwen":  # whose version stands within the path
        path = path.removesuffix("/v2")
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
