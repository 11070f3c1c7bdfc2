"""How far a call is, told no faster than people read."""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.agent.tools.base import ToolContext

UPDATE_SECONDS: Final = 0.05
"""How often progress is shown at most; some servers tell of every byte."""


class Progress:
    """Shows the latest that a server tells of one call; *context* is that of the call."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._latest = ""
        self._next = 0.0
        self._will_show: asyncio.TimerHandle | None = None

    async def tell(self, progress: float, total: float | None, message: str | None) -> None:
        """Take what the server tells; show it now or a moment later."""
        count = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        self._latest = f"{count} {message}" if message else count
        loop = asyncio.get_running_loop()
        if self._will_show is None:
            if loop.time() >= self._next:
                self._show()
            else:
                self._will_show = loop.call_at(self._next, self._show)

    def close(self) -> None:
        """End it: the result says more."""
        if self._will_show is not None:
            self._will_show.cancel()

    def _show(self) -> None:
        self._will_show = None
        self._next = asyncio.get_running_loop().time() + UPDATE_SECONDS
        self._context.update(self._latest)
