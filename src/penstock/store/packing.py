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

KINDS: Final = tuple(
    name for name in RequestDetail.__struct_fields__ if name not in ("row", "text", "notes")
)
"""The kinds of bodies: named as in `RequestDetail`."""

Body = tuple[str, str, bytes]
"""Kind, coding, data."""


def bodies_of(record: RequestStarted | RequestEnded) -> Iterator[Body]:
    """Give the bodies that *record* has."""
    for kind in KINDS:
        body = getattr(record, kind, b"")
        if not body:
            continue
        if isinstance(body, list):
            yield kind, ZLIB, b"".join(body)
        elif len(body) < MIN_PACKED:
            yield kind, "", bytes(body)
        else:
            # Level 1 halves the time of the default and comes within a tenth of its size.
            yield kind, ZLIB, zlib.compress(body, 1)


def unpack(coding: str, data: bytes) -> bytes:
    """Give a body back as it was; of broken zlib, what can be read."""
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
