"""Other gateways and parsers beside ours, in one run, as two tables with versions.

``python bench/peers/run.py ENVIRONMENT...``: the programs of peers are taken from the virtual
environments, such as ``/tmp/peers``. ``make bench-peers`` creates them. A peer that is not
installed is omitted. Everything runs in a network namespace of its own in which only the loopback
interface exists, so no peer reaches another machine. That takes ``unshare`` of Linux, as root or
with user namespaces.

Gateways are measured in turn, A B A B, in front of one fake upstream; the best round counts. CPU
time is that of the whole process tree for each piece that the upstream sent. Whether a *printed
call* becomes a call is tried with one response in the format of Hermes. The front ends of vLLM and
dynamo get the same pieces as tokens from an engine, `engine.py` and `dynamo_worker.py`, whose CPU
time is not counted. Parsers are measured in a process of their own, `parsers.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import secrets
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway import load, scenarios
from gateway.processes import START_LIMIT, Server, free_port, serving, used_by
from gateway.wire import Target
from peers.engine import EngineTarget, make_tokenizer

BENCH: Final = Path(__file__).parents[1]
STREAMS: Final = 50
"""How many streams there are at once."""

MODELS: Final = {
    "text, one by one": ("fake-c60-d25", STREAMS),
    "call, one by one": ("fake-c60-d25-mhermes", STREAMS),
    "text, in a burst": ("fake-c200", 4 * STREAMS),
    "call, in a burst": ("fake-c200-mhermes", 4 * STREAMS),
}
"""The model of each column, and how often it is asked."""

CALLING: Final = "fake-c60-mhermes"
"""The model whose printed call is tried."""

INSIDE: Final = "PENSTOCK_BENCH_NAMESPACE"
"""Set in the environment of the process that runs in the network namespace."""

KEY: Final = f"sk-{secrets.token_hex(24)}"
"""LiteLLM refuses a short one."""


class Peer(Struct, frozen=True):
    """A gateway: *program* with *arguments*, from the distribution *package*.

    Without a *program* it is the interpreter of the environment that has *package*. In the
    arguments, ``{upstream}``, ``{port}``, ``{other}`` (another free port), ``{engine}`` (the port
    for the handshake with an engine) and ``{folder}`` are replaced.
    """

    name: str
    package: str
    program: str
    arguments: tuple[str, ...]
    ready: str = "/health"
    """Where it responds when it is ready; empty if it prints its URL then, on a port it chose."""
    engine: Literal["", "vllm", "dynamo"] = ""
    """Whose protocol an engine speaks that takes the place of the upstream."""


class Running(Struct, frozen=True):
    """A gateway that serves, and how it is asked."""

    version: str
    server: Server
    target: Target


class TensorZeroTarget(Target, frozen=True):
    """tensorzero, which has paths and names of models of its own."""

    def request(self, model: str, *, stream: bool = True, tools: bool = True) -> bytes:
        """Write a request for *model*, head and body."""
        found = super().request(f"tensorzero::model_name::{model}", stream=stream, tools=tools)
        return found.replace(b"POST /", b"POST /openai/", 1)


_ROUTER: Final = (
    "--worker-urls", "{upstream}", "--host", "127.0.0.1", "--port", "{port}",
    "--prometheus-host", "127.0.0.1", "--prometheus-port", "{other}",
)  # fmt: skip

# The package is the client library, and contains the gateway for programs that embed it.
_TENSORZERO: Final = """
import sys, time
from tensorzero.tensorzero import _start_http_gateway as start
urls = dict.fromkeys(("clickhouse_url", "postgres_url", "valkey_url"))
gateway = start(config_file=sys.argv[1], async_setup=False, **urls)
print(gateway.base_url, flush=True)
time.sleep(1e6)
"""

PEERS: Final = (
    Peer(
        "penstock", "penstock", "",
        ("-m", "penstock", "serve", "--upstream", "{upstream}/v1", "--port", "{port}"),
        "/health/ready",
    ),
    Peer(
        "LiteLLM proxy", "litellm", "litellm",
        ("--config", "{folder}/litellm.yaml", "--host", "127.0.0.1", "--port", "{port}"),
        "/health/readiness",
    ),
    Peer(
        "smg (Rust)", "smg", "smg",
        ("launch", "--backend", "openai", "--disable-health-check", "--history-backend", "none",
         "--log-level", "warn", *_ROUTER),
    ),
    Peer(
        "vllm-router (Rust)", "vllm-router", "vllm-router",
        ("--policy", "round_robin", "--log-level", "warning", *_ROUTER),
    ),
    Peer(
        "tensorzero (Rust)", "tensorzero", "",
        ("-c", _TENSORZERO, "{folder}/tensorzero.toml"),
        ready="",
    ),
    Peer(
        "dynamo's front end (Rust)", "ai-dynamo", "",
        ("-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", "{port}",
         "--discovery-backend", "file"),
        engine="dynamo",
    ),
    Peer(
        "vLLM's front end (Rust)", "vllm", "vllm-rs",
        ("serve", "{folder}/model", "--served-model-name", "m", "--host", "127.0.0.1",
         "--port", "{port}", "--data-parallel-size-local", "0", "--handshake-port", "{engine}",
         "--tool-call-parser", "hermes", "--reasoning-parser", "none"),
        engine="vllm",
    ),
)  # fmt: skip

PARSERS: Final = (
    ("penstock", "cohere_command"),
    ("cohere-melody", "cohere_command"),
    ("penstock", "harmony"),
    ("openai-harmony", "harmony"),
    ("penstock", "hermes"),
    ("transformers", "hermes"),
)
"""The distributions of parsers, and the formats that they read."""

VOCABULARY: Final = "litellm/litellm_core_utils/tokenizers/fb374d419588a4632f3f557e76b4b70aebbca790"
"""The vocabulary of openai-harmony, which downloads it; LiteLLM's package contains it too."""

