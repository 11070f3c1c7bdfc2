"""The HTTP endpoints of the page.

All of them need the same key as the log; a client sees what was requested with its own key only.
GET requests change nothing. Heavy work runs in the worker process (`workers`).
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

import penstock
from penstock import apis
from penstock.gateway.auth import with_presented_keys
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import JSON, ClientDisconnectedError, HTTPExchange
from penstock.gateway.inspector import analysis, export, playground
from penstock.gateway.inspector.live import (
    GAP,
    INTERVAL,
    TAIL_INTERVAL,
    StreamTail,
    Update,
    make_row,
    make_update,
)
from penstock.gateway.inspector.workers import Work
from penstock.gateway.log_handlers import read_log, require_store
from penstock.store import MAX_PAGE, OverviewQuery, RequestDetail, RequestQuery, Store

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

PREFIX: Final = "/inspector/api/"
STREAMS: Final = f"{PREFIX}streams/"
CONVERSATIONS: Final = f"{PREFIX}conversations/"

MAX_BODY: Final = 4_000_000
"""How many bytes a page may send: the longest text of the playground with escapes, and tools."""

PAGE_KEEPALIVE_SECONDS: Final = 15.0
"""After how many seconds without an update a watcher receives a comment."""

HOUR: Final = 3_600.0

MIN_FITTED: Final = 60.0
"""How many seconds a range has that was fitted to the requests."""

_TRUE: Final = ("1", "true")
_URL: Final = re.compile(r"https?://[\w.:\[\]-]{1,300}", re.ASCII)
_NO_STORE: Final = (b"cache-control", b"no-store")
_NO_SNIFFING: Final = (b"x-content-type-options", b"nosniff")
_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")


def _admit(gateway: Gateway, exchange: HTTPExchange) -> str | None:
    """Check the key of *exchange*; return the scope that it may see, None for everything."""
    exchange.extra_headers.append(_NO_SNIFFING)
    return gateway.log_scope(exchange)


# --- the page's data ---


async def about(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Return the formats, APIs and models, and whether there is a log."""
    _admit(gateway, exchange)
    gateway.inspector_workers.warm_up()
    client = gateway.auth.authenticate(exchange)
    listed = await gateway.router.list_models()
    await exchange.respond(
        200,
        {
            "version": penstock.__version__,
            "formats": playground.describe_formats(),
            "tools": playground.TOOLS,
            "reasoning": playground.reasoning_styles(),
            "apis": apis.names(),
            "models": [one["id"] for one in listed if client.may_use(one["id"])],
            "demo": next((one for one in gateway.router.demo_models() if client.may_use(one)), ""),
            "log": gateway.store is not None,
            "bodies": gateway.store is not None and gateway.bodies,
            "needs_key": not gateway.auth.is_open,
        },
        _NO_STORE,
    )


