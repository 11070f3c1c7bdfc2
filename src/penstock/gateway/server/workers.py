"""Several processes that accept from the same sockets, and the one that sees to them.

Each worker leads a session of its own, so Ctrl-C in a terminal reaches only the process that sees
to them, which then tells each of them once. Two pipes join them: a worker writes a byte to the one
when it accepts, and reads the end of the other when the process that began it is gone, however that
came about; then it drains and ends.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from logging import getLogger
from tempfile import TemporaryDirectory
from typing import Final, Self

from msgspec import Struct, structs
from prometheus_client.multiprocess import mark_process_dead

from penstock import _json
from penstock.gateway.config.settings import Settings
from penstock.gateway.metrics import DIRECTORY
from penstock.gateway.server import signals

_LOG: Final = getLogger("penstock.gateway")
_VARIABLE: Final = "PENSTOCK_WORKER"

_TOO_SOON: Final = 1.0
"""A worker is begun again no sooner than so many seconds after it was begun before."""

_GLANCE: Final = 0.1
"""After how many seconds the workers are looked at again."""


class Post(Struct, frozen=True):
    """What a worker is told by the process that began it.

    The sockets to accept from, the ends of the two pipes, and what holds for the door: the file may
    say something else by now, and the sockets are where they are.
    """

    sockets: list[int]
    life: int
    ready: int
    host: str
    insecure: bool
    workers: int

    @classmethod
    def take(cls) -> Self | None:
        """Take it out of the environment; None in a process that is not a worker."""
        text = os.environ.pop(_VARIABLE, None)
        found: Self | None = None if text is None else _json.decode_as(text, cls)
        return found

    def held_to(self, settings: Settings) -> Settings:
        """Return *settings* with the host and the workers that there are, and no more trust."""
        insecure = self.insecure and settings.server.insecure
        server = structs.replace(
            settings.server, host=self.host, insecure=insecure, workers=self.workers
        )
        return structs.replace(settings, server=server)


class Workers:
    """Sees to the workers of *settings*, which accept from *sockets*: one that dies is replaced."""

    def __init__(self, settings: Settings, sockets: list[socket.socket]) -> None:
        self._count = settings.server.workers
        self._sockets = sockets
        self._life, self._own_life = os.pipe()
        self._heard, self._ready = os.pipe()
        numbers = [one.fileno() for one in sockets]
        server = settings.server
        self._post = Post(
            numbers, self._life, self._ready, server.host, server.insecure, self._count
        )
        self._processes: dict[int, tuple[subprocess.Popen[bytes], float]] = {}
        self._due: dict[int, float] = {}
        self._told: list[int] = []
        self._is_ending = False
        self._is_up = False
        self._code = 0
        self._environ: dict[str, str] = {}

    def run(self, announce: Callable[[int], None]) -> int:
        """Run the workers, *announce* the port once one accepts; return the exit code.

        Where one ends before any accepts, all end: what keeps it from serving keeps the others too.
        """
        for number in signals.SIGNALS:
            signal.signal(number, lambda told, _: self._told.append(told))
        with TemporaryDirectory(prefix="penstock-") as figures:
            post = _json.encode(self._post).decode()
            self._environ = {**os.environ, DIRECTORY: figures, _VARIABLE: post}
            for worker in range(self._count):
                self._begin(worker)
            signals.heed()
            while self._processes or self._due:
                self._hear(announce)
                self._heed()
                self._look()
        return self._code

    def _begin(self, number: int) -> None:
        command = [sys.executable, "-m", "penstock", *sys.argv[1:]]
        inherited = [*self._post.sockets, self._post.life, self._post.ready]
        with signals.held():
            process = subprocess.Popen(  # noqa: S603 - ourselves
                command, pass_fds=inherited, env=self._environ, start_new_session=True
            )
        self._processes[number] = process, time.monotonic()

    def _hear(self, announce: Callable[[int], None]) -> None:
        """Wait a little, and note whether a worker accepts."""
        if not select.select([self._heard], [], [], _GLANCE)[0]:
            return
        os.read(self._heard, len(self._processes) + 1)
        if not self._is_up and not self._is_ending:
            announce(self._sockets[0].getsockname()[1])
        self._is_up = True

    def _heed(self) -> None:
        """Pass on what was told."""
        while self._told:
            number = self._told.pop(0)
            if number == signal.SIGHUP:
                self._tell(number)
            else:
                self._end()

    def _end(self) -> None:
        self._is_ending = True
        self._due.clear()
        self._tell(signal.SIGTERM)

    def _tell(self, number: int) -> None:
        for process, _ in self._processes.values():
            process.send_signal(number)

    def _look(self) -> None:
        """Note which workers have ended, and begin those again whose time has come."""
        for number, (process, began) in list(self._processes.items()):
            code = process.poll()
            if code is not None:
                del self._processes[number]
                mark_process_dead(process.pid, self._environ[DIRECTORY])  # type: ignore[no-untyped-call]
                self._replace(number, code, began)
        for number, due in list(self._due.items()):
            if due <= time.monotonic():
                del self._due[number]
                self._begin(number)

    def _replace(self, number: int, code: int, began: float) -> None:
        if self._is_ending:
            return
        if self._is_up:
            _LOG.error("worker %d ended with %s; another begins", number, code)
            self._due[number] = began + _TOO_SOON
        else:
            _LOG.error("worker %d ended with %s before it served", number, code)
            self._code = code if code > 0 else 1
            self._end()
