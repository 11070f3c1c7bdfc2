"""A server for the Chat, Responses and Messages APIs whose model prints its calls as text.

The first response prints a call of the first tool; after a tool's result it responds with text.
Streams are sent in pieces that end anywhere, as from a real network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from threading import Thread
from typing import Any

from integrations.printed_calls import PRINTED, encode, make_message
from penstock import apis
from penstock.integrations import find_api
from penstock.messages import AssistantMessage, Text

CITY = "Os<lo"
RESULT = "7 degrees"
PIECE = 37
"""How many bytes are sent at once: prime, so that frames and characters are cut everywhere."""


def anthropic_library() -> str:
    """Return the library that the installed Anthropic SDK is built on."""
    major = version("anthropic").partition(".")[0]
    return "httpx2" if int(major) >= 1 else "httpx"


class PrintingServer:
    """The address of a running server, and the requests that it received."""

    def __init__(self, port: int) -> None:
        self.root = f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/v1"
        self.requests: list[dict[str, Any]] = []

    def respond(self, body: dict[str, Any]) -> AssistantMessage:
        self.requests.append(body)
        if RESULT in json.dumps(body):
            message = make_message(Text("It is 7 degrees."))
        else:
            tool = (body.get("tools") or [{"name": "weather"}])[0]
            name = tool.get("function", tool)["name"]
            printed = PRINTED.replace('"weather"', json.dumps(name))
            message = make_message(Text(f"<think>A tool has it.</think>Let me look.\n{printed}"))
        message.id = f"r{len(self.requests)}"  # LangGraph keeps one message of each id.
        return message


@contextmanager
def serve() -> Iterator[PrintingServer]:
    """Run a server on the loopback interface."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            api = find_api(self.path.partition("?")[0])
            if api is None:
                self._send(404, b'{"error": {"message": "no such path"}}')
                return
            message = server.respond(body)
            if not body.get("stream"):
                self._send(200, json.dumps(apis.get(api).write_response(message)).encode())
                return
            self.send_response(200)
            self.send_header("content-type", "text/event-stream; charset=utf-8")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            data = encode(api, message)
            for at in range(0, len(data), PIECE):
                piece = data[at : at + PIECE]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")

        def _send(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    listener = Server(("127.0.0.1", 0), Handler)
    server = PrintingServer(listener.server_address[1])
    thread = Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()
