"""A scripted engine for vLLM's Rust front end, which says what its prompt asks for.

``engine.py PORT`` speaks vLLM's protocol with the front end whose handshake is at PORT. The prompt
is the name of a model of the fake upstream (`gateway.scenarios`), and the response the same text at
the same pace, as one token for each piece. The pieces of a text are numbered, and have zeros where
those of the upstream have the time.
"""

from __future__ import annotations

import heapq
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway import scenarios
from gateway.scenarios import Scenario
from gateway.wire import Target
from penstock.testing.server_drivers import ByteTokenizer, EngineConnection

TEXTS: Final = ("fake-c200", "fake-c8-mhermes", "fake-c60-mhermes", "fake-c200-mhermes")
"""Models whose pieces together are the vocabulary."""


class EngineTarget(Target, frozen=True):
    """A target whose prompt is the name of the model."""

    def request(self, model: str, *, stream: bool = True, tools: bool = True) -> bytes:
        """Write a request whose prompt is *model*, head and body."""
        head, _, body = super().request(model, stream=stream, tools=tools).partition(b"\r\n\r\n")
        del head
        body = body.replace(f'"model": "{model}"'.encode(), b'"model": "m"')
        body = body.replace(b"Read it.", model.encode())
        return self.head(len(body)) + body


def pieces_of(scenario: Scenario) -> list[str]:
    """Return the pieces of *scenario*, each of which is a token."""
    if scenario.mode == "text":
        return [f"{number}:000000000;" for number in range(scenario.pieces)]
    return [piece.text for piece in scenarios.pieces_of(scenario)]


def make_tokenizer() -> ByteTokenizer:
    """Return the tokenizer of front end and engine."""
    pieces = {piece for model in TEXTS for piece in pieces_of(scenarios.read(model))}
    # A character alone is a token of bytes: as a marker, its id would depend on who reads the file.
    return ByteTokenizer(["<|endoftext|>", *sorted(one for one in pieces if len(one) > 1)])


def tokens_of(tokenizer: ByteTokenizer, scenario: Scenario) -> list[list[int]]:
    """Return the tokens of each piece of *scenario*."""
    known = tokenizer.vocabulary
    return [[known[one]] if len(one) > 1 else [*one.encode()] for one in pieces_of(scenario)]


def read_model(tokenizer: ByteTokenizer, prompt: Iterable[int]) -> str:
    """Return the text of *prompt*, which is the name of a model."""
    texts = {number: token for token, number in tokenizer.vocabulary.items()}
    return "".join(texts.get(one) or chr(one) for one in prompt).strip()


def serve(port: int) -> None:
    """Respond to requests until the process is ended."""
    tokenizer = make_tokenizer()
    connection = EngineConnection(port)
    due: list[tuple[float, str, int, list[list[int]], float]] = []
    while True:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else None
        if received := connection.receive(wait):
            request, prompt = received
            scenario = scenarios.read(read_model(tokenizer, prompt))
            tokens = tokens_of(tokenizer, scenario)
            heapq.heappush(due, (time.monotonic(), request, 0, tokens, scenario.pause))
        while due and due[0][0] <= time.monotonic():
            _, request, at, tokens, pause = heapq.heappop(due)
            upto = at + 1 if pause else len(tokens)
            for number in range(at, upto):
                connection.send(request, tokens[number], is_last=False)
            if upto < len(tokens):
                heapq.heappush(due, (time.monotonic() + pause, request, upto, tokens, pause))
            else:
                connection.send(request, [tokenizer.end], is_last=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
