"""Hostile upstreams: responses that are small on the wire, or endless, and cost their reader much.

Each flood is a body that a server may send in response to a chat completion, asked for by the name
of the model (``fake-fgzip_comments``). Nothing in it is broken HTTP; what is hostile is how much
there is of it, or how it is cut. `health` asks for each through a gateway and measures how long
`/health/live` takes meanwhile.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, count, repeat
from typing import Any, Final

import brotli
from msgspec import Struct

UNPACKED: Final = 280_000_000
"""How many bytes a compressed flood has when it is unpacked."""

FRAME: Final = 7_500_000
"""How long a giant frame is: less than the 8 MiB that a line may have."""

_BLOCK: Final = 1_000_000
_COMMENTS: Final = b":\n\n" * (_BLOCK // 3)


class Flood(Struct, frozen=True):
    """A body, its encoding, and whether each byte of it is an HTTP chunk of its own."""

    body: Callable[[], Iterator[bytes]]
    encoding: str = ""
    in_bytes: bool = False
    content_type: str = "text/event-stream"


def chat_frame(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """Write a chunk of a chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    value = {"id": "chatcmpl-flood", "object": "chat.completion.chunk", "choices": [choice]}
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


_HELLO: Final = chat_frame({"role": "assistant", "content": "Hello."})
_END: Final = chat_frame({}, "stop") + b"data: [DONE]\n\n"


@cache
def _zipped(block: bytes, wbits: int) -> bytes:
    packer = zlib.compressobj(9, wbits=wbits)
    pieces = [packer.compress(block) for _ in range(UNPACKED // len(block))]
    return b"".join(pieces) + packer.flush()


@cache
def _brotli(block: bytes) -> bytes:
    packer = brotli.Compressor(quality=5)
    pieces = [packer.process(block) for _ in range(UNPACKED // len(block))]
    return bytes(b"".join(pieces) + packer.finish())


def _said(text: str, *, pieces: int = 1) -> Iterator[bytes]:
    """Yield *text* that often, and a regular end."""
    yield _HELLO
    frame = chat_frame({"content": text})
    yield from repeat(frame, pieces)
    yield _END


def _raw_frame(before: bytes, filling: bytes, after: bytes) -> Iterator[bytes]:
    """Yield one frame whose JSON is *before*, much of *filling*, and *after*."""
    yield _HELLO
    yield b"data: " + before + filling * (FRAME // len(filling)) + after + b"\n\n"
    yield _END


def _calls() -> Iterator[bytes]:
    yield _HELLO
    for index in count():
        call = {"index": index, "id": f"c{index}", "function": {"name": "f", "arguments": ""}}
        yield chat_frame({"tool_calls": [call]})


def _call_of(arguments: str, pieces: int) -> Iterator[bytes]:
    start = {"index": 0, "id": "c", "function": {"name": "read_file", "arguments": ""}}
    yield chat_frame({"tool_calls": [start]})
    yield from repeat(
        chat_frame({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}), pieces
    )
    yield chat_frame({}, "tool_calls") + b"data: [DONE]\n\n"


FLOODS: Final[dict[str, Flood]] = {
    "gzip_comments": Flood(lambda: iter([_zipped(_COMMENTS, 31)]), "gzip"),
    "gzip_blanks": Flood(lambda: iter([_zipped(b"\n" * _BLOCK, 31)]), "gzip"),
    "gzip_line": Flood(lambda: iter([_zipped(b"x" * _BLOCK, 31)]), "gzip"),
    "gzip_empties": Flood(lambda: iter([_zipped(chat_frame({"content": ""}) * 4096, 31)]), "gzip"),
    "gzip_text": Flood(lambda: iter([_zipped(chat_frame({"content": "a"}) * 4096, 31)]), "gzip"),
    "deflate_comments": Flood(lambda: iter([_zipped(_COMMENTS, 15)]), "deflate"),
    "raw_deflate_comments": Flood(lambda: iter([_zipped(_COMMENTS, -15)]), "deflate"),
    "brotli_comments": Flood(lambda: iter([_brotli(_COMMENTS)]), "br"),
    "comments": Flood(lambda: chain([_HELLO], repeat(_COMMENTS[:60_000]))),
    "blanks": Flood(lambda: chain([_HELLO], repeat(b"\n" * 60_000))),
    "spaces": Flood(lambda: chain([_HELLO], repeat(b" " * 60_000))),
    "line": Flood(lambda: chain([_HELLO, b"data: "], repeat(b"x" * 60_000))),
    "event_names": Flood(lambda: chain([_HELLO], repeat(b"event: x\n" * 6_000))),
    "bytes": Flood(lambda: _said("one byte at a time ", pieces=300), in_bytes=True),
    "byte_comments": Flood(lambda: chain([_HELLO], repeat(_COMMENTS[:6_000])), in_bytes=True),
    "empties": Flood(lambda: chain([_HELLO], repeat(chat_frame({"content": ""}) * 200))),
    "objects": Flood(lambda: chain([_HELLO], repeat(b"data: {}\n\n" * 6_000))),
    "no_json": Flood(lambda: chain([_HELLO], repeat(b"data: x\n\n" * 6_000))),
    "calls": Flood(_calls),
    "big_text": Flood(lambda: _said("x" * FRAME)),
    "big_brackets": Flood(lambda: _said("[" * 2_000_000)),
    "big_markers": Flood(lambda: _said("<tool_call>" * 200_000)),
    "big_json_call": Flood(
        lambda: _said('<tool_call>{"name":"read_file","arguments":{"path":' + "[" * 1_000_000)
    ),
    "brackets": Flood(lambda: _said("[" * 4_000, pieces=500)),
    "big_arguments": Flood(lambda: _call_of("[" * 1_000_000, 4)),
    "escapes": Flood(
        lambda: _raw_frame(b'{"choices":[{"delta":{"content":"', b"\\u0041", b'"}}]}')
    ),
    "lists": Flood(lambda: _raw_frame(b'{"choices":[', b"[],", b"0]}")),
    "choices": Flood(lambda: _raw_frame(b'{"choices":[', b'{"delta":{"content":"a"}},', b"0]}")),
    "deep": Flood(lambda: _raw_frame(b'{"choices":', b"[", b"}")),
    "numbers": Flood(lambda: _raw_frame(b'{"choices":[', b"1,", b"0]}")),
    "digits": Flood(lambda: _raw_frame(b'{"choices":', b"9", b"}")),
    "lists_without_frame": Flood(
        lambda: iter([b"[" + b"1," * 3_000_000]), content_type="application/json"
    ),
}
"""All floods, by the name that the model's name asks for."""