LITELLM: Final = """\
model_list:
  - model_name: "*"
    litellm_params: {{model: "hosted_vllm/*", api_base: "{upstream}/v1", api_key: "none"}}
general_settings: {{master_key: "{key}"}}
"""

TENSORZERO: Final = """\
[gateway]
disable_pseudonymous_usage_analytics = true
observability.enabled = false
"""

_TENSORZERO_MODEL: Final = """
[models."{model}"]
routing = ["upstream"]
providers.upstream = {{type = "openai", model_name = "{model}", api_base = "{upstream}/v1", \
api_key_location = "none"}}
"""


def main() -> int:
    """Enter a namespace, measure what is installed, and print the tables."""
    parser = argparse.ArgumentParser(description="Other gateways and parsers beside ours.")
    parser.add_argument("environments", nargs="+", type=Path, help="virtual environments of peers")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if INSIDE not in os.environ:
        mapping = [] if os.geteuid() == 0 else ["--map-root-user"]
        command = ["unshare", "--net", *mapping, sys.executable, *sys.argv]
        return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode
    _bring_up_loopback()
    environments = [folder.absolute() for folder in options.environments]
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        show(measure_gateways(stack, environments, folder, options.rounds))
        print()
        show(measure_parsers(environments, folder))
    return 0


def _bring_up_loopback() -> None:
    """Bring the interface ``lo`` of this namespace up."""
    read_flags, write_flags, is_up = 0x8913, 0x8914, 0x1  # <linux/sockios.h>, <net/if.h>
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack_from("H", fcntl.ioctl(one, read_flags, request), 16)[0]
        fcntl.ioctl(one, write_flags, struct.pack("16sH14x", b"lo", flags | is_up))


# --- gateways ---


