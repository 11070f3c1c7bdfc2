"""Bytes to frames and back: server-sent events, NDJSON and streamed JSON arrays.

Here is what all frame formats share: the decoder's life cycle, lines, limits and UTF-8. `sse`,
`ndjson` and `json_array` differ in how they find a frame and agree on all else:

* Any split of the bytes gives the same frames, and the cost of a `feed` does not depend on what
  came before.
* A byte order mark at the start is dropped. UTF-8 is decoded per line or element, so a split never
  breaks a character; invalid bytes become U+FFFD.
* A frame that the end of the stream cuts is delivered with `Frame.unfinished` set, never dropped.
* Input above a limit raises `LimitError` after the frames before it were delivered: if the same
  `feed` has some, it returns them and the next call raises. From then on every call raises.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from penstock.errors import LimitError, UsageError

if TYPE_CHECKING:
    from penstock.errors import PenstockError


# Lines are split before UTF-8 is decoded, so U+2028 and the like never end one. The start of a line
# is kept in a `bytearray`, which grows without a copy per piece: a line of a megabyte that arrives
# byte by byte costs no more than its bytes.

_LINE_ENDS: Final = (b"\n", b"\r")


class LineSplitter:
    """Splits lines that end with LF; a CR before it stays, since JSON allows CR between tokens.

    No line may have more than *limit* bytes, without its end and a byte order mark. If one has,
    `split` returns the lines before it and `overflow` is the error; no more lines are returned.
    """

    def __init__(self, limit: int) -> None:
        self.overflow: LimitError | None = None
        self._limit = limit
        self._begun = bytearray()

    def split(self, data: bytes) -> list[bytes]:
        """Add bytes; return the lines that they complete, without their ends."""
        lines = data.split(b"\n")
        rest = lines.pop()
        return self._assemble(lines, rest)

    def take_rest(self) -> bytes:
        """Return and clear the last line, which has no end."""
        rest = bytes(self._begun)
        self._begun.clear()
        return rest

    def _assemble(self, lines: list[bytes], rest: bytes) -> list[bytes]:
        if lines and self._begun:
            self._begun += lines[0]
            lines[0] = self.take_rest()
        for number, line in enumerate(lines):
            if len(line) > self._limit:
                self._refuse()
                return lines[:number]
        if rest:
            self._begun += rest
            if len(self._begun) > self._limit:
                self._refuse()
        return lines

    def _refuse(self) -> None:
        self._begun.clear()
        self.overflow = LimitError(
            f"a line of more than {self._limit} bytes", limit="max_line", value=self._limit
        )


class UniversalLineSplitter(LineSplitter):
    """Splits lines that end with LF, CR or CRLF.

    A CR ends its line at once; an LF after it belongs to it, also in the next piece.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._after_cr = False

    @property
    def at_line_start(self) -> bool:
        """Whether the next byte is the first of a line."""
        return not self._begun and not self._after_cr

    def split(self, data: bytes) -> list[bytes]:
        """Add bytes; return the lines that they complete, without their ends."""
        if not data:
            return []
        # Unlike `str.splitlines`, this method splits only at these three line ends.
        lines = data.splitlines()
        rest = b"" if data.endswith(_LINE_ENDS) else lines.pop()
        if self._after_cr and data.startswith(b"\n"):
            del lines[0]
        self._after_cr = data.endswith(b"\r")
        return self._assemble(lines, rest)


MAX_LINE: Final = 8 * 1024 * 1024
"""How many bytes a line may have: a whole response with an image, and little enough that parsing it
does not block the event loop for long."""

MAX_EVENT: Final = 2 * MAX_LINE
"""How many bytes an event may have: providers put one on a single line, so two lines are ample."""


class Frame(Struct, frozen=True, gc=False):
    """One frame of a stream, as text that is not parsed yet.

    `event` is its event name, or empty (WHATWG's `message`); `id` is the last event id when it was
    dispatched. Only SSE has the two. `unfinished` marks the last frame of a stream that ended
    before the frame did: its text may be whole or cut.
    """

    data: str
    event: str = ""
    id: str = ""
    unfinished: bool = False


class FrameDecoder(ABC):
    """The base of frame decoders: call `feed` until the bytes end, then `finish` once.

    A subclass implements `_read` and `_read_end`. Both add to a list of frames and may raise
    `LimitError` at any point; the frames that were added before are delivered.
    """

    def __init__(self) -> None:
        self._head: bytes | None = b""  # a possible start of a byte order mark
        self._refusal: PenstockError | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Add bytes; return the frames that they complete.

        Raises `LimitError` for input above a limit and `UsageError` after `finish`.
        """
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        if not isinstance(data, bytes):
            data = _as_bytes(data)
        if self._head is not None:
            # WHATWG: one byte order mark at the beginning is not part of the stream.
            data = self._skip_mark(self._head + data)
            if not data:
                return []
        frames: list[Frame] = []
        try:
            self._read(data, frames)
        except LimitError as error:
            self._refusal = error
            if not frames:
                raise
        return frames

    def finish(self) -> list[Frame]:
        """End the stream; return a frame that was cut, marked as unfinished.

        Raises `LimitError` if the stream was above a limit and `UsageError` if called twice.
        """
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        self._refusal = UsageError("the decoder is finished: use a new one for each stream")
        frames: list[Frame] = []
        try:
            if self._head:
                self._read(self._head, frames)
            self._read_end(frames)
        except LimitError as error:
            self._refusal = error
            raise
        return frames

    @abstractmethod
    def _read(self, data: bytes, frames: list[Frame]) -> None:
        """Add the frames that *data* completes."""

    @abstractmethod
    def _read_end(self, frames: list[Frame]) -> None:
        """Add the frame that the end of the stream cut."""

    def _skip_mark(self, data: bytes) -> bytes:
        """Hold *data* while it may be the start of a mark; then return it without the mark."""
        if len(data) < len(BOM_UTF8) and BOM_UTF8.startswith(data):
            self._head = data
            return b""
        self._head = None
        return data.removeprefix(BOM_UTF8)


def check_limit(name: str, value: int) -> int:
    """Return *value*, the limit called *name*; raise `UsageError` if it is below 1."""
    if value < 1:
        raise UsageError(f"{name} must be at least 1, not {value}")
    return value


def as_utf8(data: str | bytes) -> bytes:
    """Return *data* as UTF-8; bytes are assumed to be UTF-8.

    Raises `UsageError` for a lone surrogate, which UTF-8 cannot represent.
    """
    if isinstance(data, bytes):
        return data
    try:
        return data.encode()
    except UnicodeEncodeError as exc:
        raise UsageError(f"a lone surrogate at {exc.start} cannot be written as UTF-8") from exc


def _as_bytes(data: bytearray | memoryview) -> bytes:
    # `bytes(5)` is five zeros: a wrong type must not become input.
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise UsageError(f"a decoder takes bytes, not {type(data).__name__}")
