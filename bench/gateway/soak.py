"""What hostile and endless use costs the gateway: slow readers, half-open heads, hours of streams.

``python bench/gateway/soak.py [--seconds 180] [-- FLAGS OF THE GATEWAY]`` starts the fake upstream
and the gateway with its log on, and prints a table. The exit code is the number of bars that were
missed.

* Slow readers ask for more than any buffer holds and take a few bytes of it now and then. What the
  gateway holds for them must be bounded: it is the same in the middle of their time and at its end.
* Half-open heads are connections that send half of a request's head and fall silent. Others must
  not be served later for it, and the connections must be closed when a head's time is over.
* The soak is as many short streams as fit into its time; a line through the memory after each batch
  of them says what ten thousand streams leave behind.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from statistics import linear_regression
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway import load
from gateway.processes import Server, used_by
from gateway.run import Row, show, start
from gateway.wire import Target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

READERS: Final = 200
"""How many slow readers there are."""
READING: Final = 60.0
"""For how many seconds: all buffers on the way are full after 25 of them on two busy cores."""
FLOOD: Final = "fake-c20000-w1000"
"""What they ask for: 20 MB."""
WINDOW: Final = 65_536
"""How much of it waits in their own machine: else that would hold it, and not the gateway."""
MAX_READERS: Final = 200.0
"""Megabytes that the gateway may hold while they read."""
MAX_GROWTH: Final = 1.1
"""How many times as much it may hold at the end of their time as in the middle."""

HEADS: Final = 500
"""How many connections fall silent in a head."""
HEAD_SECONDS: Final = 10.0
"""How long the gateway waits for a head."""
MAX_RATIO: Final = 2.0
"""How many times as old a piece may be, p99, while they are there."""
PACED: Final = "fake-c100-d25"
"""What others ask for meanwhile, 20 at once: 800 pieces a second."""

BATCH: Final = 500
"""After how many streams of the soak the memory is looked at."""
WARM: Final = 2_000
"""How many streams come before the soak: caches and pools fill."""
MAX_SLOPE: Final = 1.0
"""Megabytes that ten thousand streams may leave behind."""

_MB: Final = 2**20


class Soak:
    """Measures one gateway."""

    def __init__(self, server: Server) -> None:
        self._pid = server.pid
        self._target = Target("127.0.0.1", int(server.address.rpartition(":")[2]))

    @property
    def _rss(self) -> float:
        return used_by(self._pid).rss / _MB

    # --- slow readers ---

    async def slow_readers(self) -> list[Row]:
        """Open many streams whose clients read slowly."""
        async with AsyncExitStack() as stack:
            request = self._target.request(FLOOD, tools=False)
            for _ in range(READERS):
                await stack.enter_async_context(self._slow_reader(request))
            held = []
            for _ in range(2):
                await asyncio.sleep(READING / 2)
                held.append(self._rss)
        middle, end = held
        return [
            _row(f"MB RSS with {READERS} slow readers", end, "under", MAX_READERS),
            _row("  times that in the middle", end / middle, "at most", MAX_GROWTH),
        ]

    @asynccontextmanager
    async def _slow_reader(self, request: bytes) -> AsyncIterator[None]:
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW)
        link.connect((self._target.host, self._target.port))
        reader, writer = await asyncio.open_connection(sock=link, limit=1024)
        writer.write(request)
        reading = asyncio.create_task(_read_slowly(reader))
        try:
            yield
        finally:
            reading.cancel()
            writer.transport.abort()

    # --- half-open heads ---

    async def half_open(self) -> list[Row]:
        """Open connections with half a head, and check that other clients do not wait."""
        alone = await self._age()
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            heads = [await stack.enter_async_context(self._half_head()) for _ in range(HEADS)]
            beside = await self._age()
            closed = await asyncio.gather(*(_closed(head, began) for head in heads))
        late = f"s until the last of {HEADS} half-open heads was closed"
        return [
            Row("ms age of a piece, p99, alone", {"gateway": alone}),
            Row(f"ms age of a piece, p99, beside {HEADS} half-open heads", {"gateway": beside}),
            _row("  times that alone", beside / alone, "at most", MAX_RATIO),
            _row(late, max(closed), "at most", HEAD_SECONDS + 5),
        ]

    @asynccontextmanager
    async def _half_head(self) -> AsyncIterator[asyncio.StreamReader]:
        reader, writer = await asyncio.open_connection(self._target.host, self._target.port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nx-slow: ")
        try:
            yield reader
        finally:
            writer.transport.abort()

    async def _age(self) -> float:
        """Return the age of a piece on arrival: the best of three runs on a noisy machine."""
        ages = []
        for _ in range(3):
            figures = await load.run(self._target, PACED, streams=20, requests=20)
            assert not figures.wrong, figures.wrong
            assert figures.age is not None
            ages.append(figures.age.p99)
        return min(ages)

    # --- the soak ---

    async def soak(self, seconds: float) -> list[Row]:
        """Ask for one stream after the other, 50 at a time."""
        request = self._target.request("fake-c20-mhermes", tools=True)
        await load.ask_all(self._target, request, 50, WARM)
        until = time.monotonic() + seconds
        counts, held = [0.0], [self._rss]
        while time.monotonic() < until:
            await load.ask_all(self._target, request, 50, BATCH)
            counts.append(counts[-1] + BATCH)
            held.append(self._rss)
        slope = linear_regression(counts, held).slope * 10_000
        return [
            Row("streams in the soak", {"gateway": counts[-1]}),
            Row("MB RSS before it", {"gateway": held[0]}),
            Row("MB RSS after it", {"gateway": held[-1]}),
            _row("MB for ten thousand streams, by the slope", slope, "under", MAX_SLOPE),
        ]


async def _read_slowly(reader: asyncio.StreamReader) -> None:
    while not reader.at_eof():
        await asyncio.gather(reader.read(512), asyncio.sleep(0.25))


async def _closed(head: asyncio.StreamReader, began: float) -> float:
    """Wait until the gateway closes a connection; give after how many seconds that was."""
    with suppress(ConnectionError):
        async with asyncio.timeout(4 * HEAD_SECONDS):
            await head.read()
    return time.monotonic() - began


def _row(what: str, figure: float, words: str, bar: float) -> Row:
    return Row(what, {"gateway": figure}, f"{words} {bar:g}", figure <= bar)


async def measure(server: Server, seconds: float) -> list[Row]:
    """Measure everything, one after the other."""
    soak = Soak(server)
    rows = await soak.soak(seconds)
    rows += await soak.half_open()
    return [*rows, *await soak.slow_readers()]


def main(given: Sequence[str] | None = None) -> int:
    """Read the command line, measure, and print; return the number of bars that were missed."""
    parser = argparse.ArgumentParser(description="What endless and hostile use costs the gateway.")
    parser.add_argument("--seconds", type=float, default=180.0, help="how long the soak lasts")
    parser.add_argument("flags", nargs="*", help="for `penstock serve`, after --")
    options = parser.parse_args(given)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with ExitStack() as stack:
        servers = start(stack, options.flags, floor_only=False)
        rows = asyncio.run(measure(servers["gateway"], options.seconds))
    show(rows, ["gateway"])
    return sum(not row.is_met for row in rows)


if __name__ == "__main__":
    sys.exit(main())
