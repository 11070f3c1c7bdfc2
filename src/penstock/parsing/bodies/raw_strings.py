"""A string field in raw text, written as it comes, its entities decoded where it was escaped.

Only its end tells whether a string was escaped: one that holds a ``<`` was not. So from its first
entity on a string waits, until a ``<`` or its end comes; behind a ``<`` nothing waits.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from typing import Final

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import Run, Translated
from penstock.parsing.scanner import Markers
from penstock.values.coercion.entities import decode_entities, find_entity

_PLAIN: Final = re.compile(r'[<&"\\\x00-\x1f]')
_PLAIN_BEHIND_MARKUP: Final = re.compile(r'[<"\\\x00-\x1f]')
"""What is not plain: it may end or change the string, or strict JSON escapes it."""


class RawString:
    """Writes the open string of *writer*; with *trims* it loses one newline at either end.

    All of the raw text goes to *pieces*, behind what is there. *tags* may end the string.
    """

    __slots__ = ("_begun", "_held", "_markup", "_newline", "_pieces", "_start", "_tags", "_trims",
                 "_waiting", "_writer")  # fmt: skip

    def __init__(
        self, tags: Markers, writer: ArgumentWriter, pieces: list[str], *, trims: bool
    ) -> None:
        self._tags = tags
        self._writer = writer
        self._pieces = pieces
        self._start = len(pieces)
        self._trims = trims
        self._begun = not trims  # nothing at the beginning is dropped any more
        self._newline = ""  # the last one: a closing tag may follow
        self._held = ""  # what may become an entity
        self._waiting: list[str] = []  # from the first entity on
        self._markup = False

    def run(self) -> Run | None:
        """Give the string as a run, unless any of it waits."""
        if self._waiting or self._held or self._newline or not self._begun:
            return None
        plain = _PLAIN_BEHIND_MARKUP if self._markup else _PLAIN
        return Run(plain, self._pieces, self._translate)

    def add(self, piece: str) -> None:
        """Take more of the raw text."""
        self._pieces.append(piece)
        if not self._begun:
            self._begun = True
            piece = piece.removeprefix("\n")
        if self._markup:
            self._write(piece)
        elif "<" in piece:
            self._markup = True
            piece = "".join((*self._waiting, self._held, piece))
            self._waiting, self._held = [], ""
            self._write(piece)
        elif self._waiting:
            self._waiting.append(piece)
        elif self._held or "&" in piece:
            self._write_up_to_entity(self._held + piece)
        else:
            self._write(piece)

    def close(self) -> None:
        """End the string: its closing tag follows."""
        self._writer.close_text(self.finish(at_tag=True))

    def finish(self, *, at_tag: bool) -> str:
        """Write what has waited, for no more of the string will come; give all that it says.

        *at_tag* tells that a tag follows, and a newline before it may be trimmed.
        """
        rest, raw = self._rest(), self._raw()
        if at_tag and self._trims:
            rest, raw = rest.removesuffix("\n"), raw.removesuffix("\n")
        if rest:
            self._writer.add_text(rest if self._markup else decode_entities(rest))
        return decode_entities(raw)

    def gone_out(self) -> str:
        """Give what the string says as far as it was written: what waits is not part of it."""
        raw = self._raw()
        return raw[: len(raw) - len(self._rest())]

    def _rest(self) -> str:
        """Give what was taken and not written yet."""
        return self._newline + "".join(self._waiting) + self._held

    def _raw(self) -> str:
        raw = "".join(self._pieces[self._start :])
        return raw.removeprefix("\n") if self._trims else raw

    def _translate(self, text: str) -> Translated | None:
        """Read a piece that holds no tag of the string's own name, and nothing that may wait."""
        size = len(text)
        if not self._markup:
            if "<" in text or "&" in text:
                return None
        elif "<" in text:
            if self._tags.find(text) is not None:
                return None
            size = self._tags.find_held(text)
        if self._trims and text[size - 1 : size] == "\n":
            size -= 1
        text = text[:size]
        return text, encode_basestring(text)[1:-1], size

    def _write_up_to_entity(self, text: str) -> None:
        at, is_whole = find_entity(text)
        self._write(text[:at])
        if is_whole:
            self._waiting, self._held = [text[at:]], ""
        else:
            self._held = text[at:]

    def _write(self, text: str) -> None:
        if self._trims:
            text = self._newline + text
            self._newline = "\n" if text.endswith("\n") else ""
            text = text.removesuffix("\n")
        if text:
            self._writer.add_text(text)
