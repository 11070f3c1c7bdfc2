"""Newline-delimited JSON, both ways: how Ollama streams.

A line ends with LF, and a CR before it belongs to the end. Nothing else ends one: a lone CR is
white space to JSON and U+2028 a character. Blank lines are skipped. A last line without its LF is
delivered with `Frame.unfinished` set: it may be whole, or the end may have cut it.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import UsageError
from penstock.framing.base import MAX_LINE, Frame, FrameDecoder, LineSplitter, as_utf8, check_limit

__all__ = ["CONTENT_TYPE", "MAX_LINE", "Decoder", "Frame", "encode"]

CONTENT_TYPE: Final = "application/x-ndjson"
"""The media type of newline-delimited JSON."""

_WHITESPACE: Final = b" \t\r\n"


class Decoder(FrameDecoder):
    """Bytes of newline-delimited JSON in, one frame a line out.

    *max_line* bounds the bytes of a line, a CR before its LF included.
    """

    def __init__(self, *, max_line: int = MAX_LINE) -> None:
        super().__init__()
        self._lines = LineSplitter(check_limit("max_line", max_line))

    def _read(self, data: bytes, frames: list[Frame]) -> None:
        frames.extend(
            Frame(line.removesuffix(b"\r").decode("utf-8", "replace"))
            for line in self._lines.split(data)
            if line.strip(_WHITESPACE)
        )
        if self._lines.overflow is not None:
            raise self._lines.overflow

    def _read_end(self, frames: list[Frame]) -> None:
        line = self._lines.take_rest()
        if line.strip(_WHITESPACE):
            frames.append(Frame(line.decode("utf-8", "replace"), unfinished=True))


def encode(data: str | bytes) -> bytes:
    """Write *data*, the text of one JSON value, as a line; bytes must be UTF-8.

    Raises `UsageError` for what a line cannot hold: a line end, nothing but white space, a lone
    surrogate.
    """
    line = as_utf8(data)
    if b"\n" in line or b"\r" in line:
        raise UsageError("text with a line end cannot be sent as one line")
    if not line.strip(_WHITESPACE):
        raise UsageError("a blank line is not a frame")
    return line + b"\n"
