"""What the page asks of the gateway, over HTTP.

Everything needs what the log needs: the key, where there are keys, and whoever has one sees what
was asked with it and no more. Nothing that is asked for with GET changes anything. What is heavy is
done on threads (`exchange`).
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
from penstock.gateway.http_exchange import HTTPExchange
from penstock.gateway.inspector import analysis, exchange, exporting, playing, replays, samples
from penstock.gateway.inspector.board import GAP, TICK, Told, told_of
from penstock.gateway.inspector.working import MIN_CHUNKS
from penstock.gateway.log_handlers import read_from, store_of
from penstock.gateway.openapi import own_version
from penstock.gateway.redaction import LogRedactor
from penstock.store import MAX_PAGE, OverviewQuery, RequestDetail, RequestQuery, Store

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

PREFIX: Final = "/inspector/api/"
STREAMS: Final = f"{PREFIX}streams/"

HEARTBEAT: Final = 15.0
"""After how many seconds of silence whoever watches gets a sign of life."""

_URL: Final = re.compile(r"https?://[\w.:\[\]-]{1,300}", re.ASCII)
HOUR: Final = 3_600.0

_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")


# --- what there is ---


async def about(gateway: Gateway, caller: HTTPExchange) -> None:
    """Tell the page what there is: formats, APIs, models, and whether there is a log."""
    exchange.enter(gateway, caller)
    guest = gateway.door.admit(caller)
    listed = await gateway.directory.listed()
    await caller.answer(
        200,
        {
            "version": own_version(),
            "formats": samples.described(),
            "tools": samples.TOOLS,
            "reasoning": samples.reasoning_styles(),
            "apis": apis.names(),
            "models": [one["id"] for one in listed if guest.may_use(one["id"])],
            "log": gateway.store is not None,
            "bodies": gateway.store is not None and gateway.bodies,
            "needs_key": not gateway.door.is_open,
        },
        exchange.NO_STORE,
    )


async def overview(gateway: Gateway, caller: HTTPExchange) -> None:
    """Sum up the requests over time."""
    scope, store = exchange.enter(gateway, caller), store_of(gateway)
    now, query = time.time(), caller.query
    until = _number(query, "until", now)
    since = _number(query, "since", until - HOUR)
    if not since < until:
        raise HTTPError(400, "`since` must be before `until`")
    buckets = int(_number(query, "buckets", 60))
    wanted = OverviewQuery(scope=scope, since=since, until=until, buckets=buckets)
    found = await read_from(store.overview(wanted))
    told = {**msgspec.to_builtins(found), **_of_all(gateway, scope)}
    if scope is None:
        each = gateway.working.over_time(found.since, found.width, len(found.buckets))
        for bucket, cpu in zip(told["buckets"], each, strict=True):
            bucket["cpu"] = cpu
    await caller.answer(200, told, exchange.NO_STORE)


def _of_all(gateway: Gateway, scope: str | None) -> dict[str, Any]:
    """Tell what this process does for all; one who has a key is told of its own answers alone."""
    if scope is None:
        return {"cpu": _cpu(gateway), "open": gateway.streams}
    open_ = sum(journal.started.scope == scope for journal in gateway.board.open.values())
    return {"cpu": None, "open": open_}


def _cpu(gateway: Gateway) -> dict[str, float | None]:
    """Tell what this process has worked, all of it, and on how many pieces."""
    seconds, chunks = time.process_time(), gateway.working.chunks
    each = seconds / chunks * 1e6 if chunks >= MIN_CHUNKS else None
    return {"seconds": seconds, "chunks": chunks, "us_per_chunk": each}


def _number(query: dict[str, str], name: str, usual: float) -> float:
    try:
        value = float(query.get(name) or usual)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or abs(value) > 1e11:  # noqa: PLR2004 - some 3,000 years
        raise HTTPError(400, f"{query[name]!r} is nothing that {name!r} can be")
    return value


# --- what is on its way ---


async def live(gateway: Gateway, caller: HTTPExchange) -> None:
    """Tell of answers as they begin, go on and end, as an event stream."""
    scope, store = exchange.enter(gateway, caller), store_of(gateway)
    missed = await _missed(store, scope, caller.query.get("after", ""))
    with gateway.board.watching(store, scope) as watcher:
        await caller.begin_stream()
        watcher.tell(missed)
        gone = asyncio.create_task(caller.gone(), name="penstock: does the page watch?")
        try:
            await _tell(gateway, caller, watcher.next, gone)
        finally:
            gone.cancel()


async def _missed(store: Store, scope: str | None, after: str) -> list[Told]:
    """Give what is newer than *after*, oldest first; where it is more than a page, the newest."""
    if not after:
        return []
    query = RequestQuery(scope=scope, after=after, limit=MAX_PAGE)
    found = await read_from(store.requests(query))
    told = [told_of(row) for row in reversed(found.items)]
    return [(None, GAP), *told] if found.next else told


async def _tell(
    gateway: Gateway, caller: HTTPExchange, following: Callable[[], Any], gone: asyncio.Task[None]
) -> None:
    said = time.monotonic()
    await caller.send(b": penstock\n\n")
    coming = asyncio.ensure_future(following())
    try:
        while not gone.done() and not gateway.is_draining:
            await asyncio.wait([coming, gone], timeout=TICK, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                data, coming = coming.result(), asyncio.ensure_future(following())
            elif time.monotonic() - said >= HEARTBEAT:
                data = b": still here\n\n"
            else:
                continue
            said = time.monotonic()
            await caller.send(data)
    finally:
        coming.cancel()
    if not gone.done():
        await caller.end_stream()


# --- one stream ---


async def stream(gateway: Gateway, caller: HTTPExchange) -> None:
    """Show one stream: what came, what became of it, what went out (``/vector``, ``/curl``)."""
    whose = exchange.enter(gateway, caller)
    detail, part = await _found(gateway, caller, whose)
    secrets = _secrets(gateway, caller)
    if not part:
        full = caller.query.get("full") in ("1", "true")
        await exchange.answer(gateway, caller, whose, lambda: analysis.analyse(detail, full=full))
    elif part == "vector":
        await exchange.answer(gateway, caller, whose, lambda: exporting.vector_of(detail, secrets))
    elif part == "curl":
        base, needs_key = _base(caller), not gateway.door.is_open

        def written() -> str:
            return exporting.curl_of(detail, base, secrets, needs_key=needs_key)

        text = await exchange.done(gateway, caller, whose, written)
        await caller.answer(200, text.encode(), _TEXT, exchange.NO_STORE, is_json=False)
    else:
        raise HTTPError(404, f"a stream has no {part!r}; it has: vector, curl, and replay to POST")


async def replay(gateway: Gateway, caller: HTTPExchange) -> None:
    """Read one stream again (``/replay``), with other options, and show what is different."""
    whose = exchange.enter(gateway, caller)
    detail, part = await _found(gateway, caller, whose)
    if part != "replay":
        raise HTTPError(404, "what can be posted to a stream is replay")
    data = await exchange.body_of(gateway, caller)
    full = caller.query.get("full") in ("1", "true")

    def work() -> dict[str, Any]:
        changes = exchange.read_as(data or b"{}", replays.Changes, gateway.limits.depth)
        return replays.replayed(detail, changes, full=full)

    await exchange.answer(gateway, caller, whose, work)


async def _found(
    gateway: Gateway, caller: HTTPExchange, scope: str | None
) -> tuple[RequestDetail, str]:
    """Find the request that *caller* names, and what of it is wanted."""
    store = store_of(gateway)
    id_, _, part = caller.path.removeprefix(STREAMS).partition("/")
    detail = await read_from(store.request(id_))
    if detail is None or scope not in (None, detail.row.scope):
        raise HTTPError(404, f"there is no request {id_!r}")
    return detail, part


def _base(caller: HTTPExchange) -> str:
    """Give where the gateway is found: as the page knows it, else as it was asked for."""
    base = caller.query.get("base", "")
    return base if _URL.fullmatch(base) else f"http://{caller.header('host') or 'localhost'}"


def _secrets(gateway: Gateway, caller: HTTPExchange) -> LogRedactor:
    return gateway.secrets.with_keys(presented_keys(caller))


# --- the playground ---


async def parse(gateway: Gateway, caller: HTTPExchange) -> None:
    """Read a text as a format, and hold the laws to it."""
    whose, data = exchange.enter(gateway, caller), await exchange.body_of(gateway, caller)

    def work() -> dict[str, Any]:
        return playing.parse(exchange.read_as(data, playing.Play, gateway.limits.depth))

    await exchange.answer(gateway, caller, whose, work)


async def formats(gateway: Gateway, caller: HTTPExchange) -> None:
    """Say what each format reads in a text."""
    whose, data = exchange.enter(gateway, caller), await exchange.body_of(gateway, caller)

    def work() -> dict[str, Any]:
        play = exchange.read_as(data, playing.Play, gateway.limits.depth)
        return playing.compare(play.text, play.tools)

    await exchange.answer(gateway, caller, whose, work)
