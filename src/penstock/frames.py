"""What every framing of a stream has in common: frames out of bytes, and the rules at the edges.

`sse`, `ndjson` and `json_array` differ in how they find a frame and agree on all else:

* any cut of the bytes gives the same frames, and the cost of a `feed` does not depend on what
  came before;
* one byte order mark in front is dropped; UTF-8 is decoded where a whole piece is known, so a
  character is never broken by a cut, and what is not UTF-8 becomes U+FFFD;
* what the end of the stream cuts off is delivered with `Frame.unfinished` set, never dropped;
* an input over a limit raises `LimitError`, after the frames before it were delivered: if the
  same `feed` has some, it returns them and the next call raises. From then on every call does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from penstock.errors import LimitError, UsageError

if TYPE_CHECKING:
    from penstock.errors import PenstockError

MAX_LINE: Final = 8 * 1024 * 1024
"""How many bytes a line may have: a whole answer with an image in it, and no more than can be read
at once without everybody else waiting for it."""

MAX_EVENT: Final = 2 * MAX_LINE
"""How many bytes an event may have: providers put one on a single line, so two lines are ample."""


class Frame(Struct, frozen=True, gc=False):
    """One message of a framed stream, as text that nobody has parsed yet.

    `event` is the name that the wire gave it, and empty where it gave none (WHATWG's `message`);
    `id` is the last event id when it was dispatched. Only SSE has the two. `unfinished` marks the
    last frame of a stream that ended before the frame did: its text may be whole or cut.
    """

    data: str
    event: str = ""
    id: str = ""
    unfinished: bool = False


class FrameDecoder(ABC):
    """The life of a decoder: `feed` until the bytes end, then `finish` once.

    A framing says how it reads by `_read` and `_read_end`. Both add to a list of frames and may
    raise `LimitError` at any point; what they added before counts.
    """

    def __init__(self) -> None:
        self._head: bytes | None = b""  # what may still become a byte order mark
        self._refusal: PenstockError | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Take more bytes; return the frames that they complete.

        Raises `LimitError` for input over a limit and `UsageError` after `finish`.
        """
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        if not isinstance(data, bytes):
            data = _as_bytes(data)
        if self._head is not None:
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
        """End the stream; return what it cut off, if anything, as an unfinished frame.

        Raises `LimitError` if the stream has gone over a limit and `UsageError` if called twice.
        """
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        self._refusal = UsageError("the stream is finished: make a new decoder for a new one")
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
        """Add what the end of the stream cut off."""

    def _skip_mark(self, data: bytes) -> bytes:
        """Hold *data* while it may be the beginning of a mark; then give it without one."""
        if len(data) < len(BOM_UTF8) and BOM_UTF8.startswith(data):
            self._head = data
            return b""
        self._head = None
        return data.removeprefix(BOM_UTF8)


def check_limit(name: str, value: int) -> int:
    """Return *value*, the limit called *name*; raise `UsageError` if nothing could pass it."""
    if value < 1:
        raise UsageError(f"{name} must be at least 1, not {value}")
    return value


def as_utf8(data: str | bytes) -> bytes:
    """Return *data* for the wire; bytes are taken to be UTF-8 already.

    Raises `UsageError` for a lone surrogate, which UTF-8 cannot say.
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
