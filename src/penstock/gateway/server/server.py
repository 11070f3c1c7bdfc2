"""The gateway as a process: it listens, says so, drains when it is told to end, reads again on HUP.

Told to end, it takes no new request and lets the open ones finish; what is open after
`drain_seconds` is ended with an error that its client understands. Told twice, it ends at once.

What a changed file says is taken over as a whole or not at all, and never so that a process which
other machines can reach loses its keys.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from logging import getLogger
from typing import Final

import uvicorn

from penstock.gateway.app import Gateway
from penstock.gateway.config.load import check_exposure, needs_restart
from penstock.gateway.config.settings import Settings
from penstock.gateway.factory import renew
from penstock.gateway.server import signals
from penstock.gateway.server.protocol import protocol_of
from penstock.gateway.server.sockets import BACKLOG

_LOG: Final = getLogger("penstock.gateway")

LAST_WORDS: Final = 5
"""How many seconds connections have to close once the streams are over."""


class GatewayServer(uvicorn.Server):
    """Serves *gateway* as *settings* say.

    On HUP it takes over what *load* gives. *announce* is told the port once it accepts. *life* is
    the end of a pipe: when the process at the other end is gone, this one drains and ends too.
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
        super().__init__(_config(gateway, settings))
        self._gateway = gateway
        self._begun_with = settings
        self._drain_seconds = settings.server.drain_seconds
        self._load = load
        self._announce = announce
        self._life = life
        self._draining: asyncio.Task[None] | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self._read_anew)
        signals.heed()
        if self._life is not None:
            loop.add_reader(self._life, self._be_orphaned, self._life)
        await self._serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        if self.started and self._announce is not None and self._draining is None:
            self._announce(self.servers[0].sockets[0].getsockname()[1])

    def stop(self) -> None:
        """Drain and end; the second time, end now."""
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())
        else:
            self.should_exit = self.force_exit = True

    async def _drain(self) -> None:
        _LOG.info("draining: %d answers are on their way", self._gateway.streams)
        await self._gateway.drain(self._drain_seconds)
        self.should_exit = True

    def _be_orphaned(self, life: int) -> None:
        asyncio.get_running_loop().remove_reader(life)
        if self._draining is None:
            _LOG.warning("the process that began this worker is gone, so it ends")
            self.stop()

    def _read_anew(self) -> None:
        if self._load is None:
            return
        try:
            settings = self._load()
            check_exposure(self._begun_with, settings)
            renew(self._gateway, settings)
        except Exception as exc:  # noqa: BLE001 - what is wrong with a file ends no server
            _LOG.error("the configuration was not read anew: %s", exc)
        else:
            self._take_over(settings)

    def _take_over(self, settings: Settings) -> None:
        """Take over what concerns the process, and say what cannot be."""
        self._drain_seconds = settings.server.drain_seconds
        getLogger("penstock").setLevel(settings.server.log_level.upper())
        _LOG.info("the configuration was read anew")
        if waiting := needs_restart(self._begun_with, settings):
            _LOG.warning("changed, and in force from the next start: %s", ", ".join(waiting))


def _config(gateway: Gateway, settings: Settings) -> uvicorn.Config:
    server, limits = settings.server, settings.limits
    return uvicorn.Config(
        gateway,
        host=server.host,
        port=server.port,
        loop="uvloop" if _has_uvloop() else "asyncio",
        http=protocol_of(limits.header_bytes, server.header_seconds),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=int(server.keepalive_seconds) or 1,
        timeout_graceful_shutdown=LAST_WORDS,
        ssl_certfile=server.tls_cert,
        ssl_keyfile=server.tls_key,
    )


def _has_uvloop() -> bool:
    try:
        import uvloop  # noqa: F401, PLC0415 - only to see whether it is there
    except ImportError:
        return False
    return True
