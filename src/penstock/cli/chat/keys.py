"""Keys out of the bytes that a terminal sends.

Bytes come in pieces that may end anywhere: in a character, in a sequence, in what is being pasted.
A sequence that means nothing here is passed over.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from msgspec import Struct

MAX_PASTE: Final = 1_000_000
"""How many characters are taken of what is pasted at once: more than a model can be shown."""

_PASTE_START: Final = "\x1b[200~"
_PASTE_END: Final = "\x1b[201~"
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~]|[^\[O\x1b])", re.DOTALL)
_MAX_SEQUENCE: Final = 32

_CONTROLS: Final = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x01": "home",
    "\x02": "left",
    "\x03": "interrupt",
    "\x04": "end-of-input",
    "\x05": "end",
    "\x06": "right",
    "\x0b": "kill-end",
    "\x0c": "redraw",
    "\x0e": "down",
    "\x10": "up",
    "\x15": "kill-start",
    "\x17": "kill-word",
    "\x1a": "suspend",
}
_SEQUENCES: Final = {
    **{f"\x1b{lead}{key}": name for lead in "[O" for key, name in zip("ABCDHF", (
        "up", "down", "right", "left", "home", "end"), strict=True)},
    "\x1b[1~": "home",
    "\x1b[7~": "home",
    "\x1b[4~": "end",
    "\x1b[8~": "end",
    "\x1b[3~": "delete",
    "\x1b\r": "newline",
    "\x1b\n": "newline",
    "\x1b[13;2u": "newline",
    "\x1b[1;5D": "word-left",
    "\x1b[1;3D": "word-left",
    "\x1bb": "word-left",
    "\x1b[1;5C": "word-right",
    "\x1b[1;3C": "word-right",
    "\x1bf": "word-right",
    "\x1b\x7f": "kill-word",
}  # fmt: skip


class Typed(Struct, frozen=True):
    """Text that was typed or pasted."""

    text: str


class Pressed(Struct, frozen=True):
    """A key that has a name, such as ``enter``."""

    name: str


Key = Typed | Pressed
"""What can come from a keyboard."""


class KeyReader:
    """Reads keys; what is not whole yet waits."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._paste: list[str] | None = None

    @property
    def waits(self) -> bool:
        """Whether something may be half a sequence, or the key Escape."""
        return bool(self._held) and self._paste is None

    def feed(self, data: bytes) -> list[Key]:
        """Give the keys that *data* completes."""
        text = self._held + self._decoder.decode(data)
        self._held = ""
        keys: list[Key] = []
        while text:
            text = self._pasted(text, keys) if self._paste is not None else self._read(text, keys)
        return keys

    def flush(self) -> None:
        """Say that nothing follows for now: what waits was the key Escape, which does nothing."""
        if self._paste is None:
            self._held = ""

    def _read(self, text: str, keys: list[Key]) -> str:
        """Take one key, or as much plain text as there is; give what is left."""
        if text[0] == "\x1b":
            return self._sequence(text, keys)
        if name := _CONTROLS.get(text[0]):
            keys.append(Pressed(name))
            return text[1:]
        end = next((at for at, one in enumerate(text) if one < " " or one == "\x7f"), len(text))
        if end:
            keys.append(Typed(text[:end]))
        elif text[0] == "\t":
            keys.append(Typed("\t"))
        return text[max(1, end) :]

    def _sequence(self, text: str, keys: list[Key]) -> str:
        found = _SEQUENCE.match(text)
        if found is None:
            if len(text) > _MAX_SEQUENCE or text.startswith("\x1b\x1b"):
                return text[1:]
            self._held = text
            return ""
        if found[0] == _PASTE_START:
            self._paste = []
        elif name := _SEQUENCES.get(found[0]):
            keys.append(Pressed(name))
        return text[found.end() :]

    def _pasted(self, text: str, keys: list[Key]) -> str:
        assert self._paste is not None  # noqa: S101 - asked for only while something is pasted
        inside, found, rest = text.partition(_PASTE_END)
        if not found:
            safe = max(0, len(text) - len(_PASTE_END) + 1)
            self._held = text[safe:]
            if sum(map(len, self._paste)) < MAX_PASTE:
                self._paste.append(text[:safe])
            return ""
        pasted = "".join([*self._paste, inside])[:MAX_PASTE]
        self._paste = None
        keys.append(Typed(pasted.replace("\r\n", "\n").replace("\r", "\n")))
        return rest
