"""Our chat API on loopback: the model names the answer, and each event leaves by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from e2e.ai_sdk.answers import message_of
from penstock import apis
from penstock.events import Event
from penstock.request import Request

API = apis.get("openai-chat")
MODEL = "model-of-"
"""How the name of a model begins; an answer's name follows."""


class Server(ThreadingHTTPServer):
    """Says what it is asked for, and keeps what was asked."""

    def __init__(self, answers: dict[str, list[Event]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.asked: dict[tuple[str, bool], Request] = {}

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        request = API.read_request(body)
        name = request.model.removeprefix(MODEL)
        self.server.asked[name, request.stream] = request
        events = self.server.answers[name]
        with suppress(ConnectionError):  # after an error the gateway waits for no more
            if request.stream:
                self._stream(events, usage=request.include_usage)
            else:
                self._answer(events)

    def _stream(self, events: list[Event], *, usage: bool) -> None:
        self._head(200, "text/event-stream")
        encoder = API.encoder(created=1_763_200_000, usage=usage)
        self.wfile.write(encoder.keep_alive())
        for event in events:
            self.wfile.write(encoder.encode(event))
            self.wfile.flush()
        self.wfile.write(encoder.finish())

    def _answer(self, events: list[Event]) -> None:
        message = message_of(events)
        if message.error is not None and message.error.kind not in ("refusal", "filter"):
            status, answer = API.write_error(message.error)
        else:
            status, answer = 200, API.write_response(message, created=1_763_200_000)
        self._head(status, "application/json")
        self.wfile.write(json.dumps(answer).encode())

    def _head(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@contextmanager
def serving(answers: dict[str, list[Event]]) -> Iterator[Server]:
    """Run a server of *answers* for as long as it is needed."""
    with Server(answers) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
