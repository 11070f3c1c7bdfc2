"""What passed in an answer is kept whole, and little of it is held open."""

from __future__ import annotations

import zlib

import pytest

from penstock.gateway.redaction import LogRedactor
from penstock.gateway.request_log import MAX_BLOCK, MIN_BLOCK, SHARE, CompressedBuffer

PIECE = b'data: {"choices": [{"delta": {"content": "water"}}]}\n\n'


@pytest.mark.parametrize("pieces", [0, 1, 10, 100, 3_000])
def test_blocks_undone_one_by_one_are_what_came_in(pieces: int) -> None:
    spool = CompressedBuffer(LogRedactor())
    for _ in range(pieces):
        spool.add(PIECE)
    assert b"".join(zlib.decompress(block) for block in spool.blocks()) == PIECE * pieces
    assert spool.size == len(PIECE) * pieces


def test_blocks_grow_with_the_answer_up_to_a_limit() -> None:
    spool = CompressedBuffer(LogRedactor())
    for _ in range(3_000):
        spool.add(PIECE)
    *sizes, _ = (len(zlib.decompress(block)) for block in spool.blocks())
    assert sizes == sorted(sizes)
    assert sizes[0] < MIN_BLOCK + len(PIECE)
    assert MAX_BLOCK <= sizes[-1] < MAX_BLOCK + len(PIECE)
    passed = 0
    for size in sizes:
        assert size <= max(MIN_BLOCK, (passed + size) // SHARE) + len(PIECE)
        passed += size
