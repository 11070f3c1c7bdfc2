"""The fault probe: what a client sees when the upstream, or another client, misbehaves.

``python bench/gateway/faults.py --base http://127.0.0.1:8787 --upstream http://127.0.0.1:9101``
asks a gateway in front of the fake upstream for every case in `cases`, in each API, and tries
what is in `edges` and `floods`. It prints one line for each with its verdict, *ok* or what is
wrong; the exit code is the number of cases that failed. Give ``--idle`` the seconds after
which the gateway takes a silent upstream for lost.
"""

from __future__ import annotations

import argparse
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, structs

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway.cases import CASES, Case, complaints
from gateway.edges import EDGES
from gateway.floods import FLOODS
from gateway.health import under_flood
from gateway.probe import ask
from gateway.wire import PATHS, Target


class Line(Struct, frozen=True):
    """One case, and what is wrong with it."""

    api: str
    case: str
    seen: str
    wrong: list[str]

    def __str__(self) -> str:
        verdict = "; ".join(self.wrong) or "ok"
        return f"{self.api:10} {self.case:40} {self.seen:58} {verdict}"


def probe(gateway: Target, upstream: Target, idle: float, only: str = "") -> Iterator[Line]:
    """Try every case whose name holds *only*, in each API; then what clients may do."""
    for api in PATHS:
        target = structs.replace(gateway, api=api)
        for case in CASES:
            if only in case.name:
                yield try_case(case, target, idle)
    for name, edge in EDGES.items():
        if only in name:
            seen, wrong = edge(gateway, upstream)
            yield Line("", name, seen, wrong)
    for name in FLOODS:
        if only in f"a flood of {name}":
            seen, wrong = under_flood(name, gateway, upstream, idle)
            yield Line("", f"a flood of {name}", seen, wrong)


def try_case(case: Case, target: Target, idle: float) -> Line:
    """Ask for *case* and judge the answer."""
    outcome = ask(target, target.request(case.model, stream=case.stream), idle + 10)
    seen = f"status {outcome.parsed.status}, {len(outcome.parsed.body)} bytes, {outcome.ended}"
    return Line(target.api, case.name, seen, complaints(case, target.api, outcome))


def target_of(url: str, key: str) -> Target:
    """Make a target of an address."""
    parts = urllib.parse.urlsplit(url)
    return Target(parts.hostname or "127.0.0.1", parts.port or 80, key=key)


def main() -> int:
    """Read the command line and probe; return the number of cases that failed."""
    parser = argparse.ArgumentParser(description="Every fault, and what a client sees of it.")
    parser.add_argument("--base", default="http://127.0.0.1:8787")
    parser.add_argument("--upstream", default="http://127.0.0.1:9101")
    parser.add_argument("--key", default="sk-test")
    parser.add_argument("--idle", type=float, default=5.0)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    options = parser.parse_args()
    gateway, upstream = (target_of(url, options.key) for url in (options.base, options.upstream))
    failed = 0
    for line in probe(gateway, upstream, options.idle, options.only):
        print(line, flush=True)
        failed += bool(line.wrong)
    print(f"{failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 255))
