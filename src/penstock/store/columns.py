"""How values are stored: cleaned so that no record is rejected for its content, or compressed.

PostgreSQL accepts no NUL in text, and neither database accepts lone surrogates or integers of more
than 64 bits; models and clients send all of them. Each column has a function that cleans its
values, by its type; none raises. NULs and lone surrogates become U+FFFD in both databases.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Column, Double, LargeBinary, String

from penstock import _json
from penstock.errors import PenstockError
from penstock.store.records import RequestDetail, RequestEnded, RequestStarted
from penstock.store.tables import KEY, MAX_KEY

Cleaner = Callable[[Any], object]

MAX_INTEGER: Final = 2**63 - 1
"""The largest integer in both databases."""


def clean_text(value: object, length: int | None = None) -> str:
    """Return *value* as text that a database accepts, truncated to *length* characters."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    if length is not None:
        text = text[:length]
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    text = _json.join_surrogates(text, lone="replace")
    return text if length is None else text[:length]


def clean_key(value: object) -> str:
    """Return *value* as a key; the end of one that is too long is replaced by a hash."""
    text = clean_text(value)
    if len(text) <= MAX_KEY:
        return text
    digest = sha256(text.encode()).hexdigest()
    return f"{text[: MAX_KEY - len(digest) - 1]}~{digest}"


def clean_json(value: object, empty: str) -> str:
    """Return *value* as JSON; *empty* if JSON cannot express it."""
    if not value:
        return empty
    try:
        return _json.encode_wire(value).decode()
    except (PenstockError, TypeError, ValueError, RecursionError):
        return empty


def _clean_integer(value: object) -> int:
    try:
        number: int = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return 0
    return max(-MAX_INTEGER, min(MAX_INTEGER, number))


def _clean_float(value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def _clean_bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else b""


def _cleaner_for(column: Column[Any]) -> Cleaner:
    kind = column.type
    if column.info == KEY:
        return clean_key
    if "empty" in column.info:
        return partial(clean_json, empty=column.info["empty"])
    if isinstance(kind, Boolean):
        return bool
    if isinstance(kind, LargeBinary):
        return _clean_bytes
    if isinstance(kind, String):
        return partial(clean_text, length=kind.length)
    number = _clean_integer if isinstance(kind, BigInteger) else _clean_float
    assert isinstance(kind, BigInteger | Double)  # noqa: S101 - a new type needs a function
    if column.nullable:
        return lambda value: None if value is None else number(value)
    return number


class Fields:
    """Makes rows for some columns of a table from records with attributes of the same names."""

    def __init__(self, columns: Iterable[Column[Any]]) -> None:
        self._cleaners = [(column.name, _cleaner_for(column)) for column in columns]
        self.names = [name for name, _ in self._cleaners]

    def make_row(self, record: object) -> dict[str, Any]:
        """Return the row for *record*."""
        return {name: clean(getattr(record, name)) for name, clean in self._cleaners}


# --- bodies ---

# Small bodies are stored as they are, larger ones compressed with zlib. The raw stream and the
# events arrive as complete zlib blocks. Joined, they can still be read: one zlib stream after the
# other.

MIN_PACKED: Final = 1_024
"""The smallest body that is compressed: below that, little is saved."""

MAX_UNPACKED: Final = 256 << 20
"""How many bytes of a body are decompressed: a few bytes of zlib may expand to gigabytes."""

ZLIB: Final = "zlib"

_MIN_WINDOW: Final = 9  # bits; the minimum of zlib
_MEM_LEVEL_BELOW: Final = 6  # the memLevel of zlib is this much below the window bits

KINDS: Final = tuple(
    name for name in RequestDetail.__struct_fields__ if name not in ("row", "text", "notes")
)
"""The kinds of bodies, named as in `RequestDetail`."""

_KINDS_OF: Final = {
    record: [kind for kind in KINDS if kind in record.__struct_fields__]
    for record in (RequestStarted, RequestEnded)
}

Body = tuple[str, str, bytes]
"""Kind, coding, data."""


def encode_bodies(record: RequestStarted | RequestEnded) -> Iterator[Body]:
    """Yield the bodies of *record*."""
    for kind in _KINDS_OF[type(record)]:
        body = getattr(record, kind)
        if not body:
            continue
        if isinstance(body, list):
            yield kind, ZLIB, b"".join(body)
        elif len(body) < MIN_PACKED:
            yield kind, "", bytes(body)
        else:
            yield kind, ZLIB, compress(body)


def compress(data: bytes) -> bytes:
    """Compress *data* with a window that is not larger than itself.

    The default window takes 256 kB of memory, and allocating it takes longer than compressing a
    small body. Level 1 takes half the time of the default and is within a tenth of its size.
    """
    window = min(max((len(data) - 1).bit_length(), _MIN_WINDOW), zlib.MAX_WBITS)
    compressor = zlib.compressobj(
        1, zlib.DEFLATED, window, min(window - _MEM_LEVEL_BELOW, zlib.DEF_MEM_LEVEL)
    )
    return compressor.compress(data) + compressor.flush()


def unpack(coding: str, data: bytes) -> bytes:
    """Return the original body; of damaged zlib data, what can be read."""
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
