"""What looking for quoted calls adds to a request: the search beside the request itself.

The request goes through a gateway with its log, whose upstream is a server of this process; only
the server's own reading of HTTP is left out. The conversation holds tool results of a size, the
response has prose and a call. The search is measured alone, since it is small beside the noise of
a request. It looks at the conversation only when a call was found. "The words of it" is an agent
that works on its own harness: a result has the marker of calls, the tool's name and its arguments,
but not the call. Then, and for a quoted call, the result is compared too; no bar is set for that.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from penstock import apis
from penstock.config import load
from penstock.events import Done, Event, MessageStart, TextDelta, TextEnd, TextStart
from penstock.gateway.app import Gateway
from penstock.gateway.factory import build
from penstock.messages import AssistantMessage
from penstock.models.untrusted import untrusted_in

Row = tuple[str, str, str, str]

ROUNDS = 15
MAX_COST = 0.05
SIZES = {"10 KB": 10_000, "100 KB": 100_000, "1 MB": 1_000_000}

CODE = (
    "def load(path: str) -> dict:\n    with open(path) as file:\n        found = json.load(file)\n"
    '    if not found.get("ok"):\n        raise ValueError(f"bad file: {path!r}")\n'
    "    return found\n\n\n"
)
CALL = (
    '<tool_call>\n{"name": "read_file", "arguments": {"path": "src/penstock/parser.py"}}\n'
    "</tool_call>"
)
WORDS = (
    "tool_call, name, arguments, read_file, path, src, penstock, parser: these are words of it.\n"
)
PROSE = "The loader opens the file and checks it. I will read the parser next, to be sure. "
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for name in ("read_file", "write_file", "list_files", "run_bash")
]


def body_of(size: int, extra: str = "") -> bytes:
    """Write a request with tool results of *size* characters in twenty messages."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "How does the loader work?"}]
    each = max(1, size // 20)
    result = (CODE * (each // len(CODE) + 1))[:each]
    for number in range(20):
        function = {"name": "list_files", "arguments": json.dumps({"path": f"src/{number}"})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": result},
        ]
    messages[-1]["content"] += extra
    request = {"model": "m", "stream": True, "messages": messages, "tools": TOOLS}
    return json.dumps(request).encode()


def response_of(text: str) -> bytes:
    """Write a response of *text* as an upstream does, four characters a chunk."""
    encoder = apis.get("openai-chat").encoder(created=1_763_200_000)
    deltas = [TextDelta(0, text[at : at + 4]) for at in range(0, len(text), 4)]
    events: list[Event] = [MessageStart("m", "m"), TextStart(0), *deltas, TextEnd(0, text)]
    written = [encoder.encode(event) for event in [*events, Done("stop", AssistantMessage())]]
    body = b"".join([*written, encoder.finish()])
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request of a connection with the same response."""
    response = response_of(PROSE * 10 + CALL)
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(size)
            writer.write(response)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def ask(gateway: Gateway, body: bytes) -> None:
    """Ask *gateway* as a server that has read *body* would."""
    scope = {
        "type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1), "http_version": "1.1",
        "scheme": "http", "raw_path": b"/v1/chat/completions", "root_path": "",
    }  # fmt: skip
    given = iter([{"type": "http.request", "body": body, "more_body": False}])
    gone = asyncio.Event()
    statuses = []

    async def receive() -> dict[str, Any]:
        for message in given:
            return message
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        statuses.append(message.get("status"))

    await gateway(scope, receive, send)
    assert statuses[0] == 200


async def requests_of(bodies: dict[str, bytes]) -> dict[str, float]:
    """Return the CPU seconds of a request with each of *bodies*, the best of several rounds."""
    upstream = await asyncio.start_server(answer, "127.0.0.1", 0, limit=2**24)
    port = upstream.sockets[0].getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "penstock.toml"
        url = f"http://127.0.0.1:{port}"
        file.write_text(f'[upstreams.u]\napi = "openai-chat"\nbase_url = "{url}"\n')
        gateway = build(load(file, {}, store=str(Path(folder) / "penstock.db")))
        async with living(gateway):
            best = {name: await best_of(gateway, body) for name, body in bodies.items()}
    upstream.close()
    return best


class living:  # noqa: N801 - read as `async with living(gateway)`
    """Begins a gateway and ends it, as a server does."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._ends, self._up = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        stages = iter(["lifespan.startup", "lifespan.shutdown"])

        async def receive() -> dict[str, Any]:
            stage = next(stages)
            if stage == "lifespan.shutdown":
                await self._ends.wait()
            return {"type": stage}

        async def send(message: MutableMapping[str, Any]) -> None:
            del message
            self._up.set()

        life: Awaitable[None] = self._gateway({"type": "lifespan"}, receive, send)
        self._task = asyncio.ensure_future(life)
        await self._up.wait()

    async def __aexit__(self, *_: object) -> None:
        self._ends.set()
        assert self._task is not None
        await self._task


async def best_of(gateway: Gateway, body: bytes) -> float:
    """Return the CPU seconds of a request, its share of the log's thread with it."""
    least = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        await ask(gateway, body)
        least = min(least, time.process_time() - began)
    return least


def search_of(body: bytes, arguments: str) -> float:
    """Return the CPU seconds of the search for one call, the best of several rounds."""
    request = apis.get("openai-chat").read_request(json.loads(body))
    given = {"path": "src/penstock/parser.py"}
    least = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        untrusted = untrusted_in(request)
        assert untrusted is not None
        if arguments == "whole" or untrusted.follow(CALL[:40], "read_file") is not None:
            untrusted.find_source(CALL, "read_file", given)
        least = min(least, time.process_time() - began)
    return least


def table(run: Callable[..., dict[str, float]] = asyncio.run) -> list[Row]:
    """Measure all; return rows of what, measured, bar and verdict."""
    bodies = {f"{name}: a call": body_of(size) for name, size in SIZES.items()}
    bodies["1 MB: a call, and the words of it in a result"] = body_of(SIZES["1 MB"], WORDS * 3)
    bodies["1 MB: a quoted call"] = body_of(SIZES["1 MB"], CALL)
    bodies["1 MB: a result of 1 MB full of the words"] = body_of(0, (WORDS + CODE) * 3_600)
    taken = run(requests_of(bodies))
    rows = []
    for name, body in bodies.items():
        for arguments in ("live", "whole"):
            share = search_of(body, arguments) / taken[name]
            is_usual = name.endswith("a call")
            bar = f"at most {MAX_COST:.0%}" if is_usual else ""
            verdict = ("ok" if share <= MAX_COST else "MISSED") if is_usual else ""
            rows.append((f"{name}, {arguments}", f"{share:.1%} more", bar, verdict))
    return rows


if __name__ == "__main__":
    for row in table():
        print("{:60} {:>24}  {:>12}  {}".format(*row))
