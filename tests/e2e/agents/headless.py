"""Claude Code and opencode without a screen: how each is asked, and what it says at its end.

An agent sees nothing of who runs it: a HOME of its own, and of the environment only where programs
are found. It looks for no updates, sends nothing about its use and fetches nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

SECONDS: Final = 90
"""How long an agent may take for one file; on a busy machine opencode needs 20 s to start."""

PROGRAMS: Final = Path(__file__).parent / "node_modules" / ".bin"


class Outcome(Struct, frozen=True):
    """How an agent ended: its exit *code*, its *last* words, and the *errors* that it told of."""

    code: int
    last: str
    errors: list[str]


class Agent(Struct, frozen=True):
    """A coding agent and the *api* of the gateway that it asks.

    *command* asks a model; *environ* says where it is; *read* gives last words and errors.
    """

    name: str
    api: str
    command: Callable[[str], list[str]]
    environ: Callable[[str, str], dict[str, str]]
    read: Callable[[str], tuple[str, list[str]]]

    def ask(self, question: str, model: str, address: str, folder: Path) -> Outcome:
        """Ask *model* behind the gateway at *address*; the agent works in *folder*/work."""
        home, work = folder / "home", folder / "work"
        home.mkdir(parents=True)
        work.mkdir()
        try:
            done = subprocess.run(
                [*self.command(model), question],
                cwd=work,
                env={"PATH": os.environ["PATH"], "HOME": str(home)} | self.environ(address, model),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(-1, "", [f"no end within {SECONDS} s"])
        last, errors = self.read(done.stdout)
        return Outcome(done.returncode, last, errors + done.stderr.splitlines()[-3:])


def _ask_claude(model: str) -> list[str]:
    options = ["--permission-mode", "acceptEdits", "--output-format", "json", "--model", model]
    return [str(PROGRAMS / "claude"), "--print", *options]


def _claude_environ(address: str, model: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_SMALL_FAST_MODEL": model,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }


def _read_claude(output: str) -> tuple[str, list[str]]:
    if not output.startswith("{"):
        return "", [output]
    result = json.loads(output)
    return ("", [result["result"]]) if result["is_error"] else (result["result"], [])


def _ask_opencode(model: str) -> list[str]:
    options = ["--pure", "--format", "json", "--model", f"penstock/{model}", "--title", model]
    return [str(PROGRAMS / "opencode"), "run", *options]


def _opencode_environ(address: str, model: str) -> dict[str, str]:
    name = f"penstock/{model}"
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{address}/v1", "apiKey": "none"},
        "models": {model: {"tool_call": True}},
    }
    config = {"model": name, "small_model": name, "provider": {"penstock": provider}}
    switches = ("AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "MODELS_FETCH", "SHARE")
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "npm_config_offline": "true",
        **{f"OPENCODE_DISABLE_{switch}": "1" for switch in switches},
    }


def _read_opencode(output: str) -> tuple[str, list[str]]:
    lines = output.rstrip("\n").split("\n")  # a line of JSON may hold other ends of lines
    events: list[dict[str, Any]] = [json.loads(line) for line in lines if line.startswith("{")]
    texts = [event["part"]["text"] for event in events if event["type"] == "text"]
    failures = [event["error"].get("data", {}) for event in events if event["type"] == "error"]
    errors = [str(data.get("message", data)) for data in failures]
    return (texts or [""])[-1], errors


AGENTS: Final = (
    Agent("Claude Code", "anthropic", _ask_claude, _claude_environ, _read_claude),
    Agent("opencode", "openai-chat", _ask_opencode, _opencode_environ, _read_opencode),
)
