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

from penstock import apis
from penstock.gateway.auth import presented_keys
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import JSON, ClientDisconnectedError, HTTPExchange
from penstock.gateway.inspector import analysis, export, playground
from penstock.gateway.inspector.live import GAP, INTERVAL, MIN_CHUNKS, Update, make_update
from penstock.gateway.inspector.workers import Work
from penstock.gateway.log_handlers import read_from, store_of
from penstock.gateway.openapi import own_version
from penstock.store import MAX_PAGE, OverviewQuery, RequestDetail, RequestQuery, Store

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

PREFIX: Final = "/inspector/api/"
STREAMS: Final = f"{PREFIX}streams/"

MAX_BODY: Final = 4_000_000
"""How many bytes a page may send: the longest text of the playground with escapes, and tools."""

HEARTBEAT: Final = 15.0
"""After how many seconds without an update a watcher receives a comment."""

HOUR: Final = 3_600.0

_URL: Final = re.compile(r"https?://[\w.:\[\]-]{1,300}", re.ASCII)
_NO_STORE: Final = (b"cache-control", b"no-store")
_NO_SNIFFING: Final = (b"x-content-type-options", b"nosniff")
_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")


def _admit(gateway: Gateway, caller: HTTPExchange) -> str | None:
    """Check the key of *caller*; return the scope that it may see, None for everything."""
    caller.extra.append(_NO_SNIFFING)
    return gateway.scope_of(caller)


# --- the page's data ---


async def about(gateway: Gateway, caller: HTTPExchange) -> None:
    """Return the formats, APIs and models, and whether there is a log."""
    _admit(gateway, caller)
    gateway.inspector_workers.warm_up()
    guest = gateway.door.admit(caller)
    listed = await gateway.directory.listed()
    await caller.answer(
        200,
        {
            "version": own_version(),
            "formats": playground.describe_formats(),
            "tools": playground.TOOLS,
            "reasoning": playground.reasoning_styles(),
            "apis": apis.names(),
            "models": [one["id"] for one in listed if guest.may_use(one["id"])],
            "log": gateway.store is not None,
            "bodies": gateway.store is not None and gateway.bodies,
            "needs_key": not gateway.door.is_open,
        },
        _NO_STORE,
    )


async def overview(gateway: Gateway, caller: HTTPExchange) -> None:
    """Return statistics of the requests over time."""
    scope, store = _admit(gateway, caller), store_of(gateway)
    query = caller.query
    until = _read_number(query, "until", time.time())
    since = _read_number(query, "since", until - HOUR)
    if not since < until:
        raise HTTPError(400, "'since' must be before 'until'")
    buckets = int(_read_number(query, "buckets", 60))
    wanted = OverviewQuery(scope=scope, since=since, until=until, buckets=buckets)
    found = await read_from(store.overview(wanted))
    shown: dict[str, Any] = msgspec.to_builtins(found)
    if scope is None:
        seconds, chunks = time.process_time(), gateway.cpu_samples.chunks
        each = seconds / chunks * 1e6 if chunks >= MIN_CHUNKS else None
        shown["cpu"] = {"seconds": seconds, "chunks": chunks, "us_per_chunk": each}
        shown["open"] = gateway.streams
        costs = gateway.cpu_samples.per_bucket(found.since, found.width, len(found.buckets))
        for bucket, cost in zip(shown["buckets"], costs, strict=True):
            bucket["cpu"] = cost
    else:  # A key sees its own responses only, and not what the process costs.
        journals = gateway.live_feed.open.values()
        shown["cpu"] = None
        shown["open"] = sum(journal.started.scope == scope for journal in journals)
    await caller.answer(200, shown, _NO_STORE)


def _read_number(query: dict[str, str], name: str, default: float) -> float:
    try:
        value = float(query.get(name) or default)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or abs(value) > 1e11:  # noqa: PLR2004 - some 3,000 years
        raise HTTPError(400, f"invalid value for {name!r}: {query[name]!r}")
    return value


# --- the live feed ---


async def live(gateway: Gateway, caller: HTTPExchange) -> None:
    """Report responses as they start, progress and end, as an event stream."""
    scope, store = _admit(gateway, caller), store_of(gateway)
    missed = await _read_missed(store, scope, caller.query.get("after", ""))
    with gateway.live_feed.watch(store, scope) as watcher:
        await caller.begin_stream()
        watcher.push(missed)
        gone = asyncio.create_task(caller.gone(), name="penstock: client of the live feed")
        try:
            await _send_updates(gateway, caller, watcher.next, gone)
        finally:
            gone.cancel()


async def _read_missed(store: Store, scope: str | None, after: str) -> list[Update]:
    """Return the rows newer than *after*, oldest first; of more than a page the newest."""
    if not after:
        return []
    query = RequestQuery(scope=scope, after=after, limit=MAX_PAGE)
    found = await read_from(store.requests(query))
    updates = [make_update(row) for row in reversed(found.items)]
    return [(None, GAP), *updates] if found.next else updates


