"""The server of the gateway: it listens, drains on SIGTERM and reloads its settings on SIGHUP.

On SIGTERM or SIGINT it rejects new requests and lets those in progress finish; a response that is
open after `drain_seconds` ends with an error in its client's API. A second signal ends the process
at once.

On SIGHUP the configuration is applied as a whole or not at all. One that would leave a gateway
without keys is rejected if other machines can reach it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from logging import CRITICAL, getLogger
from typing import Final

import uvicorn

from penstock.config import check_exposure, needs_restart
from penstock.config.settings import Settings
from penstock.gateway.app import Gateway
from penstock.gateway.factory import build, renew
from penstock.gateway.process import BACKLOG, listen, unblock_signals
from penstock.gateway.protocol import make_protocol
from penstock.gateway.workers import Supervisor, WorkerHandover

_LOG: Final = getLogger("penstock.gateway")

DISCONNECT_SECONDS: Final = 5
"""How many seconds connections have to close after the streams have ended."""

_GC_THRESHOLDS: Final = (5_000, 5, 5)
"""The thresholds of the garbage collector, set once: the process serves nothing but the gateway.

Nearly everything in a response is freed by reference counting, so the youngest generation may be
larger than Python's 700 objects. A response leaves 2 to 8 kB in cycles (schemas, statements), which
must not accumulate for thousands of responses: hence 5 instead of 10 for the older generations."""


def run(
    settings: Settings,
    load: Callable[[], Settings],
    announce: Callable[[int], None],
    served: Sequence[str] | None = None,
) -> None:
    """Serve until a signal ends the process; *load* reads the settings again.

    *served* are the models of the default upstream, if they are known.

    Signals may be blocked: they are unblocked once they can be handled. Raises `UsageError` if the
    gateway cannot listen on its address.
    """
    handover = WorkerHandover.take()
    if handover is not None:
        _run_worker(handover, settings, load)
        return
    sockets = listen(settings.server.host, settings.server.port)
    if settings.server.workers == 1:
        gateway = build(settings, fetches=True, served=served)
        _run_server(GatewayServer(gateway, settings, load=load, announce=announce), sockets)
    elif code := Supervisor(settings, sockets, served).run(announce):
        sys.exit(code)


def _run_worker(handover: WorkerHandover, settings: Settings, load: Callable[[], Settings]) -> None:
    fixed = handover.apply_to(settings)
    check_exposure(fixed, fixed)

    def report_ready(_: int) -> None:
        with suppress(OSError):  # The supervisor is gone; `life` reports that.
            os.write(handover.ready, b".")

    gateway = build(fixed, fetches=True, served=handover.served)
    server = GatewayServer(gateway, fixed, load=load, announce=report_ready, life=handover.life)
    _run_server(server, [socket.socket(fileno=number) for number in handover.sockets])


def _run_server(server: GatewayServer, sockets: list[socket.socket]) -> None:
    gc.collect()
    gc.freeze()  # Loaded modules are never garbage; the collector need not visit them.
    gc.set_threshold(*_GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.serve(sockets))


class GatewayServer(uvicorn.Server):
    """Serves *gateway* with *settings*.

    On SIGHUP it applies the settings that *load* returns. *announce* is called with the port once
    it accepts connections. *life* is the read end of a pipe: when the supervisor, which holds the
    write end, is gone, this process drains and ends too.
    """

    def __init__(
        self,
        gateway: Gateway,
        settings: Settings,
        *,
        load: Callable[[], Settings] | None = None,
        announce: Callable[[int], None] | None = None,
        life: int | None = None,
    ) -> None:
        super().__init__(_make_config(gateway, settings))
        self._gateway = gateway
        self._initial_settings = settings
        self._drain_seconds = settings.server.drain_seconds
        self._load = load
        self._announce = announce
        self._life = life
        self._draining: asyncio.Task[None] | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal or `stop` ends it."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        unblock_signals()
        if self._life is not None:
            loop.add_reader(self._life, self._on_supervisor_gone, self._life)
        await self._serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and announce it."""
        await super().startup(sockets)
        if self.started and self._announce is not None and self._draining is None:
            self._announce(self.servers[0].sockets[0].getsockname()[1])

    def stop(self) -> None:
        """Drain and end; the second time, end at once."""
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())
        else:
            # The tasks that are cancelled now would each log a traceback.
            getLogger("uvicorn.error").setLevel(CRITICAL)
            self.should_exit = self.force_exit = True

    async def _drain(self) -> None:
        if count := self._gateway.streams:
            number = f"{count} response{'' if count == 1 else 's'}"
            _LOG.info("stopping after %s in progress; a second signal ends them at once", number)
        else:
            _LOG.info("stopping")
        await self._gateway.drain(self._drain_seconds)
        self.should_exit = True

    def _on_supervisor_gone(self, life: int) -> None:
        asyncio.get_running_loop().remove_reader(life)
        if self._draining is None:
            _LOG.warning("the supervisor of this worker is gone: shutting down")
            self.stop()

    def _reload(self) -> None:
        if self._load is None:
            return
        try:
            settings = self._load()
            check_exposure(self._initial_settings, settings)
            renew(self._gateway, settings)
        except Exception as exc:  # noqa: BLE001 - an invalid file must not end the server
            _LOG.error("the configuration was not reloaded: %s", exc)
            return
        self._drain_seconds = settings.server.drain_seconds
        getLogger("penstock").setLevel(settings.server.log_level.upper())
        _LOG.info("the configuration was reloaded")
        if pending := needs_restart(self._initial_settings, settings):
            _LOG.warning("these changes need a restart: %s", ", ".join(pending))


def _make_config(gateway: Gateway, settings: Settings) -> uvicorn.Config:
    server, limits = settings.server, settings.limits
    try:
        import uvloop  # noqa: F401, PLC0415 - only to know whether it is installed
    except ImportError:
        loop = "asyncio"
    else:
        loop = "uvloop"
    return uvicorn.Config(
        gateway,
        host=server.host,
        port=server.port,
        loop=loop,
        http=make_protocol(limits.header_bytes, server.header_seconds),
        # The gateway has no WebSocket endpoint; OpenAI's realtime API is not served.
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        # uvicorn's name and version help only those who look for known bugs.
        server_header=False,
        # `X-Forwarded-For` is not trusted: no decision here depends on the client's address.
        proxy_headers=False,
        backlog=BACKLOG,
        # uvicorn takes whole seconds, and 0 would close each connection after its first response.
        timeout_keep_alive=int(server.keepalive_seconds) or 1,
        timeout_graceful_shutdown=DISCONNECT_SECONDS,
        ssl_certfile=server.tls_cert,
        ssl_keyfile=server.tls_key,
    )
