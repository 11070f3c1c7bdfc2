"""What a chunk of a provider's stream costs on its way through: bytes, frame, event, bytes.

The yardstick is `json.loads` and `json.dumps` of the same chunk, which is the least that a relay
does that reads what it passes on. A read is one chunk unless the row says otherwise. The floor is
a method that returns a list with one event.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from itertools import cycle, islice

from penstock import apis
from penstock.events import Event, MessageStart, TextDelta, TextStart, ToolCallDelta, ToolCallStart

Row = tuple[str, str, str, str]

BARS = {
    "openai-chat": (3, 16, 4),
    "anthropic": (2.5, 16, 6),
    "openai-responses": (1.5, 32, 8),
}
"""The APIs that clients speak: how many times faster than JSON a relay has to be, and how many
floors decoding and encoding may cost. The last numbers its events, so that no two are alike."""

PROSE = "The pipe leads the water to the turbine, one way, under control, no drop lost. "
COUNT = 10_000
ROUNDS = 7
MAX_GROWTH = 12  # for ten times the size


class _Floor:
    def feed(self, text: str) -> list[Event]:
        """Return a list with one event."""
        return [TextDelta(0, text)]


def words(count: int) -> list[str]:
    """Give *count* words as a model says them."""
    return [*islice(cycle([f" {word}" for word in PROSE.split()]), count)]


def opening() -> list[Event]:
    """Begin an answer of text."""
    return [MessageStart("id-1", "some-model"), TextStart(0), TextDelta(0, "A"), TextDelta(0, "b")]


def chunks_of(name: str, events: list[Event]) -> list[bytes]:
    """Write *events* as the API called *name* does, each on its own."""
    encoder = apis.get(name).encoder(created=1_763_200_000)
    return [encoder.encode(event) for event in events]


def padded(chunk: bytes, size: int) -> bytes:
    """Write *chunk* as OpenAI does, which hides how long a text is."""
    padding = b"aB3xY9kQ0zLm7TdW"[: 1 + size % 16]
    return chunk[:-3] + b',"obfuscation":"' + padding + b'"}\n\n'


def relay(name: str, begin: list[bytes], chunks: list[bytes]) -> float:
    """Return the CPU seconds of reading *chunks* and writing what they say."""
    api = apis.get(name)
    decoder, encoder = api.decoder(), api.encoder()
    feed, encode = decoder.feed, encoder.encode
    for chunk in begin:
        for event in feed(chunk):
            encode(event)
    began = time.process_time()
    for chunk in chunks:
        for event in feed(chunk):
            encode(event)
    return time.process_time() - began


def convert(bodies: list[bytes]) -> float:
    """Return the CPU seconds of reading and writing JSON."""
    began = time.process_time()
    for body in bodies:
        json.dumps(json.loads(body))
    return time.process_time() - began


def best(*runs: Callable[[], float]) -> list[float]:
    """Give the best time of each of *runs*, turn by turn."""
    rounds = [[run() for run in runs] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


# --- text ---


def relay_row(what: str, name: str, chunks: list[bytes], reads: int, bar: float) -> Row:
    """Compare a relay of *chunks*, so many a read, with reading and writing their JSON."""
    begin = chunks_of(name, opening())
    bodies = [match[1] for chunk in chunks if (match := re.search(rb"data: (.*)\n\n$", chunk))]
    joined = [b"".join(chunks[at : at + reads]) for at in range(0, len(chunks), reads)]
    ours, json_ = best(lambda: relay(name, begin, joined), lambda: convert(bodies))
    figure = f"{json_ / ours:.1f}x faster ({ours / len(chunks) * 1e6:.2f} µs)"
    return f"{name}: {what}", figure, f"at least {bar:g}x", _verdict(json_ >= bar * ours)


def relay_rows() -> list[Row]:
    """Measure text on its way through each API, and for one of them as it may also come."""
    rows = []
    for name, (bar, *_) in BARS.items():
        said: list[Event] = [TextDelta(0, word) for word in words(COUNT)]
        chunks = chunks_of(name, [*opening(), *said])[len(opening()) :]
        rows.append(relay_row("a text chunk", name, chunks, 1, bar))
        if name == "openai-chat":
            rows.append(relay_row("16 chunks a read", name, chunks, 16, 2.5))
            chunks = [padded(chunk, size) for size, chunk in enumerate(chunks)]
            rows.append(relay_row("a padded chunk", name, chunks, 1, 2.5))
    return rows


def decode(name: str, chunks: list[bytes]) -> float:
    """Return the CPU seconds of decoding alone."""
    feed = apis.get(name).decoder().feed
    began = time.process_time()
    for chunk in chunks:
        feed(chunk)
    return time.process_time() - began


def encode(name: str, events: list[Event]) -> float:
    """Return the CPU seconds of encoding alone."""
    encoder = apis.get(name).encoder()
    for event in opening():
        encoder.encode(event)
    write = encoder.encode
    began = time.process_time()
    for event in events:
        write(event)
    return time.process_time() - began


def floor(texts: list[str]) -> float:
    """Return the CPU seconds of doing nothing but returning an event."""
    feed = _Floor().feed
    began = time.process_time()
    for text in texts:
        feed(text)
    return time.process_time() - began


def floor_rows() -> list[Row]:
    """Measure decoding and encoding by themselves."""
    rows = []
    texts = words(COUNT)
    said: list[Event] = [TextDelta(0, text) for text in texts]
    for name, (_, decoding, encoding) in BARS.items():
        chunks = chunks_of(name, [*opening(), *said])
        reading, writing, least = best(
            lambda name=name, chunks=chunks: decode(name, chunks),  # type: ignore[misc]
            lambda name=name: encode(name, said),  # type: ignore[misc]
            lambda: floor(texts),
        )
        rows += [
            _in_floors(f"{name}: decode a text chunk", reading, least, decoding),
            _in_floors(f"{name}: encode a text delta", writing, least, encoding),
        ]
    return rows


# --- arguments ---


def arguments(size: int) -> list[Event]:
    """Give a call with arguments of *size* characters, in deltas of sixteen."""
    inside = json.dumps((PROSE * (size // len(PROSE) + 1))[:size])
    text = f'{{"content": {inside}}}'
    deltas = [ToolCallDelta(0, text[at : at + 16]) for at in range(0, len(text), 16)]
    return [MessageStart("id-1", "some-model"), ToolCallStart(0, "call_1", "write"), *deltas]


def growth_row(name: str) -> Row:
    """Compare a call of 1 MB with ten of 100 KB, from bytes to bytes."""
    small, large = (chunks_of(name, arguments(size)) for size in (100_000, 1_000_000))
    ten, one = float("inf"), float("inf")
    for _ in range(3):
        ten = min(ten, sum(relay(name, [], small) for _ in range(10)))
        one = min(one, relay(name, [], large))
    times = 10 * one / ten
    what = f"{name}: arguments of 1 MB / of 100 KB"
    return what, f"{times:.1f}x", f"at most {MAX_GROWTH}x", _verdict(times <= MAX_GROWTH)


def table() -> list[Row]:
    """Return the rows of this benchmark."""
    return [*relay_rows(), *floor_rows(), *map(growth_row, BARS)]


def _in_floors(what: str, seconds: float, least: float, bar: float) -> Row:
    figure = f"{seconds / least:.1f} floors ({seconds / COUNT * 1e6:.2f} µs)"
    return what, figure, f"at most {bar:g} floors", _verdict(seconds <= bar * least)


def _verdict(is_good: bool) -> str:  # noqa: FBT001 - reads as a sentence
    return "ok" if is_good else "MISSED"


if __name__ == "__main__":
    for row in table():
        print("{:42} {:>26}  {:>18}  {}".format(*row))
