"""A server of chat completions whose models know no tools: they print their calls as text.

The model's name says how: a shape of `SHAPES`, and behind a dash what breaks the call off in its
middle, where something does (``hermes-length`` a limit, ``hermes-cut`` the line). Asked to create a
file by an agent that has a tool for it, it prints a call of that tool, a few characters at a time;
told the result, it says goodbye. Whoever has no such tool (an agent that wants a title) gets a few
words. Tools stand in the request or, for a model that is told of them, in the words of its system.

Nothing of penstock is in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

from e2e.agents.shapes import SHAPES, Shape

QUESTION: Final = "Create the file {} with the tool that writes files. Then stop."
FAREWELL: Final = "That is all."
SMALL_TALK: Final = "A file"
PIECE: Final = 3
"""How many characters a chunk has: so few that markers and escapes fall apart."""

TOOLS: Final = {"Write": ("file_path", "content"), "write": ("filePath", "content")}
"""The tools of the agents that write files, and what they call the path and the content."""

_PATH: Final = re.compile(re.escape(QUESTION).replace(r"\{\}", r"(\S+)"))
_ENDINGS: Final = {"cut": None, "length": "length"}
_TOLD: Final = re.compile(r'"name": ?"(\w+)"')


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
        shape, _, ending = body["model"].partition("-")
        text, is_call = answer(body, SHAPES[shape])
        with suppress(ConnectionError):  # who asked may hang up
            self._head()
            if is_call and ending:
                self._say(text[: len(text) // 2], _ENDINGS[ending])
            else:
                self._say(text, "stop")

    def _head(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()

    def _say(self, text: str, finish: str | None) -> None:
        """Send *text* in pieces; without a *finish* the connection just ends."""
        self._send({"role": "assistant", "content": ""})
        for at in range(0, len(text), PIECE):
            self._send({"content": text[at : at + PIECE]})
        if finish is not None:
            self._send({}, finish)
            self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, delta: dict[str, str], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


def answer(body: dict[str, Any], shape: Shape) -> tuple[str, bool]:
    """Give what the model says to *body*, and whether it is a call."""
    tool, path = find_tool(body), _PATH.search(said(body, "user"))
    if tool is None or path is None:
        return SMALL_TALK, False
    if said(body, "assistant") or body["messages"][-1]["role"] == "tool":
        return FAREWELL, False
    arguments = dict(zip(TOOLS[tool], (path[1], shape.content), strict=True))
    return shape.before + shape.write(tool, arguments), True


def find_tool(body: dict[str, Any]) -> str | None:
    """Find the tool that writes files among those of the request, or in its system's words."""
    names = [tool["function"]["name"] for tool in body.get("tools") or ()]
    names += _TOLD.findall(said(body, "system"))
    return next((name for name in names if name in TOOLS), None)


def said(body: dict[str, Any], role: str) -> str:
    """Give all that *role* says in *body*."""
    texts = []
    for message in body["messages"]:
        content = message.get("content") or ""
        parts = [{"text": content}] if isinstance(content, str) else content
        texts += [part.get("text", "") for part in parts if message["role"] == role]
    return "\n".join(texts)


@contextmanager
def printing() -> Iterator[Upstream]:
    """Run the upstream for as long as it is needed."""
    with Upstream() as upstream:
        thread = Thread(target=upstream.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield upstream
        finally:
            upstream.shutdown()
            thread.join()
