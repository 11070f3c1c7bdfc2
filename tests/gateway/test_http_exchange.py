"""`HTTPExchange`: disconnects are noticed with our own server and any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.gateway.http_exchange import (
    DISCONNECT,
    DisconnectSignal,
    HTTPExchange,
    Message,
    Scope,
)

DEADLINE = 20.0
OURS = "our own server"
SERVERS = pytest.mark.parametrize("server", [OURS, "any other"])
Hang = Callable[[], None]


def scene(server: str) -> tuple[HTTPExchange, Hang]:
    """Return a caller of *server*, and what hangs up for it."""
    gone, hangup = asyncio.Event(), DisconnectSignal()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        del message

    scope: Scope = {"method": "POST", "path": "/", "headers": []}
    if server == OURS:
        scope[DISCONNECT] = hangup
    return HTTPExchange(scope, receive, send), hangup.set if server == OURS else gone.set


@SERVERS
async def test_who_hangs_up_is_told_of_once(server: str) -> None:
    caller, hang_up = scene(server)
    told = asyncio.Event()
    caller.watch(told.set)
    await asyncio.sleep(0)
    assert (told.is_set(), caller.is_gone) == (False, False)
    hang_up()
    await asyncio.wait_for(told.wait(), DEADLINE)
    assert caller.is_gone
    caller.unwatch()


@SERVERS
async def test_who_had_hung_up_before_is_told_of_too(server: str) -> None:
    caller, hang_up = scene(server)
    hang_up()
    told = asyncio.Event()
    caller.watch(told.set)
    await asyncio.wait_for(told.wait(), DEADLINE)
    assert caller.is_gone
    caller.unwatch()


@SERVERS
async def test_who_was_answered_to_the_end_is_not_gone(server: str) -> None:
    caller, hang_up = scene(server)
    told: list[str] = []
    caller.watch(lambda: told.append("gone"))
    await caller.start_stream()
    await caller.end_stream()
    hang_up()
    for _ in range(5):  # more than it takes another server to tell
        await asyncio.sleep(0)
    caller.unwatch()
    assert told == []
    assert not caller.is_gone


async def test_the_head_is_forgotten_where_it_is_ours_to_forget() -> None:
    for ours in (True, False):
        head = [(b"host", b"here")]
        scope: Scope = {"method": "POST", "path": "/", "headers": head}
        if ours:
            scope[DISCONNECT] = DisconnectSignal()
        caller = HTTPExchange(scope, _receive_nothing, _send_nothing)
        caller.drop_headers()
        assert caller.header("host") == ""
        assert head == ([] if ours else [(b"host", b"here")])


async def _receive_nothing() -> Message:
    raise AssertionError("nobody asks for anything here")


async def _send_nothing(message: Message) -> None:
    raise AssertionError(f"nobody sends {message} here")
