"""The fenced blocks of a page of the documentation, and the servers that its commands talk to.

A comment on the line before a block says how it is tested:

- ``<!-- file: NAME -->``: the block is a file that the commands of the page read;
- ``<!-- exit: 2 -->``: the command of the block ends with this exit code;
- ``<!-- screen: begins -->``, ``<!-- screen: has -->``: the gateway's output begins with the block,
  or has each of its lines.

``<!-- servers -->`` anywhere in a page starts `local_server` in place of the reader's own server
on port 11434, and a gateway with the first ``penstock serve`` command of the page, if it has one,
on a free port. The addresses in commands and examples are replaced by the real ones, and in outputs
the other way round.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from local_server import serving

SERVERS = "<!-- servers -->"
UPSTREAM = "11434"
GATEWAY = "8787"
START_SECONDS = 120
"""How long a gateway may take to start on a busy machine; it is usually a second."""

_BLOCK = re.compile(
    r"(?:^<!-- (?P<key>file|exit|screen): (?P<value>\S+) -->\n)?"
    r"^(?P<fence>`{3,})(?P<info>.*)\n(?P<text>(?:(?!(?P=fence)).*\n)*)(?P=fence)",
    re.MULTILINE,
)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_SCREEN = "screen.txt"
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)[\s/]")  # the number is whole


class Command(NamedTuple):
    """A command of a page, what the page shows of its output, and its exit code."""

    line: str
    shown: str
    code: int


class Page:
    """One page; *folder* is the working directory of its commands."""

    def __init__(self, text: str, folder: Path) -> None:
        self.text = text
        self._folder = folder
        self._ports: dict[str, str] = {}
        self._blocks = [match.groupdict() for match in _BLOCK.finditer(text)]

    @contextmanager
    def prepare(self) -> Iterator[None]:
        """Write the files of the page, and run its servers if it wants them."""
        if SERVERS not in self.text:
            self._write_files()
            yield
            return
        with serving() as url:
            self._ports[UPSTREAM] = url.rpartition(":")[2]
            self._write_files()
            with self._gateway():
                self._write_files()
                yield

    def commands(self) -> Iterator[Command]:
        """Yield each command that the page shows with its output."""
        for block in self._blocks:
            code = int(block["value"]) if block["key"] == "exit" else 0
            for line, shown in _COMMAND.findall(block["text"]):
                yield Command(line, shown, code)

    def run(self, command: Command) -> tuple[str, int]:
        """Return the output of a command, standard error included, and its exit code."""
        line = re.sub(r"\b(?=penstock )", f"{shlex.quote(sys.executable)} -m ", command.line)
        line = re.sub(r"^python ", f"{shlex.quote(sys.executable)} ", line)
        done = subprocess.run(  # noqa: S602 - our own pages
            self.localize(line),
            shell=True,
            cwd=self._folder,
            env=self._environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=START_SECONDS,
        )
        return self._publish(done.stdout), done.returncode

    def check_screen(self) -> None:
        """Check that the gateway prints what the page shows; a request is logged after its end."""
        for block in self._blocks:
            if block["key"] != "screen":
                continue
            deadline = time.monotonic() + START_SECONDS
            while not self._has_printed(block["text"].splitlines(), block["value"]):
                assert time.monotonic() < deadline, (self._folder / _SCREEN).read_text()
                time.sleep(0.05)

    def _has_printed(self, shown: list[str], how: str) -> bool:
        printed = self._publish((self._folder / _SCREEN).read_text()).splitlines()
        if how == "begins":
            return matches("\n".join(shown), "\n".join(printed[: len(shown)]))
        return all(any(matches(line, one) for one in printed) for line in shown)

    def localize(self, text: str) -> str:
        """Return *text* with the addresses of the running servers."""
        for shown, real in self._ports.items():
            text = re.sub(
                rf"(?<=://)(?:localhost|127\.0\.0\.1):{shown}\b", f"127.0.0.1:{real}", text
            )
        return text

    def _publish(self, text: str) -> str:
        for shown, real in self._ports.items():
            text = text.replace(f":{real}", f":{shown}")
        return text

    def _write_files(self) -> None:
        for block in self._blocks:
            if block["key"] == "file":
                (self._folder / block["value"]).write_text(self.localize(block["text"]))

    @contextmanager
    def _gateway(self) -> Iterator[None]:
        lines = "".join(block["text"] for block in self._blocks).splitlines()
        line = next((line for line in lines if line.startswith("penstock serve")), "")
        if not line:
            yield
            return
        arguments = shlex.split(self.localize(line), comments=True)[1:]
        screen = self._folder / _SCREEN
        with screen.open("w") as file:
            process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-m", "penstock", *arguments, "--port", "0"],
                cwd=self._folder,
                env=self._environ(),
                stdout=file,
                stderr=file,
            )
        try:
            self._ports[GATEWAY] = self._wait_for_port(process, screen)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise

    def _wait_for_port(self, process: subprocess.Popen[bytes], screen: Path) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            ports = _ADDRESS.findall(screen.read_text())
            found = [port for port in ports if port != self._ports[UPSTREAM]]
            if found:
                return str(found[0])
            if process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(screen.read_text())

    def _environ(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK")}
        home = str(self._folder)
        return {**kept, "HOME": home, "XDG_STATE_HOME": f"{home}/state", "COLUMNS": "100"}


def matches(shown: str, printed: str) -> bool:
    """Return whether *printed* is what the page shows; ``…`` stands for any text of a line.

    Programs such as curl end their output without a line end, so that does not count.
    """
    pattern = re.escape(shown.rstrip("\n")).replace("…", ".*")
    return re.fullmatch(pattern, printed.rstrip("\n")) is not None
