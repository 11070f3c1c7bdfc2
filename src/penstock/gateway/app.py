"""`Gateway`: the ASGI application, its open responses and its lifetime.

`Gateway.__call__` wraps a request in an `HTTPExchange`, finds its handler in `routes`, and turns
an `HTTPError` into a response in the format of the client's API. The rest counts the requests and
responses in progress: for the limit, for the metrics, and for a shutdown that lets them end.
"""

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
from penstock.gateway.auth import Authenticator, Quota
from penstock.gateway.errors import RETRY_LATER, HTTPError, error_headers, write_error
from penstock.gateway.http_exchange import (
    ClientDisconnectedError,
    HTTPExchange,
    Receive,
    Scope,
    Send,
)
from penstock.gateway.inspector.live import LiveFeed
from penstock.gateway.inspector.workers import WorkerPool
from penstock.gateway.metrics import DIRECTORY, Metrics, find_repair_kind
from penstock.gateway.model_router import ModelRouter, UpstreamHealth
from penstock.gateway.quotas import Quotas
from penstock.gateway.request_lines import RequestLines
from penstock.gateway.request_log import RequestLog
from penstock.gateway.response import ResponseWriter
from penstock.gateway.routes import find_handler
from penstock.gateway.stored_responses import StoredResponses
from penstock.messages import ErrorInfo
from penstock.redaction import Redactor
from penstock.store import Store

_LOG: Final = getLogger("penstock.gateway")

CLOSING_SECONDS: Final = 5.0
"""How many seconds streams that were closed at the deadline have to end."""

LOG_METRICS_SECONDS: Final = 1.0
"""How often a worker updates its metrics of the log, in case another worker serves /metrics."""

NOT_FOUND: Final = 404
"""The status of an upstream that does not have a model."""

MAX_WARNINGS: Final = 256
"""How many different warnings about requests are logged: clients can cause any number."""

KEEPALIVE_SECONDS: Final = 15.0
"""After how many seconds of silence a stream sends a keep-alive: many proxies close after 30."""


class Limits(Struct, frozen=True):
    """Limits of a request, and of the number of requests in progress (*streams*; 0: no limit)."""

    body_bytes: int = 10_000_000
    body_seconds: float = 30.0
    depth: int = 200
    tools: int = 1_024
    choices: int = 8
    streams: int = 0


