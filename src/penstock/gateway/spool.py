"""What passed in one answer, kept small while it passes.

A gateway with hundreds of streams open cannot hold the text of all of them. So what is to be logged
is squeezed block by block as it comes: each block can be undone alone, and what waits for the next
one is never more than a block. Secrets are hidden first; the end of a block waits for the next one
where a secret may begin in it.

Blocks grow with the answer. Small ones hold little open, but are squeezed less; so a short answer
is held in small ones, and of a long one the last block is still a small part.
"""

from __future__ import annotations

from typing import Final

from penstock.gateway.secrecy import Secrets
from penstock.store.packing import squeeze

MIN_BLOCK: Final = 1_024
"""How many bytes are squeezed at a time, at least: enough to find repetitions in."""

MAX_BLOCK: Final = 8_192
"""And at most: twice as many would save another tenth of what is kept."""

SHARE: Final = 4
"""What part of an answer its open block may be: one in so many."""

MAX_KEPT: Final = 16 * 1024 * 1024
"""How many bytes of one answer are kept, before they are squeezed: the longest real ones."""


MAX_PIECE: Final = 4 * 1024 * 1024
"""How many bytes may come at once to be kept: squeezing them takes some 30 ms."""


class Spool:
    """Takes bytes, gives squeezed blocks."""

    __slots__ = ("_blocks", "_open", "_secrets", "is_cut", "size")

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self.size = 0
        """How many bytes came in."""
        self.is_cut = False
        """Whether some of them were too many to keep."""
        self._blocks: list[bytes] = []
        self._open = bytearray()  # the pieces themselves would take far more than they hold

    def add(self, data: bytes) -> None:
        """Keep *data*, unless there is too much of it already."""
        self.size += len(data)
        if self.size > MAX_KEPT or len(data) > MAX_PIECE:
            self.is_cut = True
            return
        self._open += data
        block = min(max(self.size // SHARE, MIN_BLOCK), MAX_BLOCK)
        if len(self._open) >= block + self._secrets.overlap:
            self._squeeze(self._secrets.overlap)

    def blocks(self) -> list[bytes]:
        """Give what was kept, in blocks that each can be undone alone."""
        if self._open:
            self._squeeze(overlap=0)
        return self._blocks

    def _squeeze(self, overlap: int) -> None:
        data = self._secrets.body(bytes(self._open))
        end = max(0, len(data) - overlap)
        if end:
            self._blocks.append(squeeze(data[:end]))
        self._open = bytearray(data[end:])
