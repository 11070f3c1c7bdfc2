"""What a frame costs in `sse`, `ndjson` and `json_array`, and whether a feed costs the same always.

CPU time, the best of several runs. The floor is a method that returns a list with one frame: what
no decoder in Python can go below.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from penstock.framing import Frame, json_array, ndjson, sse

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.framing import FrameDecoder

Row = tuple[str, str, str, str]
"""What was measured, the figure, the bar, and the verdict."""

DATA = (
    b'{"id":"chatcmpl-7f3","object":"chat.completion.chunk","created":1700000000,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}'
)
ELEMENT = (
    b'{\n  "candidates": [\n    {\n      "content": {\n        "parts": [\n          {\n'
    b'            "text": "a \\"quoted\\" word\\nand a line"\n          }\n        ],\n'
    b'        "role": "model"\n      },\n      "index": 0\n    }\n  ],\n'
    b'  "usageMetadata": {\n    "promptTokenCount": 5,\n    "totalTokenCount": 15\n  }\n}\n'
)
PLAIN = sse.encode(DATA)
NAMED = sse.encode(DATA, event="content_block_delta")
FRAMES = 2_000
MAX_GROWTH = 12  # for ten times the bytes


class Floor:
    """A decoder that decodes nothing."""

    def feed(self, _data: bytes) -> list[Frame]:
        """Return one frame, whatever comes."""
        return [Frame("", "", "")]


def seconds(run: Callable[[], object]) -> float:
    """Return the CPU time that *run* takes."""
    began = time.process_time()
    run()
    return time.process_time() - began


def feed_all(make: Callable[[], FrameDecoder | Floor], pieces: list[bytes], times: int = 1) -> None:
    """Feed *pieces* one after the other to a new decoder, and that several *times*."""
    for _ in range(times):
        feed = make().feed
        for piece in pieces:
            feed(piece)


def write_all(event: str) -> None:
    """Write the same frame many times."""
    for _ in range(FRAMES):
        sse.encode(DATA, event=event)


def in_steps(data: bytes, step: int) -> list[bytes]:
    """Cut *data* into pieces of *step* bytes."""
    return [data[at : at + step] for at in range(0, len(data), step)]


def cost_row(what: str, run: Callable[[], object], frames: int, bar: float) -> Row:
    """Measure *run*, which handles so many *frames*, in turn with the floor; *bar* is in floors."""
    floors = [PLAIN] * frames
    best_floor = best = float("inf")
    for _ in range(12):
        best_floor = min(best_floor, seconds(lambda: feed_all(Floor, floors)))
        best = min(best, seconds(run))
    ratio = best / best_floor
    measured = f"{best / frames * 1e6:.2f} µs, {ratio:.1f} floors"
    return what, measured, f"<= {bar:g} floors", _verdict(ratio, bar)


def growth(make: Callable[[], FrameDecoder], head: bytes, unit: bytes) -> float:
    """Return how many times the time ten times the input takes, fed byte by byte.

    Ten small runs are timed as one, in turn with a large one, so that both take equally long and
    what else the machine does falls on both.
    """
    small, large = (in_steps(head + unit * (size // len(unit)), 1) for size in (10_000, 100_000))
    best_small = best_large = float("inf")
    for _ in range(8):
        best_small = min(best_small, seconds(lambda: feed_all(make, small, 10)))
        best_large = min(best_large, seconds(lambda: feed_all(make, large)))
    return 10 * best_large / best_small


def read_rows() -> list[Row]:
    """Measure what a frame costs in the ways that frames arrive."""
    crlf = PLAIN.replace(b"\n", b"\r\n")
    ways: list[tuple[str, Callable[[], FrameDecoder], list[bytes], float]] = [
        ("sse, a frame a read", sse.Decoder, [PLAIN] * FRAMES, 10),
        ("sse, a frame a read, CRLF", sse.Decoder, [crlf] * FRAMES, 10),
        ("sse, a named frame a read", sse.Decoder, [NAMED] * FRAMES, 14),
        ("sse, 16 frames a read", sse.Decoder, [PLAIN * 16] * (FRAMES // 16), 12),
        ("sse, 16 named frames a read", sse.Decoder, [NAMED * 16] * (FRAMES // 16), 18),
        ("sse, a frame in two reads", sse.Decoder, [PLAIN[:50], PLAIN[50:]] * FRAMES, 50),
        ("sse, 64 bytes a read", sse.Decoder, in_steps(PLAIN * FRAMES, 64), 60),
        ("ndjson, a line a read", ndjson.Decoder, [DATA + b"\n"] * FRAMES, 16),
        ("json_array, an element a read", json_array.Decoder, [b"[", *[ELEMENT] * FRAMES], 160),
    ]
    return [
        cost_row(what, partial(feed_all, make, pieces), FRAMES, bar)
        for what, make, pieces, bar in ways
    ]


def write_rows() -> list[Row]:
    """Measure what writing a frame costs."""
    return [
        cost_row("sse, write a frame", lambda: write_all(""), FRAMES, 5),
        cost_row("sse, write a named frame", lambda: write_all("ping"), FRAMES, 10),
    ]


def growth_rows() -> list[Row]:
    """Measure what ten times the input costs, byte by byte."""
    ways: list[tuple[str, Callable[[], FrameDecoder], bytes, bytes]] = [
        ("sse, one line", sse.Decoder, b"data: ", b"x"),
        ("sse, one event of many lines", sse.Decoder, b"", b"data: x\n"),
        ("sse, many events", sse.Decoder, b"", PLAIN),
        ("ndjson, one line", ndjson.Decoder, b"", b"x"),
        ("json_array, one string", json_array.Decoder, b'[{"a":"', b"\\n"),
        ("json_array, many elements", json_array.Decoder, b"[", ELEMENT),
    ]
    rows = []
    for what, make, head, unit in ways:
        times = growth(make, head, unit)
        verdict = _verdict(times, MAX_GROWTH)
        rows.append((f"{what}, byte by byte", f"{times:.1f} x", f"<= {MAX_GROWTH} x", verdict))
    return rows


def table() -> list[Row]:
    """Measure all; return rows of what, measured, bar and verdict."""
    return read_rows() + write_rows() + growth_rows()


def _verdict(measured: float, bar: float) -> str:
    return "ok" if measured <= bar else "MISSED"


if __name__ == "__main__":
    for row in table():
        print("{:42} {:>22}  {:>14}  {}".format(*row))
