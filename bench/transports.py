"""What the HTTP client for SDKs costs a chunk, beside the same client without penstock.

The upstream is in the process and sends one frame at a time, so that nothing but the client is
measured. The bar counts microseconds, because it is a promise; the row has the whole cost of a
chunk too, with the SDK that reads it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import openai

from penstock import apis
from penstock.builder import message_events
from penstock.events import TextDelta
from penstock.integrations.httpx import penstock_client
from penstock.messages import AssistantMessage, Text, Usage

Row = tuple[str, str, str, str]

DELTAS = 3000
ROUNDS = 9
LIMIT = 3.0
"""Microseconds that a chunk may cost more than with plain httpx."""

TOOL = {"name": "write", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
TEXT = "word " * DELTAS
CALL = "<tool_call>" + json.dumps({"name": "write", "arguments": {"a": TEXT}}) + "</tool_call>"
PATHS = {
    "openai-chat": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic": "/messages",
}


def make_frames(api: str, text: str) -> list[bytes]:
    """Return the stream of a response with *text*, one delta of five characters a frame."""
    encoder = apis.get(api).encoder(model="m", id="r", created=1)
    message = AssistantMessage(
        content=[Text(text)], id="r", model="m", stop_reason="stop", usage=Usage(1, 1)
    )
    frames = []
    for event in message_events(message):
        if isinstance(event, TextDelta):
            pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
            frames += [encoder.encode(TextDelta(event.index, one)) for one in pieces]
        else:
            frames.append(encoder.encode(event))
    return [frame for frame in [*frames, encoder.finish()] if frame]


def make_request(api: str) -> bytes:
    """Return a request with one tool."""
    tool: Any = {
        "openai-chat": {"type": "function", "function": TOOL},
        "openai-responses": {"type": "function", **TOOL},
        "anthropic": {"name": "write", "input_schema": TOOL["parameters"]},
    }[api]
    body = {"model": "m", "stream": True, "tools": [tool], "max_tokens": 9000}
    if api == "openai-responses":
        return json.dumps(body | {"input": "?"}).encode()
    return json.dumps(body | {"messages": [{"role": "user", "content": "?"}]}).encode()


class Upstream(httpx2.SyncByteStream):
    """The frames of one response."""

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames

    def __iter__(self) -> Iterator[bytes]:
        yield from self.frames


def make_transport(frames: list[bytes]) -> httpx2.MockTransport:
    """Return a transport whose responses are *frames*."""
    headers = {"content-type": "text/event-stream"}
    return httpx2.MockTransport(
        lambda _: httpx2.Response(200, headers=headers, stream=Upstream(frames))
    )


def best(work: Callable[[], object]) -> float:
    """Return the CPU seconds of *work*, the best of several rounds."""
    found = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        found = min(found, time.process_time() - began)
    return found


def measure(api: str, text: str) -> tuple[float, float]:
    """Return the microseconds of a chunk with a plain client, and with ours."""
    frames, body = make_frames(api, text), make_request(api)
    url = f"http://upstream.test/v1{PATHS[api]}"

    def read(client: Any) -> None:
        with client.stream("POST", url, content=body) as response:
            for _ in response.iter_bytes():
                pass

    transport = make_transport(frames)
    with httpx2.Client(transport=transport) as plain, penstock_client(transport=transport) as ours:
        one = best(lambda: read(plain))
        two = best(lambda: read(ours))
    return one / len(frames) * 1e6, two / len(frames) * 1e6


def measure_sdk() -> float:
    """Return the microseconds of a chunk that the OpenAI SDK reads, with a plain client."""
    frames = make_frames("openai-chat", TEXT)
    http: Any = httpx2.Client(transport=make_transport(frames))
    with openai.OpenAI(api_key="x", base_url="http://upstream.test/v1", http_client=http) as client:

        def read() -> None:
            for _ in client.chat.completions.create(model="m", messages=[], stream=True):
                pass

        return best(read) / len(frames) * 1e6


def table() -> list[Row]:
    """Return a row for each API and kind of text."""
    rows = []
    sdk = measure_sdk()
    for api in PATHS:
        for kind, text in (("text", TEXT), ("a printed call", CALL)):
            plain, ours = measure(api, text)
            more = ours - plain
            bar = f"at most {LIMIT:.0f} µs"
            verdict = "ok" if more <= LIMIT else "MISSED"
            shown = f"{more:.1f} µs more than {plain:.1f} µs; the OpenAI SDK takes {sdk:.0f} µs"
            rows.append((f"{api}, {kind}", shown, bar, verdict))
    return rows


if __name__ == "__main__":
    for row in table():
        print(*row, sep=" | ")
