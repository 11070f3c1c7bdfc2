"""Five coding agents work with a model that prints its calls as text.

They are Gemini CLI, Qwen Code, Cline, Continue and mini-swe-agent. Each is configured as
docs/gateway/coding_agents.md says and runs without a screen in a folder of its own. The model
behind the gateway prints a call that writes a file, then one that runs a command on it, each agent
in another format, and waits for the result before it prints the next. The file and the command's
output have to be there, byte for byte, and the gateway's log has to have every call. The agents
run side by side; the exit code is the number of those that failed.

Node has to be there; `AGENTS=skip` skips this script on machines without it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[2]))

from e2e.agents import npm, pypi
from e2e.agents.gateway import Gateway
from e2e.agents.headless import PROGRAMS
from e2e.agents.run import HERE, Rows, check_log, find_scripts
from e2e.agents.shapes import NASTY, SHAPES
from e2e.chat_server import ChatHandler, chatting

SECONDS: Final = 300
"""How long an agent may take. Five at a time on two busy cores took up to 148 seconds."""

QUESTION: Final = "Write tide.txt in this folder, then count its bytes."
FAREWELL: Final = "Both are written."
FILE: Final = "tide.txt"
COUNT: Final = f"wc -c < {FILE} > size.txt"
SIZE: Final = len(NASTY.encode())

Calls = tuple[tuple[str, dict[str, Any]], ...]
"""The tools that the model calls, one after the other, and their arguments."""


class Client(Struct, frozen=True):
    """An agent, its *model*, the *api* that it speaks, and the *shape* of the calls that it gets.

    *calls* are what its model does in a folder; *command* runs it, *prepare* before it; *environ*
    has what it needs to find the gateway; *settings* is a file below its home folder, and the
    content. All but *command* are told the address of the gateway.
    """

    name: str
    model: str
    api: str
    shape: str
    calls: Callable[[Path], Calls]
    command: list[str]
    environ: Callable[[str], dict[str, str]]
    settings: Callable[[str], tuple[str, dict[str, Any]]] = lambda _: ("settings.json", {})
    prepare: Callable[[str], list[str]] | None = None


def _write_and_count(work: Path) -> Calls:
    """Return the calls for the tools of Gemini CLI, which Qwen Code inherited."""
    write = {"file_path": str(work / FILE), "content": NASTY}
    return ("write_file", write), ("run_shell_command", {"command": COUNT})


def _write_and_count_in_cline(work: Path) -> Calls:
    write = {"path": str(work / FILE), "new_text": NASTY}
    return ("editor", write), ("run_commands", {"commands": [COUNT]})


def _write_and_count_in_continue(work: Path) -> Calls:
    write = {"filepath": str(work / FILE), "content": NASTY}
    return ("Write", write), ("Bash", {"command": COUNT})


def _configure_continue(address: str) -> tuple[str, dict[str, Any]]:
    model = {
        "name": "penstock",
        "provider": "openai",
        "model": "continue",
        "apiBase": f"{address}/v1",
        "apiKey": "none",
        "roles": ["chat", "edit", "apply"],
        "capabilities": ["tool_use"],
    }
    # JSON is YAML as well.
    return "config.yaml", {"name": "Local", "version": "0.0.1", "schema": "v1", "models": [model]}


def _count_in_bash(_work: Path) -> Calls:
    commands = (
        f"cat > {FILE} <<'END OF TIDE'\n{NASTY}END OF TIDE",
        COUNT,
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
    )
    return tuple(("bash", {"command": command}) for command in commands)


def make_clients(programs: Path) -> tuple[Client, ...]:
    """Return the agents; *programs* has those from PyPI."""
    gemini = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    qwen = {
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    return (
        Client(
            "Gemini CLI",
            "local",  # of a model whose name begins with "gemini", it may drop backslashes
            "gemini",
            "hermes",
            _write_and_count,
            [str(PROGRAMS / "gemini"), "-m", "local", "--yolo", "-p", QUESTION],
            lambda address: {
                "GOOGLE_GEMINI_BASE_URL": address,
                "GEMINI_API_KEY": "none",
                "GEMINI_CLI_TRUST_WORKSPACE": "true",
            },
            lambda _: (".gemini/settings.json", gemini),
        ),
        Client(
            "Qwen Code",
            "qwen-code",
            "openai-chat",
            "qwen3_coder",
            _write_and_count,
            [str(PROGRAMS / "qwen"), "--auth-type", "openai", "--yolo", "-p", QUESTION],
            lambda address: {
                "OPENAI_BASE_URL": f"{address}/v1",
                "OPENAI_API_KEY": "none",
                "OPENAI_MODEL": "qwen-code",
            },
            lambda _: (".qwen/settings.json", qwen),
        ),
        Client(
            "Cline",
            "cline",
            "openai-chat",
            "hermes",
            _write_and_count_in_cline,
            [str(PROGRAMS / "cline"), QUESTION],
            lambda _: {"AI_SDK_LOG_WARNINGS": "false"},
            prepare=lambda address: [
                *(str(PROGRAMS / "cline"), "auth", "-p", "openai", "-k", "none"),
                *("-b", f"{address}/v1", "-m", "cline"),
            ],
        ),
        Client(
            "Continue",
            "continue",
            "openai-chat",
            "bare_json",
            _write_and_count_in_continue,
            [str(PROGRAMS / "cn"), "--config", "../home/config.yaml", "--auto", "-p", QUESTION],
            lambda _: {"CONTINUE_TELEMETRY_ENABLED": "0"},
            _configure_continue,
        ),
        Client(
            "mini-swe-agent",
            "mini",
            "openai-chat",
            "bare_json",
            _count_in_bash,
            [
                *(str(programs / "mini"), "-m", "openai/mini"),
                *("-y", "--exit-immediately", "-t", QUESTION),
            ],
            lambda address: {
                "OPENAI_API_BASE": f"{address}/v1",
                "OPENAI_API_KEY": "none",
                "MSWEA_CONFIGURED": "true",
                "MSWEA_COST_TRACKING": "ignore_errors",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            },
        ),
    )


class Printing(ChatHandler):
    """Prints the next call of the agent that the model is named after, or its last words."""

    clients: dict[str, tuple[Client, Path]]
    """The agents by the names of their models, and the folders that they work in."""

    def answer(self, body: dict[str, Any]) -> None:
        """Print text, a few characters at a time."""
        client, work = self.clients[body["model"]]
        done = sum(message["role"] == "tool" for message in body["messages"])
        calls, text = client.calls(work), FAREWELL
        if body.get("tools") and done < len(calls):
            shape = SHAPES[client.shape]
            text = shape.before + shape.write(*calls[done])
        for at in range(0, len(text), 3):
            self.say({"content": text[at : at + 3]})
        self.end("stop")


def main() -> int:
    """Run every agent once and print what went wrong."""
    if os.environ.get("AGENTS") == "skip":
        print("clients: skipped because of AGENTS=skip")
        return 0
    node, program = shutil.which("node"), shutil.which("npm")
    if node is None or program is None:
        print("clients: node or npm is not installed; install Node.js, or set AGENTS=skip")
        return 1
    npm.install(program, HERE, *find_scripts(node))
    clients = make_clients(pypi.install(HERE))
    with (
        tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as name,
        ThreadPoolExecutor(len(clients)) as pool,
    ):
        folders = {client.name: Path(name) / client.model for client in clients}
        Printing.clients = {
            client.model: (client, folders[client.name] / "work") for client in clients
        }
        with chatting(Printing) as upstream, Gateway(upstream.address, Path(name)) as gateway:
            failed = sum(
                pool.map(lambda client: run_client(client, gateway, folders[client.name]), clients)
            )
            if failed:
                print(f"the gateway wrote:\n{gateway.said}")
    print(f"{len(clients) - failed} of {len(clients)} clients work")
    return failed


def run_client(client: Client, gateway: Gateway, folder: Path) -> bool:
    """Run *client*, print how it went and return whether it failed."""
    began = time.monotonic()
    try:
        check(client, run(client, gateway.address, folder), gateway, folder / "work")
    except (AssertionError, OSError, subprocess.TimeoutExpired) as exc:
        print(f"{client.name}: FAILED {exc}", flush=True)
        return True
    finally:
        end_rest(folder / "home")
    print(f"{client.name}: wrote {SIZE} bytes ({time.monotonic() - began:.0f} s)", flush=True)
    return False


def end_rest(home: Path) -> None:
    """End the processes that an agent with this *home* left behind: Cline keeps a server."""
    wanted = f"HOME={home}".encode()
    for process in Path("/proc").glob("[0-9]*"):  # nothing where there is no /proc
        with suppress(OSError):
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


def run(client: Client, address: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run *client* in *folder*/work with a home folder of its own."""
    home, work = folder / "home", folder / "work"
    name, content = client.settings(address)
    settings = home / name
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(content))
    work.mkdir()
    start = partial(
        subprocess.run,
        cwd=work,
        env={"PATH": os.environ["PATH"], "HOME": str(home), **client.environ(address)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if client.prepare is not None:
        done = start(client.prepare(address))
        if done.returncode != 0:
            return done
    return start(client.command)


def check(
    client: Client, done: subprocess.CompletedProcess[str], gateway: Gateway, work: Path
) -> None:
    """Raise where the file, the command's output, the end or the log is not as it should be."""
    said = f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
    assert done.returncode == 0, f"it ended with {done.returncode}: {said}"
    file, size = work / FILE, work / "size.txt"
    assert file.exists(), f"there is no {FILE}: {said}"
    assert file.read_bytes() == NASTY.encode(), f"{FILE} differs: {file.read_bytes()!r}"
    assert size.exists(), f"the command was not run: {said}"
    assert size.read_text().split() == [str(SIZE)], f"the command wrote {size.read_text()!r}"
    names = [name for name, _ in client.calls(work)]
    if names[-1] != "bash":  # mini-swe-agent ends with its last call
        assert FAREWELL in done.stdout, f"the last words are missing: {said}"
    read = partial(gateway.answered, model=client.model, client_api=client.api)
    check_log(partial(check_rows, calls=len(names)), read)


def check_rows(rows: Rows, *, calls: int) -> None:
    """See that the log has every call, complete."""
    assert {row["state"] for row in rows} == {"done"}, f"not every request is done: {rows}"
    found = [row["finish"] for row in rows if row["calls"]]
    assert found == ["tool_use"] * calls, f"the log has the calls {found}"


if __name__ == "__main__":
    sys.exit(main())
