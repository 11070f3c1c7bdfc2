"""Drivers for the parsers that are inside of servers: vLLM's Rust front end, and smg.

`vllm-rs` is a program in vLLM's wheel. It gets token ids from an engine and serves chat
completions; here the engine is a thread that sends the text of a case instead of a model's. smg has
endpoints that parse a text. Both are started on 127.0.0.1 and ended with the process.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from msgspec import msgpack

from penstock.conformance.suite import Case, PiecesUnsupported, Reading, load_cases
from penstock.testing.text_driver import (
    SPECIAL,
    MarkerTokenizer,
    ReadingPieces,
    TextDriver,
    group_tokens,
    own_names,
    style_for,
    write_tool,
)

START_SECONDS: Final = 60
"""How long a server may take to start; both take about a second."""

REQUEST_SECONDS: Final = 20
SERVERS: Final = 4
"""How many servers run at a time: `vllm-rs` has one choice of parsers for each."""

# No driver may contact a hub or report its use.
_QUIET: Final = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


class _Server:
    """A server in a process of its own."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        with tempfile.TemporaryFile() as log:
            self._process = subprocess.Popen(  # noqa: S603 - a program of an installed package
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_QUIET},
            )
            # Also at the end of the interpreter: no server outlives the tests.
            self.stop = weakref.finalize(self, _end, self._process)
            self._wait(log)

    def _wait(self, log: Any) -> None:
        until = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < until:
            with suppress(URLError, ConnectionError, TimeoutError):
                urlopen(f"{self.url}/health", timeout=1).close()  # noqa: S310 - the URL is ours
                return
            time.sleep(0.05)
        log.seek(0)
        said = log.read()[-500:].decode(errors="replace")
        raise ImportError(f"the server does not start: {said}")

    def post(self, path: str, body: dict[str, Any]) -> str:
        """Return the response to *body*."""
        request = Request(  # noqa: S310 - the URL is ours
            self.url + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        try:
            with urlopen(request, timeout=REQUEST_SECONDS) as response:  # noqa: S310
                text: str = response.read().decode()
        except HTTPError as exc:
            with exc:
                raise ValueError(f"{exc.code}: {exc.read().decode(errors='replace')}") from None
        return text


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port


# --- vLLM's Rust front end ---

_END: Final = "<|endoftext|>"
# Tags of Hunyuan 4, whose parser looks for the suffix in the tokenizer.
_SUFFIX: Final = re.compile(r"</?\w+:[0-9a-f]{8}>")

_MISSING: Final = re.compile(r"tokenizer is missing [a-z ]+ `([^`]+)`")


class ByteTokenizer(MarkerTokenizer):
    """One token for each byte, and one for each marker; its file is as Hugging Face writes it."""

    def __init__(self, markers: Sequence[str]) -> None:
        super().__init__()
        # A byte that is not a printable character of Latin-1 is written as one from 256 on.
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in plain]
        names = {byte: chr(byte) for byte in plain}
        names |= {byte: chr(256 + number) for number, byte in enumerate(others)}
        self._names = names
        for marker in markers:
            self.vocabulary.setdefault(marker, 256 + len(self.vocabulary))

    @property
    def end(self) -> int:
        """The id of the token that ends a response."""
        return self.vocabulary[_END]

    def encode(self, text: str, *positional: Any, **options: Any) -> list[int]:
        """Return the ids of *text*."""
        del positional, options
        found: list[int] = []
        for token in self.split(text):
            found += [self.vocabulary[token]] if len(token) > 1 else token.encode()
        return found

    def write_model(self, folder: Path) -> None:
        """Write the files of a model that has this tokenizer into *folder*."""
        added = [
            {"id": number, "content": token, "special": token == _END, "normalized": False,
             "single_word": False, "lstrip": False, "rstrip": False}
            for token, number in self.vocabulary.items()
        ]  # fmt: skip
        level = {
            "type": "ByteLevel", "add_prefix_space": False, "use_regex": False,
            "trim_offsets": False,
        }  # fmt: skip
        vocabulary = {name: byte for byte, name in self._names.items()}
        files: dict[str, dict[str, Any]] = {
            "tokenizer.json": {
                "version": "1.0",
                "added_tokens": added,
                "pre_tokenizer": level,
                "decoder": level,
                "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
            },
            "tokenizer_config.json": {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": _END,
                "chat_template": "{% for m in messages %}{{ m.content }}\n{% endfor %}",
            },
            "config.json": {
                "architectures": ["Qwen2ForCausalLM"],
                "model_type": "qwen2",
                "vocab_size": 256 + len(added),
                "max_position_embeddings": _CONTEXT,
                "eos_token_id": self.end,
            },
        }
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content), "utf-8")


