"""Gateways as processes of their own, for tests that end them, starve them or start several.

What they log to the screen goes into a file: a pipe that nobody reads would fill. `Process` has the
`port` that `serving.ask` wants, so a test speaks to it as to a gateway in its own process.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.serving import Served, ask, until

ANNOUNCED = re.compile(r"penstock serves http://[^ ]+:(\d+)\n")
"""What a gateway says once it is up."""

_FIGURE = re.compile(r"^(\w+)(?:\{[^}]*\})? ([0-9.e+-]+)$", re.MULTILINE)


class Process(Served):
    """A gateway that was started with the settings *text*, whose log is the database *store*."""

    def __init__(self, folder: Path, text: str, store: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "penstock.toml"
        self.file.write_text(text)
        self._screen = folder / "screen.txt"
        command = [sys.executable, "-m", "penstock", "serve", "--config", str(self.file)]
        quiet = {name: value for name, value in os.environ.items() if "PENSTOCK" not in name}
        with self._screen.open("w") as screen:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [*command, "--port", "0", "--store", store],
                cwd=folder,
                env=quiet,
                stdout=subprocess.DEVNULL,
                stderr=screen,
            )

    def wait(self) -> None:
        """Wait until it is up."""
        until(lambda: self._process.poll() is not None or ANNOUNCED.search(self.screen))
        found = ANNOUNCED.search(self.screen)
        assert found is not None, self.screen
        self.port = int(found.group(1))

    @property
    def screen(self) -> str:
        """What it said so far."""
        return self._screen.read_text()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Send SIGTERM and wait for the end."""
        if self.has_ended:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def figures(self) -> dict[str, float]:
        """Read `/metrics`; figures of one name are added up."""
        found: dict[str, float] = {}
        for name, value in _FIGURE.findall(ask(self, "/metrics").body.decode()):
            found[name] = found.get(name, 0.0) + float(value)
        return found

    @property
    def is_ready(self) -> bool:
        return ask(self, "/health/ready").status == 200


@contextmanager
def running(folder: Path, text: str, *stores: str) -> Iterator[list[Process]]:
    """Start a gateway for each of *stores*, all with the settings *text*; end them at the end."""
    started: list[Process] = []
    try:
        for number, store in enumerate(stores):
            started.append(Process(folder / f"gateway-{number}", text, store))
        for process in started:
            process.wait()
        yield started
    finally:
        for process in started:
            process.end()
