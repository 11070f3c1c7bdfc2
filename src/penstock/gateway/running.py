"""One process, or several on one socket, that serve what the settings say."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from logging import getLogger
from tempfile import TemporaryDirectory
from typing import Final

from prometheus_client.multiprocess import mark_process_dead

from penstock.gateway.building import build, renew
from penstock.gateway.config.settings import Settings
from penstock.gateway.metrics import DIRECTORY
from penstock.gateway.server import BACKLOG, GatewayServer

_LOG: Final = getLogger("penstock.gateway")
WORKER: Final = "PENSTOCK_WORKER_FD"
"""The variable that tells a worker which socket is its own to accept from."""

_COLLECT_AFTER: Final = 10_000
"""After how many new objects the collector looks for cycles among them."""

_TOO_SOON: Final = 1.0
"""A worker that ends within so many seconds is not begun again at once."""


def run(settings: Settings, load: Callable[[], Settings], announce: Callable[[int], None]) -> None:
    """Serve until told to end; *load* reads the settings anew."""
    inherited = os.environ.get(WORKER)
    if inherited is not None:
        _serve(settings, load, None, socket.socket(fileno=int(inherited)))
    elif settings.server.workers > 1:
        _Workers(settings, announce).run()
    else:
        _serve(settings, load, announce, None)


def _serve(
    settings: Settings,
    load: Callable[[], Settings],
    announce: Callable[[int], None] | None,
    listener: socket.socket | None,
) -> None:
    gateway = build(settings)
    server = GatewayServer(
        gateway, settings, reload=lambda: renew(gateway, load()), announce=announce
    )
    _settle_memory()
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.serve([listener] if listener is not None else None))


def _settle_memory() -> None:
    """Let the collector pass over what was loaded, and look less often at what comes and goes.

    Nearly all that an answer makes is freed when nobody holds it; there are few cycles to find.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 10, 20)


class _Workers:
    """Several processes that accept from one socket; one that dies is begun again."""

    def __init__(self, settings: Settings, announce: Callable[[int], None]) -> None:
        self._settings = settings
        self._announce = announce
        self._socket = _listen(settings.server.host, settings.server.port)
        self._processes: dict[int, tuple[subprocess.Popen[bytes], float]] = {}
        self._is_ending = False
        self._environ = dict(os.environ)

    def run(self) -> None:
        """Begin the workers, and see to them until told to end."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._end())
        signal.signal(signal.SIGHUP, lambda *_: self._tell(signal.SIGHUP))
        with TemporaryDirectory(prefix="penstock-") as figures:
            self._environ = {**os.environ, DIRECTORY: figures}
            for worker in range(self._settings.server.workers):
                self._begin(worker)
            self._announce(self._socket.getsockname()[1])
            while self._processes:
                time.sleep(0.1)
                self._look()

    def _begin(self, number: int) -> None:
        fd = self._socket.fileno()
        command = [sys.executable, "-m", "penstock", *sys.argv[1:]]
        environ = {**self._environ, WORKER: str(fd)}
        process = subprocess.Popen(command, pass_fds=[fd], env=environ)  # noqa: S603 - ourselves
        self._processes[number] = process, time.monotonic()

    def _look(self) -> None:
        for number, (process, began) in list(self._processes.items()):
            if process.poll() is None:
                continue
            del self._processes[number]
            mark_process_dead(process.pid, self._environ[DIRECTORY])  # type: ignore[no-untyped-call]
            if self._is_ending:
                continue
            _LOG.error("worker %d ended with %s; another begins", number, process.returncode)
            if time.monotonic() - began < _TOO_SOON:
                time.sleep(_TOO_SOON)
            self._begin(number)

    def _end(self) -> None:
        self._is_ending = True
        self._tell(signal.SIGTERM)

    def _tell(self, number: int) -> None:
        for process, _ in self._processes.values():
            process.send_signal(number)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(BACKLOG)
    listener.set_inheritable(True)
    return listener
