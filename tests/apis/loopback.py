"""A server of one API on loopback: answers with a message, streamed or whole, as it is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from penstock.apis import Api
from penstock.builder import message_events
from penstock.events import Event
from penstock.messages import AssistantMessage


class Server(ThreadingHTTPServer):
    """Says `message` to whoever asks, and keeps what was asked."""

    api: Api
    message = AssistantMessage()
    events: list[Event] | None = None  # in place of those of the message

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def streamed(self) -> bytes:
        encoder = self.api.encoder(created=1_763_200_000)
        events = list(message_events(self.message)) if self.events is None else self.events
        data = [encoder.encode(event) for event in events]
        return b"".join(data) + encoder.finish()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up."""


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(body)
        if body.get("stream"):
            self._answer(200, self.server.streamed(), "text/event-stream")
        else:
            self._answer_whole()

    def _answer_whole(self) -> None:
        api, message = self.server.api, self.server.message
        status = 200
        if message.error is not None and message.error.kind not in ("refusal", "filter"):
            status, answer = api.write_error(message.error)
        else:
            answer = api.write_response(message, created=1_763_200_000)
        self._answer(status, json.dumps(answer).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@contextmanager
def serving(api: Api) -> Iterator[Server]:
    """Run a server of *api* for as long as it is needed."""
    with Server() as server:
        server.api = api
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
