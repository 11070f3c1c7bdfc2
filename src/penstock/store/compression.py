"""Bodies as they lie in the database: small ones as they are, larger ones as zlib.

The raw stream and the events come as blocks of zlib already, each whole in itself. Joined, they are
still readable: one stream of zlib after the other.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from penstock.store.records import RequestDetail, RequestEnded, RequestStarted

MIN_PACKED: Final = 1_024
"""From how many bytes on a body is compressed: below, little is won."""

MAX_UNPACKED: Final = 256 << 20
"""How many bytes of a body are unpacked: a few bytes of zlib can stand for gigabytes."""

ZLIB: Final = "zlib"

_LEAST_WINDOW: Final = 9  # in bits, by the rules of zlib
_LEAN: Final = 6  # by how much the memory beside a window is smaller than it, as zlib counts both

KINDS: Final = tuple(
    name for name in RequestDetail.__struct_fields__ if name not in ("row", "text", "notes")
)
"""The kinds of bodies: named as in `RequestDetail`."""

Body = tuple[str, str, bytes]
"""Kind, coding, data."""


def bodies_of(record: RequestStarted | RequestEnded) -> Iterator[Body]:
    """Yield the bodies that *record* has."""
    for kind in KINDS:
        body = getattr(record, kind, b"")
        if not body:
            continue
        if isinstance(body, list):
            yield kind, ZLIB, b"".join(body)
        elif len(body) < MIN_PACKED:
            yield kind, "", bytes(body)
        else:
            yield kind, ZLIB, squeeze(body)


def squeeze(data: bytes) -> bytes:
    """Return *data* as zlib, through a window no larger than itself.

    The usual one is 256 kB of memory, which in a busy process takes longer to get than a small body
    takes to be squeezed. Level 1 halves the time of the default and comes within a tenth of its
    size.
    """
    window = min(max((len(data) - 1).bit_length(), _LEAST_WINDOW), zlib.MAX_WBITS)
    squeezer = zlib.compressobj(1, zlib.DEFLATED, window, min(window - _LEAN, zlib.DEF_MEM_LEVEL))
    return squeezer.compress(data) + squeezer.flush()


def unpack(coding: str, data: bytes) -> bytes:
    """Return a body back as it was; of broken zlib, what can be read."""
    if coding != ZLIB:
        return data
    parts: list[bytes] = []
    room = MAX_UNPACKED
    while data and room > 0:
        block = zlib.decompressobj()
        try:
            part = block.decompress(data, room)
        except zlib.error:
            break
        parts.append(part)
        room -= len(part)
        data = block.unused_data
    return b"".join(parts)
