"""A fake upstream: a provider on this machine that says what the name of the model asks for.

``python bench/gateway/upstream.py --port 9101`` serves until it is ended; in a test it is
``async with FakeUpstream() as upstream``, on a free port. What can be asked for is in
`scenarios`. It speaks chat completions, messages and responses, streamed and whole, and has two
routes of its own: ``GET /__stats`` tells what it saw, ``POST /__reset`` forgets it.

It is written on bare sockets, so that each piece leaves in a write of its own, and it notices at
once when its client hangs up, even while it has nothing to say.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from msgspec import structs

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway import dialects, scenarios
from gateway.floods import FLOODS
from gateway.scenarios import Scenario
from gateway.speech import Call, Said, Stats, paced, read_call, while_there

MAX_BODY: Final = 64 << 20
"""How large a request may be: larger than any that a gateway should let through."""

_ERROR: Final = {"message": "upstream exploded", "type": "server_error", "code": 503}
_IN_PLACE: Final = {
    "badjson": b'data: {"id":"chatcmpl-fake","choices":[{"delta":{"content":"tr\n\n',
    "garbage": bytes(range(256)) + b"\n\n\xff\xfe\x00\xc3\x28\n\n",
    "err": dialects.frame({"type": "error", "error": _ERROR}, "error"),
}
"""What some faults say before the next piece."""


class FakeUpstream:
    """A provider on 127.0.0.1; port 0 is any that is free."""

    def __init__(self, port: int = 0) -> None:
        self.stats = Stats()
        self.address = ""
        """Where it is, as ``http://127.0.0.1:PORT``."""
        self._port = port
        self._connections: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()

    @property
    def base_url(self) -> str:
        """What a client is given as base URL: the address with ``/v1``."""
        return f"{self.address}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self._port, backlog=1024, limit=MAX_BODY
        )
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def until(self, holds: Callable[[Stats], bool]) -> Stats:
        """Wait until the counts of requests, streams or clients are as *holds* wants them."""
        while not holds(self.stats):
            await self._changed.wait()
        return self.stats

    # --- connections ---

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._note(connections=1)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._answer(await read_call(reader), reader, writer):
                    pass
            writer.close()
        except asyncio.CancelledError:  # By `__aexit__`; Python 3.11 would report it as a fault.
            writer.transport.abort()
        finally:
            self._connections.discard(task)

    async def _answer(
        self, call: Call, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer *call*; return whether the connection can be used again."""
        said = Said(writer, self.stats)
        if call.method != "POST" or call.path == "/__reset":
            said.whole(200, self._about(call.path))
            return True
        self._note(requests=1, open=1)
        self.stats.last_headers = call.headers
        try:
            return await while_there(reader, self._speak(call, said))
        except ConnectionError:
            self.stats.last_gone_chunk, self.stats.last_gone_ns = said.count, time.monotonic_ns()
            self._note(client_gone=1)
            raise
        finally:
            self._note(open=-1)

    def _about(self, path: str) -> object:
        if path == "/__reset":
            self.stats = Stats(open=self.stats.open)
        if path == "/__stats":
            return self.stats
        # A gateway would serve every name by the only model in a list; here the name is the case.
        return {"object": "list", "data": []} if path.endswith("/models") else {}

    def _note(self, **counts: int) -> None:
        for name, more in counts.items():
            setattr(self.stats, name, getattr(self.stats, name) + more)
        self._changed.set()
        self._changed = asyncio.Event()

    # --- answers ---

    async def _speak(self, call: Call, said: Said) -> bool:
        try:
            request = self.stats.last_body = json.loads(call.body or b"{}")
        except (ValueError, RecursionError):
            said.whole(400, {"error": {"message": "no JSON", "type": "invalid_request_error"}})
            return True
        model = str(request.get("model", "fake"))
        scenario = scenarios.read(model)
        speakers = next(
            (two for path, two in dialects.DIALECTS.items() if call.path.endswith(path)), None
        )
        if scenario.fault == "slow":
            await asyncio.sleep(scenario.at / 1000)
        if speakers is None:
            said.whole(404, {"error": {"message": "no route"}})
        elif scenario.fault.startswith("http"):
            planned = {"error": {"message": "planned", "type": "server_error"}}
            said.whole(int(scenario.fault[4:]), planned, b"retry-after: 1\r\n")
        elif scenario.fault == "html":
            said.page(scenario.at or 200)
        elif scenario.fault in FLOODS:
            await said.flood(FLOODS[scenario.fault])
        elif not request.get("stream"):
            answer = speakers[1](model, scenario, list(scenarios.pieces_of(scenario)))
            said.whole(200, answer, compressed=scenario.fault == "gzip")
        else:
            usage = bool((request.get("stream_options") or {}).get("include_usage"))
            scenario = structs.replace(scenario, usage=usage)
            return await self._stream(speakers[0](model, scenario), scenario, said)
        return True

    async def _stream(self, frames: Iterator[bytes], scenario: Scenario, said: Said) -> bool:
        """Send *frames*; return whether all were sent."""
        self._note(streams_started=1)
        said.begin(compressed=scenario.fault == "gzip")
        async for data in paced(frames, scenario):
            if said.count == scenario.at + 1 and not await self._goes_on(scenario, said):
                return False
            await said.piece(data)
        await said.end()
        self._note(streams_completed=1)
        return True

    async def _goes_on(self, scenario: Scenario, said: Said) -> bool:
        """Inject the fault of this place; return whether the response continues."""
        said.write(_IN_PLACE.get(scenario.fault, b""))
        if scenario.fault in ("cut", "rst", "err", "stall"):
            await said.writer.drain()
        if scenario.fault == "rst":
            linger = struct.pack("ii", 1, 0)
            said.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, linger
            )
            said.writer.transport.abort()
        elif scenario.fault == "stall":
            await asyncio.Event().wait()
        return scenario.fault not in ("cut", "rst", "err")


async def serve(port: int) -> None:
    """Serve on *port* until the process is ended."""
    async with FakeUpstream(port) as upstream:
        print(f"fake upstream on {upstream.address}", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="A provider that says what the model's name asks.")
    parser.add_argument("--port", type=int, default=9101, help="0 is any that is free")
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
