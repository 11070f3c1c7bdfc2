"""How long `/health/live` takes while an upstream floods the gateway.

One thread requests the flood and reads all of it; another requests `/health/live` repeatedly, each
time on a new connection, as a supervisor does.
"""

from __future__ import annotations

import http.client
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from gateway.cases import API_NAMES
from gateway.probe import Outcome, ask, stats_of
from gateway.wire import Target
from penstock import apis

MAX_WAIT: Final = 100.0
"""Milliseconds that `/health/live` may take at most."""

MAX_FLOOD: Final = 60.0
"""Seconds within which a gateway has read a flood, or refused the rest of it."""

_EVERY: Final = 0.005


def under_flood(
    name: str, gateway: Target, upstream: Target, patience: float
) -> tuple[str, list[str]]:
    """Request the flood *name* from *gateway*; return what was measured and what is wrong."""
    model = f"fake-f{name}"
    request = gateway.request(model)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, gateway, request, max(MAX_FLOOD, patience))
        waits = _waits_until(asked, gateway)
        outcome = asked.result()
    body, status = outcome.parsed.body, outcome.parsed.status
    asked_for = str((stats_of(upstream).last_body or {}).get("model"))
    wrong = [] if asked_for == model else [f"the upstream was asked for {asked_for!r}"]
    wrong += [] if max(waits) <= MAX_WAIT else ["/health/live waits too long"]
    wrong += [] if outcome.seconds <= MAX_FLOOD else ["it takes too long"]
    wrong += [] if outcome.ended == "end" else [f"the response has no end: {outcome.ended}"]
    if status == 200:
        wrong += apis.check(API_NAMES[gateway.api], body)
    seen = f"/health/live waits {max(waits):.0f} ms at most, {_describe(outcome)}"
    return seen, wrong


def _describe(outcome: Outcome) -> str:
    body = outcome.parsed.body
    failed = "failure" if b'"error"' in body else "answer"
    return f"{outcome.parsed.status} {failed}, {len(body)} bytes in {outcome.seconds:.1f} s"


def _waits_until(asked: Future[Outcome], gateway: Target) -> list[float]:
    """Request `/health/live` until *asked* is done; return the milliseconds of each wait."""
    waits = [_wait(gateway)]
    while not asked.done():
        time.sleep(_EVERY)
        waits.append(_wait(gateway))
    return waits


def _wait(gateway: Target) -> float:
    began = time.monotonic()
    connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=MAX_FLOOD)
    try:
        connection.request("GET", "/health/live")
        connection.getresponse().read()
    finally:
        connection.close()
    return (time.monotonic() - began) * 1e3
