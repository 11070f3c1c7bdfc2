"""What a client may do, and how a gateway must react: leave, not read, send too much.

Leaving is measured against the fake upstream itself in the same run, and not reading against a
relay of two bare sockets: what a kernel holds and how fast it tells differ between machines.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Final

from msgspec import structs

from gateway.probe import ask, connect, read, stats_of
from gateway.wire import Target, parse

Edge = Callable[[Target, Target], tuple[str, list[str]]]
"""Tries the gateway, beside the upstream; returns what was measured and what is wrong."""

CANCEL_MARGIN: Final = 10.0
"""How many milliseconds later than directly an upstream may learn that the client is gone."""

HELD_MARGIN: Final = 1.0
"""How many megabytes a gateway may hold for a client that does not read, above two sockets."""

HEADER_LIMIT: Final = 10.0
"""Seconds that a client may take for its header."""

DEPTH_LIMIT: Final = 50.0
"""Milliseconds that the refusal of a deeply nested body may take."""

_TRIES: Final = 3
_PATIENCE: Final = 20.0
_SETTLED: Final = 1.0  # seconds without a byte: the stream has stopped
_RELAYED: Final = 256_000  # what uvloop reads at once: kernels hold more for quick readers
_HUGE: Final = 60_000_000
_PIECE: Final = bytes(1 << 16)


# --- leaving ---


def leave_early(gateway: Target, upstream: Target) -> tuple[str, list[str]]:
    """Hang up before the first byte of a stream."""
    return _leave(gateway, upstream, "fake-c20-fslow@8000", pieces=0)


def leave_amid(gateway: Target, upstream: Target) -> tuple[str, list[str]]:
    """Hang up in the middle of a stream."""
    return _leave(gateway, upstream, "fake-c400-d25", pieces=6)


def leave_whole(gateway: Target, upstream: Target) -> tuple[str, list[str]]:
    """Disconnect while waiting for a response that is not streamed."""
    return _leave(gateway, upstream, "fake-c20-fslow@8000", pieces=0, stream=False)


def _leave(
    gateway: Target, upstream: Target, model: str, *, pieces: int, stream: bool = True
) -> tuple[str, list[str]]:
    direct, through = (
        min(_notice(one, upstream, model, pieces, stream=stream) for _ in range(_TRIES))
        for one in (upstream, gateway)
    )
    told = f"noticed after {through:.1f} ms, directly after {direct:.1f} ms"
    return told, ["the upstream learns it too late"] if through > direct + CANCEL_MARGIN else []


def _notice(target: Target, upstream: Target, model: str, pieces: int, *, stream: bool) -> float:
    """Hang up after so many pieces; return the milliseconds until the upstream knows it."""
    before = stats_of(upstream)
    with connect(target) as sock:
        sock.settimeout(_PATIENCE)
        sock.sendall(target.request(model, stream=stream, tools=False))
        _until(lambda: stats_of(upstream).requests > before.requests)
        seen = b""
        while seen.count(b"data:") < pieces and (data := sock.recv(4096)):
            seen += data
        left = time.monotonic_ns()
    if not _until(lambda: stats_of(upstream).client_gone > before.client_gone, seconds=6):
        return float("inf")
    return ((stats_of(upstream).last_gone_ns or 0) - left) / 1e6


def _until(holds: Callable[[], bool], seconds: float = _PATIENCE) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


# --- not reading ---


def read_nothing(gateway: Target, upstream: Target) -> tuple[str, list[str]]:
    """Ask for 24 MB and read none of it; a relay of two bare sockets shows what kernels hold."""
    with relay_to(upstream) as relay:
        bare = max(_taken(relay, upstream) for _ in range(_TRIES))
    through = min(_taken(gateway, upstream) for _ in range(_TRIES))
    told = f"{through:.1f} MB taken from the upstream, by two bare sockets {bare:.1f}"
    return told, ["more is held than two sockets hold"] if through > bare + HELD_MARGIN else []


@contextmanager
def relay_to(upstream: Target) -> Iterator[Target]:
    """Serve on a port of its own and pass bytes on from *upstream*, one connection at a time."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=_relay, args=(server, upstream), daemon=True).start()
        yield structs.replace(upstream, port=server.getsockname()[1])


def _relay(server: socket.socket, upstream: Target) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return  # The server is closed.
        with client, connect(upstream) as sock, suppress(ConnectionError):
            sock.sendall(client.recv(1 << 16))
            while data := sock.recv(_RELAYED):
                client.sendall(data)


