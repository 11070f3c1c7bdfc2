"""One question over one socket, and everything that came back, however it ended."""

from __future__ import annotations

import socket
import time
import urllib.request

import msgspec
from msgspec import Struct

from gateway.speech import Stats
from gateway.wire import Answer, Parsed, Target, has_ended


class Outcome(Struct):
    """What a client saw."""

    parsed: Parsed
    ended: str
    """``end`` as announced, ``closed`` or ``reset`` before it, or ``hang``."""
    seconds: float


def ask(target: Target, request: bytes, patience: float) -> Outcome:
    """Send *request* and read what comes, for *patience* seconds without a byte at most."""
    began = time.monotonic()
    with connect(target) as sock:
        sock.settimeout(patience)
        sock.sendall(request)
        answer, ended = read(sock)
    return Outcome(answer.parse(), ended, time.monotonic() - began)


def connect(target: Target) -> socket.socket:
    """Connect to *target*."""
    return socket.create_connection((target.host, target.port))


def read(sock: socket.socket) -> tuple[Answer, str]:
    """Read an answer to its end; return how it ended."""
    answer = Answer([], [])
    try:
        while data := sock.recv(1 << 16):
            answer.reads.append(data)
            answer.times.append(time.monotonic_ns())
            if has_ended(answer.reads):
                return answer, "end"
    except TimeoutError:
        return answer, "hang"
    except ConnectionError:
        return answer, "reset"
    return answer, "closed"


def stats_of(upstream: Target) -> Stats:
    """Ask the fake upstream what it saw."""
    with urllib.request.urlopen(f"http://{upstream.host}:{upstream.port}/__stats") as answer:
        return msgspec.json.decode(answer.read(), type=Stats)
