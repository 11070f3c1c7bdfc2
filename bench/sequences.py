"""Law 10 by the hundred thousand: lawful answers through every encoder, its checker, and back.

Each random sequence of events is written by each API; the API's checker must find nothing in the
bytes, and its decoder must read the same message out of them, an event a read. The tests do the
same with fewer, all in one read.

    python bench/sequences.py [--number 100000] [--apis anthropic,gemini] [--seed 7]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from apis.test_laws import assert_same, message_of
from laws.checks import read
from laws.sequences import sequences
from penstock import apis
from penstock.apis import Api
from penstock.events import Event

MAX_SHOWN = 3


def main() -> int:
    """Run every API; give how many sequences went wrong."""
    options = _options()
    print(f"{'api':<18} {'sequences':>9} {'wrong':>6} {'MB':>6} {'s':>6}", flush=True)
    wrong = [run(apis.get(name), options.seed, options.number) for name in options.apis]
    return min(sum(wrong), 1)


def run(api: Api, seed: int, number: int) -> int:
    """Put *number* sequences through *api*; show the first that go wrong, and count them."""
    began, size, wrong = time.monotonic(), 0, 0
    for events, message in sequences(seed, number):
        reads = written(api, events)
        size += sum(map(len, reads))
        try:
            complaints = api.check(b"".join(reads))
            assert not complaints, complaints
            assert_same(api, message_of(read(api.decoder(), reads)), message)
        except AssertionError as exc:
            wrong += 1
            if wrong <= MAX_SHOWN:
                print(f"{api.name}: {str(exc)[:300]}\n    {message!r}", flush=True)
    seconds = time.monotonic() - began
    row = f"{api.name:<18} {number:>9,} {wrong:>6} {size / 1e6:>6.0f} {seconds:>6.0f}"
    print(row, flush=True)
    return wrong


def written(api: Api, events: list[Event]) -> list[bytes]:
    """Write *events*, each by itself."""
    encoder = api.encoder(model="m", id="id-1")
    return [*map(encoder.encode, events), encoder.finish()]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--apis", type=lambda names: names.split(","), default=apis.names())
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
