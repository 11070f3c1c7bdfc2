"""Several worker processes that accept from the same sockets, and their supervisor.

uvicorn's supervisor has no hooks for shared metrics, for readiness, or for a worker that fails at
its start, so this one is used. Each worker leads a session of its own, so Ctrl-C in a
terminal reaches only the supervisor, which signals each worker once. Two pipes connect them: a
worker writes a byte to one when it accepts connections, and sees the other one close when the
supervisor is gone for whatever reason; then it drains and ends.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from logging import getLogger
from tempfile import TemporaryDirectory
from typing import Final, Self

from msgspec import Struct, structs
from prometheus_client.multiprocess import mark_process_dead

from penstock import _json
from penstock.config.settings import Settings
from penstock.gateway.metrics import DIRECTORY
from penstock.gateway.process import SIGNALS, WORKER, blocked_signals, unblock_signals

_LOG: Final = getLogger("penstock.gateway")

_RESTART_SECONDS: Final = 1.0
"""The minimum number of seconds between two starts of the same worker."""

_POLL_SECONDS: Final = 0.1
"""How often the workers are checked."""


class WorkerHandover(Struct, frozen=True):
    """What a supervisor passes to a worker: sockets, pipes, fixed settings, and known models.

    The configuration file may have changed since the sockets were opened.
    """

    sockets: list[int]
    life: int
    ready: int
    host: str
    insecure: bool
    workers: int
    served: list[str] | None = None

    @classmethod
    def take(cls) -> Self | None:
        """Take it out of the environment; return None in a process that is not a worker."""
        text = os.environ.pop(WORKER, None)
        found: Self | None = None if text is None else _json.decode_as(text, cls)
        return found

    def apply_to(self, settings: Settings) -> Settings:
        """Return *settings* with the actual host and workers; `insecure` is never switched on."""
        insecure = self.insecure and settings.server.insecure
        server = structs.replace(
            settings.server, host=self.host, insecure=insecure, workers=self.workers
        )
        return structs.replace(settings, server=server)


class Supervisor:
    """Runs the workers of *settings*, which accept from *sockets*; one that dies is replaced."""

    def __init__(
        self,
        settings: Settings,
        sockets: list[socket.socket],
        served: Sequence[str] | None = None,
    ) -> None:
        self._count = settings.server.workers
        self._sockets = sockets
        # The kernel closes the write end when the supervisor dies, also after SIGKILL, and the read
        # ends of the workers become readable.
        life, self._own_life = os.pipe()
        self._ready_reader, ready = os.pipe()
        numbers = [one.fileno() for one in sockets]
        server = settings.server
        self._handover = WorkerHandover(
            numbers,
            life,
            ready,
            server.host,
            server.insecure,
            self._count,
            None if served is None else [*served],
        )
        self._processes: dict[int, tuple[subprocess.Popen[bytes], float]] = {}
        self._due: dict[int, float] = {}  # workers to start again, and when
        self._signals: list[int] = []
        self._is_ending = False
        self._is_up = False
        self._code = 0
        self._environ: dict[str, str] = {}

    def run(self, announce: Callable[[int], None]) -> int:
        """Run the workers and call *announce* once one accepts; return the exit code.

        If a worker ends before any accepts, all are ended: the others would fail in the same way.
        """
        for number in SIGNALS:
            signal.signal(number, lambda received, _: self._signals.append(received))
        with TemporaryDirectory(prefix="penstock-") as folder:
            handover = _json.encode(self._handover).decode()
            self._environ = {**os.environ, DIRECTORY: folder, WORKER: handover}
            for worker in range(self._count):
                self._start(worker)
            unblock_signals()
            while self._processes or self._due:
                self._wait_for_ready(announce)
                while self._signals:
                    received = self._signals.pop(0)
                    if received == signal.SIGHUP:
                        self._send(received)
                    else:
                        self._end()
                self._check_workers()
        return self._code

    def _start(self, number: int) -> None:
        command = [sys.executable, "-m", "penstock", *sys.argv[1:]]
        inherited = [*self._handover.sockets, self._handover.life, self._handover.ready]
        with blocked_signals():
            process = subprocess.Popen(  # noqa: S603 - our own command
                # A session of its own: Ctrl-C in a terminal signals the whole foreground group, and
                # workers would stop before the supervisor asks them to.
                command,
                pass_fds=inherited,
                env=self._environ,
                start_new_session=True,
            )
        self._processes[number] = process, time.monotonic()

    def _wait_for_ready(self, announce: Callable[[int], None]) -> None:
        """Wait for `_POLL_SECONDS`, or until a worker accepts connections."""
        if not select.select([self._ready_reader], [], [], _POLL_SECONDS)[0]:
            return
        os.read(self._ready_reader, len(self._processes) + 1)
        if not self._is_up and not self._is_ending:
            announce(self._sockets[0].getsockname()[1])
        self._is_up = True

    def _end(self) -> None:
        self._is_ending = True
        self._due.clear()
        self._send(signal.SIGTERM)

    def _send(self, number: int) -> None:
        for process, _ in self._processes.values():
            process.send_signal(number)

    def _check_workers(self) -> None:
        """Find the workers that have ended, and start those again that are due."""
        for number, (process, began) in list(self._processes.items()):
            code = process.poll()
            if code is None:
                continue
            del self._processes[number]
            mark_process_dead(process.pid, self._environ[DIRECTORY])  # type: ignore[no-untyped-call]
            if self._is_ending:
                continue
            if self._is_up:
                _LOG.error("worker %d exited with code %s; restarting it", number, code)
                self._due[number] = began + _RESTART_SECONDS
            else:
                _LOG.error(
                    "worker %d exited with code %s before it accepted connections", number, code
                )
                self._code = code if code > 0 else 1
                self._end()
        for number, due in list(self._due.items()):
            if due <= time.monotonic():
                del self._due[number]
                self._start(number)
