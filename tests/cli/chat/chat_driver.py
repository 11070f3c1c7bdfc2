"""A real terminal (a pty) with `penstock chat` in it, and a user who types."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pexpect  # type: ignore[import-untyped]  # it brings no types

from cli.chat.emulator import Emulator

DEADLINE = 30.0
"""The seconds after which a missing text is a failure: the machine may be busy."""

CHAT = "import typer; from penstock.cli.chat import command; typer.run(command)"
"""The command without the others, which take longer to load."""


class ChatDriver:
    """One run of the command; `until` waits for texts on the screen."""

    def __init__(self, child: pexpect.spawn[bytes], emulator: Emulator) -> None:
        self.child = child
        self.screen = emulator
        self.raw = ""
        self.ended = False
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(child.child_fd, self._read)

    def _read(self) -> None:
        data = b""
        with suppress(OSError):
            data = os.read(self.child.child_fd, 65536)
        if not data:
            self.stop_reading()
        text = self._decoder.decode(data)
        self.raw += text
        self.screen.feed(text)
        self._changed.set()

    def stop_reading(self) -> None:
        self.ended = True
        asyncio.get_running_loop().remove_reader(self.child.child_fd)

    def type(self, text: str) -> None:
        os.write(self.child.child_fd, text.encode())

    async def resize(self, columns: int, rows: int = 24) -> None:
        """Change the size of the terminal, and wait until the command has drawn its rule again.

        What the command wrote before the signal reached it has the old width.
        """
        self.child.setwinsize(rows, columns)
        rule = "─" * (columns - 1)
        await self.when(lambda text: rule in text.split("\n"), rule)
        self.screen.width = columns

    async def until(self, *wanted: str) -> str:
        """Wait until all of *wanted* can be seen; return the screen."""
        return await self.when(lambda text: all(one in text for one in wanted), *wanted)

    async def when(self, test: Callable[[str], bool], *why: str) -> str:
        try:
            async with asyncio.timeout(DEADLINE):
                while not test(self.screen.text):
                    assert not self.ended, f"it ended before {why}:\n{self.screen.text}"
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"not seen: {why}:\n{self.screen.text}") from None
        return self.screen.text

    async def end(self) -> int:
        """Wait for the end of the command; return its exit code."""
        async with asyncio.timeout(DEADLINE):
            while not self.ended:
                self._changed.clear()
                await self._changed.wait()
        await asyncio.to_thread(self.child.wait)
        return int(self.child.exitstatus if self.child.exitstatus is not None else -1)


@asynccontextmanager
async def start_chat(
    folder: Path, *args: str, width: int = 80, height: int = 24
) -> AsyncIterator[ChatDriver]:
    """Start the command in a terminal, for *folder*."""
    quiet = {name: value for name, value in os.environ.items() if "PENSTOCK" not in name}
    env = {**quiet, "XDG_STATE_HOME": str(folder / "state"), "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    child: pexpect.spawn[bytes] = pexpect.spawn(
        sys.executable,
        ["-c", CHAT, "--folder", str(folder), *args],
        dimensions=(height, width),
        env={**env, "COLUMNS": "", "LINES": ""},
    )
    driver = ChatDriver(child, Emulator(width, height))
    try:
        yield driver
    finally:
        if not driver.ended:
            driver.stop_reading()
        if child.isalive():
            child.kill(signal.SIGKILL)
            await asyncio.to_thread(child.wait)
        child.close()
