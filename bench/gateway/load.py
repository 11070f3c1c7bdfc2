"""A load client for streams: many at once, each piece checked and its age taken.

``python bench/gateway/load.py --base http://127.0.0.1:8787 --model fake-c200 --streams 50
--requests 200 --pid PID`` prints one JSON object. With the process id of the server it tells the
CPU time of that process tree for 1000 pieces, the figure to compare within one run on a noisy
machine, and the memory it held.

The pieces of the modes `text` and `think` are numbered and carry the time of their making, so the
age of each on arrival is known, and that none was lost, doubled or out of order.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway import scenarios
from gateway.processes import used_by
from gateway.wire import PATHS, Answer, Parsed, Target, has_ended

READ: Final = 1 << 16
"""How much is taken from a socket at once."""

WATCH_EVERY: Final = 0.2
"""Seconds between two looks at the memory of the server."""

_STAMP: Final = re.compile(rb"(\d+):(\d{9,});")
_LAST_WORDS: Final = {
    "chat": rb"data: ?\[DONE\]",
    "messages": rb'"type": ?"message_stop"',
    "responses": rb'"type": ?"response\.completed"',
}
_FINISH: Final = {
    "chat": rb'"finish_reason": ?"',
    "messages": rb'"stop_reason": ?"',
    "responses": rb'"type": ?"response\.completed"',
}


class Spread(Struct, frozen=True):
    """How figures are spread, in milliseconds."""

    p50: float
    p95: float
    p99: float


class Figures(Struct):
    """The result of one run of the load client."""

    model: str
    requests: int
    wall: float
    """Seconds that it took."""
    pieces: int
    """How many pieces the upstream said in it."""
    first_piece: Spread | None = None
    age: Spread | None = None
    """From the making of a piece to its arrival."""
    wrong: dict[str, int] = field(default_factory=dict)
    """What was wrong with how many answers."""
    cpu: float = 0.0
    """Seconds of the server's process tree."""
    rss: float = 0.0
    """The most bytes that it held."""

    @property
    def cpu_per_piece(self) -> float:
        """Microseconds of CPU time for each piece."""
        return self.cpu / self.pieces * 1e6 if self.pieces else 0.0


class Connection:
    """One connection to the server, used again for as long as the server lets it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes) -> Answer:
        """Send *request* and read to the end of its answer, or as far as it comes."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                self._target.host, self._target.port, limit=READ
            )
        self._writer.write(request)
        answer = Answer([], [])
        while data := await self._reader.read(READ):
            answer.times.append(time.monotonic_ns())
            answer.reads.append(data)
            if has_ended(answer.reads):
                return answer
        await self.close()
        return answer

    async def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None


async def run(target: Target, model: str, *, streams: int, requests: int, pid: int = 0) -> Figures:
    """Ask *target* for *model* so many times, so many at once, and say what it took."""
    scenario = scenarios.read(model)
    has_tools = scenario.mode not in ("text", "think")
    request = target.request(model, tools=has_tools)
    # Warm up with a few pieces: connections, imports, caches.
    warming = target.request(f"fake-c8-m{scenario.mode}", tools=has_tools)
    await ask_all(target, warming, streams, streams)
    before = used_by(pid)
    watching = asyncio.create_task(watch_memory(pid))
    began = time.monotonic()
    asked = await ask_all(target, request, streams, requests)
    wall = time.monotonic() - began
    watching.cancel()
    after = used_by(pid)
    figures = Figures(model, requests, wall, requests * scenario.pieces)
    figures.cpu = after.cpu - before.cpu
    figures.rss = max(after.rss, await watching)
    _judge(figures, target.api, asked)
    return figures


async def ask_all(
    target: Target, request: bytes, streams: int, requests: int
) -> list[tuple[int, Answer]]:
    """Ask *requests* times over *streams* connections; give each answer with its beginning."""
    left = iter(range(requests))
    asked: list[tuple[int, Answer]] = []

    async def ask_in_turn() -> None:
        connection = Connection(target)
        for _ in left:
            began = time.monotonic_ns()
            try:
                asked.append((began, await connection.ask(request)))
            except ConnectionError:
                asked.append((began, Answer([], [])))
                await connection.close()
        await connection.close()

    await asyncio.gather(*(ask_in_turn() for _ in range(streams)))
    return asked


async def watch_memory(pid: int) -> float:
    """Return the most memory that was held until this is cancelled."""
    most = 0.0
    try:
        while pid:
            most = max(most, used_by(pid).rss)
            await asyncio.sleep(WATCH_EVERY)
    except asyncio.CancelledError:
        pass
    return most


# --- results ---


def _judge(figures: Figures, api: str, asked: list[tuple[int, Answer]]) -> None:
    ages: list[float] = []
    firsts: list[float] = []
    scenario = scenarios.read(figures.model)
    for began, answer in asked:
        parsed = answer.parse()
        stamps = list(_stamps(answer, parsed))
        ages += [(there - made) / 1e6 for _, made, there in stamps]
        if stamps:
            firsts.append((stamps[0][2] - began) / 1e6)
        wanted = scenario.pieces if scenario.mode in ("text", "think") else 0
        for what in _faults(api, parsed, [number for number, *_ in stamps], wanted):
            figures.wrong[what] = figures.wrong.get(what, 0) + 1
    figures.age, figures.first_piece = _spread(ages), _spread(firsts)


def _stamps(answer: Answer, parsed: Parsed) -> Iterator[tuple[int, int, int]]:
    """Return number, making and arrival of each piece; without the text that an end repeats."""
    last, chunk = -1, 0
    for stamp in _STAMP.finditer(parsed.body):
        while parsed.chunk_ends[chunk][0] < stamp.end():
            chunk += 1
        number = int(stamp.group(1))
        if number > last:
            last = number
            yield number, int(stamp.group(2)), answer.arrival(parsed.chunk_ends[chunk][1])


def _faults(api: str, parsed: Parsed, numbers: list[int], wanted: int) -> Iterator[str]:
    if parsed.status != 200:
        yield f"status {parsed.status}"
        return
    if not parsed.is_whole:
        yield "cut"
    if wanted and numbers != list(range(wanted)):
        yield "sequence"
    if len(re.findall(_FINISH[api], parsed.body)) != 1:
        yield "finish"
    if not re.search(_LAST_WORDS[api], parsed.body):
        yield "no last frame"


def _spread(figures: Sequence[float]) -> Spread | None:
    if not figures:
        return None
    ranked = sorted(figures)

    def at(share: float) -> float:
        return round(ranked[min(len(ranked) - 1, int(share * len(ranked)))], 3)

    return Spread(at(0.5), at(0.95), at(0.99))


def main() -> None:
    """Read the command line, run, and print the figures."""
    parser = argparse.ArgumentParser(description="Many streams at once, and what they cost.")
    parser.add_argument("--base", default="http://127.0.0.1:9101")
    parser.add_argument("--key", default="sk-test")
    parser.add_argument("--model", default="fake-c200")
    parser.add_argument("--api", default="chat", choices=PATHS)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--pid", type=int, default=0)
    options = parser.parse_args()
    base = urllib.parse.urlsplit(options.base)
    target = Target(base.hostname or "127.0.0.1", base.port or 80, options.api, options.key)
    count, streams = options.requests, options.streams
    figures = asyncio.run(
        run(target, options.model, streams=streams, requests=count, pid=options.pid)
    )
    told = {**msgspec.to_builtins(figures), "cpu_ms_per_1000_pieces": figures.cpu_per_piece}
    print(msgspec.json.encode(told).decode())


if __name__ == "__main__":
    main()