def measure_gateways(
    stack: ExitStack, environments: Sequence[Path], folder: str, rounds: int
) -> list[list[str]]:
    """Return the table of all gateways that are installed."""
    port = free_port()
    script = [str(BENCH / "gateway" / "upstream.py"), "--port", str(port)]
    upstream = stack.enter_context(serving(script, port, ready="/v1/models")).address
    floor = _start_floor(stack, upstream)
    servers = {"passes bytes on": Running("", floor, _target(floor))}
    _prepare(Path(folder), upstream)
    for peer in PEERS:
        try:
            found = _start(stack, peer, upstream, environments, folder)
        except RuntimeError as exc:
            print(f"{peer.name} does not run: {exc}", file=sys.stderr)
            continue
        if found is None:
            print(f"{peer.name}: not installed", file=sys.stderr)
        else:
            servers[peer.name] = found
    best: dict[tuple[str, str], float] = {}
    notes: dict[str, str] = {}
    for _ in range(rounds):
        for column, (model, count) in MODELS.items():
            for name, one in servers.items():
                pid = one.server.pid
                running = load.run(one.target, model, streams=STREAMS, requests=count, pid=pid)
                figures = asyncio.run(running)
                cost = figures.cpu_per_piece
                best[name, column] = min(best.get((name, column), cost), cost)
                if figures.wrong:
                    notes[name] = f"wrong: {figures.wrong}"
    rows = [["µs CPU a piece", "version", *MODELS, "MB", "printed call"]]
    for name, one in servers.items():
        costs = [f"{best[name, column]:.0f}" for column in MODELS]
        memory = f"{used_by(one.server.pid).rss / 2**20:.0f}"
        rows.append([name, one.version, *costs, memory, _read_call(one.target)])
    for name, note in notes.items():
        print(f"{name}: {note}", file=sys.stderr)
    return rows


def _start_floor(stack: ExitStack, upstream: str) -> Server:
    port = free_port()
    script = [str(BENCH / "gateway" / "floor.py"), "--upstream", f"{upstream}/v1"]
    return stack.enter_context(serving([*script, "--port", str(port)], port))


def _start(
    stack: ExitStack, peer: Peer, upstream: str, environments: Sequence[Path], folder: str
) -> Running | None:
    """Start *peer*; return None if it is not installed."""
    program = _find_program(peer, environments)
    if program is None or (peer.engine == "vllm" and find_spec("zmq") is None):
        return None
    port, engine = free_port(), free_port()
    values = {"upstream": upstream, "port": port, "other": free_port(), "folder": folder}
    arguments = [each.format(**values, engine=engine) for each in peer.arguments]
    python = _python_for(program)
    if peer.engine == "vllm":
        _start_engine(stack, sys.executable, "engine.py", str(engine))
    if not peer.ready:
        server = stack.enter_context(_announcing([str(program), *arguments], folder))
        target: Target = TensorZeroTarget("127.0.0.1", _port(server))
        return Running(_version(python, peer.package), server, target)
    running = serving(
        arguments, port, ready=peer.ready, folder=folder, program=str(program),
        log=subprocess.DEVNULL,
    )  # fmt: skip
    server = stack.enter_context(running)
    if peer.engine == "dynamo":
        _start_engine(stack, str(python), "dynamo_worker.py", f"{folder}/model")
        _wait_for_model(server)
    target = EngineTarget("127.0.0.1", port) if peer.engine else _target(server)
    return Running(_version(python, peer.package), server, target)


def _find_program(peer: Peer, environments: Sequence[Path]) -> Path | None:
    if not peer.program:
        return next(_pythons(peer.package, environments), None)
    places = [place for each in environments for place in _program_folders(each)]
    found = shutil.which(peer.program, path=os.pathsep.join(map(str, places)))
    return Path(found) if found else None


def _prepare(folder: Path, upstream: str) -> None:
    """Write what the peers read into *folder*, and set their variables."""
    os.environ.update(
        LITELLM_LOCAL_MODEL_COST_MAP="True", XDG_STATE_HOME=str(folder), HF_HUB_OFFLINE="1",
        VLLM_NO_USAGE_STATS="1", DYN_FILE_KV=str(folder / "dynamo"), DYN_LOG="error",
    )  # fmt: skip
    (folder / "litellm.yaml").write_text(LITELLM.format(upstream=upstream, key=KEY))
    modes = {model: f"fake-c8-m{scenarios.read(model).mode}" for model, _ in MODELS.values()}
    models = [
        _TENSORZERO_MODEL.format(model=model, upstream=upstream)
        for model in sorted({*modes, *modes.values(), CALLING})
    ]
    (folder / "tensorzero.toml").write_text(TENSORZERO + "".join(models))
    (folder / "model").mkdir()
    make_tokenizer().write_model(folder / "model")


