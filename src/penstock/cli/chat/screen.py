"""What a person sees and types: a page that grows, and below it the line that is edited.

Paintings are put together: however fast a model writes, the terminal is written to `PACE` seconds
apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from penstock.cli.chat.editor import Editor
from penstock.cli.chat.keys import Key, Pressed
from penstock.cli.chat.page import Page
from penstock.cli.chat.painter import Painter, Prompt
from penstock.cli.chat.rows import Line, Span, wrap
from penstock.cli.chat.terminal import Terminal

PACE: Final = 0.02
"""How many seconds lie between two paintings: faster than eyes are."""

EDITED_PART: Final = 2
"""The line that is edited takes at most one part in so many of the terminal's height."""


class Screen:
    """Shows *page* and lets a line be edited; *on_enter* and *on_key* are told what is typed."""

    def __init__(
        self,
        page: Page,
        on_enter: Callable[[str], None],
        on_key: Callable[[str], None],
        *,
        colours: bool = True,
    ) -> None:
        self.page = page
        self.editor = Editor()
        self.lead = Span("> ", "bold")
        """What stands before the line that is edited."""
        self.hint = ""
        """What stands in an empty one."""
        self.question: list[Line] = []
        """What is asked, above it."""
        self._on_enter = on_enter
        self._on_key = on_key
        self._painter = Painter(colours=colours)
        self._terminal = Terminal(self._press, self.refresh)
        self._due: asyncio.TimerHandle | None = None
        self._last = -1.0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Have the terminal; what was told last is on it when it is given back."""
        with self._terminal.taken():
            try:
                yield
            finally:
                if self._due is not None:
                    self._due.cancel()
                self.page.end()
                self.page.live = []
                self._terminal.write(self._painted(Prompt([[]])) + self._painter.cleared())

    def refresh(self) -> None:
        """Paint soon."""
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_at(max(loop.time(), self._last + PACE), self._paint)

    def clear(self) -> None:
        """Begin on an empty screen."""
        self._terminal.write(self._painter.cleared() + "\x1b[H\x1b[2J")
        self.refresh()

    def _press(self, key: Key) -> None:
        name = key.name if isinstance(key, Pressed) else ""
        if name == "suspend":
            self._terminal.write(self._painter.cleared())
            self._terminal.suspend()
        elif name == "redraw":
            self.clear()
        elif name in ("interrupt", "hang-up") or (name == "end-of-input" and not self.editor.text):
            self._on_key(name)
        else:
            name = "delete" if name == "end-of-input" else name
            entered = self.editor.press(Pressed(name) if name else key)
            if entered is not None:
                self._on_enter(entered)
        self.refresh()

    def _paint(self) -> None:
        self._due = None
        self._last = asyncio.get_running_loop().time()
        self._terminal.write(self._painted(self._prompt()))

    def _painted(self, prompt: Prompt) -> str:
        width, height = self._terminal.size
        return self._painter.paint(self.page, prompt, width, height)

    def _prompt(self) -> Prompt:
        width, height = self._terminal.size
        edited = self.editor.prompt(self.lead, width, max(1, height // EDITED_PART), self.hint)
        asked = [row for line in self.question for row in wrap(line, width)]
        return Prompt([*asked, *edited.rows], edited.row + len(asked), edited.column)
