"""Calls in JSON behind a marker that begins like JSON itself."""

from __future__ import annotations

from penstock.parsing.bodies.base import Verdict
from penstock.parsing.bodies.json_calls import JSONCallReader
from penstock.parsing.bodies.named_heads import OBJECT, is_begun, skip_blank
from penstock.parsing.scanner import Scanner


class NamedListReader(JSONCallReader):
    """Reads calls in JSON behind *marker*, which may come again and begins like a list."""

    def __init__(self, marker: str) -> None:
        super().__init__("")
        self._marker = marker

    def _read_behind(self, scanner: Scanner) -> Verdict | None:
        text, at = scanner.text, skip_blank(scanner.text, scanner.at)
        if text.startswith(self._marker, at):
            return Verdict.DONE
        if is_begun(text, at, self._marker):
            return Verdict.MORE
        if text.startswith("[", at):
            item = skip_blank(text, at + 1)
            if not text.startswith(OBJECT, item):  # a bracket of the text that follows
                return Verdict.MORE if item == len(text) else Verdict.DONE
        return super()._read_behind(scanner)
