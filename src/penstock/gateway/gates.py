"""What tasks wait for at a connection, in little room.

A connection has several such things, and nobody waits at most of them for most of its life.
`asyncio.Event` and `deque` take 0.7 kB each before anybody comes; these take what is needed.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from uvicorn.protocols.http.flow_control import FlowControl

_Item = TypeVar("_Item")


class Gate:
    """Lets pass whoever waits once it is set, as `asyncio.Event` does."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self, *, is_set: bool = False) -> None:
        self._is_set = is_set
        self._waiting: tuple[asyncio.Future[None], ...] = ()

    def set(self) -> None:
        """Let everybody pass, from now on."""
        self._is_set = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def clear(self) -> None:
        """Let nobody pass who comes from now on."""
        self._is_set = False

    async def wait(self) -> None:
        """Wait until it is set."""
        if self._is_set:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting += (waiter,)
        try:
            await waiter
        finally:
            self._waiting = tuple(other for other in self._waiting if other is not waiter)


class Flow(FlowControl):
    """Whether a client has room for more, and whether more is read from it."""

    __slots__ = ("_transport", "_writable", "read_paused", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        # What the class above would make is too large.
        self._transport = transport
        self._writable = Gate(is_set=True)
        self.read_paused = False
        self.write_paused = False

    async def drain(self) -> None:
        """Wait until the client has room."""
        await self._writable.wait()

    def pause_writing(self) -> None:
        """Let whoever writes wait."""
        self.write_paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let whoever writes go on."""
        self.write_paused = False
        self._writable.set()


class Queue(list[_Item]):
    """A queue that is nearly always empty; its next is the last."""

    __slots__ = ()

    def appendleft(self, item: _Item) -> None:
        """Put *item* behind all others."""
        self.insert(0, item)
