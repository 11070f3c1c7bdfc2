"""The log over HTTP: requests, sessions and stored answers, in pages.

A client sees what was asked with its own key, and no more. Where no keys are asked for there is one
client, who sees everything.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

import msgspec

from penstock import _json
from penstock.errors import JSONParseError, UsageError
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import HTTPExchange
from penstock.gateway.qwen_sessions import forget_session as forget
from penstock.gateway.stored_responses import Kept, numbered_items
from penstock.store import Page, RequestDetail, RequestQuery, SessionQuery, Store, StoreError
from penstock.store.records import State

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

T = TypeVar("T")
_NUMBERS: Final = {"limit": int, "since": float, "until": float}
_FLAGS: Final = {"count", "live", "repairs"}
_WORDS: Final = {"true": True, "1": True, "false": False, "0": False}
_STATES: Final = get_args(State)
_RESPONSES: Final = "/v1/responses/"
_RESPONSES_API: Final = "openai-responses"


async def requests(gateway: Gateway, caller: HTTPExchange) -> None:
    """List requests, the newest first."""
    store, scope = store_of(gateway), gateway.scope_of(caller)
    query = _query(RequestQuery, caller.query, scope)
    await caller.answer(200, _page(await read_from(store.requests(query))))


async def request(gateway: Gateway, caller: HTTPExchange) -> None:
    """Show one request: all of it, or what comes after its id (``/raw``, ``/events``, …)."""
    store, scope = store_of(gateway), gateway.scope_of(caller)
    id_, _, part = caller.path.removeprefix("/v1/requests/").partition("/")
    detail = await read_from(store.request(id_))
    if detail is None or scope not in (None, detail.row.scope):
        raise HTTPError(404, f"there is no request {id_!r}")
    if not part:
        await caller.answer(200, _shown(detail))
    elif part in _PARTS:
        kind, data = _PARTS[part], getattr(detail, part)
        await caller.answer(200, data, (b"content-type", kind), is_json=False)
    else:
        raise HTTPError(404, f"a request has no {part!r}; it has: {', '.join(_PARTS)}")


async def sessions(gateway: Gateway, caller: HTTPExchange) -> None:
    """List the conversations that upstreams keep, the newest first."""
    store, scope = store_of(gateway), gateway.scope_of(caller)
    query = _query(SessionQuery, caller.query, scope)
    await caller.answer(200, _page(await read_from(store.sessions(query))))


async def session(gateway: Gateway, caller: HTTPExchange) -> None:
    """Show one conversation."""
    store, scope = store_of(gateway), gateway.scope_of(caller)
    id_ = caller.path.removeprefix("/v1/sessions/")
    found = await read_from(store.session(scope=scope, id=id_))
    if found is None:
        raise HTTPError(404, f"there is no session {id_!r}")
    await caller.answer(200, msgspec.to_builtins(found))


async def forget_session(gateway: Gateway, caller: HTTPExchange) -> None:
    """Forget one conversation: the next request of it begins again."""
    store, scope = store_of(gateway), gateway.scope_of(caller)
    id_ = caller.path.removeprefix("/v1/sessions/")
    if not await read_from(forget(store, scope, id_)):
        raise HTTPError(404, f"there is no session {id_!r}")
    await caller.answer(200, {"id": id_, "object": "session.deleted", "deleted": True})


# --- answers of the Responses API ---


async def response(gateway: Gateway, caller: HTTPExchange) -> None:
    """Show an answer of the Responses API as it was given, or (``/input_items``) what it is to."""
    id_, part, kept = await _kept(gateway, caller)
    if not part:
        await caller.answer(200, kept.response)
    elif part == "input_items":
        await caller.answer(200, _items(id_, kept.items, caller.query.get("order", "desc")))
    else:
        raise HTTPError(404, f"a response has no {part!r}; it has: input_items")


async def delete_response(gateway: Gateway, caller: HTTPExchange) -> None:
    """Forget an answer: it is not shown again, and nobody can continue from it."""
    caller.api, guest = _RESPONSES_API, gateway.door.admit(caller)
    id_ = caller.path.removeprefix(_RESPONSES)
    if not await gateway.conversations.delete(id_, guest.name):
        raise HTTPError(404, f"there is no response {id_!r}")
    await caller.answer(200, {"id": id_, "object": "response", "deleted": True})


async def _kept(gateway: Gateway, caller: HTTPExchange) -> tuple[str, str, Kept]:
    """Find the answer that *caller* names: its id, what of it is wanted, and all that is kept."""
    caller.api, guest = _RESPONSES_API, gateway.door.admit(caller)
    id_, _, part = caller.path.removeprefix(_RESPONSES).partition("/")
    kept = await gateway.conversations.find(id_, guest.name)
    if kept is None or not kept.response:
        raise HTTPError(404, f"there is no response {id_!r}")
    return id_, part, kept


def _items(id_: str, items: list[Any], order: str) -> dict[str, Any]:
    """List the items of an input, all on one page; those that came without an id get one."""
    if order not in ("asc", "desc"):
        raise HTTPError(400, f"the order is asc or desc, not {order!r}")
    named = numbered_items(id_, items)
    shown = named if order == "asc" else named[::-1]
    first, last = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
    return {
        "object": "list", "data": shown, "first_id": first, "last_id": last, "has_more": False
    }  # fmt: skip


# --- what is asked of the store ---


def store_of(gateway: Gateway) -> Store:
    """Return the store; raise `HTTPError` where there is not one."""
    if gateway.store is None:
        raise HTTPError(404, "nothing is logged here: the store is switched off")
    return gateway.store


async def read_from(reading: Awaitable[T]) -> T:
    """Return what *reading* the store gives; raise `HTTPError` where it cannot be read."""
    try:
        return await reading
    except UsageError as exc:  # a filter that the store cannot read
        raise HTTPError(400, str(exc)) from None
    except StoreError as exc:
        raise HTTPError(503, f"the log cannot be read now: {exc}", retry_after=1.0) from None


def _query(kind: Callable[..., T], given: Mapping[str, str], scope: str | None) -> T:
    """Read what a client filters by; raise `HTTPError` for a filter that nobody has."""
    known = {*getattr(kind, "__struct_fields__", ())} - {"scope"}
    fields: dict[str, Any] = {"scope": scope}
    for name, text in given.items():
        if name not in known:
            raise HTTPError(
                400, f"there is no filter {name!r}; there are: {', '.join(sorted(known))}"
            )
        fields[name] = _value(name, text)
    return kind(**fields)


def _value(name: str, text: str) -> Any:
    if name == "state" and text not in ("", *_STATES):
        raise HTTPError(400, f"there is no state {text!r}; there are: {', '.join(_STATES)}")
    try:
        if name in _NUMBERS:
            return _number(_NUMBERS[name](text))
        return _WORDS[text.lower()] if name in _FLAGS else text
    except (ValueError, KeyError):
        raise HTTPError(400, f"{text!r} is nothing that {name!r} can be") from None


def _number(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(value)
    return value


# --- what is shown ---

_PARTS: Final = {
    "request": b"application/json",
    "upstream_request": b"application/json",
    "raw": b"application/octet-stream",
    "events": b"application/x-ndjson",
    "response": b"application/json",
}
"""What is stored of a request, and of which kind it is."""


def _page(page: Page[Any]) -> dict[str, Any]:
    return {
        "object": "list",
        "data": [msgspec.to_builtins(row) for row in page.items],
        "next": page.next or None,
        "has_more": bool(page.next),
        "total": page.total,
    }


def _shown(detail: RequestDetail) -> dict[str, Any]:
    """Show a request with what JSON can show of it."""
    return {
        **msgspec.to_builtins(detail.row),
        "text": detail.text,
        "notes": detail.notes,
        "request": _as_json(detail.request),
        "upstream_request": _as_json(detail.upstream_request),
        "response": _as_json(detail.response),
        "raw": detail.raw.decode("utf-8", "replace"),
        "events": [_as_json(line) for line in detail.events.splitlines()],
    }


def _as_json(data: bytes) -> Any:
    try:
        return _json.decode(data) if data else None
    except JSONParseError:
        return data.decode("utf-8", "replace")
