"""The gateway beside the bare floor and the upstream itself, in one run, as a table.

``python bench/gateway/run.py [-- FLAGS OF THE GATEWAY]`` starts the fake upstream, the floor and
the gateway with its log on, and measures them in turn, A B A B, so that a noisy neighbour troubles
all of them. Of each the best round counts. ``--floor-only`` leaves the gateway out. The exit code
is the number of bars that were missed.

A piece costs more when it comes alone than in a burst, where one read brings many: *in a burst* the
upstream writes as fast as it can, *one by one* it pauses after each piece of a stream.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway import load
from gateway.processes import Server, free_port, serving, used_by
from gateway.wire import Target

HERE: Final = Path(__file__).parent
STREAMS: Final = 50
"""How many streams there are at once where CPU time is measured."""

MANY: Final = 500
"""How many where memory is."""

MAX_RATIO: Final = 2.5
"""How many times the floor's CPU time a piece may cost the gateway."""
MAX_AGE: Final = 15.0
"""Milliseconds: the age of a piece on arrival, p99."""
MAX_STREAM: Final = 32.0
"""Kilobytes that an open stream may hold."""
MAX_RSS: Final = 80.0
"""Megabytes that the gateway may hold."""
MAX_START: Final = 1.5
"""Seconds from the start of the process until it is ready."""

_COSTS: Final = {
    "text, in a burst": ("fake-c200", 4 * STREAMS),
    "hermes call, in a burst": ("fake-c200-mhermes", 4 * STREAMS),
    "native call, in a burst": ("fake-c200-mnative", 4 * STREAMS),
    "text, one by one": ("fake-c100-d25", 2 * STREAMS),
    "hermes call, one by one": ("fake-c100-d25-mhermes", 2 * STREAMS),
    "native call, one by one": ("fake-c100-d25-mnative", 2 * STREAMS),
}
"""Of each row of CPU time, the model and how often it is asked."""

_PACED: Final = "fake-c200-d25"  # 10 streams of it are 400 pieces a second
_HELD: Final = "fake-c20-d250"  # open for 5 seconds


class Row(Struct, frozen=True):
    """A line of the table; the figures are of those who were measured."""

    what: str
    figures: dict[str, float]
    bar: str = ""
    is_met: bool = True

    def cells(self, names: Sequence[str]) -> list[str]:
        """Return the line as text."""
        figures = [f"{self.figures[name]:.1f}" if name in self.figures else "" for name in names]
        verdict = "" if not self.bar else "ok" if self.is_met else "MISSED"
        return [self.what, *figures, self.bar, verdict]


class Bench:
    """All servers, started; *servers* are by the name of their column."""

    def __init__(self, servers: dict[str, Server], rounds: int) -> None:
        self._servers = servers
        self._targets = {name: _target(server) for name, server in servers.items()}
        self._rounds = rounds
        self._wrong: dict[str, dict[str, int]] = {}

    def rows(self) -> list[Row]:
        """Measure everything."""
        costs = [
            row for what, (model, count) in _COSTS.items() for row in self._cost(what, model, count)
        ]
        few = self._memory(f"rounds of {STREAMS} streams")
        many = [self._memory_of_stream(), self._memory(f"{MANY} streams at a time")]
        return [*costs, self._age(), few, *many, self._start()]

    def wrong(self) -> dict[str, dict[str, int]]:
        """Return which servers sent wrong responses, and how."""
        return {name: what for name, what in self._wrong.items() if what}

    def _cost(self, what: str, model: str, count: int) -> list[Row]:
        runs = self._in_turn(model, STREAMS, count)
        costs = {name: min(one.cpu_per_piece for one in ran) for name, ran in runs.items()}
        row = Row(f"µs CPU a piece: {what}", costs)
        if "gateway" not in costs:
            return [row]
        ratio = costs["gateway"] / costs["floor"]
        bar = f"at most {MAX_RATIO} floors"
        return [row, Row("  in floors", {"gateway": ratio}, bar, ratio <= MAX_RATIO)]

    def _age(self) -> Row:
        runs = self._in_turn(_PACED, 10, 10)
        ages = {name: min(one.age.p99 for one in ran if one.age) for name, ran in runs.items()}
        return _bounded("ms age of a piece, p99, 400 pieces/s", ages, "under", MAX_AGE)

    def _in_turn(self, model: str, streams: int, count: int) -> dict[str, list[load.Figures]]:
        runs: dict[str, list[load.Figures]] = {name: [] for name in self._servers}
        for _ in range(self._rounds):
            for name, server in self._servers.items():
                running = load.run(
                    self._targets[name], model, streams=streams, requests=count, pid=server.pid
                )
                runs[name].append(asyncio.run(running))
                self._wrong.setdefault(name, {}).update(runs[name][-1].wrong)
        return runs

    def _memory_of_stream(self) -> Row:
        held = {
            name: asyncio.run(_memory_of_stream(self._targets[name], server.pid)) / 1024
            for name, server in self._servers.items()
        }
        return _bounded(f"KB for each of {MANY} open streams", held, "under", MAX_STREAM)

    def _memory(self, behind: str) -> Row:
        rss = {name: used_by(server.pid).rss / 2**20 for name, server in self._servers.items()}
        return _bounded(f"MB RSS after {behind}", rss, "under", MAX_RSS)

    def _start(self) -> Row:
        after = {name: server.ready_after for name, server in self._servers.items()}
        return _bounded("s until ready", after, "at most", MAX_START)


