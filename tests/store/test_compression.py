"""Bodies come back as they were, and no few bytes become too many."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable

import pytest

from penstock.store import tables
from penstock.store.tables import ZLIB, compress, encode_bodies, unpack
from store.databases import ended, started


@pytest.mark.parametrize("size", [1, 1023, 1024, 100_000])
def test_a_body_comes_back_whatever_its_size(size: int) -> None:
    body = os.urandom(size)
    ((kind, coding, data),) = encode_bodies(started(1, request=body))
    assert kind == "request"
    assert unpack(coding, data) == body


def test_blocks_come_back_joined() -> None:
    blocks = [zlib.compress(piece) for piece in (b"one ", b"", b"two")]
    ((kind, coding, data),) = encode_bodies(ended(1, raw=blocks))
    assert (kind, unpack(coding, data)) == ("raw", b"one two")


def test_of_a_cut_block_the_beginning_comes_back() -> None:
    data = zlib.compress(b"whole ") + zlib.compress(os.urandom(1000))[:500]
    assert unpack(ZLIB, data).startswith(b"whole ")
    assert unpack(ZLIB, zlib.compress(b"whole") + b"garbage") == b"whole"


def test_unpacking_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_UNPACKED", 1000)
    bomb = zlib.compress(b"x" * 10_000_000)
    assert len(unpack(ZLIB, bomb)) == 1000
    assert len(unpack(ZLIB, zlib.compress(b"x" * 600) * 5)) == 1000


@pytest.mark.parametrize("size", [0, 1, 256, 512, 513, 4_096, 4_097, 32_768, 100_000])
@pytest.mark.parametrize("make", [os.urandom, lambda size: b"as before " * (size // 10)])
def test_what_is_squeezed_comes_back_whatever_its_window(
    size: int, make: Callable[[int], bytes]
) -> None:
    data = make(size)
    assert zlib.decompress(compress(data)) == data
