"""Waiting for what must not be left behind: a thread, a child process, a connection.

Nothing of a call may run after it was cancelled, and neither a thread nor a dying process can be
cancelled as a task can. So the cancellation waits, not the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(
    work: Coroutine[Any, Any, T], on_cancel: Callable[[], object] | None = None
) -> T:
    """Await *work* until it has ended, however often this task is cancelled meanwhile.

    Each cancellation calls *on_cancel*, which may make the work end sooner. Once it has ended, the
    cancellation goes on its way, and what the work gave or raised is dropped.
    """
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as exc:
            cancellation = exc
            if on_cancel is not None:
                on_cancel()
    if cancellation is not None:
        if not task.cancelled():
            task.exception()  # seen, so that nobody is told that it was not
        raise cancellation
    return task.result()
