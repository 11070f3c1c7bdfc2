"""The gateway as an ASGI application: who is in, what is open, and where each path leads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from logging import getLogger
from math import inf
from typing import Final

from msgspec import Struct

from penstock.events import Failed
from penstock.gateway import errors
from penstock.gateway.auth import Authenticator, Quota
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import (
    ClientDisconnectedError,
    HTTPExchange,
    Receive,
    Scope,
    Send,
)
from penstock.gateway.inspector.live import CpuSamples, LiveFeed
from penstock.gateway.inspector.workers import WorkerPool
from penstock.gateway.metrics import DIRECTORY, Metrics
from penstock.gateway.model_router import ModelRouter
from penstock.gateway.redaction import LogRedactor
from penstock.gateway.request_log import RequestLog
from penstock.gateway.response import ResponseWriter
from penstock.gateway.routes import find
from penstock.gateway.stored_responses import Conversations
from penstock.gateway.upstream_health import Reachability
from penstock.messages import ErrorInfo
from penstock.store import Store

_LOG: Final = getLogger("penstock.gateway")
RETRY_AFTER: Final = 5.0
"""After how many seconds a client may come back that found the gateway full or closing."""

NOTICE: Final = 1.0
"""After how many seconds a worker brings its figures of the log up to date for the others."""

MAX_WARNED: Final = 256
"""How many different warnings about requests are logged: clients choose some of the words."""

PATIENCE: Final = 15.0
"""After how many seconds of silence a client gets a sign of life."""


class Limits(Struct, frozen=True):
    """How much one request may be, and how many there may be; 0 streams are any number."""

    body_bytes: int = 10_000_000
    body_seconds: float = 30.0
    depth: int = 200
    tools: int = 1_024
    choices: int = 8
    streams: int = 0


class Gateway:
    """Serves models of *directory* to clients; an ASGI application."""

    def __init__(
        self,
        directory: ModelRouter,
        door: Authenticator | None = None,
        store: Store | None = None,
        *,
        limits: Limits | None = None,
        secrets: LogRedactor | None = None,
        bodies: bool = True,
        patience: float = PATIENCE,
    ) -> None:
        self.directory = directory
        self.door = door or Authenticator({})
        self.store = store
        self.limits = limits or Limits()
        self.secrets = secrets or LogRedactor()
        self.bodies = bodies
        self.patience = patience
        self.metrics = Metrics()
        self.reachability = Reachability()
        kept = inf if store is None else store.keep_seconds
        self.conversations = Conversations(store, bodies=bodies, keep_seconds=kept)
        self.is_draining = False
        self.live_feed = LiveFeed()
        self.cpu_samples = CpuSamples()
        self.inspector_workers = WorkerPool()
        self._inside = 0  # requests, those whose body is still coming too
        self._open: set[ResponseWriter] = set()
        self._left = asyncio.Event()  # an answer has ended
        self._retiring: asyncio.Task[None] | None = None
        self._noting: asyncio.TimerHandle | None = None
        self._warned: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one exchange, or the life of the server."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        caller = HTTPExchange(scope, receive, send)
        try:
            await find(caller)(self, caller)
        except ClientDisconnectedError:
            return
        except Exception as exc:  # noqa: BLE001 - whatever it is, the client is told
            await self._excuse(caller, exc)

    # --- one exchange ---

    async def _excuse(self, caller: HTTPExchange, exc: Exception) -> None:
        """Say why a request is not answered."""
        if isinstance(exc, HTTPError):
            await self._refuse(caller, exc.info, close=exc.close)
            return
        _LOG.error("a request to %r failed", caller.path, exc_info=exc)
        if caller.has_begun:
            raise exc  # The server cuts the connection: the client sees that it was no end.
        error = ErrorInfo("the gateway failed; its log says why", "provider", "api_error", 500)
        await self._refuse(caller, error, close=True)

    async def _refuse(self, caller: HTTPExchange, error: ErrorInfo, *, close: bool) -> None:
        status, written = errors.write(error, caller.api)
        self.metrics.refusals.labels(str(status)).inc()
        await caller.answer(status, written, *errors.headers_of(error, close=close))

    def warn_once(self, words: str) -> None:
        """Log *words* as a warning unless they were logged before."""
        if words not in self._warned and len(self._warned) < MAX_WARNED:
            self._warned.add(words)
            _LOG.warning("%s", words)

    def scope_of(self, caller: HTTPExchange) -> str | None:
        """Return whose part of the log *caller* sees; None is all of it, where nobody has a key."""
        guest = self.door.admit(caller)
        return None if self.door.is_open else guest.name

    # --- what is open ---

    # No context managers, which would be held for as long as an answer takes.

    def enter(self) -> None:
        """Count a request in, from before its body has come; raise `HTTPError` for one too many."""
        if self.is_draining:
            raise HTTPError(503, "the gateway is shutting down", retry_after=RETRY_AFTER)
        if self.limits.streams and self._inside >= self.limits.streams:
            raise HTTPError(503, "the gateway is full", retry_after=RETRY_AFTER)
        self._inside += 1

    def leave(self) -> None:
        """Count a request out."""
        self._inside -= 1
        self._left.set()

    @property
    def streams(self) -> int:
        """How many answers are in progress."""
        return len(self._open)

    def begin(self, answering: ResponseWriter, journal: RequestLog) -> None:
        """Count an answer in."""
        self._open.add(answering)
        self.live_feed.open[journal.started.id] = journal
        self.metrics.streams.set(len(self._open))

    def end(self, answering: ResponseWriter, journal: RequestLog, api: str) -> None:
        """Count an answer out, and what it came to."""
        self._open.discard(answering)
        del self.live_feed.open[journal.started.id]
        self.metrics.streams.set(len(self._open))
        self._count(answering, journal, api)
        self._left.set()

    def note_log(self) -> None:
        """Bring the figures of the log up to date."""
        if self.store is not None:
            self.metrics.note_log(self.store.health)

    def _note_log_for_others(self) -> None:
        """Bring the figures up to date now and then: a page may be written by another worker."""
        self.note_log()
        loop = asyncio.get_running_loop()
        self._noting = loop.call_later(NOTICE, self._note_log_for_others)

    def _count(self, answering: ResponseWriter, journal: RequestLog, api: str) -> None:
        self.note_log()
        metrics, upstream, end = self.metrics, journal.started.upstream, answering.end
        metrics.requests.labels(api, upstream, str(answering.status)).inc()
        metrics.duration.labels(api, upstream).observe(journal.passed())
        metrics.chunks.labels(upstream).inc(journal.chunks)
        metrics.skipped.labels(upstream).inc(journal.skipped)
        self.cpu_samples.note(journal.chunks)
        if journal.first_token is not None:
            metrics.first_token.labels(upstream).observe(journal.first_token)
        if end is None:
            return
        has_spoken, hide = journal.first_byte is not None, self.secrets.text
        self.reachability.note(upstream, end, has_spoken=has_spoken, hide=hide)
        if isinstance(end, Failed):
            metrics.errors.labels(end.error.kind).inc()
        for (format_, complete), number in journal.tally.formats.items():
            metrics.calls.labels(format_, "yes" if complete else "no").inc(number)
        metrics.repairs.inc(journal.tally.repaired)
        usage = end.message.usage
        metrics.tokens.labels(upstream, "in").inc(usage.input + usage.cache_read)
        metrics.tokens.labels(upstream, "out").inc(usage.output)

    def renew(
        self,
        directory: ModelRouter,
        keys: Mapping[str, Quota],
        limits: Limits,
        secrets: LogRedactor,
    ) -> None:
        """Serve what these say from now on; answers in progress continue as they began."""
        old, self.directory = self.directory, directory
        self.door.renew(keys)
        self.limits, self.secrets = limits, secrets
        self._retiring = asyncio.create_task(self._retire(old, set(self._open), self._retiring))

    async def _retire(
        self, old: ModelRouter, served: set[ResponseWriter], before: asyncio.Task[None] | None
    ) -> None:
        """Let go of upstreams when the last answer that came from them has ended."""
        while served & self._open:
            self._left.clear()
            await self._left.wait()
        await old.close()
        if before is not None:
            await before

    # --- the life of the server ---

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                if self.store is not None:
                    self.store.start()
                    if DIRECTORY in os.environ:
                        self._note_log_for_others()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def drain(self, seconds: float) -> None:
        """Take no new requests, and wait until those inside are answered; then end the rest."""
        self.is_draining = True
        self.inspector_workers.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._until_idle()
        for answering in list(self._open):
            answering.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY_AFTER):
                await self._until_idle()

    async def _until_idle(self) -> None:
        while self._inside:
            self._left.clear()
            await self._left.wait()

    async def close(self) -> None:
        """Let go of the upstreams and the store."""
        self.inspector_workers.close()
        if self._noting is not None:
            self._noting.cancel()
        if self._retiring is not None:
            await self._retiring
        await self.directory.close()
        if self.store is not None:
            await self.store.close()
