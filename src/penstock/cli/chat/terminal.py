"""The terminal itself: the only file that touches one.

The keyboard is read byte by byte, without echo, and Ctrl-C is a key like any other; output goes out
as it is. Whatever happens, the terminal is left as it was found.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from penstock.cli.chat.keys import Key, KeyReader, Pressed

if sys.platform != "win32":
    import termios

ESCAPE_SECONDS: Final = 0.05
"""How long the rest of a sequence is waited for: then it was the key Escape."""

_CHUNK: Final = 1 << 16
_PASTE_ON: Final = "\x1b[?2004h"
_PASTE_OFF: Final = "\x1b[?2004l"


def has_terminal() -> bool:
    """Tell whether a person sits at both ends, and the terminal can move its cursor."""
    if sys.platform == "win32" or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return sys.stdin.isatty() and sys.stdout.isatty()


class Terminal:
    """The terminal of this process; *on_key* is told of keys, *on_resize* of a new size."""

    def __init__(self, on_key: Callable[[Key], None], on_resize: Callable[[], None]) -> None:
        self._on_key = on_key
        self._on_resize = on_resize
        self._keys = KeyReader()
        self._input = sys.stdin.fileno()
        self._output = sys.stdout.fileno()
        self._before: list[Any] | None = None
        self._escape: asyncio.TimerHandle | None = None

    @property
    def size(self) -> tuple[int, int]:
        """How many columns and rows there are."""
        found = shutil.get_terminal_size((80, 24))
        with suppress(OSError):
            found = os.get_terminal_size(self._output)
        return found.columns or 80, found.lines or 24

    def write(self, text: str) -> None:
        """Write *text*, all of it."""
        data = memoryview(text.encode("utf-8", "replace"))
        with suppress(OSError):  # nobody is there any more: the keyboard says so too
            while data:
                data = data[os.write(self._output, data) :]

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take the terminal over, and give it back."""
        loop = asyncio.get_running_loop()
        self._take()
        loop.add_reader(self._input, self._read)
        loop.add_signal_handler(signal.SIGWINCH, self._on_resize)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_key, Pressed("hang-up"))
        try:
            yield
        finally:
            loop.remove_reader(self._input)
            for number in (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)
            if self._escape is not None:
                self._escape.cancel()
            self._give_back()

    def suspend(self) -> None:
        """Let the shell have the terminal until it brings us back."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGTSTP)
        self._take()
        self._on_resize()

    def _take(self) -> None:
        self._before = termios.tcgetattr(self._input)
        mode = termios.tcgetattr(self._input)
        mode[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON | termios.ISTRIP)
        mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._input, termios.TCSADRAIN, mode)
        self.write(_PASTE_ON)

    def _give_back(self) -> None:
        self.write(_PASTE_OFF)
        if self._before is not None:
            with suppress(OSError, termios.error):
                termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)

    def _read(self) -> None:
        try:
            data = os.read(self._input, _CHUNK)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._input)
            self._on_key(Pressed("hang-up"))
            return
        for key in self._keys.feed(data):
            self._on_key(key)
        self._expect_more()

    def _expect_more(self) -> None:
        if self._escape is not None:
            self._escape.cancel()
            self._escape = None
        if self._keys.waits:
            loop = asyncio.get_running_loop()
            self._escape = loop.call_later(ESCAPE_SECONDS, self._keys.flush)
