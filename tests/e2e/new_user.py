"""The first five minutes: `penstock serve` in front of a server with three models, and its banner.

In an empty folder, with an empty home directory, the command is started with nothing but the URL of
a server like Ollama. Then the lines of its banner are copied, as a new user would: curl and the
OpenAI SDK get a tool call, and Claude Code, Codex and opencode write a file, with a model that
prints its calls as text. A name that the server does not have gets an error that
lists those it has.

Node has to be there for the agents; `AGENTS=skip` leaves them out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.agents import npm
from e2e.agents.headless import PROGRAMS
from e2e.agents.run import HERE as AGENTS
from e2e.agents.run import PLACED
from e2e.three_models import CONTENT, FAREWELL, MODELS, serving_three

SECONDS: Final = 120
"""How long the gateway may take to start, and an agent to write its file."""

_CLIENT: Final = re.compile(
    r"^  (curl|Claude Code|Codex|opencode|OpenAI SDK) +(\S.*)$", re.MULTILINE
)
_SDK: Final = """\
{line}
tool = {{"type": "function", "function": {{"name": "get_weather", "parameters": {{
    "type": "object", "properties": {{"city": {{"type": "string"}}}}}}}}}}
asked = [{{"role": "user", "content": "What is the weather in Oslo?"}}]
answer = client.chat.completions.create(model={model!r}, messages=asked, tools=[tool])
(call,) = answer.choices[0].message.tool_calls
print(call.function.name, call.function.arguments)
"""


class Command:
    """`penstock serve` as a new user starts it, in *folder*; use it `with`."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self._folder = folder
        self._flags = flags
        self._lines: list[str] = []
        self._is_ready = Event()
        for name in ("home", "work"):
            (folder / name).mkdir()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "serve", "--port", "0", *self._flags],
            cwd=self._folder / "work",
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = Thread(target=self._read)
        self._reader.start()
        self._is_ready.wait(SECONDS)
        assert "Ctrl-C" in self.said, f"the command did not start:\n{self.said}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None
    ) -> None:
        self._process.terminate()
        code = self._process.wait(SECONDS)
        self._reader.join(SECONDS)
        if self._process.stderr is not None:
            self._process.stderr.close()
        assert kind is not None or code == 0, f"the command ended with {code}:\n{self.said}"

    def environ(self) -> dict[str, str]:
        """Return an environment with nothing but where programs are and a home directory."""
        path = os.pathsep.join([str(PROGRAMS), os.environ["PATH"]])
        return {"PATH": path, "HOME": str(self._folder / "home"), "npm_config_offline": "true"}

    @property
    def said(self) -> str:
        """What it printed so far."""
        return "".join(self._lines)

    def line(self, client: str) -> str:
        """Return the line to copy for *client*."""
        lines: dict[str, str] = dict(_CLIENT.findall(self.said))
        return lines[client]

    def run(self, command: list[str]) -> str:
        """Run *command* as the user would, and return what it prints."""
        done = subprocess.run(
            command,
            cwd=self._folder / "work",
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
        return done.stdout

    def _read(self) -> None:
        for line in self._process.stderr or ():
            self._lines.append(line)
            if "Ctrl-C" in line:
                self._is_ready.set()
        self._is_ready.set()


def main() -> int:
    is_alone = os.environ.get("AGENTS") == "skip"
    if not is_alone:
        node, program = shutil.which("node"), shutil.which("npm")
        if node is None or program is None:
            print("new user: there is no node or npm here; install Node.js, or pass AGENTS=skip")
            return 1
        scripts = [[node, f"node_modules/{package}/{script}"] for package, script in PLACED.items()]
        npm.install(program, AGENTS, *scripts)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as name,
        serving_three() as upstream,
        Command(Path(name), "--upstream", upstream.address) as command,
    ):
        check_banner(command.said, upstream.address)
        checks: list[Callable[[Command], None]] = [check_curl, check_sdk, check_unknown_model]
        for check in checks if is_alone else [*checks, check_claude, check_codex, check_opencode]:
            check(command)
            print(f"new user: {check.__name__.removeprefix('check_')} is well", flush=True)
        written = {one.name for one in (Path(name) / "work").iterdir()}
        expected = set() if is_alone else {"claude.md", "codex.md", "opencode.md"}
        assert written == expected, "the command left files in the folder where it was started"
    print(f"new user: all is well, in {time.monotonic() - began:.0f} s")
    return 0


def check_banner(said: str, address: str) -> None:
    assert f"{address} (openai-chat) responds: 3 models" in said, said
    assert f"the one that a client requests: {', '.join(MODELS)}" in said, said
    assert f"--model {MODELS[0]}" in said, said
    assert "--no-store switches it off" in said, said


def check_curl(command: Command) -> None:
    printed = command.run(["bash", "-c", f"{command.line('curl')} -sS"])
    assert '"name":"get_weather"' in printed.replace(": ", ":"), printed
    assert "data: [DONE]" in printed, printed
    _wait_for_line(command, "1 call: get_weather")


def check_sdk(command: Command) -> None:
    script = _SDK.format(line=command.line("OpenAI SDK"), model=MODELS[1])
    name, arguments = command.run([sys.executable, "-c", script]).split(maxsplit=1)
    assert (name, json.loads(arguments)) == ("get_weather", {"city": "Oslo"})


def check_unknown_model(command: Command) -> None:
    line = command.line("curl").replace(MODELS[0], "claude-opus-5")
    printed = command.run(["bash", "-c", f"{line} -sS"])
    assert f"The upstream has: {', '.join(MODELS)}." in printed, printed
    _wait_for_line(command, "--map 'claude-opus-5=")


def check_claude(command: Command) -> None:
    _write_file(command, "claude.md", "Claude Code", "--print --permission-mode acceptEdits")


def check_opencode(command: Command) -> None:
    _write_file(command, "opencode.md", "opencode", "run")


def check_codex(command: Command) -> None:
    options = "exec --skip-git-repo-check --sandbox danger-full-access"
    _write_file(command, "codex.md", "Codex", options)


def _write_file(command: Command, name: str, client: str, options: str) -> None:
    file = Path(command.run(["pwd"]).strip()) / name
    question = f"Create the file {file} with the tool that writes files. Then stop."
    said = command.run(["bash", "-c", f"{command.line(client)} {options} '{question}'"])
    assert file.read_text() == CONTENT, said
    assert FAREWELL in said, said


def _wait_for_line(command: Command, text: str) -> None:
    until = time.monotonic() + SECONDS
    while text not in command.said:
        assert time.monotonic() < until, f"no line with {text!r}:\n{command.said}"
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