async def overview(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Return statistics of the requests over time."""
    scope, store = _admit(gateway, exchange), require_store(gateway)
    query = exchange.query
    until = _read_number(query, "until", time.time())
    since = _read_number(query, "since", until - HOUR)
    if query.get("fit") in _TRUE:  # from the first request after `since`
        first = await read_log(store.first_time(scope, since))
        since = max(since, min(first or since, until - MIN_FITTED))
    if not since < until:
        raise HTTPError(400, "'since' must be before 'until'")
    buckets = int(_read_number(query, "buckets", 60))
    wanted = OverviewQuery(scope=scope, since=since, until=until, buckets=buckets)
    found = await read_log(store.overview(wanted))
    shown: dict[str, Any] = msgspec.to_builtins(found)
    logs = gateway.live_feed.open.values()  # A key sees its own responses only.
    shown["open"] = sum(scope in (None, log.started.scope) for log in logs)
    await exchange.respond(200, shown, _NO_STORE)


def _read_number(query: dict[str, str], name: str, default: float) -> float:
    try:
        value = float(query.get(name) or default)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or abs(value) > 1e11:  # noqa: PLR2004 - some 3,000 years
        raise HTTPError(400, f"invalid value for {name!r}: {query[name]!r}")
    return value


# --- the live feed ---


async def live(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Report responses as they start, progress and end, as an event stream."""
    scope, store = _admit(gateway, exchange), require_store(gateway)
    missed = await _read_missed(store, scope, exchange.query.get("after", ""))
    with gateway.live_feed.watch(store, scope) as watcher:
        await exchange.start_stream()
        watcher.push(missed)
        gone = asyncio.create_task(
            exchange.wait_for_disconnect(), name="penstock: client of the live feed"
        )
        try:
            await _send_updates(gateway, exchange, watcher.next, gone)
        finally:
            gone.cancel()


async def _read_missed(store: Store, scope: str | None, after: str) -> list[Update]:
    """Return the rows newer than *after*, oldest first; of more than a page the newest."""
    if not after:
        return []
    query = RequestQuery(scope=scope, after=after, limit=MAX_PAGE)
    found = await read_log(store.requests(query))
    updates = [make_update(row) for row in reversed(found.items)]
    return [(None, GAP), *updates] if found.next else updates


async def _send_updates(
    gateway: Gateway, exchange: HTTPExchange, read_next: Callable[[], Any], gone: asyncio.Task[None]
) -> None:
    sent = time.monotonic()
    await exchange.send(b": penstock\n\n")
    coming = asyncio.ensure_future(read_next())
    try:
        while not gone.done() and not gateway.is_draining:
            done = asyncio.FIRST_COMPLETED
            await asyncio.wait([coming, gone], timeout=INTERVAL, return_when=done)
            if coming.done():
                data, coming = coming.result(), asyncio.ensure_future(read_next())
            elif time.monotonic() - sent >= PAGE_KEEPALIVE_SECONDS:
                data = b": still here\n\n"
            else:
                continue
            sent = time.monotonic()
            await exchange.send(data)
    finally:
        coming.cancel()
    if not gone.done():
        await exchange.end_stream()


# --- one stream ---


async def stream(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Return the analysis of one stream, an export (``/vector``, ``/curl``), or its ``/live``."""
    scope = _admit(gateway, exchange)
    if exchange.path.endswith("/live"):
        await _follow_stream(gateway, exchange, scope)
        return
    detail, part = await _find_request(gateway, exchange, scope)
    redactor = with_presented_keys(gateway.redactor, exchange)
    if not part:
        await _send_work(gateway, exchange, scope, analysis.analyse, detail, _is_full(exchange))
    elif part == "vector":
        await _send_work(gateway, exchange, scope, export.make_vector, detail, redactor)
    elif part == "curl":
        # The page knows the address at which the browser reaches the gateway.
        base = exchange.query.get("base", "")
        if not _URL.fullmatch(base):
            base = f"http://{exchange.header('host') or 'localhost'}"
        needs_key = not gateway.auth.is_open
        arguments = (detail, base, redactor, needs_key)
        await _send_work(gateway, exchange, scope, export.encode_curl, *arguments, kind=_TEXT)
    else:
        raise HTTPError(404, f"a stream has no {part!r}; it has: live, vector, curl, replay (POST)")


async def _follow_stream(gateway: Gateway, exchange: HTTPExchange, scope: str | None) -> None:
    """Report the events of a response in progress as an event stream, until it ends.

    A response that has ended, or that another worker process serves, is an empty stream.
    """
    require_store(gateway)
    id_ = exchange.path.removeprefix(STREAMS).removesuffix("/live")
    log = gateway.live_feed.open.get(id_)
    if log is not None and scope not in (None, log.started.scope):
        raise HTTPError(404, f"unknown request {id_!r}")
    with gateway.live_feed.admit(scope):
        await exchange.start_stream()
        if log is None:
            await exchange.end_stream()
            return
        await exchange.send(make_update(make_row(log))[1])
        gone = asyncio.create_task(
            exchange.wait_for_disconnect(), name="penstock: client of a live stream"
        )
        try:
            tail = StreamTail(log)
            while not gone.done() and not gateway.is_draining:
                is_open = id_ in gateway.live_feed.open
                frames, is_more = tail.read()
                if frames:
                    await exchange.send(frames)
                if not is_open:
                    break
                await asyncio.wait([gone], timeout=0 if is_more else TAIL_INTERVAL)
            if not gone.done():
                await exchange.end_stream()
        finally:
            gone.cancel()


# --- conversations ---


async def conversations(gateway: Gateway, exchange: HTTPExchange) -> None:
    """List the conversations of several requests, the newest first."""
    scope, store = _admit(gateway, exchange), require_store(gateway)
    before = exchange.query.get("before", "")
    limit = int(_read_number(exchange.query, "limit", 50))
    found = await read_log(store.conversations(scope, before, limit))
    listed = {"data": msgspec.to_builtins(found.items), "next": found.next or None}
    await exchange.respond(200, listed, _NO_STORE)


async def conversation(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Return the requests of one conversation, and the messages of the longest of them."""
    scope, store = _admit(gateway, exchange), require_store(gateway)
    id_ = exchange.path.removeprefix(CONVERSATIONS)
    query = RequestQuery(scope=scope, conversation=id_, limit=MAX_PAGE)
    found = await read_log(store.requests(query))
    if not id_ or not found.items:
        raise HTTPError(404, f"unknown conversation {id_!r}")
    rows = found.items[::-1]
    longest = max(rows, key=lambda row: (row.messages, row.state == "done", row.id))
    detail = await read_log(store.request(longest.id))
    work = analysis.show_conversation
    await _send_work(gateway, exchange, scope, work, rows, detail)


async def replay(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Parse one stream again (``/replay``) with other options; return what is different."""
    scope = _admit(gateway, exchange)
    detail, part = await _find_request(gateway, exchange, scope)
    if part != "replay":
        raise HTTPError(404, "only replay can be posted to a stream")
    data = await _read_body(gateway, exchange)
    arguments = (detail, data, gateway.limits.depth, _is_full(exchange))
    await _send_work(gateway, exchange, scope, analysis.replay_from_body, *arguments)


async def _find_request(
    gateway: Gateway, exchange: HTTPExchange, scope: str | None
) -> tuple[RequestDetail, str]:
    """Return the request in the path of *exchange*, and the part of it after its id."""
    store = require_store(gateway)
    id_, _, part = exchange.path.removeprefix(STREAMS).partition("/")
    detail = await read_log(store.request(id_))
    if detail is None or scope not in (None, detail.row.scope):
        raise HTTPError(404, f"unknown request {id_!r}")
    return detail, part


def _is_full(exchange: HTTPExchange) -> bool:
    return exchange.query.get("full") in _TRUE


# --- the playground ---


async def parse(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Parse a text in one format, and check the guarantees of the parser on it."""
    scope, data = _admit(gateway, exchange), await _read_body(gateway, exchange)
    await _send_work(gateway, exchange, scope, playground.parse, data, gateway.limits.depth)


async def formats(gateway: Gateway, exchange: HTTPExchange) -> None:
    """Parse a text in every format."""
    scope, data = _admit(gateway, exchange), await _read_body(gateway, exchange)
    depth = gateway.limits.depth
    await _send_work(gateway, exchange, scope, playground.compare_formats, data, depth)


# --- requests and responses ---


async def _read_body(gateway: Gateway, exchange: HTTPExchange) -> bytes:
    limits = gateway.limits
    return await exchange.read_body(min(limits.body_bytes, MAX_BODY), limits.body_seconds)


async def _send_work(
    gateway: Gateway,
    exchange: HTTPExchange,
    scope: str | None,
    work: Work,
    *arguments: Any,
    kind: tuple[bytes, bytes] = JSON,
) -> None:
    """Run ``work(*arguments)`` in the worker process; send its result unless the client leaves."""
    task = asyncio.ensure_future(gateway.inspector_workers.run(work, *arguments, key=scope))

    def abandon() -> None:
        task.cancel()

    exchange.watch(abandon)
    try:
        data = await task
    except asyncio.CancelledError:
        if exchange.is_gone:
            raise ClientDisconnectedError from None
        raise
    finally:
        exchange.unwatch()
    await exchange.respond(200, data, kind, _NO_STORE, is_json=False)
