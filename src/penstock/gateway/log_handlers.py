"""Handlers for the log: requests, sessions and stored responses, in pages.

A client sees the requests with its own key. Without keys there is one client, which sees all.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

import msgspec

from penstock import _json
from penstock.errors import JSONParseError
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import HTTPExchange
from penstock.gateway.qwen_sessions import forget_session as forget
from penstock.gateway.stored_responses import StoredResponse, number_items, read_store
from penstock.store import Page, RequestDetail, RequestQuery, SessionQuery, Store
from penstock.store.records import State

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

T = TypeVar("T")
Query = TypeVar("Query", RequestQuery, SessionQuery)
_NUMBERS: Final = {"limit": int, "since": float, "until": float}
_FLAGS: Final = {"count", "live", "repairs", "unread"}
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
_STATES: Final = get_args(State)
_RESPONSES: Final = "/v1/responses/"
_RESPONSES_API: Final = "openai-responses"

_PARTS: Final = {
    "request": b"application/json",
    "upstream_request": b"application/json",
    "raw": b"application/octet-stream",
    "events": b"application/x-ndjson",
    "response": b"application/json",
}
"""The bodies that are stored of a request, and their content types."""


async def requests(gateway: Gateway, exchange: HTTPExchange) -> None:
    """List requests, the newest first."""
    store, scope = require_store(gateway), gateway.log_scope(exchange)
    query = _parse_query(RequestQuery, exchange.query, scope)
    await exchange.respond(200, _write_page(await read_log(store.requests(query))))


async def request(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Return one request, or a part of it (``/raw``, ``/events``, …)."""
    store, scope = require_store(gateway), gateway.log_scope(exchange)
    id_, _, part = exchange.path.removeprefix("/v1/requests/").partition("/")
    detail = await read_log(store.request(id_))
    if detail is None or scope not in (None, detail.row.scope):
        raise HTTPError(404, f"unknown request {id_!r}")
    if not part:
        await exchange.respond(200, _write_detail(detail))
    elif part in _PARTS:
        data = msgspec.structs.asdict(detail)[part]
        await exchange.respond(200, data, (b"content-type", _PARTS[part]), is_json=False)
    else:
        raise HTTPError(404, f"a request has no part {part!r}; use one of {', '.join(_PARTS)}")


async def sessions(gateway: Gateway, exchange: HTTPExchange) -> None:
    """List the conversations that upstreams store, the newest first."""
    store, scope = require_store(gateway), gateway.log_scope(exchange)
    query = _parse_query(SessionQuery, exchange.query, scope)
    await exchange.respond(200, _write_page(await read_log(store.sessions(query))))


async def session(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Return one conversation."""
    store, scope = require_store(gateway), gateway.log_scope(exchange)
    id_ = exchange.path.removeprefix("/v1/sessions/")
    found = await read_log(store.session(scope=scope, id=id_))
    if found is None:
        raise HTTPError(404, f"unknown session {id_!r}")
    await exchange.respond(200, msgspec.to_builtins(found))


async def forget_session(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Delete one conversation: its next request starts a new one."""
    store, scope = require_store(gateway), gateway.log_scope(exchange)
    id_ = exchange.path.removeprefix("/v1/sessions/")
    if not await read_log(forget(store, scope, id_)):
        raise HTTPError(404, f"unknown session {id_!r}")
    await exchange.respond(200, {"id": id_, "object": "session.deleted", "deleted": True})


async def response(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Return a response of the Responses API, or the items it responds to (``/input_items``)."""
    exchange.api, client = _RESPONSES_API, gateway.auth.authenticate(exchange)
    id_, _, part = exchange.path.removeprefix(_RESPONSES).partition("/")
    stored: StoredResponse | None = await gateway.stored_responses.find(id_, client.name)
    if stored is None or not stored.response:
        raise HTTPError(404, f"unknown response {id_!r}")
    if not part:
        await exchange.respond(200, stored.response)
        return
    if part != "input_items":
        raise HTTPError(404, f"a response has no part {part!r}; use input_items")
    order = exchange.query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise HTTPError(400, f"`order` must be asc or desc, got {order!r}")
    # As at OpenAI, the newest item is first unless the client asks for `order=asc`.
    items = number_items(id_, stored.items)
    items = items if order == "asc" else items[::-1]
    first, last = (items[0]["id"], items[-1]["id"]) if items else (None, None)
    page = {"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": False}
    await exchange.respond(200, page)


async def delete_response(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Delete a response: it can be neither read nor continued."""
    exchange.api, client = _RESPONSES_API, gateway.auth.authenticate(exchange)
    id_ = exchange.path.removeprefix(_RESPONSES)
    if not await gateway.stored_responses.delete(id_, client.name):
        raise HTTPError(404, f"unknown response {id_!r}")
    await exchange.respond(200, {"id": id_, "object": "response", "deleted": True})


# --- the store ---


def require_store(gateway: Gateway) -> Store:
    """Return the store; raise `HTTPError` if it is disabled."""
    if gateway.store is None:
        raise HTTPError(404, "there is no log: the store is disabled")
    return gateway.store


async def read_log(result: Awaitable[T]) -> T:
    """Return the *result* of a query; raise `HTTPError` if it is invalid or fails."""
    return await read_store(result, "the log")


def _parse_query(kind: type[Query], given: Mapping[str, str], scope: str | None) -> Query:
    """Return the filters of a client; raise `HTTPError` for unknown or invalid ones."""
    known = {field.name for field in msgspec.structs.fields(kind)} - {"scope"}
    fields: dict[str, Any] = {"scope": scope}
    for name, text in given.items():
        if name not in known:
            message = f"unknown filter {name!r}; known filters: {', '.join(sorted(known))}"
            raise HTTPError(400, message)
        fields[name] = _parse_filter(name, text)
    return kind(**fields)


def _parse_filter(name: str, text: str) -> Any:
    if name == "state" and text not in ("", *_STATES):
        raise HTTPError(400, f"unknown state {text!r}; known states: {', '.join(_STATES)}")
    try:
        if name in _FLAGS:
            return _BOOLEANS[text.lower()]
        if name not in _NUMBERS:
            return text
        number = _NUMBERS[name](text)
    except (ValueError, KeyError):
        number = math.nan
    if not math.isfinite(number):
        raise HTTPError(400, f"invalid value for {name!r}: {text!r}")
    return number


def _write_page(page: Page[Any]) -> dict[str, Any]:
    return {
        "object": "list",
        "data": [msgspec.to_builtins(row) for row in page.items],
        "next": page.next or None,
        "has_more": bool(page.next),
        "total": page.total,
    }


def _write_detail(detail: RequestDetail) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(detail.row),
        "text": detail.text,
        "notes": detail.notes,
        "request": _json_or_text(detail.request),
        "upstream_request": _json_or_text(detail.upstream_request),
        "response": _json_or_text(detail.response),
        "raw": detail.raw.decode("utf-8", "replace"),
        "events": [_json_or_text(line) for line in detail.events.splitlines()],
    }


def _json_or_text(data: bytes) -> Any:
    try:
        return _json.decode(data) if data else None
    except JSONParseError:
        return data.decode("utf-8", "replace")
