"""A server of chat completions whose models say what their scripts say, and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from e2e.inspector.corpus import SCRIPTS, Script


class Upstream(ThreadingHTTPServer):
    """Answers as its models do."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        """Where its API is."""
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        with suppress(ConnectionError):  # who asked may hang up
            self._say(SCRIPTS[body["model"]])

    def _say(self, script: Script) -> None:
        self._send({"role": "assistant", "content": ""})
        if script.thought:
            self._send({"reasoning_content": script.thought})
        for number, piece in enumerate(script.pieces):
            # A model thinks before it goes on: the pauses are what a plot of time is for.
            time.sleep(script.pace * (20 if number and number % 30 == 0 else 1))
            self._send({"content": piece})
        for number, city in enumerate(script.cities):
            self._send({"tool_calls": [_call(number, city)]})
        if not script.is_cut:
            self._send({}, "tool_calls" if script.cities else "stop")
            self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, delta: dict[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


def _call(number: int, city: str) -> dict[str, Any]:
    function = {"name": "get_weather", "arguments": json.dumps({"city": city})}
    return {"index": number, "id": f"call_{number}", "type": "function", "function": function}


@contextmanager
def scripted() -> Iterator[Upstream]:
    """Run the upstream for as long as it is needed."""
    with Upstream() as upstream:
        thread = Thread(target=upstream.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield upstream
        finally:
            upstream.shutdown()
            thread.join()
