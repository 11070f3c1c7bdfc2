"""Servers on this machine that speak any of the APIs, and fail in any way they are told to.

They are written on bare sockets, so that a test can say what comes when, down to the byte, and can
see when the client hangs up. `run` runs a test and counts what it leaves behind.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from socket import SO_LINGER, SOL_SOCKET
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from penstock import _json, apis
from penstock.builder import message_events
from penstock.messages import AssistantMessage, Text, ToolCall, Usage

T = TypeVar("T")

STALL = "stall"
"""Send nothing more, and wait until the client hangs up."""
CUT = "cut"
"""Close the connection in the middle."""
RESET = "reset"
"""Tear the connection down."""

Step = bytes | float | str
"""What a server does next: send bytes, pause for so many seconds, or one of the words above."""

ANSWER = AssistantMessage(
    id="msg_1",
    model="m",
    content=[Text("High water at "), Text("six.")],
    stop_reason="stop",
    usage=Usage(input=12, output=5, total=17),
)


@dataclass
class Seen:
    """A request, as it arrived."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return _json.decode(self.body)


@dataclass
class Reply:
    """What a server answers: *steps* in chunks, or *whole* with its length; status 0 is silence."""

    steps: list[Step] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    whole: bytes | None = None


Script = Reply | Callable[[Seen], Reply]


class Upstream:
    """A server; `seen` is what arrived, `hung_up` says when clients left before the end.

    It answers by *script*, one after the other, and by the last of them from then on. With
    *forgets*, it closes a connection on which a second request arrives, without a response, as
    llama.cpp does after a streamed response.
    """

    def __init__(self, *script: Script, forgets: bool = False) -> None:
        self.forgotten = 0
        self._forgets = forgets
        self.url = ""
        self.seen: list[Seen] = []
        self.hung_up: list[float] = []
        self.connections = 0
        self.open = 0
        self.arrived = asyncio.Event()  # a request
        self.stalls = asyncio.Event()  # what precedes a stall has been sent
        self.left = asyncio.Event()  # a client has hung up
        self.alone = asyncio.Event()  # no connection is open any more
        self._script = list(script)

    def next_reply(self, seen: Seen) -> Reply:
        script = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        return script if isinstance(script, Reply) else script(seen)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.alone.clear()
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._answer(reader, writer):
                    if self._forgets:
                        await read_request(reader)
                        self.forgotten += 1
                        break
        finally:
            self.open -= 1
            if not self.open:
                self.alone.set()
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        seen = await read_request(reader)
        self.seen.append(seen)
        self.arrived.set()
        reply = self.next_reply(seen)
        if reply.status:
            writer.write(_head(reply))
        for step in reply.steps:
            if not await self._take(step, reader, writer):
                return False
        writer.write(reply.whole if reply.whole is not None else b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _take(
        self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Take a step; return whether the response continues."""
        if isinstance(step, bytes):
            writer.write(b"%x\r\n%s\r\n" % (len(step), step))
            await writer.drain()
            return True
        if isinstance(step, float):
            return not await self._sees_close(reader, step)
        if step == STALL:
            self.stalls.set()
            await self._sees_close(reader, None)
        elif step == RESET:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, linger)
        return False

    async def _sees_close(self, reader: asyncio.StreamReader, seconds: float | None) -> bool:
        """Wait for the client to close, for *seconds* at most; return whether it did."""
        try:
            async with asyncio.timeout(seconds):
                while await reader.read(1024):
                    pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass  # torn down is closed too
        self.hung_up.append(asyncio.get_running_loop().time())
        self.left.set()
        return True


async def read_request(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    target = urlsplit(first.split(" ")[1])
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(target.path, dict(parse_qsl(target.query)), headers, body)


def _head(reply: Reply) -> bytes:
    framing = {"transfer-encoding": "chunked"}
    if reply.whole is not None:
        framing = {"content-length": str(len(reply.whole))}
    headers = {"content-type": "text/event-stream", **framing, **reply.headers}
    lines = [f"HTTP/1.1 {reply.status} Spoken", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@asynccontextmanager
async def serving(
    *script: Script, tls: ssl.SSLContext | None = None, forgets: bool = False
) -> AsyncIterator[Upstream]:
    """Run a server that answers by *script*."""
    upstream = Upstream(*script, forgets=forgets)
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    upstream.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield upstream
    finally:
        server.close()
        await server.wait_closed()
        if upstream.open:  # A client that is gone for good has let go of every connection.
            await upstream.alone.wait()


# --- what they say ---


def stream_of(api: str, message: AssistantMessage = ANSWER) -> bytes:
    """Return *message* as a stream of *api*."""
    encoder = apis.get(api).encoder(model="m", id="msg_1")
    data = b"".join(encoder.encode(event) for event in message_events(message)) + encoder.finish()
    assert apis.check(api, data) == []
    return data


def streamed(api: str, message: AssistantMessage = ANSWER) -> Reply:
    """Return *message* in a few pieces."""
    data = stream_of(api, message)
    size = max(1, len(data) // 5)
    return Reply([data[at : at + size] for at in range(0, len(data), size)])


def whole(api: str, message: AssistantMessage = ANSWER) -> Reply:
    """Return *message* in one piece, as JSON."""
    body = _json.encode(apis.get(api).write_response(message))
    return Reply(whole=body, headers={"content-type": "application/json"})


def refusal(status: int, body: object, **headers: str) -> Reply:
    """Refuse, with a reason."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = body if isinstance(body, bytes) else _json.encode(body)
    return Reply([], status, {"content-type": "application/json", **named}, data)


NEW_CHAT = Reply(
    whole=b'{"success": true, "request_id": "r", "data": {"id": "chat-1"}}',
    headers={"content-type": "application/json"},
)


def script_for(api: str, *script: Script) -> list[Script]:
    """Return *script*; a server of chat.qwen.ai begins a chat besides, whenever it is asked to."""
    rest = Upstream(*script)

    def choose(seen: Seen) -> Reply:
        return NEW_CHAT if seen.path == "/api/v2/chats/new" else rest.next_reply(seen)

    return [choose] if api == "qwen" else list(script)


def call_of(name: str, **arguments: Any) -> AssistantMessage:
    """Make an answer that is a call."""
    return AssistantMessage(
        id="msg_1",
        model="m",
        content=[Text("Let me look."), ToolCall("call_1", name, arguments)],
        stop_reason="tool_use",
        usage=Usage(input=20, output=9, total=29),
    )