class Gateway:
    """Serves the models of *router* to clients that *auth* accepts; an ASGI application."""

    def __init__(  # noqa: PLR0913 - each is a part that can be replaced
        self,
        router: ModelRouter,
        auth: Authenticator | None = None,
        store: Store | None = None,
        *,
        limits: Limits | None = None,
        redactor: Redactor | None = None,
        bodies: bool = True,
        keepalive_seconds: float = KEEPALIVE_SECONDS,
        quotas: Quotas | None = None,
    ) -> None:
        self.router = router
        self.auth = auth or Authenticator({})
        self.quotas = quotas or Quotas()
        self.store = store
        self.limits = limits or Limits()
        self.redactor = redactor or Redactor()
        self.bodies = bodies
        self.request_lines = RequestLines()
        self.keepalive_seconds = keepalive_seconds
        self.metrics = Metrics()
        self.upstream_health = UpstreamHealth()
        keep = inf if store is None else store.keep_seconds
        self.stored_responses = StoredResponses(store, bodies=bodies, keep_seconds=keep)
        self.is_draining = False
        self.live_feed = LiveFeed()
        self.inspector_workers = WorkerPool()
        self._requests = 0  # in progress, including those whose body is still arriving
        self._open: set[ResponseWriter] = set()
        self._ended = asyncio.Event()  # A request or a response has ended.
        self._retiring: asyncio.Task[None] | None = None
        self._metrics_timer: asyncio.TimerHandle | None = None
        self._warned: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP exchange, or the lifespan of the server."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        exchange = HTTPExchange(scope, receive, send)
        try:
            await find_handler(exchange)(self, exchange)
        except ClientDisconnectedError:
            return
        except HTTPError as exc:
            await self._respond_error(exchange, exc.info, close=exc.close)
        except Exception:
            _LOG.exception("the request to %r failed", exchange.path)
            if exchange.has_started:
                raise  # The server aborts the connection, so that the client sees a failure.
            message = "internal error; see the log of the gateway"
            error = ErrorInfo(message, "provider", "api_error", 500)
            await self._respond_error(exchange, error, close=True)

    async def _respond_error(
        self, exchange: HTTPExchange, error: ErrorInfo, *, close: bool
    ) -> None:
        status, body = write_error(error, exchange.api)
        self.metrics.rejections.labels(str(status)).inc()
        self.request_lines.log_rejection(exchange.method, exchange.path, status, error.message)
        await exchange.respond(status, body, *error_headers(error, close=close))

    def warn_once(self, message: str) -> None:
        """Log *message* as a warning unless it was logged before."""
        if message not in self._warned and len(self._warned) < MAX_WARNINGS:
            self._warned.add(message)
            _LOG.warning("%s", message)

    def log_scope(self, exchange: HTTPExchange) -> str | None:
        """Return the scope of the log that the client may see; None, without keys, means all."""
        client = self.auth.authenticate(exchange)
        return None if self.auth.is_open else client.name

    # --- requests and responses in progress ---

    # Not context managers: those would occupy memory for as long as a response takes.

    def enter(self) -> None:
        """Count a request before its body is read; raise `HTTPError` if there are too many."""
        if self.is_draining:
            raise HTTPError(503, "the gateway is shutting down", retry_after=RETRY_LATER)
        if self.limits.streams and self._requests >= self.limits.streams:
            message = f"the gateway is at its limit of {self.limits.streams} requests in progress"
            raise HTTPError(503, message, retry_after=RETRY_LATER)
        self._requests += 1

    def leave(self) -> None:
        """Count a request as ended."""
        self._requests -= 1
        self._ended.set()

    @property
    def streams(self) -> int:
        """The number of responses in progress."""
        return len(self._open)

    def begin(self, writer: ResponseWriter, log: RequestLog) -> None:
        """Register a response that starts."""
        self._open.add(writer)
        self.live_feed.open[log.started.id] = log
        self.metrics.streams.set(len(self._open))

    def end(self, writer: ResponseWriter, log: RequestLog, api: str) -> None:
        """Unregister a response and add it to the metrics."""
        self._open.discard(writer)
        del self.live_feed.open[log.started.id]
        self.live_feed.ended.append(log.started.id)
        self.metrics.streams.set(len(self._open))
        self._measure(writer, log, api)
        self.request_lines.log_response(writer, log)
        self._ended.set()

    def update_log_metrics(self) -> None:
        """Update the metrics of the log and of shared quotas."""
        self.metrics.shared_quotas.set(float(self.quotas.is_shared))
        if self.store is not None:
            self.metrics.update_log(self.store.health)

    def _keep_log_metrics_current(self) -> None:
        self.update_log_metrics()
        loop = asyncio.get_running_loop()
        self._metrics_timer = loop.call_later(LOG_METRICS_SECONDS, self._keep_log_metrics_current)

    def _measure(self, writer: ResponseWriter, log: RequestLog, api: str) -> None:
        self.update_log_metrics()
        metrics, upstream, end = self.metrics, log.started.upstream, writer.end
        metrics.requests.labels(api, upstream, str(writer.status)).inc()
        metrics.duration.labels(api, upstream).observe(log.elapsed())
        metrics.chunks.labels(upstream).inc(log.chunks)
        metrics.skipped.labels(upstream).inc(log.skipped)
        if log.first_token is not None:
            metrics.first_token.labels(upstream).observe(log.first_token)
        if end is None:
            return
        if isinstance(end, Failed) and end.error.status == NOT_FOUND:
            self.router.served_models.expire()  # The server may serve other models now.
        has_data, redact = log.first_byte is not None, self.redactor.text
        self.upstream_health.note(upstream, end, has_data=has_data, redact=redact)
        if isinstance(end, Failed):
            metrics.errors.labels(end.error.kind).inc()
        for (format_, complete), number in log.call_stats.formats.items():
            metrics.calls.labels(format_, "yes" if complete else "no").inc(number)
        for repair in log.repairs:
            metrics.repairs.labels(find_repair_kind(repair)).inc()
        usage = end.message.usage
        metrics.tokens.labels(upstream, "in").inc(usage.input + usage.cache_read)
        metrics.tokens.labels(upstream, "out").inc(usage.output)

    # --- configuration and lifetime ---

    def renew(
        self, router: ModelRouter, keys: Mapping[str, Quota], limits: Limits, redactor: Redactor
    ) -> None:
        """Serve another configuration from now on; responses in progress continue unchanged."""
        old, self.router = self.router, router
        self.auth.renew(keys)
        self.limits, self.redactor = limits, redactor
        self._retiring = asyncio.create_task(self._retire(old, set(self._open), self._retiring))

    async def _retire(
        self, old: ModelRouter, served: set[ResponseWriter], before: asyncio.Task[None] | None
    ) -> None:
        """Close the upstreams of *old* after the last response that uses them."""
        while served & self._open:
            self._ended.clear()
            await self._ended.wait()
        await old.close()
        if before is not None:
            await before

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.quotas.start()
                if self.store is not None:
                    self.store.start()
                    if DIRECTORY in os.environ:
                        self._keep_log_metrics_current()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def drain(self, seconds: float) -> None:
        """Reject new requests, wait up to *seconds* for those in progress, then end the rest."""
        self.is_draining = True
        self.inspector_workers.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wait_until_idle()
        for writer in list(self._open):
            writer.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await self._wait_until_idle()

    async def _wait_until_idle(self) -> None:
        while self._requests:
            self._ended.clear()
            await self._ended.wait()

    async def close(self) -> None:
        """Close the upstreams, the shared quotas and the store."""
        self.inspector_workers.close()
        await self.quotas.close()
        if self._metrics_timer is not None:
            self._metrics_timer.cancel()
        if self._retiring is not None:
            await self._retiring
        await self.router.close()
        if self.store is not None:
            await self.store.close()
