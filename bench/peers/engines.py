"""The parsers of vLLM and SGLang, and vLLM's Rust front end, beside ours: two tables.

`make bench-engines` runs it in an environment with vllm, sglang and penstock. Both tables have a
call with one string argument of code, in pieces of four characters; the tags of the call are pieces
of their own, as they are tokens of the models. The best of several rounds counts, and a call that
is not read as it was written is an error or named as one.

**Parsers** are run in this process: CPU time of a whole call, divided by its pieces. vLLM's get the
ids of the tokens too, as in its server.

**The front end.** The program `vllm-rs` gets token ids from an engine, parses them and serves the
Chat API. Here the engine is a thread that sends a prepared response, one token of four characters
at a time and as fast as they are taken. So the CPU time is that of the front end. Measured are

- vllm-rs with its own parser of the format,
- vllm-rs without a parser and without tools, which is what a gateway in front of it receives,
- `penstock serve --tools prompt` in front of the latter, with its log on: its own CPU time only.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway.processes import free_port, serving, used_by
from peers.parsers import PIECE, SIZES, make_code, write_hermes
from peers.run import show
from penstock import formats
from penstock.events import ToolCallDelta
from penstock.messages import ToolCall
from penstock.testing.server_drivers import ByteTokenizer, TokenEngine
from penstock.testing.text_driver import MarkerTokenizer

TAGS: Final = ("<tool_call>", "</tool_call>")
"""One token each, as in the models of both formats; the parsers ask for them."""

PARSERS: Final = {"hermes": "hermes", "qwen3_coder": "qwen3_coder"}
"""Formats, and the names of their parsers there."""

TOOL: Final = {
    "type": "function",
    "function": {
        "name": "write_file",
        "description": "",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
        },
    },
}


Run = Callable[[Sequence[str]], str]
"""Parses pieces and returns the arguments of the call as JSON."""


# --- parsers ---


def measure_parsers(rounds: int) -> list[list[str]]:
    """Return the table of the parsers."""
    rows = [["µs CPU a piece", *(f"{size // 1000} KB" for size in SIZES)]]
    for name in PARSERS:
        for title, run in _parsers(name).items():
            costs = []
            for size in SIZES:
                pieces = _cut(_write(name, size))
                best = float("inf")
                for _ in range(rounds):
                    began = time.process_time()
                    read = run(pieces)
                    best = min(best, time.process_time() - began)
                _check(read, size)
                costs.append(f"{best / len(pieces) * 1e6:.1f}")
            rows.append([f"{name}: {title}", *costs])
    return rows


def _parsers(name: str) -> dict[str, Run]:
    """Return the parsers of the format *name* by the names and versions of their packages."""
    return {
        f"vLLM {version('vllm')}": lambda pieces: _run_vllm(name, pieces),
        f"SGLang {version('sglang')}": lambda pieces: _run_sglang(name, pieces),
        f"penstock {version('penstock')}": lambda pieces: _run_penstock(name, pieces),
    }


def _run_vllm(name: str, pieces: Sequence[str]) -> str:
    manager = import_module("vllm.tool_parsers.abstract_tool_parser").ToolParserManager
    base = import_module("vllm.parser.abstract_parser").DelegatingParser
    protocol = import_module("vllm.entrypoints.openai.chat_completion.protocol")

    class Both(base):  # type: ignore[misc, valid-type]
        tool_parser_cls = manager.get_tool_parser(PARSERS[name])
        reasoning_parser_cls = None

    asked = [{"role": "user", "content": "?"}]
    request = protocol.ChatCompletionRequest(model="m", messages=asked, tools=[TOOL])
    tokenizer = MarkerTokenizer()
    parser = Both(tokenizer, request.tools)
    arguments = ""
    for number, piece in enumerate(pieces):
        ids = [tokenizer.vocabulary[piece]] if piece in TAGS else [ord(one) for one in piece]
        is_last = number == len(pieces) - 1
        delta = parser.parse_delta(piece, ids, request, [], finished=is_last)
        for call in delta.tool_calls if delta is not None else ():
            arguments += (call.function and call.function.arguments) or ""
    return arguments


def _run_sglang(name: str, pieces: Sequence[str]) -> str:
    protocol = import_module("sglang.srt.entrypoints.openai.protocol")
    calls = import_module("sglang.srt.function_call.function_call_parser")
    parser = calls.FunctionCallParser([protocol.Tool(**TOOL)], PARSERS[name])
    steps = [parser.parse_stream_chunk(piece) for piece in pieces]
    steps.append(parser.parse_stream_end())
    return "".join(item.parameters or "" for _, items in steps for item in items)


def _run_penstock(name: str, pieces: Sequence[str]) -> str:
    parser = formats.Parser(name, [TOOL], arguments="live")
    events = [event for piece in pieces for event in parser.feed(piece)]
    events += parser.finish(cut=False)
    return "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))


def _check(arguments: str, size: int) -> None:
    if json.loads(arguments) != {"path": "/srv/a.py", "text": make_code(size)}:
        raise SystemExit("the call was not read as it was written")


# --- the front end ---


class FrontEnd:
    """A server that streams a response, its process, and the engine that writes the response."""

    def __init__(
        self, address: str, pid: int, engine: TokenEngine, tokenizer: ByteTokenizer
    ) -> None:
        self.address, self.pid = address, pid
        self.engine, self.tokenizer = engine, tokenizer

    def prepare(self, text: str) -> int:
        """Let the engine respond with *text*; return the number of pieces."""
        pieces = _cut(text)
        self.engine.groups = [self.tokenizer.encode(piece) for piece in pieces]
        self.engine.groups[-1].append(self.tokenizer.end)
        return len(pieces)


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="The parsers of engines beside ours.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=20, help="in each round")
    options = parser.parse_args()
    show(measure_parsers(options.rounds))
    print()
    show(measure_front_end(options.rounds, options.requests))
    return 0


def measure_front_end(rounds: int, requests: int) -> list[list[str]]:
    """Return the table of the front end, and of the gateway in front of it."""
    rows = [["µs CPU a piece", *(f"{size // 1000} KB" for size in SIZES), "read as"]]
    for name, parser in PARSERS.items():
        texts = {size: _write(name, size) for size in SIZES}
        with ExitStack() as stack:
            own = _start(stack, parser, texts.values())
            plain = _start(stack, "none", texts.values())
            ours = _start_penstock(stack, plain)
            set_ups = {
                f"{name}: vllm-rs {version('vllm')}, its parser": (own, own),
                f"{name}: vllm-rs, no parser": (plain, plain),
                f"{name}: penstock {version('penstock')} in front of it": (ours, plain),
            }
            best: dict[tuple[str, int], float] = {}
            read: dict[str, str] = {}
            for _ in range(rounds):
                for size, text in texts.items():
                    for title, (server, front) in set_ups.items():
                        pieces = front.prepare(text)
                        before = used_by(server.pid).cpu
                        for _ in range(requests):
                            read[title] = _ask(server, size, with_tools=server is not plain)
                        cost = (used_by(server.pid).cpu - before) / pieces / requests * 1e6
                        best[title, size] = min(best.get((title, size), cost), cost)
            rows += [
                [title, *(f"{best[title, size]:.1f}" for size in SIZES), read[title]]
                for title in set_ups
            ]
    return rows


def _write(name: str, size: int) -> str:
    """Return a call whose argument has *size* characters."""
    arguments = {"path": "/srv/a.py", "text": make_code(size)}
    if name == "hermes":
        return write_hermes(arguments)
    return formats.get(name).render_call(ToolCall("call_1", "write_file", arguments))


def _cut(text: str) -> list[str]:
    """Return *text* as tokens: the tags of the call, and pieces of four characters."""
    parts = re.split("|".join(map("({})".format, TAGS)), text)
    return [
        token
        for part in filter(None, parts)
        for token in ([part] if part in TAGS else _split(part))
    ]


def _split(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def _start(stack: ExitStack, parser: str, texts: Any) -> FrontEnd:
    """Start vllm-rs with *parser*; every piece of *texts* is a token of its model."""
    pieces = sorted({piece for text in texts for piece in _cut(text)})
    tokenizer = ByteTokenizer(["<|endoftext|>", *TAGS, *pieces])
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-"))
    tokenizer.write_model(Path(folder))
    spec = find_spec("vllm")
    assert spec is not None
    assert spec.submodule_search_locations
    program = Path(spec.submodule_search_locations[0], "vllm-rs")
    port, handshake = free_port(), free_port()
    engine = TokenEngine(handshake)
    arguments = [
        *("serve", folder, "--served-model-name", "m", "--host", "127.0.0.1"),
        *("--port", str(port), "--data-parallel-size-local", "0"),
        *("--handshake-port", str(handshake), "--tool-call-parser", parser),
        *("--reasoning-parser", "none"),
    ]
    running = serving(
        arguments, port, ready="/health", program=str(program), log=subprocess.DEVNULL
    )
    server = stack.enter_context(running)
    return FrontEnd(server.address, server.pid, engine, tokenizer)


def _start_penstock(stack: ExitStack, plain: FrontEnd) -> FrontEnd:
    """Start the gateway in front of *plain*."""
    port = free_port()
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-"))
    arguments = [
        *("-m", "penstock", "serve", "--quiet", "--upstream", f"{plain.address}/v1"),
        *("--tools", "prompt"),
        *("--port", str(port), "--store", f"{folder}/log.db"),
    ]
    server = stack.enter_context(serving(arguments, port))
    return FrontEnd(server.address, server.pid, plain.engine, plain.tokenizer)


def _ask(server: FrontEnd, size: int, *, with_tools: bool) -> str:
    """Send a request; return what its response has, after checking it."""
    body: dict[str, Any] = {
        "model": "m",
        "stream": True,
        "messages": [{"role": "user", "content": "?"}],
        **({"tools": [TOOL]} if with_tools else {}),
    }
    request = Request(
        f"{server.address}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urlopen(request, timeout=60) as response:
        deltas = [_read_delta(line) for line in response if line.startswith(b"data: {")]
    calls = [call for delta in deltas for call in delta.get("tool_calls") or ()]
    if not calls:
        return "text"
    _check("".join(call["function"].get("arguments") or "" for call in calls), size)
    return f"a call, in {len(calls)} deltas"


def _read_delta(line: bytes) -> dict[str, Any]:
    choices: Sequence[dict[str, Any]] = json.loads(line[6:])["choices"]
    return choices[0]["delta"] if choices else {}


if __name__ == "__main__":
    sys.exit(main())
