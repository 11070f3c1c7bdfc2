"""The gateway as a process: its signals and its listening sockets.

Sockets are opened before anything else starts, so if a port is in use, one line is printed and
nothing has to be undone.

A signal that arrives while a process starts would end it at once, SIGHUP included. While modules
are loaded, SIGTERM and SIGINT simply end the process. After that all signals are blocked, which
child processes inherit, until there are handlers that can end the process in order.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from penstock.errors import UsageError

WORKER: Final = "PENSTOCK_WORKER"
"""The variable by which a supervisor passes sockets and settings to a worker."""


def is_worker() -> bool:
    """Return whether a supervisor has started this process."""
    return WORKER in os.environ


# --- signals ---


SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
"""Shut down, shut down from a terminal, reload the configuration."""

INTERRUPTED: Final = 130
"""The exit code of a process that Ctrl-C ended before it accepted connections."""


def exit_on_signals() -> None:
    """End the process silently on SIGTERM and SIGINT, and block SIGHUP."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


def block_signals() -> None:
    """Block all signals: they are delivered by `unblock_signals`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def unblock_signals() -> None:
    """Deliver signals, including those that arrived while they were blocked."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


@contextmanager
def blocked_signals() -> Iterator[None]:
    """Block signals within the context and restore the previous mask after it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- sockets ---


BACKLOG: Final = 2_048
"""How many connections may wait to be accepted."""

_REASONS: Final = {
    errno.EADDRINUSE: "the port is in use; choose another with --port, or --port 0 for a free one",
    errno.EADDRNOTAVAIL: "this machine does not have that address; choose another with --host",
    errno.EACCES: "this user may not use the port; choose one from 1024 with --port",
}


def listen(host: str, port: int) -> list[socket.socket]:
    """Listen on every address of *host*; port 0 is a free port, the same for all addresses.

    Raises `UsageError` if that is not possible.
    """
    listeners: list[socket.socket] = []
    missing: OSError | None = None
    for family, address in _resolve(host, port):
        try:
            shared = int(listeners[0].getsockname()[1]) if listeners else port
            listeners.append(_listen_on(family, address, shared))
        except OSError as exc:
            if exc.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                for listener in listeners:
                    with suppress(OSError):
                        listener.close()
                raise _usage_error(host, port, exc) from exc
            missing = exc  # `localhost` may have an IPv6 address on a machine without IPv6.
    if missing is not None and not listeners:
        raise _usage_error(host, port, missing) from missing
    return listeners


def _resolve(host: str, port: int) -> list[tuple[int, str]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as exc:
        raise UsageError(f"cannot resolve the host {host}; choose another with --host") from exc
    return list(dict.fromkeys((int(family), str(address[0])) for family, *_, address in found))


def _listen_on(family: int, address: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # `::` must not include IPv4: 0.0.0.0 may be served beside it
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)  # Some systems report only here that the port is in use.
    except OSError:
        listener.close()
        raise
    return listener


def _usage_error(host: str, port: int, error: OSError) -> UsageError:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    reason = _REASONS.get(error.errno or 0, error.strerror)
    return UsageError(f"cannot listen on {place}: {reason}")