@contextmanager
def _announcing(command: Sequence[str], folder: str) -> Iterator[Server]:
    """Run a server until it prints its URL; end it afterwards."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = next(line for line in process.stdout if line.startswith("http"))
            yield Server("/".join(url.split("/")[:3]), process.pid, 0.0)
        finally:
            process.kill()


def _wait_for_model(server: Server) -> None:
    """Wait until a worker has registered its model with the front end."""
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{server.address}/v1/models", timeout=5) as answer:
            if json.load(answer)["data"]:
                return
        time.sleep(0.1)
    raise RuntimeError("the worker did not register its model")


def _program_folders(environment: Path) -> Iterator[Path]:
    """Yield where *environment* may have programs; vLLM's is in its package."""
    yield environment / "bin"
    yield from environment.glob("lib/python3*/site-packages/vllm")


def _python_for(program: Path) -> Path:
    """Return the interpreter of the environment that has *program*."""
    return next(python for each in program.parents if (python := each / "bin" / "python").exists())


def _start_engine(stack: ExitStack, python: str, script: str, argument: str) -> None:
    """Start the engine of a front end."""
    command = [python, str(Path(__file__).parent / script), argument]
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    stack.callback(process.kill)


def _version(python: Path | str, package: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    ran = subprocess.run([python, "-c", code], check=False, capture_output=True, text=True)
    return ran.stdout.strip()


def _port(server: Server) -> int:
    return int(server.address.rpartition(":")[2])


def _target(server: Server) -> Target:
    return Target("127.0.0.1", _port(server), "chat", KEY)


def _read_call(target: Target) -> str:
    """Return whether a call that the model printed becomes a call."""
    request = target.request(CALLING, tools=True)
    ((_, answer),) = asyncio.run(load.ask_all(target, request, 1, 1))
    return "a call" if b'"tool_calls"' in answer.parse().body else "text"


# --- parsers ---


def measure_parsers(environments: Sequence[Path], folder: str) -> list[list[str]]:
    """Return the table of all parsers that are installed."""
    rows = [["µs a piece of a call", "version", "format", "1 KB", "10 KB", "30 KB", "note"]]
    found = (each.glob(f"lib/python3*/site-packages/{VOCABULARY}") for each in environments)
    if vocabulary := next(chain.from_iterable(found), None):
        shutil.copy(vocabulary, f"{folder}/o200k_base.tiktoken")
        os.environ["TIKTOKEN_ENCODINGS_BASE"] = folder
    for name, format_ in PARSERS:
        python = next(_pythons(name, environments), None)
        if python is None:
            print(f"{name}: not installed", file=sys.stderr)
            continue
        command = [str(python), str(Path(__file__).parent / "parsers.py"), name, format_]
        ran = subprocess.run(command, check=False, capture_output=True, text=True)
        row = [name, _version(python, name), format_]
        if ran.returncode:
            note = (ran.stderr.strip().splitlines() or ["failed"])[-1][:80]
            rows.append([*row, "", "", "", note])
        else:
            costs, note = json.loads(ran.stdout)
            rows.append([*row, *(f"{cost:.2f}" for cost in costs), note])
    return rows


def _pythons(name: str, environments: Sequence[Path]) -> Iterator[Path]:
    """Yield the interpreters that have the distribution *name*."""
    for python in (Path(sys.executable), *(each / "bin" / "python" for each in environments)):
        if _version(python, name):
            yield python


def show(table: list[list[str]]) -> None:
    """Print *table* as Markdown."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    table.insert(1, ["-" * width for width in widths])
    for cells in table:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        print("| " + " | ".join(padded) + " |")


if __name__ == "__main__":
    sys.exit(main())
