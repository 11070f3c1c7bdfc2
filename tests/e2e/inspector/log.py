"""A log of ten thousand requests, written as the gateway writes it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from penstock.store import RequestEnded, RequestStarted, Store

ROWS: Final = 10_000
SECONDS: Final = 120


def write_log(folder: Path, scope: str) -> None:
    """Fill the log in *folder* with requests of *scope*, one a second up to now."""
    asyncio.run(_write(f"sqlite:///{folder / 'log.db'}", scope))


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
                format="hermes",
                stream=True,
            )
        )
        store.end(
            RequestEnded(
                id=id_,
                state="done",
                finish="stop",
                first_token=number % 90 / 100,
                duration=1 + number % 300 / 100,
                chunks=number % 50,
                text=f"<b>answer</b> {number}",
            )
        )
    await store.close(SECONDS)
    assert store.health.written >= 2 * ROWS, f"the log is not written: {store.health}"
