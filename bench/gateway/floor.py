"""The bare floor: what it costs to pass bytes on with the libraries that the gateway uses.

``python bench/gateway/floor.py --upstream http://127.0.0.1:9101/v1 --port 9102``: an ASGI app
under uvicorn (uvloop, httptools) that asks the upstream through aiohttp; what one read brings is
one send. It looks at nothing, keeps nothing and checks nothing, so whatever the gateway costs
above it is the gateway's own work.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import aiohttp
import uvicorn

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_READY: Final = "/health/ready"
_PREFIX: Final = "/v1"


class Floor:
    """The app; *upstream* is its base URL, as a client would have it."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or live through the life of the server."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["path"] == _READY:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ready"})
        else:
            await self._pass_on(scope["path"], await read_body(receive), send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
        ) as self._session:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _pass_on(self, path: str, body: bytes, send: Send) -> None:
        assert self._session is not None
        url = self._upstream + path.removeprefix(_PREFIX)
        headers = {"content-type": "application/json"}
        async with self._session.post(url, data=body, headers=headers) as answer:
            kind = answer.content_type.encode()
            start = {"status": answer.status, "headers": [(b"content-type", kind)]}
            await send({"type": "http.response.start", **start})
            while data := await answer.content.readany():
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def read_body(receive: Receive) -> bytes:
    """Read the whole body of a request."""
    parts: list[bytes] = []
    more = True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="Pass the upstream's bytes on, and nothing else.")
    parser.add_argument("--upstream", default="http://127.0.0.1:9101/v1")
    parser.add_argument("--port", type=int, default=9102)
    options = parser.parse_args()
    uvicorn.run(
        Floor(options.upstream),
        port=options.port,
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
    )


if __name__ == "__main__":
    main()
