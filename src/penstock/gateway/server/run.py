"""One process, or several on the same sockets, that serve what the settings say."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.gateway.config.load import check_exposure
from penstock.gateway.config.settings import Settings
from penstock.gateway.factory import build
from penstock.gateway.server.server import GatewayServer
from penstock.gateway.server.sockets import listen
from penstock.gateway.server.workers import Post, Workers

_COLLECT: Final = (5_000, 5, 5)
"""After how many new objects the collector looks for cycles among them, and how often it looks at
those that it has seen before, and at all. An answer leaves it 2 to 8 kB, of schemas and statements:
these must not lie about for thousands of answers."""


def run(settings: Settings, load: Callable[[], Settings], announce: Callable[[int], None]) -> None:
    """Serve until told to end; *load* reads the settings again.

    Signals may be held until then: it heeds them when it can end well. Raises `UsageError` where it
    cannot listen as it is told to.
    """
    post = Post.take()
    if post is not None:
        _work(post, settings, load)
        return
    sockets = listen(settings.server.host, settings.server.port)
    if settings.server.workers == 1:
        _serve(GatewayServer(build(settings), settings, load=load, announce=announce), sockets)
    elif code := Workers(settings, sockets).run(announce):
        sys.exit(code)


def _work(post: Post, settings: Settings, load: Callable[[], Settings]) -> None:
    """Serve as a worker."""
    held = post.held_to(settings)
    check_exposure(held, held)

    def tell(_: int) -> None:
        with suppress(OSError):  # Where nobody listens any more, `life` says so.
            os.write(post.ready, b".")

    server = GatewayServer(build(held), held, load=load, announce=tell, life=post.life)
    _serve(server, [socket.socket(fileno=number) for number in post.sockets])


def _serve(server: GatewayServer, sockets: list[socket.socket]) -> None:
    _settle_memory()
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.serve(sockets))


def _settle_memory() -> None:
    """Let the collector pass over what was loaded, and look less often at what comes and goes.

    Nearly all that an answer makes is freed when nobody holds it; there are few cycles to find.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT)
