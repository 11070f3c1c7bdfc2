"""A program that is the whole call: raw text behind its marker, up to the end of the turn.

It is verbatim: nothing in it is markup but the token that ends the turn, and that is no part of it.
``</s>`` is such a token only as the last thing of the answer; elsewhere it is HTML.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from typing import Final

from penstock.errors import ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import Run, Translated, Verdict
from penstock.parsing.bodies.named_heads import skip_blank
from penstock.parsing.bodies.turn_ends import LAST_TURN_END, TURN_ENDS
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner, markers

TOOL: Final = "python"
"""The tool that runs programs."""

CODE: Final = "code"
"""The argument of it that is the program."""

_ENDS: Final = markers(*TURN_ENDS, LAST_TURN_END)
_SPECIAL: Final = re.compile(r'[<"\\\x00-\x1f]')


class CodeReader:
    """Reads a program and calls `TOOL` with it."""

    def __init__(self) -> None:
        self.error: str | ParseError = "no program behind its marker"
        self.end = ""
        self._writer: ArgumentWriter | None = None
        self._streams = False
        self._pieces: list[str] = []

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if self._writer is None:
            text, at = scanner.text, skip_blank(scanner.text, scanner.at)
            if at == len(text) or _ENDS.find_held(text, at) == at or _is_last(text, at):
                return Verdict.MORE
            if text.startswith(TURN_ENDS, at):
                return Verdict.BROKEN
            self._begin(calls)
        return self._read_code(scanner, calls)

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended, and the turn with it."""
        if self._writer is None:
            if scanner.unread.strip() in ("", LAST_TURN_END):
                return Verdict.BROKEN
            self._begin(calls)
        if not scanner.text.startswith(LAST_TURN_END, scanner.at):
            self._add(scanner, len(scanner.text))
        return self._close(calls)

    def run(self) -> Run | None:
        """Give the program as a run."""
        return Run(_SPECIAL, self._pieces, _translate) if self._streams else None

    def _begin(self, calls: Calls) -> None:
        self._writer = calls.open(TOOL)
        self._streams = self._writer.streams(CODE)
        if self._streams:
            self._writer.open_text(CODE)

    def _read_code(self, scanner: Scanner, calls: Calls) -> Verdict:
        text = scanner.text
        while found := _ENDS.find(text, scanner.at):
            self._add(scanner, found.start())
            if found[0] != LAST_TURN_END:
                return self._close(calls)
            if _is_last(text, found.start()):
                return Verdict.MORE
            self._add(scanner, found.end())
        self._add(scanner, _ENDS.find_held(text, scanner.at))
        return Verdict.MORE

    def _add(self, scanner: Scanner, end: int) -> None:
        """Take the text up to *end* as part of the program."""
        assert self._writer is not None  # noqa: S101 - the program has begun
        piece = scanner.text[scanner.at : end]
        if not piece:
            return
        scanner.at = end
        self._pieces.append(piece)
        if self._streams:
            self._writer.add_text(piece)

    def _close(self, calls: Calls) -> Verdict:
        assert self._writer is not None  # noqa: S101 - the program has begun
        code = "".join(self._pieces)
        if self._streams:
            self._writer.close_text(code)
        else:
            self._writer.put(CODE, code)
        self._streams = False
        calls.close()
        return Verdict.DONE


def _is_last(text: str, at: int) -> bool:
    """Tell whether the token that ends an answer stands at *at*, and nothing behind it so far."""
    end = at + len(LAST_TURN_END)
    return text.startswith(LAST_TURN_END, at) and skip_blank(text, end) == len(text)


def _translate(text: str) -> Translated | None:
    """Read a piece without any token that ends a turn; what may begin one is left."""
    if _ENDS.find(text) is not None:
        return None
    text = text[: _ENDS.find_held(text)]
    return text, encode_basestring(text)[1:-1], len(text)
