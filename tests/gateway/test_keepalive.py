"""Keep-alives: sent to streams that are silent for long, and to no others."""

from __future__ import annotations

import asyncio

from penstock import apis
from penstock.gateway.http_exchange import HTTPExchange, Message
from penstock.gateway.response import KeepAlive

DEADLINE = 20.0
PATIENCE = 0.1


class Listener:
    """A client that records when it receives data."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.heard: list[float] = []
        self.has_heard = asyncio.Event()
        scope = {"method": "POST", "path": "/", "headers": []}
        caller = HTTPExchange(scope, self._receive, self._send)
        encoder = apis.get("openai-chat").encoder(model="m", id="1", created=0)
        self.signs = KeepAlive(caller, encoder, patience)

    async def _receive(self) -> Message:
        raise AssertionError("nobody asks this client anything")

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            self.heard.append(asyncio.get_running_loop().time())
            self.has_heard.set()


async def test_a_sign_comes_when_patience_is_over_and_not_before() -> None:
    began = asyncio.get_running_loop().time()
    early, late = Listener(), Listener()
    early.signs.start()
    await asyncio.sleep(PATIENCE / 2)  # In the middle of the beats of another.
    joined = asyncio.get_running_loop().time()
    late.signs.start()
    async with asyncio.timeout(DEADLINE):
        await early.has_heard.wait()
        await late.has_heard.wait()
    early.signs.stop()
    late.signs.stop()
    tick = 0.005  # Loops count in milliseconds, and round.
    assert early.heard[0] - began >= PATIENCE - tick
    assert late.heard[0] - joined >= PATIENCE - tick


async def test_who_is_spoken_to_hears_no_sign_though_others_do() -> None:
    silent, lively = Listener(), Listener()
    silent.signs.start()
    lively.signs.start()
    async with asyncio.timeout(DEADLINE):
        while len(silent.heard) < 3:
            lively.signs.touch()
            await asyncio.sleep(0)
    silent.signs.stop()
    lively.signs.stop()
    assert lively.heard == []


async def test_who_has_stopped_hears_nothing_and_who_waits_for_ever_neither() -> None:
    stopped, patient, other = Listener(), Listener(patience=0), Listener()
    for each in (stopped, patient, other):
        each.signs.start()
    stopped.signs.stop()
    async with asyncio.timeout(DEADLINE):
        await other.has_heard.wait()
    patient.signs.stop()
    other.signs.stop()
    assert stopped.heard == patient.heard == []