def _bounded(what: str, figures: dict[str, float], words: str, bar: float) -> Row:
    """Make a row whose bar is for the gateway, if that was measured."""
    if "gateway" not in figures:
        return Row(what, figures)
    return Row(what, figures, f"{words} {bar:g}", figures["gateway"] <= bar)


async def _memory_of_stream(target: Target, pid: int) -> float:
    """Hold many streams open; return the bytes that each of them takes."""
    request = target.request(_HELD, tools=False)
    await load.ask_all(target, target.request("fake-c20", tools=False), STREAMS, STREAMS)
    before = used_by(pid).rss
    watching = asyncio.create_task(load.watch_memory(pid))
    await load.ask_all(target, request, MANY, MANY)
    watching.cancel()
    return (await watching - before) / MANY


def _target(server: Server) -> Target:
    return Target("127.0.0.1", int(server.address.rpartition(":")[2]))


def start(stack: ExitStack, flags: Sequence[str], *, floor_only: bool) -> dict[str, Server]:
    """Start all servers; they end with *stack*."""
    port = free_port()
    script = [str(HERE / "upstream.py"), "--port", str(port)]
    servers = {"direct": stack.enter_context(serving(script, port, ready="/v1/models"))}
    upstream = f"{servers['direct'].address}/v1"
    commands = {"floor": [str(HERE / "floor.py")], "gateway": ["-m", "penstock", "serve", *flags]}
    if floor_only:
        del commands["gateway"]
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    # Otherwise the gateway would add to the log of the user, and take longer as that grows.
    os.environ["XDG_STATE_HOME"] = folder
    for name, command in commands.items():
        port = free_port()
        arguments = [*command, "--upstream", upstream, "--port", str(port)]
        servers[name] = stack.enter_context(serving(arguments, port, folder=folder))
    return servers


def show(rows: Sequence[Row], names: Sequence[str]) -> None:
    """Print *rows* as a Markdown table."""
    table = [["what", *names, "bar", "verdict"], *(row.cells(names) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    table.insert(1, ["-" * width for width in widths])
    for cells in table:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        print("| " + " | ".join(padded) + " |")


def main() -> int:
    """Read the command line, measure, and print; return the number of bars that were missed."""
    parser = argparse.ArgumentParser(description="What the gateway costs, beside the bare floor.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--floor-only", action="store_true", help="without the gateway")
    parser.add_argument("flags", nargs="*", help="for `penstock serve`, after --")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # Many streams are many sockets.
    with ExitStack() as stack:
        servers = start(stack, options.flags, floor_only=options.floor_only)
        bench = Bench(servers, options.rounds)
        rows = bench.rows()
    show(rows, list(servers))
    for name, wrong in bench.wrong().items():
        print(f"wrong answers of {name}: {wrong}")
    return sum(not row.is_met for row in rows) + len(bench.wrong())


if __name__ == "__main__":
    sys.exit(main())
