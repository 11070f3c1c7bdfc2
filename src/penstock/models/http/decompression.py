"""Compressed bodies, unpacked a piece at a time.

A server may send a body whose 260 kB unpack to 280 MB. aiohttp's own decompression is bounded only
in some of its versions, so it is off, and bodies are unpacked here: `feed` takes what came over the
wire, `take` gives a bounded piece of what it unpacks to, and a body that unpacks to far more than a
response can is refused.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from typing import Any, Final

from penstock.models.http.transport import UnreadableError

try:
    import brotli
except ImportError:  # pragma: no cover - it comes with the extra `client`
    brotli = None

MAX_RATIO: Final = 400
"""How many times its size a body may have when it is unpacked.

Frames of a stream that differ in one word only pack about 100 to 1. Deflate ends at 1,032 to 1,
brotli has no end."""

MIN_BOMB: Final = 4 * 1024 * 1024
"""From how many unpacked bytes on the ratio counts: less is no harm, whatever it came from."""

ACCEPT_ENCODING: Final = "gzip, deflate" if brotli is None else "gzip, deflate, br"
"""What servers are told that can be unpacked."""


class Decompressor(ABC):
    """Unpacks one body: `feed` it, then `take` until nothing comes, then `feed` again."""

    def __init__(self) -> None:
        self._packed = 0
        self._unpacked = 0

    def feed(self, data: bytes) -> None:
        """Take more bytes of the wire; all that the last ones gave has been taken."""
        self._packed += len(data)
        self._add(data)

    def take(self, limit: int) -> bytes:
        """Give the next bytes of the body, about *limit* of them at most; none if it needs more.

        Raises `UnreadableError` for what cannot be unpacked, or unpacks to too much.
        """
        try:
            data = self._take(limit)
        except _ERRORS as exc:
            raise UnreadableError("the compression of the body cannot be undone") from exc
        self._unpacked += len(data)
        if self._unpacked > MIN_BOMB and self._unpacked > MAX_RATIO * self._packed:
            raise UnreadableError(
                f"the body unpacks to more than {MAX_RATIO} times its {self._packed} bytes"
            )
        return data

    @abstractmethod
    def _add(self, data: bytes) -> None:
        """Take more bytes of the wire."""

    @abstractmethod
    def _take(self, limit: int) -> bytes:
        """Give the next bytes of the body."""


class ZlibDecompressor(Decompressor):
    """Unpacks gzip, in one member or several, and deflate, with zlib's header or without."""

    def __init__(self, *, is_gzip: bool) -> None:
        super().__init__()
        self._wbits = zlib.MAX_WBITS + (16 if is_gzip else 0)
        self._is_gzip = is_gzip
        self._object: Any = None
        self._waiting = b""

    def _add(self, data: bytes) -> None:
        self._waiting += data

    def _take(self, limit: int) -> bytes:
        while self._waiting:
            if self._object is None:
                if not self._is_gzip and self._waiting[0] & 0x0F != zlib.DEFLATED:
                    self._wbits = -zlib.MAX_WBITS  # Some servers leave the header out.
                self._object = zlib.decompressobj(self._wbits)
            elif self._object.eof:  # Another member of gzip; behind deflate there is nothing.
                if not self._is_gzip:
                    self._waiting = b""
                    break
                self._object = zlib.decompressobj(self._wbits)
            data: bytes = self._object.decompress(self._waiting, limit)
            self._waiting = self._object.unused_data or self._object.unconsumed_tail
            if data:
                return data
        # What was held back inside zlib when its output was full.
        return b"" if self._object is None else self._object.decompress(b"", limit)


class BrotliDecompressor(Decompressor):
    """Unpacks brotli, which gives no less than 32 kB at a time where it has so much."""

    def __init__(self) -> None:
        super().__init__()
        self._object: Any = brotli.Decompressor()
        self._waiting = b""

    def _add(self, data: bytes) -> None:
        self._waiting += data

    def _take(self, limit: int) -> bytes:
        data, self._waiting = self._waiting, b""
        if self._object.is_finished():  # What comes behind the end is nothing.
            return b""
        return self._object.process(data, output_buffer_limit=limit)  # type: ignore[no-any-return]


def decompressor_for(encoding: str) -> Decompressor | None:
    """Make what unpacks a body of the content encoding *encoding*; None where nothing is packed.

    Raises `UnreadableError` for an encoding that is known and cannot be undone. A word that names
    no encoding (`utf-8` has been seen) means nothing.
    """
    match encoding.strip().lower():
        case "gzip" | "x-gzip":
            return ZlibDecompressor(is_gzip=True)
        case "deflate":
            return ZlibDecompressor(is_gzip=False)
        case "br" if brotli is not None:
            return BrotliDecompressor()
        case "br" | "zstd" | "compress" | "x-compress" as name:
            raise UnreadableError(f"the body is packed with {name}, which cannot be undone here")
    return None


_ERRORS: Final[tuple[type[Exception], ...]] = (
    (zlib.error,) if brotli is None else (zlib.error, brotli.error)
)