async def _send_updates(
    gateway: Gateway, caller: HTTPExchange, read_next: Callable[[], Any], gone: asyncio.Task[None]
) -> None:
    sent = time.monotonic()
    await caller.send(b": penstock\n\n")
    coming = asyncio.ensure_future(read_next())
    try:
        while not gone.done() and not gateway.is_draining:
            done = asyncio.FIRST_COMPLETED
            await asyncio.wait([coming, gone], timeout=INTERVAL, return_when=done)
            if coming.done():
                data, coming = coming.result(), asyncio.ensure_future(read_next())
            elif time.monotonic() - sent >= HEARTBEAT:
                data = b": still here\n\n"
            else:
                continue
            sent = time.monotonic()
            await caller.send(data)
    finally:
        coming.cancel()
    if not gone.done():
        await caller.end_stream()


# --- one stream ---


async def stream(gateway: Gateway, caller: HTTPExchange) -> None:
    """Return the analysis of one stream, or (``/vector``, ``/curl``) an export of it."""
    scope = _admit(gateway, caller)
    detail, part = await _find_request(gateway, caller, scope)
    secrets = gateway.secrets.with_keys(presented_keys(caller))
    if not part:
        await _send_work(gateway, caller, scope, analysis.analyse, detail, _is_full(caller))
    elif part == "vector":
        await _send_work(gateway, caller, scope, export.make_vector, detail, secrets)
    elif part == "curl":
        # The page knows the address at which the browser reaches the gateway.
        base = caller.query.get("base", "")
        if not _URL.fullmatch(base):
            base = f"http://{caller.header('host') or 'localhost'}"
        needs_key = not gateway.door.is_open
        arguments = (detail, base, secrets, needs_key)
        await _send_work(gateway, caller, scope, export.encode_curl, *arguments, kind=_TEXT)
    else:
        raise HTTPError(404, f"a stream has no {part!r}; it has: vector, curl, and replay (POST)")


async def replay(gateway: Gateway, caller: HTTPExchange) -> None:
    """Parse one stream again (``/replay``) with other options; return what is different."""
    scope = _admit(gateway, caller)
    detail, part = await _find_request(gateway, caller, scope)
    if part != "replay":
        raise HTTPError(404, "only replay can be posted to a stream")
    data = await _read_body(gateway, caller)
    arguments = (detail, data, gateway.limits.depth, _is_full(caller))
    await _send_work(gateway, caller, scope, analysis.replay_from_body, *arguments)


async def _find_request(
    gateway: Gateway, caller: HTTPExchange, scope: str | None
) -> tuple[RequestDetail, str]:
    """Return the request in the path of *caller*, and the part of it after its id."""
    store = store_of(gateway)
    id_, _, part = caller.path.removeprefix(STREAMS).partition("/")
    detail = await read_from(store.request(id_))
    if detail is None or scope not in (None, detail.row.scope):
        raise HTTPError(404, f"there is no request {id_!r}")
    return detail, part


def _is_full(caller: HTTPExchange) -> bool:
    return caller.query.get("full") in ("1", "true")


# --- the playground ---


async def parse(gateway: Gateway, caller: HTTPExchange) -> None:
    """Parse a text in one format, and check the guarantees of the parser on it."""
    scope, data = _admit(gateway, caller), await _read_body(gateway, caller)
    await _send_work(gateway, caller, scope, playground.parse, data, gateway.limits.depth)


async def formats(gateway: Gateway, caller: HTTPExchange) -> None:
    """Parse a text in every format."""
    scope, data = _admit(gateway, caller), await _read_body(gateway, caller)
    depth = gateway.limits.depth
    await _send_work(gateway, caller, scope, playground.compare_formats, data, depth)


# --- requests and responses ---


async def _read_body(gateway: Gateway, caller: HTTPExchange) -> bytes:
    limits = gateway.limits
    return await caller.body(min(limits.body_bytes, MAX_BODY), limits.body_seconds)


async def _send_work(
    gateway: Gateway,
    caller: HTTPExchange,
    scope: str | None,
    work: Work,
    *arguments: Any,
    kind: tuple[bytes, bytes] = JSON,
) -> None:
    """Run ``work(*arguments)`` in the worker process; send its result unless the client leaves."""
    task = asyncio.ensure_future(gateway.inspector_workers.run(work, *arguments, key=scope))

    def abandon() -> None:
        task.cancel()

    caller.watch(abandon)
    try:
        data = await task
    except asyncio.CancelledError:
        if caller.is_gone:
            raise ClientDisconnectedError from None
        raise
    finally:
        caller.unwatch()
    await caller.answer(200, data, kind, _NO_STORE, is_json=False)