def _taken(target: Target, upstream: Target) -> float:
    """Ask for a stream and do not read it; return the megabytes that the upstream could write."""
    before = stats_of(upstream).bytes_written
    with connect(target) as sock:
        sock.sendall(target.request("fake-c20000-w1000", tools=False))
        written, since = -1, time.monotonic()
        while time.monotonic() - since < _SETTLED:
            now = stats_of(upstream).bytes_written - before
            if now != written or not now:
                written, since = now, time.monotonic()
            time.sleep(0.05)
    return written / 1e6


# --- sending too little, or too much ---


def half_a_header(gateway: Target, upstream: Target) -> tuple[str, list[str]]:  # noqa: ARG001 - an `Edge`
    """Send half a header, and then nothing."""
    began = time.monotonic()
    with connect(gateway) as sock:
        sock.settimeout(2 * HEADER_LIMIT)
        sock.sendall(gateway.head(10)[:60])
        _, ended = read(sock)
    seconds = time.monotonic() - began
    is_late = ended == "hang" or seconds > HEADER_LIMIT + 2
    return f"{ended} after {seconds:.1f} s", ["the connection stays open"] if is_late else []


def long_header(gateway: Target, upstream: Target) -> tuple[str, list[str]]:  # noqa: ARG001 - an `Edge`
    """Send a header of 40 kB."""
    body = gateway.request("fake-c5").partition(b"\r\n\r\n")[2]
    request = gateway.head(len(body), "x-long: " + "x" * 40_000) + body
    status = ask(gateway, request, _PATIENCE).parsed.status
    return f"status {status}", ["it is not refused with 431"] if status != 431 else []


def large_body(gateway: Target, upstream: Target) -> tuple[str, list[str]]:  # noqa: ARG001 - an `Edge`
    """Send 60 MB, until the gateway rejects it."""
    with connect(gateway) as sock:
        sock.settimeout(_PATIENCE)
        sock.sendall(gateway.head(_HUGE))
        sent = _send_until_answered(sock)
        answer, _ = read(sock)
    status = answer.parse().status
    told = f"status {status} after {sent / 1e6:.1f} MB"
    wrong = ["it is not refused with 413"] if status != 413 else []
    return told, [*wrong, *(["all of it was read"] if sent >= _HUGE else [])]


def _send_until_answered(sock: socket.socket) -> int:
    sent = 0
    try:
        while sent < _HUGE and not select.select([sock], [], [], 0)[0]:
            sent += sock.send(_PIECE[: _HUGE - sent])
    except OSError:
        pass  # Closed: what it said before that can still be read.
    return sent


def deep_body(gateway: Target, upstream: Target) -> tuple[str, list[str]]:  # noqa: ARG001 - an `Edge`
    """Send JSON that is nested 100,000 deep."""
    body = b'{"model":"fake-c5","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    outcomes = [ask(gateway, gateway.head(len(body)) + body, _PATIENCE) for _ in range(_TRIES)]
    best = min(outcome.seconds for outcome in outcomes) * 1e3
    status = outcomes[0].parsed.status
    wrong = ["it is not refused with 400"] if status != 400 else []
    return f"status {status} after {best:.1f} ms", [
        *wrong,
        *(["it takes too long"] if best > DEPTH_LIMIT else []),
    ]


def two_lengths(gateway: Target, upstream: Target) -> tuple[str, list[str]]:  # noqa: ARG001 - an `Edge`
    """Send a body whose end is ambiguous, as in request smuggling."""
    request = gateway.head(5, "transfer-encoding: chunked") + b"0\r\n\r\n"
    with connect(gateway) as sock:
        sock.settimeout(_PATIENCE)
        sock.sendall(request)
        answer, ended = read(sock)
    status = parse(b"".join(answer.reads)).status
    is_refused = status == 400 or (not status and ended != "hang")
    return f"status {status}, {ended}", [] if is_refused else ["it is not refused with 400"]


EDGES: Final[dict[str, Edge]] = {
    "the client leaves before the first byte": leave_early,
    "the client leaves in the middle": leave_amid,
    "the client leaves, no stream": leave_whole,
    "the client reads nothing": read_nothing,
    "half a header": half_a_header,
    "a header of 40 kB": long_header,
    "a body of 60 MB": large_body,
    "JSON nested 100,000 deep": deep_body,
    "two lengths": two_lengths,
}
"""All of them."""
