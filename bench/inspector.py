"""Measure what the inspector's heavy work costs the gateway: latency of ``/health/live``.

A gateway runs as a process of its own. One thread asks its inspector for the most expensive work
that a page can ask for; another asks for ``/health/live``, on a connection of its own each time, as
a supervisor does. The ratios compare the latency during the work with the latency of the idle
gateway in the same run. The last rows compare the first analysis, which starts the worker process,
with the ones after it.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from gateway.processes import free_port, serving, tree_of, used_by

Row = tuple[str, str, str, str]

MAX_RATIO: Final = 2.0
"""How much the median of ``/health/live`` may grow while an analysis runs. On two shared cores the
ratio was 2.0 to 2.9 with analyses on threads of the gateway; with a process it is 1.0 to 1.3."""

SECONDS: Final = 4.0
"""How long one case is measured."""

_EVERY: Final = 0.004
_CONFIG: Final = '[store]\nenabled = false\n[upstreams.demo]\napi = "demo"\n'
_CALL: Final = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>\n'
_TOOLS: Final = [
    {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]

HOSTILE: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "300,000 characters, one at a time": (
        "parse",
        {"text": "word <b> " * 33_000, "format": "auto", "chunk": 1, "tools": _TOOLS},
    ),
    "3,500 calls": (
        "parse",
        {"text": _CALL * 3_500, "format": "hermes", "chunk": 0, "tools": _TOOLS},
    ),
    "50,000 characters in every format": (
        "formats",
        {"text": (_CALL * 600)[:50_000], "tools": _TOOLS},
    ),
}


def table() -> list[Row]:
    """Measure the cases one after the other on one gateway."""
    rows: list[Row] = []
    with TemporaryDirectory(prefix="penstock-bench-") as folder:
        (Path(folder) / "penstock.toml").write_text(_CONFIG)
        port = free_port()
        with serving(["-m", "penstock", "serve", "--port", str(port)], port, folder=folder) as it:
            small = {"text": _CALL, "format": "hermes", "tools": _TOOLS}
            before = used_by(it.pid).rss
            first = _seconds(lambda: _ask(port, "parse", small))
            again = sorted(_seconds(lambda: _ask(port, "parse", small)) for _ in range(9))[4]
            for name, (path, body) in HOSTILE.items():
                rows += _compare(name, port, path, body)
            processes, memory = len(tree_of(it.pid)), used_by(it.pid).rss - before
            rows.append(("first analysis", f"{first * 1000:.0f} ms", "", ""))
            rows.append(("the analyses after it", f"{again * 1000:.1f} ms", "", ""))
            grown = f"{memory / 1e6:.0f} MB in {processes} processes"
            rows.append(("memory after all of it", grown, "", ""))
    return rows


def _compare(name: str, port: int, path: str, body: dict[str, Any]) -> list[Row]:
    """Measure the idle gateway, then the gateway with work in progress."""
    idle = _waits(port, lambda passed: passed > 1.0)
    with ThreadPoolExecutor(1) as pool:
        asked = [pool.submit(_ask, port, path, body)]

        def is_over(passed: float) -> bool:
            if asked[-1].done() and passed < SECONDS:
                asked.append(pool.submit(_ask, port, path, body))
            return asked[-1].done()

        busy = _waits(port, is_over)
        statuses = {one.result() for one in asked}
    rows = []
    for share, limit in ((0.5, MAX_RATIO), (0.99, 0.0)):
        at_rest, at_work = _quantile(idle, share), _quantile(busy, share)
        ratio = at_work / at_rest
        verdict = "" if not limit else "ok" if ratio <= limit else "MISSED"
        measured = f"{ratio:.1f} ({at_rest:.1f} and {at_work:.1f} ms; status {sorted(statuses)})"
        rows.append(
            (f"{name}: p{share * 100:.0f}", measured, f"at most {limit:g}" * bool(limit), verdict)
        )
    rows.append((f"{name}: longest", f"{max(busy):.0f} ms beside {max(idle):.0f} ms", "", ""))
    return rows


def _waits(port: int, is_over: Callable[[float], bool]) -> list[float]:
    """Return the milliseconds of each request to ``/health/live`` until *is_over*."""
    began, waits = time.monotonic(), list[float]()
    while not is_over(time.monotonic() - began) or not waits:
        waits.append(_seconds(lambda: _live(port)) * 1000)
        time.sleep(_EVERY)
    return waits


def _live(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/health/live")
    connection.getresponse().read()
    connection.close()


def _ask(port: int, path: str, body: dict[str, Any]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", f"/inspector/api/{path}", json.dumps(body))
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


if __name__ == "__main__":
    for row in table():
        print(*row, sep=" | ")
