"""Bounded decompression of response bodies.

A server may send a body whose 260 kB unpack to 280 MB. aiohttp's own decompression is bounded only
in some of its versions, so it is switched off and bodies are unpacked here: `feed` takes bytes from
the network, `take` returns a bounded chunk of the body, and a body that unpacks to far more than a
response can have is rejected.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from typing import Any, Final

from penstock.models.http.transport import UnreadableBodyError

try:
    import brotli
except ImportError:  # pragma: no cover - it comes with the extra `client`
    brotli = None

MAX_RATIO: Final = 400
"""The highest accepted compression ratio.

Frames of a stream that differ in one word only compress about 100 to 1. Deflate is limited to 1,032
to 1, brotli has no limit."""

MIN_BOMB: Final = 4 * 1024 * 1024
"""How many unpacked bytes are accepted at any ratio: fewer do no harm."""

ACCEPT_ENCODING: Final = "gzip, deflate" if brotli is None else "gzip, deflate, br"
"""The ``Accept-Encoding`` header."""


class Decompressor(ABC):
    """Unpacks one body: `feed` it, then `take` until it returns nothing, then `feed` again."""

    def __init__(self) -> None:
        self._packed = 0
        self._unpacked = 0

    def feed(self, data: bytes) -> None:
        """Add bytes from the network; everything from the previous ones has been taken."""
        self._packed += len(data)
        self._add(data)

    def take(self, limit: int) -> bytes:
        """Return the next bytes of the body, about *limit* at most; none if more input is needed.

        Raises `UnreadableBodyError` if the body cannot be unpacked or unpacks to too much.
        """
        try:
            data = self._take(limit)
        except _ERRORS as exc:
            raise UnreadableBodyError("the body cannot be decompressed") from exc
        self._unpacked += len(data)
        if self._unpacked > MIN_BOMB and self._unpacked > MAX_RATIO * self._packed:
            raise UnreadableBodyError(
                f"the body unpacks to more than {MAX_RATIO} times its {self._packed} bytes"
            )
        return data

    @abstractmethod
    def _add(self, data: bytes) -> None:
        """Add bytes from the network."""

    @abstractmethod
    def _take(self, limit: int) -> bytes:
        """Return the next bytes of the body."""


class ZlibDecompressor(Decompressor):
    """Unpacks gzip with one or more members, and deflate with or without the zlib header."""

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
                    self._wbits = -zlib.MAX_WBITS  # Some servers omit the zlib header.
                self._object = zlib.decompressobj(self._wbits)
            elif self._object.eof:  # The next gzip member; deflate has only one.
                if not self._is_gzip:
                    self._waiting = b""
                    break
                self._object = zlib.decompressobj(self._wbits)
            data: bytes = self._object.decompress(self._waiting, limit)
            self._waiting = self._object.unused_data or self._object.unconsumed_tail
            if data:
                return data
        # zlib may hold data back when its output is full.
        return b"" if self._object is None else self._object.decompress(b"", limit)


class BrotliDecompressor(Decompressor):
    """Unpacks brotli, which returns at least 32 kB at a time if it has that much."""

    def __init__(self) -> None:
        super().__init__()
        self._object: Any = brotli.Decompressor()
        self._waiting = b""

    def _add(self, data: bytes) -> None:
        self._waiting += data

    def _take(self, limit: int) -> bytes:
        data, self._waiting = self._waiting, b""
        if self._object.is_finished():  # Data after the end is ignored.
            return b""
        return self._object.process(data, output_buffer_limit=limit)  # type: ignore[no-any-return]


def decompressor_for(encoding: str) -> Decompressor | None:
    """Return a decompressor for the content encoding *encoding*, or None if there is none.

    Raises `UnreadableBodyError` for a known encoding that is not supported. A value that is not an
    encoding (some servers send ``utf-8``) is ignored.
    """
    match encoding.strip().lower():
        case "gzip" | "x-gzip":
            return ZlibDecompressor(is_gzip=True)
        case "deflate":
            return ZlibDecompressor(is_gzip=False)
        case "br" if brotli is not None:
            return BrotliDecompressor()
        case "br" | "zstd" | "compress" | "x-compress" as name:
            raise UnreadableBodyError(f"the body is compressed with {name}, which is not supported")
    return None


_ERRORS: Final[tuple[type[Exception], ...]] = (
    (zlib.error,) if brotli is None else (zlib.error, brotli.error)
)
