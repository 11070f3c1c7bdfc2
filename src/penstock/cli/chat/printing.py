"""A prompt without a terminal: what the model says goes to stdout, all else to stderr."""

from __future__ import annotations

import sys
from typing import TextIO

from penstock.agent.events import AgentEnded
from penstock.cli.chat.keeping import Keeper
from penstock.cli.chat.page import Page
from penstock.cli.chat.telling import Teller


class Printer:
    """Prints the lines of *page* as they are done."""

    def __init__(self, page: Page, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._page = page
        self._out = out or sys.stdout
        self._err = err or sys.stderr

    def flush(self) -> None:
        """Print what is new."""
        for line in self._page.take():
            file = self._err if line.aside else self._out
            encoding = file.encoding or "utf-8"
            text = line.text.encode(encoding, "replace").decode(encoding)
            file.write(f"{text.rstrip()}\n")
            file.flush()


async def print_answer(keeper: Keeper, prompt: str) -> bool:
    """Have *prompt* worked on, and print what is told; tell whether all went well."""
    page = Page()
    teller, printer = Teller(page), Printer(page)
    well = True
    async with keeper.session.run(prompt) as run:
        async for event in run:
            teller.tell(event)
            printer.flush()
            if isinstance(event, AgentEnded):
                well = event.error is None
    return well
