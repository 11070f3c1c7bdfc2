"""Signs of life: what a client hears that waits for long.

All answers of a loop that are equally patient share one timer, which beats several times in the
time of their patience. An answer that said nothing for so many beats gives a sign.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from penstock.apis.encoder import StreamEncoder
from penstock.gateway.http_exchange import HTTPExchange

BEATS: Final = 4
"""How often is looked in the time of one's patience: a sign comes at most a quarter of it late."""


class KeepAlive:
    """Sends a sign of life where nothing was said for *patience* seconds; 0 sends none."""

    __slots__ = ("_caller", "_encoder", "_has_said", "_patience", "_pulse", "_sending", "_silent")

    def __init__(self, caller: HTTPExchange, encoder: StreamEncoder, patience: float) -> None:
        self._caller = caller
        self._encoder = encoder
        self._patience = patience
        self._has_said = True  # since the last beat: to begin counts as well
        self._silent = 0  # for how many beats
        self._pulse: _SharedTimer | None = None
        self._sending: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to listen for silence."""
        if self._patience:
            self._pulse = _SharedTimer.of(asyncio.get_running_loop(), self._patience)
            self._pulse.join(self)

    def touch(self) -> None:
        """Note that something was said."""
        self._has_said = True

    def stop(self) -> None:
        """Send nothing any more."""
        if self._pulse is not None:
            self._pulse.leave(self)
            self._pulse = None
        if self._sending is not None:
            self._sending.cancel()

    def beat(self) -> None:
        """Count silence, and send a sign where there was enough of it."""
        self._silent = 0 if self._has_said else self._silent + 1
        self._has_said = False
        if self._silent >= BEATS and (self._sending is None or self._sending.done()):
            self._silent = 0
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        if not self._caller.has_begun:
            await self._caller.begin_stream()
        await self._caller.send_sign(self._encoder.keep_alive())


class _SharedTimer:
    """The timer that answers share, for as long as there are any."""

    _pulses: ClassVar[dict[tuple[asyncio.AbstractEventLoop, float], _SharedTimer]] = {}

    def __init__(self, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self._loop = loop
        self._patience = patience
        self._listening: set[KeepAlive] = set()
        self._timer = loop.call_later(patience / BEATS, self._on_time)

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop, patience: float) -> _SharedTimer:
        """Return the pulse of those who are so patient."""
        found = cls._pulses.get((loop, patience))
        if found is None:
            found = cls._pulses[loop, patience] = cls(loop, patience)
        return found

    def join(self, one: KeepAlive) -> None:
        """Let *one* feel the beats from now on."""
        self._listening.add(one)

    def leave(self, one: KeepAlive) -> None:
        """Let *one* go; with the last of them the timer goes."""
        self._listening.discard(one)
        if not self._listening:
            self._timer.cancel()
            del self._pulses[self._loop, self._patience]

    def _on_time(self) -> None:
        self._timer = self._loop.call_later(self._patience / BEATS, self._on_time)
        for one in self._listening:
            one.beat()
