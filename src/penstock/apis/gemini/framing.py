"""Frames of a Gemini stream: server-sent events, or one JSON array.

Which of the two depends on whether the client asked for ``alt=sse``; the first byte tells.
"""

from __future__ import annotations

from typing import Final

from penstock import json_array
from penstock.apis import framing
from penstock.frames import Frame, FrameDecoder

_WHITESPACE: Final = b" \t\r\n"


class Frames(FrameDecoder):
    """Bytes in either framing in, frames out."""

    def __init__(self) -> None:
        super().__init__()
        self._framing: FrameDecoder | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Take more bytes; return the frames that they complete."""
        if self._framing is not None:
            return self._framing.feed(data)
        return super().feed(data)

    def finish(self) -> list[Frame]:
        """End the stream; return what it cut off, if anything, as an unfinished frame."""
        return super().finish() if self._framing is None else self._framing.finish()

    def _read(self, data: bytes, frames: list[Frame]) -> None:
        """Choose by the first byte; white space before it means nothing in either framing."""
        data = data.lstrip(_WHITESPACE)
        if data:
            self._framing = json_array.Decoder() if data[:1] == b"[" else framing.Decoder()
            frames += self._framing.feed(data)

    def _read_end(self, frames: list[Frame]) -> None:
        if self._framing is not None:
            frames += self._framing.finish()
