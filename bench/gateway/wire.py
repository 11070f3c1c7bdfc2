"""HTTP as a client sees it: requests in three APIs, and answers taken out of their chunks."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from itertools import accumulate
from typing import Any, Final

from msgspec import Struct

from gateway.scenarios import TOOL, TOOL_SCHEMA

PATHS: Final = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}
"""Of each API that a client can speak, where it is."""

_CHUNKED_END: Final = b"0\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PURPOSE: Final = "Read a file."
_TOOLS: Final[dict[str, dict[str, Any]]] = {
    "chat": {
        "type": "function",
        "function": {"name": TOOL, "description": _PURPOSE, "parameters": TOOL_SCHEMA},
    },
    "messages": {"name": TOOL, "description": _PURPOSE, "input_schema": TOOL_SCHEMA},
    "responses": {
        "type": "function",
        "name": TOOL,
        "description": _PURPOSE,
        "parameters": TOOL_SCHEMA,
    },
}


class Target(Struct, frozen=True):
    """Whom to ask, in which API, and with which key."""

    host: str
    port: int
    api: str = "chat"
    key: str = "sk-test"

    def request(self, model: str, *, stream: bool = True, tools: bool = True) -> bytes:
        """Write a request for *model*, head and body."""
        body = json.dumps(request_body(self.api, model, stream=stream, tools=tools)).encode()
        return self.head(len(body)) + body

    def head(self, length: int, *more: str) -> bytes:
        """Write the head of a request with a body of so many bytes, and *more* lines in it."""
        lines = [
            f"POST {PATHS[self.api]} HTTP/1.1",
            f"host: {self.host}:{self.port}",
            "content-type: application/json",
            f"content-length: {length}",
            f"authorization: Bearer {self.key}",
            *([f"x-api-key: {self.key}"] if self.api == "messages" else []),
            *(["anthropic-version: 2023-06-01"] if self.api == "messages" else []),
            *more,
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def request_body(api: str, model: str, *, stream: bool, tools: bool) -> dict[str, Any]:
    """Make a request of one question, with the tool on offer or not."""
    body: dict[str, Any] = {"model": model, "stream": stream}
    if api == "responses":
        body["input"] = "Read it."
    else:
        body["messages"] = [{"role": "user", "content": "Read it."}]
    if api == "messages":
        body["max_tokens"] = 1024
    if api == "chat" and stream:
        body["stream_options"] = {"include_usage": True}
    if tools:
        body["tools"] = [_TOOLS[api]]
    return body


class Answer(Struct):
    """What came back: reads of a socket, each with the time of its arrival in nanoseconds."""

    reads: list[bytes]
    times: list[int]

    def parse(self) -> Parsed:
        """Take the answer out of its chunks."""
        return parse(b"".join(self.reads))

    def arrival(self, position: int) -> int:
        """Return when the byte before *position* of the raw response arrived."""
        ends = list(accumulate(map(len, self.reads)))
        return self.times[bisect_left(ends, position)]


class Parsed(Struct):
    """An answer without its chunks."""

    status: int = 0
    headers: dict[str, str] = {}
    body: bytes = b""
    is_whole: bool = False
    """Whether the announced end came."""
    chunk_ends: list[tuple[int, int]] = []
    """Of each chunk, where it ends in the body and in the raw answer."""


def parse(raw: bytes) -> Parsed:
    """Read a raw answer, or as much of one as came."""
    head, blank, _ = raw.partition(b"\r\n\r\n")
    if not blank:
        return Parsed()
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    parsed = Parsed(int(first.split(" ")[1]), headers)
    if headers.get("transfer-encoding") == "chunked":
        _read_chunks(raw, len(head) + 4, parsed)
    else:
        parsed.body = raw[len(head) + 4 :]
        parsed.chunk_ends = [(len(parsed.body), len(raw))]
        parsed.is_whole = len(parsed.body) == int(headers.get("content-length", len(parsed.body)))
    return parsed


def _read_chunks(raw: bytes, at: int, parsed: Parsed) -> None:
    parts: list[bytes] = []
    length = 0
    while (line_end := raw.find(b"\r\n", at)) >= 0:
        size = _size(raw[at:line_end])
        if size <= 0:
            parsed.is_whole = size == 0
            break
        at = line_end + 2 + size
        parts.append(raw[line_end + 2 : at])
        length += len(parts[-1])
        parsed.chunk_ends.append((length, min(at, len(raw))))
        at += 2
    parsed.body = b"".join(parts)


def _size(line: bytes) -> int:
    """Return the size of a chunk; negative if it is invalid."""
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        return -1


def has_ended(reads: list[bytes]) -> bool:
    """Return whether what came is a whole answer, without reading it all."""
    if length := _LENGTH.search(reads[0]):
        head = reads[0].find(b"\r\n\r\n") + 4
        return sum(map(len, reads)) >= head + int(length.group(1))
    tail = reads[-1] if len(reads[-1]) >= len(_CHUNKED_END) else b"".join(reads[-6:])
    return tail.endswith(_CHUNKED_END)