_CONTEXT: Final = 1 << 20
# What an engine sends to the front end first.
_READY: Final = {
    "max_model_len": _CONTEXT, "num_gpu_blocks": 1 << 16, "block_size": 16,
    "dp_stats_address": None, "dtype": "float32", "vllm_version": "0", "world_size": 1,
    "data_parallel_size": 1, "tensor_parallel_size": 1, "pipeline_parallel_size": 1,
    "decode_context_parallel_size": 1, "data_parallel_rank": 0, "max_num_seqs": 16,
    "max_num_batched_tokens": _CONTEXT, "instance_id": "conformance", "supports_lora": False,
    "max_loras": 0,
}  # fmt: skip

_ADD: Final = b"\x00"
_STOP: Final = 0


class EngineConnection:
    """The engine's side of vLLM's protocol: requests arrive, and tokens are sent."""

    def __init__(self, port: int) -> None:
        """Register with the front end whose handshake is at *port*."""
        self._zmq = import_module("zmq")
        state = {"local": False, "headless": True}
        hello = self._connect(self._zmq.DEALER, f"tcp://127.0.0.1:{port}")
        hello.send(msgpack.encode({"status": "HELLO", **state}))
        addresses = msgpack.decode(hello.recv())["addresses"]
        self._requests = self._connect(self._zmq.DEALER, addresses["inputs"][0])
        self._outputs = self._connect(self._zmq.PUSH, addresses["outputs"][0])
        self._requests.send(msgpack.encode(_READY))
        hello.send(msgpack.encode({"status": "READY", **state}))

    def receive(self, seconds: float | None = None) -> tuple[str, list[int]] | None:
        """Return the id and the prompt of the next request; None if none arrives in *seconds*."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if until is None else max(0, int((until - time.monotonic()) * 1e3))
            if not self._requests.poll(left):
                return None
            kind, *frames = self._requests.recv_multipart()
            if kind == _ADD:
                request, prompt, *_ = msgpack.decode(frames[0])
                return request, prompt

    def send(self, request: str, tokens: Sequence[int], *, is_last: bool) -> None:
        """Send *tokens* of the response to *request*."""
        output = [request, tokens, None, None, None, _STOP if is_last else None]
        self._outputs.send(msgpack.encode([0, [output], None, time.monotonic()]))

    def _connect(self, kind: int, address: str) -> Any:
        found = self._zmq.Context.instance().socket(kind)
        found.setsockopt(self._zmq.IDENTITY, (0).to_bytes(2, "little"))
        found.setsockopt(self._zmq.LINGER, 0)
        found.connect(address)
        return found


class TokenEngine:
    """An engine that responds to every request with `groups` of tokens, one group in each step."""

    def __init__(self, port: int) -> None:
        self.groups: list[list[int]] = []
        self._port = port
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        connection = EngineConnection(self._port)
        while received := connection.receive():
            last = len(self.groups) - 1
            for number, group in enumerate(self.groups):
                connection.send(received[0], group, is_last=number == last)


class _FrontEnd(NamedTuple):
    server: _Server
    engine: TokenEngine
    tokenizer: ByteTokenizer


# The parsers of Mistral's calls that read only ``[TOOL_CALLS]`` before a list.
_ARRAY: Final = {"mistral": "mistral_array"}


class VllmRustDriver(TextDriver):
    """Reads with the parsers of vLLM's Rust front end, through its server."""

    _means = _ARRAY

    def __init__(self) -> None:
        super().__init__("vllm")
        self.name = self.name.replace("vllm", "vllm-rs", 1)
        spec = find_spec("vllm")
        places = (spec and spec.submodule_search_locations) or ()
        self._program = next(
            (str(path) for place in places if (path := Path(place, "vllm-rs")).exists()), None
        )
        if self._program is None:
            raise ImportError("the package vllm has no program vllm-rs")
        import_module("zmq")
        texts = [case.text for case in load_cases(("calls", "reasoning", "wild"))]
        self._markers = sorted({_END, *(one for text in texts for one in SPECIAL.findall(text))})
        suffixed = sorted({one for text in texts for one in _SUFFIX.findall(text)})
        self._missing: dict[tuple[str, str], list[str]] = {("hy_v4", "hy_v4"): suffixed}
        """What parsers have asked their tokenizer for."""
        self._unified: set[str] = set()
        """Parsers that read calls and reasoning, and can be chosen only for both."""
        self._servers: dict[tuple[str, str], _FrontEnd] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-")
        ByteTokenizer(self._markers).write_model(Path(self._folder.name))
        self._register(
            own_names(self._list_parsers("--tool-call-parser")),
            own_names(self._list_parsers("--reasoning-parser")),
        )

    def _list_parsers(self, option: str) -> list[str]:
        """Return the names that *option* takes, which the program lists if one is unknown."""
        done = subprocess.run(  # noqa: S603 - a program of an installed package
            [*self._command(_find_port()), option, "unknown"],
            env={**os.environ, **_QUIET},
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        _, found, names = (done.stdout + done.stderr).partition("(choose from: ")
        if not found:
            raise ImportError(f"vllm-rs does not list its parsers: {done.stderr[-500:]}")
        return names.partition(")")[0].split(", ")

    def _command(self, port: int) -> list[str]:
        return [
            *(str(self._program), "serve", self._folder.name, "--served-model-name", "m"),
            # No engine of vLLM's own starts: the front end waits for one to connect, and gets ours.
            *("--host", "127.0.0.1", "--port", str(port), "--data-parallel-size-local", "0"),
        ]

    def _start(self, parsers: tuple[str, str]) -> _FrontEnd:
        """Return a server with *parsers* of calls and reasoning."""
        if parsers not in self._servers:
            while len(self._servers) >= SERVERS:
                self._stop(next(iter(self._servers)))
            tokenizer = ByteTokenizer([*self._markers, *self._missing.get(parsers, ())])
            tokenizer.write_model(Path(self._folder.name))
            port, handshake = _find_port(), _find_port()
            engine = TokenEngine(handshake)
            command = [
                *self._command(port),
                *("--handshake-port", str(handshake)),
                *("--tool-call-parser", parsers[0], "--reasoning-parser", parsers[1]),
            ]
            self._servers[parsers] = _FrontEnd(_Server(command, port), engine, tokenizer)
        return self._servers[parsers]

    def _stop(self, parsers: tuple[str, str]) -> None:
        self._servers.pop(parsers).server.stop()

    def parse(self, case: Case, chunks: Sequence[str]) -> Reading:
        """Read *chunks*; in one chunk, as a response that is not streamed."""
        found = self._names[case.suite, case.format]
        is_reasoning = case.suite == "reasoning"
        beside = self._names.get(("reasoning", style_for(case)), "none")
        parsers = ("none", found) if is_reasoning else (found, beside)
        while True:
            if found in self._unified:
                parsers = (found, found)
            try:
                return self._parse(case, chunks, parsers)
            except ValueError as exc:
                missing = _MISSING.search(str(exc))
                if missing and missing[1] not in self._missing.get(parsers, ()):
                    self._missing.setdefault(parsers, []).append(missing[1])
                    self._stop(parsers)
                elif "unified parsing requires" in str(exc) and found not in self._unified:
                    self._unified.add(found)
                else:
                    raise

    def _parse(self, case: Case, chunks: Sequence[str], parsers: tuple[str, str]) -> Reading:
        """Read *chunks* with *parsers* of calls and reasoning."""
        front = self._start(parsers)
        tokenizer = front.tokenizer
        groups = [*group_tokens(tokenizer.split(case.text), chunks)]
        tokens = [tokenizer.encode("".join(group)) for group in groups] or [[]]
        tokens[-1].append(tokenizer.end)
        front.engine.groups = tokens
        tools = [write_tool(tool) for tool in case.read_tools()]
        body = {
            "model": "m",
            "messages": [{"role": "user", "content": "?"}],
            "stream": len(chunks) > 1,
            **({"tools": tools} if tools else {}),
        }
        return _read_chat(front.server.post("/v1/chat/completions", body))


def _read_chat(text: str) -> Reading:
    """Return what is in the response *text*, JSON or a stream."""
    pieces = ReadingPieces()
    for message in _split_chat(text):
        pieces.content += message.get("content") or ""
        pieces.reasoning += message.get("reasoning") or ""
        for number, call in enumerate(message.get("tool_calls") or ()):
            function = call.get("function") or {}
            name, arguments = function.get("name"), function.get("arguments")
            pieces.add(call.get("index", number), name, arguments)
    return pieces.make_reading()


def _split_chat(text: str) -> Iterator[dict[str, Any]]:
    if text.startswith("{"):
        yield json.loads(text)["choices"][0]["message"]
        return
    for line in text.splitlines():
        data = line.removeprefix("data: ")
        if data in (line, "[DONE]"):
            continue
        frame = json.loads(data)
        if "error" in frame:
            raise ValueError(f"the stream has an error: {frame['error']}")
        for choice in frame["choices"]:
            yield choice["delta"]


# --- smg ---


class SmgDriver(TextDriver):
    """Reads whole texts with the parsers of smg, through its server.

    Its endpoints take no pieces: it parses streams only of engines that speak its gRPC protocol.
    """

    _means = _ARRAY

    def __init__(self) -> None:
        super().__init__("smg")
        module = import_module("smg.smg_rs")
        port = _find_port()
        command = [
            *(sys.executable, "-m", "smg", "launch", "--host", "127.0.0.1", "--port", str(port)),
            *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(_find_port())),
        ]
        self._server = _Server(command, port)
        self._register(
            [one for one in module.get_available_tool_call_parsers() if self._has_tools(one)],
            [one for one in module.get_available_reasoning_parsers() if self._has_reasoning(one)],
        )

    # The lists have more parsers than the endpoints.
    def _has_tools(self, parser: str) -> bool:
        body = {"text": "", "tool_call_parser": parser, "tools": []}
        return self._is_known("/parse/function_call", body)

    def _has_reasoning(self, parser: str) -> bool:
        return self._is_known("/parse/reasoning", {"text": "", "reasoning_parser": parser})

    def _is_known(self, path: str, body: dict[str, Any]) -> bool:
        try:
            self._server.post(path, body)
        except ValueError as exc:
            return "Unknown" not in str(exc)
        return True

    def parse(self, case: Case, chunks: Sequence[str]) -> Reading:
        """Read a whole text; raise `PiecesUnsupported` for pieces."""
        if len(chunks) > 1:
            raise PiecesUnsupported
        found = self._names[case.suite, case.format]
        is_reasoning = case.suite == "reasoning"
        parser = found if is_reasoning else self._names.get(("reasoning", style_for(case)))
        pieces = ReadingPieces()
        pieces.content = case.text
        if parser:
            body = {"text": case.text, "reasoning_parser": parser}
            result = json.loads(self._server.post("/parse/reasoning", body))
            pieces.content, pieces.reasoning = result["normal_text"], result["reasoning_text"]
        if not is_reasoning and case.tools:
            tools = [write_tool(tool) for tool in case.read_tools()]
            text = {"text": pieces.content, "tool_call_parser": found, "tools": tools}
            result = json.loads(self._server.post("/parse/function_call", text))
            pieces.content = result["remaining_text"]
            for number, call in enumerate(result["tool_calls"]):
                pieces.add(number, call["function"]["name"], call["function"]["arguments"])
        return pieces.make_reading()
