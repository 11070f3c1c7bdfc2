"""List the files of penstock that one call and one request of the gateway go through.

A file counts if one of its functions runs, after everything is imported and warm. A reader who
wants to follow a call from text to events, or a request from the socket to the store and back,
opens these files. ``python bench/trace_files.py --list`` prints them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self

import penstock
from penstock.config import load
from penstock.gateway.factory import build
from penstock.gateway.process import listen
from penstock.gateway.server import GatewayServer

Row = tuple[str, str, str, str]

MAX_FILES: Final = {"hermes call": 22, "gateway request": 71}
"""How many files each may go through. The redesign aimed at 20 and 65; quotations, healed calls,
unread calls, loops and the search of the log have come since."""

_ROOT: Final = str(Path(penstock.__file__).parent)
_TOOL: Final = {
    "name": "write",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
_CALL: Final = 'Ok.\n<tool_call>\n{"name": "write", "arguments": {"path": "a.txt"}}\n</tool_call>'
_PIECE: Final = 4
_CONFIG: Final = """\
[store]
url = "sqlite:///{folder}/log.db"
[upstreams.local]
api = "openai-chat"
base_url = "http://127.0.0.1:{port}/v1"
format = "hermes"
"""


class _Trace:
    """Notes the files whose functions run, in threads that start inside the context, too."""

    def __init__(self) -> None:
        self.files: set[str] = set()

    def __enter__(self) -> Self:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        del argument
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_ROOT) and code.co_name != "<module>":
            self.files.add(code.co_filename)


def trace_call() -> set[str]:
    """Return the files that parse one hermes call in deltas of four characters."""
    compiled = penstock.compile("hermes", [_TOOL])
    with _Trace() as trace:
        for _ in range(2):  # The first one warms up.
            trace.files.clear()
            parser = compiled.parser(arguments="live")
            for at in range(0, len(_CALL), _PIECE):
                parser.feed(_CALL[at : at + _PIECE])
            parser.finish(cut=False)
    return trace.files


async def _serve_upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Stream one response with the call as text, as a server of OpenAI's API does."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
    await reader.readexactly(size)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    for at in range(0, len(_CALL), _PIECE):
        delta = {"index": 0, "delta": {"content": _CALL[at : at + _PIECE]}, "finish_reason": None}
        writer.write(_frame([delta]))
    writer.write(_frame([{"index": 0, "delta": {}, "finish_reason": "stop"}]) + b"data: [DONE]\n\n")
    await writer.drain()
    writer.close()


def _frame(choices: list[dict[str, Any]]) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": choices}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


async def _request(port: int) -> bytes:
    """Send one streaming request to the gateway; return all of its response."""
    function = {"type": "function", "function": _TOOL}
    message = {"role": "user", "content": "Write a file."}
    body = json.dumps({"model": "m", "messages": [message], "tools": [function], "stream": True})
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
    response = await reader.read()
    writer.close()
    return response


async def _trace_request(folder: str, trace: _Trace) -> None:
    upstream = await asyncio.start_server(_serve_upstream, "127.0.0.1", 0)
    path = Path(folder) / "penstock.toml"
    path.write_text(_CONFIG.format(folder=folder, port=upstream.sockets[0].getsockname()[1]))
    settings = load(path, {})
    gateway = build(settings)
    store = gateway.store
    assert store is not None
    sockets = listen("127.0.0.1", 0)
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    server = GatewayServer(gateway, settings, announce=port.set_result)
    serving = asyncio.create_task(server.serve(sockets))
    await port
    for number in (1, 2):  # The first one warms up.
        trace.files.clear()
        response = await _request(port.result())
        if b'"tool_calls"' not in response:
            raise SystemExit(f"the gateway sent no call: {response!r}")
        # The beginning and the end of each request are written by a thread, which only counts.
        while store.health.written < 2 * number:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    found = set(trace.files)
    server.stop()
    await serving
    upstream.close()
    trace.files = found


def trace_request() -> set[str]:
    """Return the files that one streaming request with a hermes call goes through."""
    with tempfile.TemporaryDirectory(prefix="penstock-trace-") as folder, _Trace() as trace:
        asyncio.run(_trace_request(folder, trace))
    return trace.files


def table() -> list[Row]:
    """Return one row per path."""
    found = {"hermes call": trace_call(), "gateway request": trace_request()}
    return [
        (
            what,
            f"{len(files)} files",
            f"at most {MAX_FILES[what]}",
            "ok" if len(files) <= MAX_FILES[what] else "MISSED",
        )
        for what, files in found.items()
    ]


if __name__ == "__main__":
    for what, files in (("hermes call", trace_call()), ("gateway request", trace_request())):
        print(f"{what}: {len(files)} files")
        if "--list" in sys.argv:
            print(*sorted(f"  {name.removeprefix(_ROOT + '/')}" for name in files), sep="\n")
