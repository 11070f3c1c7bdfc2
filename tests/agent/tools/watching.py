"""Waiting for what happens elsewhere: in a child process, or on a server's side."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

PATIENCE = 20.0
"""How many seconds anything may take on a busy machine."""


async def until(is_so: Callable[[], object]) -> None:
    """Look again and again, until it is so; there is no event to wait for."""
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110 - other processes set no event of ours
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits for its parent to look does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
