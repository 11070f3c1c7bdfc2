"""An agent behind HTTP, as a web front end meets it: one for each chat, over raw ASGI.

The path names the scene. The conversation stays here; of what the client sends, the last message
and the decisions count. A client that hangs up ends the run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from threading import Thread
from typing import Any

import uvicorn

from e2e.ai_sdk.ui_scenes import SCENES
from penstock.agent import Agent, AgentRun
from penstock.agent.ai_sdk_messages import read_decisions, read_prompt
from penstock.agent.ai_sdk_stream import UI_HEADERS, ui_stream

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Chats:
    """The agents that are talked to, by the names of their scenes."""

    def __init__(self) -> None:
        self.agents: dict[str, Agent] = {}

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        name = scope["path"].removeprefix("/")
        messages = json.loads(await _body(receive))["messages"]
        run = self._run(name, messages)
        headers = [(key.encode(), value.encode()) for key, value in UI_HEADERS.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        pouring = asyncio.ensure_future(_pour(run, send))
        leaving = asyncio.ensure_future(_gone(receive))
        await asyncio.wait({pouring, leaving}, return_when=asyncio.FIRST_COMPLETED)
        for task in (pouring, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _run(self, name: str, messages: list[dict[str, Any]]) -> AgentRun:
        agent = self.agents.setdefault(name, SCENES[name]())
        if agent.deferred and (decisions := read_decisions(messages)):
            return agent.resume(decisions)
        return agent.run(read_prompt(messages))


async def _body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


async def _pour(run: AgentRun, send: Send) -> None:
    async with aclosing(ui_stream(run)) as pieces:
        async for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@contextmanager
def chatting() -> Iterator[tuple[Chats, str]]:
    """Run the server for as long as it is needed; give it, and where it listens."""
    chats = Chats()
    config = uvicorn.Config(chats, port=0, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    with config.bind_socket() as socket:
        thread = Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        try:
            yield chats, f"http://127.0.0.1:{socket.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
