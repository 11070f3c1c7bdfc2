"""Build the wheel and the sdist, install them into empty environments, and try each.

The core alone comes from the sdist, so that one is complete; ``[cli]`` and ``[cli,server]`` come
from the wheel. Each environment has nothing else in it, runs in an empty folder, and says what to
install where it cannot do something.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

ROOT: Final = Path(__file__).parents[2]
SECONDS: Final = 300
"""How long one command may take: an installation on a slow network is the longest."""

TRIES: Final = 3
_CORE: Final = """
import sys, penstock
text = 'One moment.<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
(call,) = penstock.parse(text, "hermes").tool_calls
assert (call.name, call.arguments) == ("get_weather", {"city": "Oslo"}), call
assert penstock.__version__ != "0"
assert not {"typer", "rich", "aiohttp", "sqlalchemy"} & {*sys.modules}
"""
_CALL: Final = {
    "model": "demo",
    "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
    "tools": [{"type": "function", "function": {"name": "get_weather"}}],
}


class Environment:
    """An empty environment in *folder* with *package*, which the pip of *installer* installs."""

    def __init__(self, folder: Path, package: str, installer: Environment | None = None) -> None:
        self._folder = folder
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        without = [] if installer is None else ["--without-pip"]
        run([sys.executable, "-m", "venv", *without, str(folder / "venv")])
        pip = (installer or self).program("python")
        self._pip = [pip, "-m", "pip", "--python", self.program("python")]
        self.install(package)

    def install(self, package: str) -> None:
        """Install *package*; a failure of the network is tried again."""
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        options = ["--disable-pip-version-check", "--quiet", "--retries", "5", *constraints]
        for tried in range(TRIES):
            command = [*self._pip, "install", *options, package]
            if subprocess.run(command, timeout=SECONDS, check=False).returncode == 0:
                return
            time.sleep(5 * (tried + 1))
        raise SystemExit(f"pip could not install {package}")

    def program(self, name: str) -> str:
        """Return the path of a program of the environment."""
        return str(self._folder / "venv" / "bin" / name)

    def environ(self) -> dict[str, str]:
        """Return the variables of a new user."""
        home = {"HOME": str(self._folder), "PENSTOCK_NO_DISCOVER": "1"}
        return {"PATH": os.environ["PATH"], **home}

    def penstock(self, *args: str, code: int = 0) -> str:
        """Run the command, which has to end with *code*; return what it prints."""
        return run([self.program("penstock"), *args], self.work, self.environ(), code)


def run(
    command: list[str], folder: Path = ROOT, environ: dict[str, str] | None = None, code: int = 0
) -> str:
    """Run *command*, which has to end with *code*; return what it prints."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == code, f"{command} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        tools = Environment(folder / "tools", "hatchling")
        wheel, sdist = build(tools, folder / "dist")
        check_core(Environment(folder / "core", str(sdist), tools))
        check_cli(Environment(folder / "cli", f"{wheel}[cli]", tools))
        check_server(Environment(folder / "server", f"{wheel}[cli,server]", tools))
    print(f"package: all is well, in {time.monotonic() - began:.0f} s")
    return 0


def build(tools: Environment, made: Path) -> tuple[Path, Path]:
    """Build both packages with the declared build requirement; return the wheel and the sdist."""
    run([tools.program("python"), "-m", "hatchling", "build", "--directory", str(made)])
    (wheel,), (sdist,) = made.glob("*.whl"), made.glob("*.tar.gz")
    print(f"package: built {wheel.name} and {sdist.name}", flush=True)
    return wheel, sdist


def check_core(core: Environment) -> None:
    run([core.program("python"), "-c", _CORE], core.work, core.environ())
    assert core.penstock("--version").startswith("penstock 0.")
    assert "pip install 'penstock[cli]'" in core.penstock("parse", code=1)
    print("package: the core is well", flush=True)


def check_cli(cli: Environment) -> None:
    assert '"toolcall_end"' in cli.penstock("parse", "--demo")
    assert "repaired:" in cli.penstock("repair", "--demo")
    assert "scripted" in cli.penstock("chat", "--print", "Hello")
    at_server = ("chat", "--upstream", "http://127.0.0.1:1", "--print", "Hello")
    said = cli.penstock(*at_server, code=2)
    assert re.search(r"`penstock chat` needs aiohttp .*pip install '.*\[cli,client\]'", said), said
    assert "no configuration file: valid" in cli.penstock("config", "check")
    assert "(Needs the extra server.)" in " ".join(re.sub("│", "", cli.penstock("--help")).split())
    for command in (["serve"], ["doctor", "--upstream", "http://127.0.0.1:1"], ["logs", "list"],
                    ["replay", "--all"], ["inspect", "x"], ["db", "upgrade"]):  # fmt: skip
        said = " ".join(cli.penstock(*command, code=2).split())
        assert f"`penstock {command[0]}` needs " in said, said
        assert "pip install 'penstock[cli,server]'" in said, said
    print("package: [cli] is well", flush=True)


def check_server(server: Environment) -> None:
    assert "up to date" in server.penstock("db", "upgrade")
    assert (server.work.parent / ".local/state/penstock/penstock.db").is_file()
    command = [server.program("penstock"), "serve", "--api", "demo", "--port", "0"]
    process = subprocess.Popen(
        command, cwd=server.work, env=server.environ(), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        first = process.stderr.readline()
        found = re.fullmatch(r"penstock serves (http://127\.0\.0\.1:\d+)\n", first)
        assert found, first + process.stderr.read()
        assert b"get_weather" in fetch(f"{found[1]}/v1/chat/completions", _CALL)
        assert b"<html" in fetch(f"{found[1]}/", accept="text/html")
    finally:
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=SECONDS)[1]
    assert process.returncode == 0, rest
    assert "1 call: get_weather" in rest, rest
    assert not [*server.work.iterdir()], "the command left files in the folder"
    print("package: [cli,server] is well", flush=True)


def fetch(url: str, body: object = None, accept: str = "*/*") -> bytes:
    """Fetch *url* from our own server."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"accept": accept, "content-type": "application/json"})  # noqa: S310
    with urlopen(request, timeout=SECONDS) as response:  # noqa: S310 - our own server
        content: bytes = response.read()
    return content


if __name__ == "__main__":
    sys.exit(main())
