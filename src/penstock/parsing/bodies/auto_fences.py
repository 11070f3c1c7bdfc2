"""Bare calls where every fence counts: the one that begins an item of a list, too."""

from __future__ import annotations

from penstock.parsing.bodies.bare_calls import BareCallReader, BareCalls
from penstock.parsing.bodies.bare_fences import FENCE, begins_item
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner


class ListedCalls(BareCalls):
    """The syntax of bare calls, for one answer with lists in it."""

    def body(self, marker: str) -> BareCallReader:
        """Give a fresh reader for what follows *marker*."""
        return ListedCallReader(marker, self.fences)


class ListedCallReader(BareCallReader):
    """Reads what a bracket or a fence begins, with the mark of an item before it or not."""

    def _stands_first(self, scanner: Scanner, calls: Calls) -> bool:
        if super()._stands_first(scanner, calls):
            return True
        if self._marker != FENCE or self._fences.ticks:  # Only blanks may stand before its end.
            return False
        before = scanner.read_since_call()[: -len(self._marker)]  # what `trim` took along
        return begins_item(calls.line() + before)
