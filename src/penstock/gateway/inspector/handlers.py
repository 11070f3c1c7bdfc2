"""What the page asks of the gateway, over HTTP.

Everything needs what the log needs: the key, where there are keys, and whoever has one sees what
was asked with it and no more. Nothing that is asked for with GET changes anything. What is heavy is
done on threads (`heavy`); bodies have a limit of their own, below that of the models' endpoints.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from penstock import apis
from penstock.errors import UsageError
from penstock.gateway import body
from penstock.gateway.admission import presented_keys
from penstock.gateway.caller import Caller
from penstock.gateway.inspector import analysis, exporting, heavy, playing, replays, samples
from penstock.gateway.inspector.board import TICK, told_of
from penstock.gateway.logged import read_from, store_of
from penstock.gateway.openapi import own_version
from penstock.gateway.refusals import Refusal
from penstock.gateway.secrecy import Secrets
from penstock.store import MAX_PAGE, OverviewQuery, RequestDetail

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

PREFIX: Final = "/inspector/api/"
STREAMS: Final = f"{PREFIX}streams/"

MAX_BODY: Final = 8_000_000
"""How many bytes a page may send: the longest text of the playground, however it is escaped."""

HEARTBEAT: Final = 15.0
"""After how many seconds of silence whoever watches gets a sign of life."""

_URL: Final = re.compile(r"https?://[\w.:\[\]-]{1,300}", re.ASCII)
HOUR: Final = 3_600.0
MIN_CHUNKS: Final = 100
"""From how many pieces on it is told what one costs: before, the start of the process is all."""

_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")
_NO_STORE: Final = (b"cache-control", b"no-store")

Asked = TypeVar("Asked")
_workshop: Final = heavy.Workshop()


# --- what there is ---


async def about(gateway: Gateway, caller: Caller) -> None:
    """Tell the page what there is: formats, APIs, models, and whether there is a log."""
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
        _NO_STORE,
    )


async def overview(gateway: Gateway, caller: Caller) -> None:
    """Sum up the requests over time."""
    scope, store = gateway.scope_of(caller), store_of(gateway)
    now, query = time.time(), caller.query
    until = _number(query, "until", now)
    since = _number(query, "since", until - HOUR)
    if not since < until:
        raise Refusal(400, "`since` must be before `until`")
    buckets = int(_number(query, "buckets", 60))
    wanted = OverviewQuery(scope=scope, since=since, until=until, buckets=buckets)
    found = await read_from(store.overview(wanted))
    told = {**msgspec.to_builtins(found), "cpu": _cpu(gateway), "open": gateway.streams}
    await caller.answer(200, told, _NO_STORE)


def _cpu(gateway: Gateway) -> dict[str, float | None]:
    """Tell what this process has worked, all of it, and on how many pieces."""
    metric = gateway.metrics.chunks.collect()
    chunks = sum(
        sample.value for one in metric for sample in one.samples if sample.name.endswith("_total")
    )
    seconds = time.process_time()
    each = seconds / chunks * 1e6 if chunks >= MIN_CHUNKS else None
    return {"seconds": seconds, "chunks": chunks, "us_per_chunk": each}


def _number(query: dict[str, str], name: str, usual: float) -> float:
    try:
        value = float(query.get(name) or usual)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or abs(value) > 1e11:  # noqa: PLR2004 - some 3,000 years
        raise Refusal(400, f"{query[name]!r} is nothing that {name!r} can be")
    return value


# --- what is on its way ---


async def live(gateway: Gateway, caller: Caller) -> None:
    """Tell of answers as they begin, go on and end, as an event stream."""
    scope, store = gateway.scope_of(caller), store_of(gateway)
    after = caller.query.get("after", "")
    missed = await read_from(store.follow(after, MAX_PAGE)) if after else []
    with gateway.board.watching(store, scope) as watcher:
        await caller.begin_stream()
        watcher.tell(told_of(row) for row in missed)
        gone = asyncio.create_task(caller.gone(), name="penstock: does the page watch?")
        try:
            await _tell(gateway, caller, watcher.next, gone)
        finally:
            gone.cancel()


async def _tell(
    gateway: Gateway, caller: Caller, following: Callable[[], Any], gone: asyncio.Task[None]
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


async def stream(gateway: Gateway, caller: Caller) -> None:
    """Show one stream: what came, what became of it, what went out (``/vector``, ``/curl``)."""
    detail, part = await _found(gateway, caller)
    secrets = _secrets(gateway, caller)
    if not part:
        full = caller.query.get("full") in ("1", "true")
        await _answer(caller, lambda: analysis.analyse(detail, full=full))
    elif part == "vector":
        await _answer(caller, lambda: exporting.vector_of(detail, secrets))
    elif part == "curl":
        base, needs_key = _base(caller), not gateway.door.is_open
        text = await _done(lambda: exporting.curl_of(detail, base, secrets, needs_key=needs_key))
        await caller.answer(200, text.encode(), _TEXT, _NO_STORE, is_json=False)
    else:
        raise Refusal(404, f"a stream has no {part!r}; it has: vector, curl, and replay to POST")


async def replay(gateway: Gateway, caller: Caller) -> None:
    """Read one stream again (``/replay``), with other options, and show what is different."""
    detail, part = await _found(gateway, caller)
    if part != "replay":
        raise Refusal(404, "what can be posted to a stream is replay")
    data = await _body(gateway, caller)
    full = caller.query.get("full") in ("1", "true")

    def work() -> dict[str, Any]:
        changes = _asked(data or b"{}", replays.Changes, gateway.limits.depth)
        return replays.replayed(detail, changes, full=full)

    await _answer(caller, work)


async def _found(gateway: Gateway, caller: Caller) -> tuple[RequestDetail, str]:
    """Find the request that *caller* names, and what of it is wanted."""
    scope, store = gateway.scope_of(caller), store_of(gateway)
    id_, _, part = caller.path.removeprefix(STREAMS).partition("/")
    detail = await read_from(store.request(id_))
    if detail is None or scope not in (None, detail.row.scope):
        raise Refusal(404, f"there is no request {id_!r}")
    return detail, part


def _base(caller: Caller) -> str:
    """Give where the gateway is found: as the page knows it, else as it was asked for."""
    base = caller.query.get("base", "")
    return base if _URL.fullmatch(base) else f"http://{caller.header('host') or 'localhost'}"


def _secrets(gateway: Gateway, caller: Caller) -> Secrets:
    return gateway.secrets.with_keys(presented_keys(caller))


# --- the playground ---


async def parse(gateway: Gateway, caller: Caller) -> None:
    """Read a text as a format, and hold the laws to it."""
    gateway.door.admit(caller)
    data = await _body(gateway, caller)
    await _answer(caller, lambda: playing.parse(_asked(data, playing.Play, gateway.limits.depth)))


async def formats(gateway: Gateway, caller: Caller) -> None:
    """Say what each format reads in a text."""
    gateway.door.admit(caller)
    data = await _body(gateway, caller)

    def work() -> dict[str, Any]:
        play = _asked(data, playing.Play, gateway.limits.depth)
        return playing.compare(play.text, play.tools)

    await _answer(caller, work)


# --- what is asked, and how it is answered ---


async def _body(gateway: Gateway, caller: Caller) -> bytes:
    limits = gateway.limits
    return await caller.body(min(limits.body_bytes, MAX_BODY), limits.body_seconds)


def _asked(data: bytes, kind: type[Asked], depth: int) -> Asked:
    """Read a body; raise `Refusal` for one that is no *kind*."""
    try:
        return msgspec.convert(body.read_object(data, depth), kind)
    except msgspec.ValidationError as exc:
        raise Refusal(400, str(exc)) from None


async def _answer(caller: Caller, work: Callable[[], object]) -> None:
    """Answer with what *work* gives, which is done and written as JSON on a thread."""
    data = await _done(lambda: heavy.encode(work()))
    kind = (b"content-type", b"application/json")
    await caller.answer(200, data, kind, _NO_STORE, is_json=False)


async def _done(work: Callable[[], Asked]) -> Asked:
    try:
        return await _workshop.do(work)
    except UsageError as exc:
        raise Refusal(400, str(exc)) from None
