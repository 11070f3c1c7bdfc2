"""Calls with the name outside and JSON inside: one reader, several dialects.

A `Dialect` says how the markers look, as data. `NamedCallReader` reads a section of calls or a call
by itself, `HeadReader` what names the tool; the arguments are read by the reader of any JSON object
whose tool is known. `CodeReader` reads the one call that is no JSON at all, and `EndReader` the end
markers that come late.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from penstock.parsing.bodies.base import Body
from penstock.parsing.bodies.named_calls import NamedCallReader
from penstock.parsing.bodies.named_code import CodeReader
from penstock.parsing.bodies.named_ends import EndReader, OwedEnds
from penstock.parsing.bodies.named_heads import Dialect

__all__ = ["Dialect", "NamedCallReader", "NamedSyntax"]


class NamedSyntax:
    """The syntax of one answer in *dialect*: its readers tell each other which ends are owed."""

    folds = False

    def __init__(self, dialect: Dialect) -> None:
        self.starts = (*dialect.openers, *dialect.closers)
        self._dialect = dialect
        self._owed = OwedEnds(dialect)
        self._numbers = count(1)

    @property
    def new_id(self) -> Callable[[], str] | None:
        """What gives an id to a call that brings none; None where any will do."""
        shown = self._dialect.new_id
        return (lambda: shown.format(next(self._numbers))) if shown else None

    def body(self, marker: str) -> Body:
        """Give a fresh reader for what follows *marker*."""
        if marker in self._dialect.closers:
            return EndReader(marker, self._owed)
        if marker == self._dialect.code:
            return CodeReader()
        return NamedCallReader(self._dialect, marker, self._owed)
