"""Servers that a bench starts, and what they use: CPU time and memory of a whole process tree.

The machines are shared and noisy, so CPU time comes first: it is the same however long a process
waits for its turn. Linux tells it in ``/proc``.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

START_LIMIT: Final = 60.0
"""How many seconds a server may take to be ready before the bench gives up on it."""

STOP_LIMIT: Final = 15.0
"""How many seconds a server may take to end before it is killed."""

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_CHECK_EVERY: Final = 0.01


class Used(Struct, frozen=True):
    """What a process tree has used so far, and holds now."""

    cpu: float
    """Seconds, of user and system."""
    rss: float
    """Bytes."""


class Server(Struct, frozen=True):
    """A server that runs as a process of its own."""

    address: str
    pid: int
    ready_after: float
    """Seconds from the start of the process to the first answer that said it was ready."""


def tree_of(pid: int) -> list[int]:
    """List *pid* and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def used_by(pid: int) -> Used:
    """Add up what *pid* and its descendants use; one that is gone used nothing."""
    if not pid:
        return Used(0.0, 0.0)
    stats = {one: fields for one in tree_of(pid) if (fields := _stat(one))}
    cpu = sum(_nanoseconds(one) or _ticks(fields) for one, fields in stats.items()) / 1e9
    return Used(cpu, sum(int(fields[21]) for fields in stats.values()) * _PAGE)


def _nanoseconds(pid: int) -> int:
    """Add up what the threads of a process have run; a tick is 10 ms, too coarse a measure."""
    try:
        threads = [*(_PROC / str(pid) / "task").iterdir()]
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)
    except (OSError, ValueError, IndexError):
        return 0


def _ticks(fields: list[str]) -> int:
    """Return the same in nanoseconds where the kernel counts in ticks only."""
    return (int(fields[11]) + int(fields[12])) * 1_000_000_000 // _TICKS


def _stat(pid: int) -> list[str]:
    """Return the fields after the name of the process, which may contain blanks and brackets."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def free_port() -> int:
    """Return a port that is free at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextmanager
def serving(
    arguments: Sequence[str],
    port: int,
    *,
    ready: str = "/health/ready",
    folder: str = ".",
    program: str = sys.executable,
    log: int | None = None,
) -> Iterator[Server]:
    """Run *program* with *arguments* in *folder* until it is ready on *port*; end it afterwards.

    *log* is where its error output goes.
    """
    began = time.monotonic()
    with subprocess.Popen(
        [program, *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=log
    ) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_until_ready(process, address + ready)
            yield Server(address, process.pid, time.monotonic() - began)
        finally:
            _end(process)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with exit code {process.returncode}")
        with suppress(OSError), urllib.request.urlopen(url, timeout=1) as answer:
            if answer.status == 200:
                return
        time.sleep(_CHECK_EVERY)
    raise RuntimeError(f"nothing is ready at {url}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
