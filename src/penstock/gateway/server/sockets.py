"""The sockets that the gateway listens on, opened before anything else is begun.

So whoever chose a port that is taken reads one line that says so, and nothing has to be undone.
"""

from __future__ import annotations

import errno
import socket
from contextlib import suppress
from typing import Final

from penstock.errors import UsageError

BACKLOG: Final = 2_048
"""How many connections may wait to be accepted."""

_REASONS: Final = {
    errno.EADDRINUSE: "is taken; choose another with --port, or --port 0 for a free one",
    errno.EADDRNOTAVAIL: "is no address of this machine; choose another with --host",
    errno.EACCES: "is not allowed to this user; choose another with --port, 1024 or above",
}


def listen(host: str, port: int) -> list[socket.socket]:
    """Listen on every address of *host*; the port 0 is a free one, the same for all of them.

    Raises `UsageError` where that cannot be.
    """
    opened: list[socket.socket] = []
    missing: OSError | None = None
    for family, address in _addresses(host, port):
        try:
            opened.append(_open(family, address, _port_of(opened) or port))
        except OSError as exc:
            if exc.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                _close(opened)
                raise _refusal(host, port, exc) from exc
            missing = exc  # `localhost` may have an address of IPv6 where there is no IPv6
    if missing is not None and not opened:
        raise _refusal(host, port, missing) from missing
    return opened


def _addresses(host: str, port: int) -> list[tuple[int, str]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as exc:
        raise UsageError(
            f"{host} is no host that is known here; choose another with --host"
        ) from exc
    return list(dict.fromkeys((int(family), str(address[0])) for family, *_, address in found))


def _open(family: int, address: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # `::` is IPv6 alone, so that 0.0.0.0 can stand beside it
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)  # Here, since some systems tell only now that a port is taken.
    except OSError:
        listener.close()
        raise
    return listener


def _port_of(opened: list[socket.socket]) -> int:
    return int(opened[0].getsockname()[1]) if opened else 0


def _close(opened: list[socket.socket]) -> None:
    for one in opened:
        with suppress(OSError):
            one.close()


def _refusal(host: str, port: int, error: OSError) -> UsageError:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    reason = _REASONS.get(error.errno or 0, f"cannot be listened on: {error.strerror}")
    return UsageError(f"{place} {reason}")
