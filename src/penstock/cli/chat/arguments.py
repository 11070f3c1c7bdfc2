"""The arguments of a call, shown while the model still writes them.

What a value says is shown decoded: a file that is being written is seen being written, line by
line, and not the JSON that it comes in. Short values stand behind the name of the tool; long ones,
and those that are known to be texts, are a block of their own.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.cli.chat.page import Page
from penstock.messages import ToolCall
from penstock.values import IncrementalJSON
from penstock.values.incremental_state import Change

SHORT: Final = 60
"""How long a value may be to stand behind the name of the tool."""

MAX_VALUE: Final = 300
"""How much is shown of a value that is no text: a list, an object."""


class Block(Struct, frozen=True):
    """How the lines of a long text look."""

    lead: str
    style: str = ""


BLOCKS: Final = {
    "content": Block("  │ "),
    "command": Block("  $ "),
    "diff": Block("  │ "),
    "patch": Block("  │ "),
    "old": Block("  - ", "red"),
    "new": Block("  + ", "green"),
}
"""The arguments that are texts, and how they look; any other that gets long looks like a file."""

_USUAL: Final = Block("  │ ")


class CallView:
    """Shows one call on *page*, from its name to its last argument."""

    def __init__(self, page: Page, name: str) -> None:
        self._page = page
        self._reader = IncrementalJSON(recover=True)
        self._held: list[str] = []  # of a text that may turn out to be short
        self._length = 0
        self._block: str | None = None  # the argument whose block is open
        self._heads = True  # the line with the tool's name is still open
        self._is_told = False
        page.begin("● ", "cyan", aside=True)
        page.add(name, "bold")

    def add(self, piece: str) -> None:
        """Take one more piece of the arguments' JSON."""
        self._is_told = True
        for change in self._reader.feed(piece):
            self._show(change)

    def close(self, call: ToolCall) -> None:
        """End the call; say so if it was cut off, or was mended into something else."""
        if not self._is_told and call.arguments:  # nobody was told while it came
            self.add(_json.encode(call.arguments).decode())
        self._leave_block()
        self._page.end()
        if not call.complete:
            self._page.line("the call was cut off", "yellow", "  ! ")
        elif call.arguments and self._reader.value != call.arguments:
            mended = _short(_json.encode(call.arguments).decode())
            self._page.line(f"read as {mended}", "dim", "  ")

    def _show(self, change: Change) -> None:
        match change.path:
            case (str() as name,):
                self._show_argument(name, change)

    def _show_argument(self, name: str, change: Change) -> None:
        if change.kind == "string":
            self._text(name, change.text)
        elif change.kind == "value" and isinstance(change.value, str):
            self._end_text(name)
        elif change.kind in ("value", "end"):
            self._short_value(name, change.value)

    # --- texts ---

    def _text(self, name: str, text: str) -> None:
        if self._block == name:
            self._page.add(text, _look(name).style)
            return
        self._held.append(text)
        self._length += len(text)
        if name in BLOCKS or self._length > SHORT or "\n" in text:
            self._open_block(name)

    def _open_block(self, name: str) -> None:
        look = _look(name)
        self._leave_block()
        self._heads = False
        if name not in BLOCKS:
            self._page.line(f"{name}:", "dim", "  ")
        self._page.begin(look.lead, look.style or "dim", aside=True)
        self._block = name
        self._page.add(self._take_held(), look.style)

    def _end_text(self, name: str) -> None:
        if self._block == name:
            self._leave_block()
        else:
            self._short_value(name, self._take_held())

    def _leave_block(self) -> None:
        if self._block is not None:
            self._page.end()
        self._block = None

    def _take_held(self) -> str:
        text = "".join(self._held)
        self._held.clear()
        self._length = 0
        return text

    # --- the rest ---

    def _short_value(self, name: str, value: Any) -> None:
        text = value if isinstance(value, str) else _json.encode(value).decode()
        told = text if name == "path" else f"{name}={_short(text)}"
        if self._heads:
            self._page.add(f" {told}")
        else:
            self._page.line(told, "dim", "  ")


def _look(name: str) -> Block:
    return BLOCKS.get(name, _USUAL)


def _short(text: str) -> str:
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"
