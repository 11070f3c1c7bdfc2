"""A chat server like Ollama's whose models know no tools: they print their calls as text.

It stands in for the reader's own server when the pages of ``docs`` are tested and when the terminal
of the README is recorded. The script behind each model is `DemoModel`, so the same request always
gets the same response.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from penstock import DemoModel, apis
from penstock.events import Done

MODELS = {"qwen3-coder:30b": "qwen3_coder", "hermes3:8b": "hermes", "llama3.2:3b": "llama3_json"}
"""The models that it lists, and the format in which each prints its calls."""

_CHAT = apis.get("openai-chat")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            listed = [{"id": name, "object": "model", "owned_by": "library"} for name in MODELS]
            self._send(200, {"object": "list", "data": listed})
        elif self.path == "/api/tags":
            self._send(200, {"models": [{"name": name, "model": name} for name in MODELS]})
        else:
            self._send(404, {"error": {"message": f"no such path: {self.path}"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        name = body.get("model", "")
        if self.path != "/v1/chat/completions":
            self._send(404, {"error": {"message": f"no such path: {self.path}"}})
        elif name not in MODELS:
            message = f"model '{name}' not found"
            self._send(404, {"error": {"message": message, "type": "not_found_error"}})
        else:
            self._respond(name, body)

    def _respond(self, name: str, body: dict[str, Any]) -> None:
        events = asyncio.run(_collect(name, body))
        end = events[-1]
        assert isinstance(end, Done)
        if not body.get("stream"):
            self._send(200, _CHAT.write_response(end.message, created=1_760_000_000))
            return
        encoder = _CHAT.encoder(model=name, id="chatcmpl-1", created=1_760_000_000)
        frames = [encoder.encode(event) for event in events] + [encoder.finish()]
        data = b"".join(frames)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send(self, status: int, data: dict[str, Any]) -> None:
        written = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Print nothing."""


async def _collect(name: str, body: dict[str, Any]) -> list[Any]:
    request = _CHAT.read_request(body)
    async with DemoModel(MODELS[name], name=name).stream(request) as stream:
        return [event async for event in stream]


@contextmanager
def serving(port: int = 0) -> Iterator[str]:
    """Serve on loopback; the value is the URL, such as ``http://127.0.0.1:11434``."""
    with ThreadingHTTPServer(("127.0.0.1", port), _Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
