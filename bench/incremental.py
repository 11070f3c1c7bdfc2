"""What a delta costs `IncrementalJSON`, against parsing again and against other readers.

Two texts, cut into deltas of four characters: one long string (a file as a tool's argument, with
its escapes) and a list of many small objects. Times are CPU time, the best of interleaved rounds.
Readers that parse everything again are timed on a sample of the deltas, spread over the text.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import jiter
import jsonriver
import partial_json_parser

from penstock.values.incremental import IncrementalJSON
from penstock.values.incremental_state import Change

DELTA = 4
SIZES = (1_000, 10_000, 100_000)
ROUNDS = 7
ENOUGH = 10_000
"""How many deltas one timing takes at least: short texts are read several times over."""
SAMPLE = 60
"""How many deltas of a large text a reader gets that parses all of it again for each."""

LINES = '    for name, size in sorted(found.items()):\n        print(f"{name}: {size:>8}")\n\n'

Row = tuple[str, str, str, str]
Timing = Callable[[str], float]


def string_text(size: int) -> str:
    """Write a tool's arguments with a long string among them."""
    code = (LINES * (size // len(LINES) + 1))[:size]
    return json.dumps({"path": "src/report.py", "content": code})[:size]


def objects_text(size: int) -> str:
    """Write a list of small objects."""
    rows = [
        {"id": row, "name": "Anna", "tags": ["new", "vip"], "active": True, "score": 3.25}
        for row in range(size // 60)
    ]
    return json.dumps(rows)[:size]


def deltas_of(text: str) -> list[str]:
    """Cut *text* as a model would send it."""
    return [text[at : at + DELTA] for at in range(0, len(text), DELTA)]


class Floor:
    """What no reader can go below: keep the delta, and tell of it."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.path = ("content",)

    def feed(self, delta: str) -> list[Change]:
        """Append."""
        self.parts.append(delta)
        return [Change(self.path, "string", delta)]


def time_feeding(reader: type[Floor | IncrementalJSON], text: str) -> float:
    """Give the microseconds per delta of a reader that is fed."""
    deltas = deltas_of(text)
    repeats = max(1, ENOUGH // len(deltas))
    start = time.process_time()
    for _ in range(repeats):
        feed = reader().feed
        for delta in deltas:
            feed(delta)
    return (time.process_time() - start) / (repeats * len(deltas)) * 1e6


def time_jsonriver(text: str) -> float:
    """Do the same for jsonriver, which pulls its deltas."""
    deltas = deltas_of(text)

    async def source() -> AsyncIterator[str]:
        for delta in deltas:
            yield delta

    async def read() -> None:
        try:
            async for _ in jsonriver.parse(source()):
                pass
        except Exception:  # noqa: BLE001 - the text is cut; it was read to its end
            pass

    start = time.process_time()
    asyncio.run(read())
    return (time.process_time() - start) / len(deltas) * 1e6


def time_again(parse: Callable[[str], Any], text: str) -> float:
    """Do the same for a reader that parses everything so far on every delta."""
    step = max(DELTA, len(text) // SAMPLE)
    prefixes = [text[:at] for at in range(step, len(text), step)]
    start = time.process_time()
    for prefix in prefixes:
        parse(prefix)
    return (time.process_time() - start) / len(prefixes) * 1e6


def parse_jiter(prefix: str) -> Any:
    """Parse a prefix with jiter."""
    return jiter.from_json(prefix.encode(), partial_mode="trailing-strings")


READERS: dict[str, Timing] = {
    "floor": partial(time_feeding, Floor),
    "IncrementalJSON": partial(time_feeding, IncrementalJSON),
    "jsonriver": time_jsonriver,
    "jiter": partial(time_again, parse_jiter),
    "partial-json-parser": partial(time_again, partial_json_parser.loads),
}
PYTHON_PEERS = ("jsonriver", "partial-json-parser")

Times = dict[tuple[str, int], float]
"""Microseconds per delta, by reader and size."""


def measure(make_text: Callable[[int], str]) -> Times:
    """Time every reader at every size, the best of all rounds."""
    texts = {size: make_text(size) for size in SIZES}
    best: Times = {}
    for _ in range(ROUNDS):
        for size, text in texts.items():
            for name, timing in READERS.items():
                seen = timing(text)
                best[name, size] = min(seen, best.get((name, size), seen))
    return best


def rows_of(kind: str, times: Times) -> list[Row]:
    """Put the figures of one text into rows."""
    small, _, large = SIZES
    rows: list[Row] = []
    for name in READERS:
        figures = " · ".join(f"{times[name, size]:.2f}" for size in SIZES)
        sampled = "" if name in ("floor", "IncrementalJSON", "jsonriver") else ", sampled"
        rows.append((f"{kind}: {name}, µs a delta at 1 · 10 · 100 KB{sampled}", figures, "", ""))
    own = times["IncrementalJSON", large]
    peer = min(PYTHON_PEERS, key=lambda name: times[name, large])
    rows += [
        verdict(f"{kind}: 100 KB against 1 KB", own / times["IncrementalJSON", small], most=1.2),
        verdict(f"{kind}: faster than {peer} at 100 KB", times[peer, large] / own, least=5),
    ]
    if kind == "objects":
        rows.append(
            verdict(f"{kind}: faster than jiter at 100 KB", times["jiter", large] / own, least=100)
        )
    return rows


def verdict(what: str, ratio: float, *, least: float = 0, most: float = float("inf")) -> Row:
    """Make the row of a ratio that has a bar."""
    bar = f"at least {least:g}" if least else f"at most {most:g}"
    return what, f"{ratio:.2f} times", bar, "ok" if least <= ratio <= most else "MISSED"


def table() -> list[Row]:
    """Measure everything; give rows of what, measured, bar and verdict."""
    return [
        *rows_of("string", measure(string_text)),
        *rows_of("objects", measure(objects_text)),
    ]


if __name__ == "__main__":
    for row in table():
        print(" | ".join(row))
