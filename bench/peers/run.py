"""Other gateways and parsers beside ours, in one run, as two tables with versions.

``python bench/peers/run.py ENVIRONMENT...``: the programs of peers are taken from the virtual
environments, such as ``/tmp/peers``. ``make bench-peers`` creates them. A peer that is not
installed is omitted. Everything runs in a network namespace of its own in which only the loopback
interface exists, so no peer reaches another machine. That takes ``unshare`` of Linux, as root or
with user namespaces.

Gateways are measured in turn, A B A B, in front of one fake upstream; the best round counts. CPU
time is that of the whole process tree for each piece that the upstream sent. Whether a *printed
call* becomes a call is tried with one response in the format of Hermes. vLLM's front end gets the
same pieces as tokens from an engine, `engine.py`, whose CPU time is not counted. Parsers are
measured in a process of their own, `parsers.py`.
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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway import load
from gateway.processes import Server, free_port, serving, used_by
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

INSIDE: Final = "PENSTOCK_BENCH_NAMESPACE"
"""Set in the environment of the process that runs in the network namespace."""

KEY: Final = f"sk-{secrets.token_hex(24)}"
"""LiteLLM refuses a short one."""


class Peer(Struct, frozen=True):
    """A gateway: *program* with *arguments*, from the distribution *package*.

    In the arguments, ``{upstream}``, ``{port}``, ``{other}`` (another free port), ``{engine}`` (the
    port for the handshake with an engine) and ``{folder}`` are replaced.
    """

    name: str
    package: str
    program: str
    arguments: tuple[str, ...]
    ready: str = "/health"
    has_engine: bool = False
    """Whether tokens of an engine take the place of the upstream's responses."""


class Running(Struct, frozen=True):
    """A gateway that serves, and how it is asked."""

    version: str
    server: Server
    target: Target


_ROUTER: Final = (
    "--worker-urls", "{upstream}", "--host", "127.0.0.1", "--port", "{port}",
    "--prometheus-host", "127.0.0.1", "--prometheus-port", "{other}",
)  # fmt: skip

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
        "vLLM's front end (Rust)", "vllm", "vllm-rs",
        ("serve", "{folder}/model", "--served-model-name", "m", "--host", "127.0.0.1",
         "--port", "{port}", "--data-parallel-size-local", "0", "--handshake-port", "{engine}",
         "--tool-call-parser", "hermes", "--reasoning-parser", "none"),
        has_engine=True,
    ),
)  # fmt: skip

PARSERS: Final = ("penstock", "cohere-melody", "openai-harmony", "transformers")

LITELLM: Final = """\
model_list:
  - model_name: "*"
    litellm_params: {{model: "hosted_vllm/*", api_base: "{upstream}/v1", api_key: "none"}}
general_settings: {{master_key: "{key}"}}
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
    show(measure_parsers(environments))
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
    for peer in PEERS:
        found = _start(stack, peer, upstream, environments, folder)
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
    places = [place for each in environments for place in _program_folders(each)]
    path = os.pathsep.join(map(str, places))
    program = shutil.which(peer.program, path=path) if peer.program else sys.executable
    if program is None or (peer.has_engine and find_spec("zmq") is None):
        return None
    os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", XDG_STATE_HOME=folder)
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")
    Path(folder, "litellm.yaml").write_text(LITELLM.format(upstream=upstream, key=KEY))
    port, engine = free_port(), free_port()
    values = {"upstream": upstream, "port": port, "other": free_port(), "folder": folder}
    arguments = [each.format(**values, engine=engine) for each in peer.arguments]
    if peer.has_engine:
        _start_engine(stack, engine, Path(folder, "model"))
    running = serving(
        arguments, port, ready=peer.ready, folder=folder, program=program, log=subprocess.DEVNULL
    )
    version = _version(_python_for(Path(program)) if peer.program else sys.executable, peer.package)
    server = stack.enter_context(running)
    target = _target(server)
    return Running(
        version, server, EngineTarget(target.host, target.port) if peer.has_engine else target
    )


def _program_folders(environment: Path) -> Iterator[Path]:
    """Yield where *environment* may have programs; vLLM's is in its package."""
    yield environment / "bin"
    yield from environment.glob("lib/python3*/site-packages/vllm")


def _python_for(program: Path) -> Path:
    """Return the interpreter of the environment that has *program*."""
    return next(python for each in program.parents if (python := each / "bin" / "python").exists())


def _start_engine(stack: ExitStack, port: int, folder: Path) -> None:
    """Start the engine of a front end, and write its model into *folder*."""
    folder.mkdir()
    make_tokenizer().write_model(folder)
    script = str(Path(__file__).parent / "engine.py")
    process = stack.enter_context(subprocess.Popen([sys.executable, script, str(port)]))
    stack.callback(process.kill)


def _version(python: Path | str, package: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    ran = subprocess.run([python, "-c", code], check=False, capture_output=True, text=True)
    return ran.stdout.strip()


def _target(server: Server) -> Target:
    return Target("127.0.0.1", int(server.address.rpartition(":")[2]), "chat", KEY)


def _read_call(target: Target) -> str:
    """Return whether a call that the model printed becomes a call."""
    request = target.request("fake-c60-mhermes", tools=True)
    ((_, answer),) = asyncio.run(load.ask_all(target, request, 1, 1))
    return "a call" if b'"tool_calls"' in answer.parse().body else "text"


# --- parsers ---


def measure_parsers(environments: Sequence[Path]) -> list[list[str]]:
    """Return the table of all parsers that are installed."""
    rows = [["µs a piece of a call", "version", "1 KB", "10 KB", "30 KB", "note"]]
    script = str(Path(__file__).parent / "parsers.py")
    for name in PARSERS:
        for python in _pythons(name, environments):
            command = [str(python), script, name]
            ran = subprocess.run(command, check=False, capture_output=True, text=True)
            if ran.returncode:
                note = (ran.stderr.strip().splitlines() or ["failed"])[-1][:80]
                rows.append([name, _version(python, name), "", "", "", note])
            else:
                costs = [f"{cost:.2f}" for cost in json.loads(ran.stdout)]
                rows.append([name, _version(python, name), *costs, ""])
            break
        else:
            print(f"{name}: not installed", file=sys.stderr)
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
