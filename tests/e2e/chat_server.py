"""A server of chat completions on this machine, for whoever has something to say.

Nothing of penstock is in it.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class ChatServer(ThreadingHTTPServer):
    """Answers as its handler does."""

    @property
    def address(self) -> str:
        """Where its API is."""
        return f"http://127.0.0.1:{self.server_port}/v1"


class ChatHandler(BaseHTTPRequestHandler):
    """Streams an answer to each request; `answer` says which."""

    @abstractmethod
    def answer(self, body: dict[str, Any]) -> None:
        """Answer the request *body* by `say` and `end`; without an end the line just breaks."""

    def reject(self, body: dict[str, Any]) -> bool:
        """Return whether *body* was rejected, with a response of its own; by default none is."""
        del body
        return False

    def say(self, delta: dict[str, Any], finish: str | None = None) -> None:
        """Send a chunk."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def end(self, finish: str) -> None:
        """End the answer as it should."""
        self.say({}, finish)
        self.wfile.write(b"data: [DONE]\n\n")

    def do_POST(self) -> None:
        """Answer; who asked may hang up."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with suppress(ConnectionError):
            if self.reject(body):
                return
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.say({"role": "assistant", "content": ""})
            self.answer(body)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@contextmanager
def chatting(handler: type[ChatHandler]) -> Iterator[ChatServer]:
    """Run a server for as long as it is needed."""
    with ChatServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
