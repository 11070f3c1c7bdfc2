"""A log of ten thousand requests, written as the gateway writes it."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Final

from penstock.store import RequestEnded, RequestStarted, Store

ROWS: Final = 10_000
SECONDS: Final = 120
FORMATS: Final = ("hermes", "qwen3_coder", "glm45", "hermes", "kimi_k2")
ERRORS: Final = ("truncated", "provider", "truncated", "transport")


def write_log(url: str, scope: str) -> None:
    """Fill the log at *url* with requests of *scope*, one a second up to now."""
    asyncio.run(_write(url, scope))


async def _write(url: str, scope: str) -> None:
    store = Store(url, queue=3 * ROWS)
    store.start()
    now = time.time()
    for number in range(ROWS):
        id_ = f"{number:028x}"
        store.begin(
            RequestStarted(
                id=id_,
                created=now - ROWS + number,
                scope=scope,
                client_api="openai-chat",
                model=f"model {number}",
                upstream="printing",
                format=FORMATS[number % len(FORMATS)],
                stream=True,
            )
        )
        store.end(_ended(id_, number))
    await store.close(SECONDS)
    assert store.health.written >= 2 * ROWS, f"the log is not written: {store.health}"


def _ended(id_: str, number: int) -> RequestEnded:
    """Return how a request ended: some fail, some are repaired, and all are slow at times."""
    pace = 1.2 + math.sin(number / 300) + number % 100 / 80
    is_bad = number % 23 == 7
    return RequestEnded(
        id=id_,
        state="failed" if is_bad else "done",
        finish="error" if is_bad else "stop",
        error_kind=ERRORS[number // 23 % len(ERRORS)] if is_bad else "",
        first_token=pace / 6,
        duration=pace,
        chunks=number % 50,
        calls=number // 50 % 3,
        repairs=["an end was added"] if number % 31 == number // 500 % 31 else [],
        text=f"<b>answer</b> {number}",
        search=f"<b>answer</b> {number}",
        summary=f"<b>answer</b> {number}",
        input_tokens=900 + number % 400,
        output_tokens=int(pace * (38 + 6 * math.sin(number / 900))),
        unread=int(number % 41 == 5),
        unread_reason="looks like a call, but the tool is not offered" if number % 41 == 5 else "",
        notes={"formats": [FORMATS[number % len(FORMATS)]]},
    )
