"""Calls that are spelled out, ``call:NAME{k:v,…}``, with marks around the call and its strings.

The header follows the start marker at once, so a call is soon known to be one. The arguments are
read as they arrive (`delimited_arguments`); behind their closing brace the call stands, whether its
end marker follows or not. A name without arguments is a call only if the end marker follows.

Text that ends inside a call is all text: where a string is open, what looks like another call may
be a part of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.errors import JSONParseError, ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import NoCallError, Run, Verdict
from penstock.parsing.bodies.delimited_arguments import ArgumentsReader
from penstock.parsing.bodies.delimited_values import Delimiters
from penstock.parsing.bodies.turn_ends import without_turn_end
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.scanner import Scanner
from penstock.values import rjson
from penstock.values.schema import Schema

MAX_BLANK: Final = 256
"""How much white space may stand around the name, and between a call and its end marker."""

MAX_NAME: Final = 256
"""How many characters a name may have."""

_SPACE: Final = rf"\s{{0,{MAX_BLANK}}}+"
_HEADER: Final = re.compile(rf"{_SPACE}call:{_SPACE}(\w[\w.:-]{{0,{MAX_NAME - 1}}}+){_SPACE}")
_HALF_HEADER: Final = re.compile(rf"{_SPACE}(?:c|ca|cal|call|call:{_SPACE})?")
_SURPLUS: Final = re.compile(rf"{_SPACE}[}}\]]")
_BLANK: Final = re.compile(_SPACE)


class DelimitedReader:
    """Reads one call whose start marker has come."""

    def __init__(self, marks: Delimiters) -> None:
        self.error: str | ParseError = ""
        self.end = marks.end
        self._marks = marks
        self._arguments: ArgumentsReader | None = None  # none before the header was read
        self._closed = False  # the call is: its end marker follows
        self._schemas: Mapping[str, Schema] = {}

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if self._arguments is None:
            verdict = self._read_header(scanner, calls)
            if verdict is not None:
                return verdict
        if not self._closed:
            verdict = self._read_arguments(scanner, calls)
            if verdict is not None:
                return verdict
        return self._read_behind(scanner)

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: a call that is closed stands without its end marker."""
        del calls
        if self._closed:
            scanner.at = len(scanner.text)  # the piece of a cut marker is no content
            return Verdict.DONE
        if self._arguments is not None:
            self._arguments.flush(scanner)
        scanner.at = len(scanner.text)
        self.error = "the call was cut"
        return Verdict.TEXT

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        return self._arguments.run() if self._arguments is not None else None

    # --- the parts of a call ---

    def _read_header(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Read up to the brace that opens the arguments; None tells to go on."""
        text, at = scanner.text, scanner.at
        self._schemas = calls.schemas
        header = _HEADER.match(text, at)
        if header is None:
            if _HALF_HEADER.fullmatch(text, at):
                return Verdict.MORE
            self.error = "no `call:` and name behind the start marker"
            return Verdict.BROKEN
        at = header.end()
        window = text[at : at + len(self.end)]
        if window.startswith("{"):
            scanner.at = at + 1
            self._arguments = ArgumentsReader(self._marks, calls.open(header[1]))
            return None
        if window == self.end:
            scanner.at = at + len(self.end)
            calls.open(header[1])
            calls.close()
            return Verdict.DONE
        if self.end.startswith(window):
            return Verdict.MORE
        self.error = "a name that is none, or no arguments behind it"
        return Verdict.BROKEN

    def _read_arguments(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Read up to the brace that closes the arguments, and close the call."""
        arguments = self._arguments
        assert arguments is not None  # noqa: S101 - the header has come
        try:
            while not arguments.ended:
                if not arguments.step(scanner):
                    return Verdict.MORE
        except NoCallError as exc:
            self.error = str(exc)
            return Verdict.BROKEN
        calls.close()
        self._closed = True
        return None

    def _read_behind(self, scanner: Scanner) -> Verdict:
        """Look for the end marker; brackets that models write too many are dropped."""
        text = scanner.text
        while surplus := _SURPLUS.match(text, scanner.at):
            scanner.at = surplus.end()
        blank = _BLANK.match(text, scanner.at)
        at = blank.end() if blank else scanner.at
        window = text[at : at + len(self.end)]
        if window == self.end:
            scanner.at = at + len(self.end)
            return Verdict.DONE
        return Verdict.MORE if self.end.startswith(window) else Verdict.STANDS

    # --- mending ---

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now."""
        return self._arguments.open_text() if self._arguments is not None else None

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make a call of *text*: close what is open, or mend the JSON that was written instead."""
        text = without_turn_end(text)
        header = _HEADER.match(text)
        if header is None:
            return []
        name, inside = header[1], text[header.end() :]
        try:
            return [Mended(name, self._close(name, inside), ["closed the call"])]
        except NoCallError:
            return [] if ended else self._mend_json(name, inside)

    def _close(self, name: str, inside: str) -> dict[str, Any]:
        """Give the arguments of a call that is lawful as far as it goes."""
        writer = ArgumentWriter(self._schemas.get(name), _forget)
        if not inside:
            return writer.arguments
        if not inside.startswith("{"):
            raise NoCallError("no arguments")
        arguments = ArgumentsReader(self._marks, writer)
        scanner = Scanner()
        scanner.push(inside[1:])
        while not arguments.ended and arguments.step(scanner):
            pass
        arguments.close(scanner)
        return writer.arguments

    def _mend_json(self, name: str, inside: str) -> list[Mended]:
        """Mend arguments without any mark.

        With marks it is certain where strings end, and mending that guesses at quotes would join
        what they part.
        """
        if self._marks.quote in inside or not inside.startswith("{"):
            return []
        try:
            arguments, repairs = rjson.repair(inside)
        except JSONParseError:
            return []
        return [Mended(name, arguments, repairs)] if isinstance(arguments, dict) else []


def _forget(piece: str) -> None:
    del piece
