"""Newline-delimited JSON, which Ollama streams: decoder and encoder.

A line ends with LF or CRLF. Nothing else ends one: a lone CR is white space in JSON, and U+2028 is
a character. Blank lines are skipped. A last line without LF is delivered with `Frame.unfinished`
set: it may be whole or cut.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import UsageError
from penstock.framing import MAX_LINE, Frame, FrameDecoder, LineSplitter, as_utf8, check_limit

__all__ = ["CONTENT_TYPE", "MAX_LINE", "Decoder", "Frame", "encode"]

CONTENT_TYPE: Final = "application/x-ndjson"
"""The media type of newline-delimited JSON."""

# Ollama ends each line with LF. The NDJSON specification allows CRLF, because white space around
# a value has no meaning, and lets a parser ignore empty lines.
_WHITESPACE: Final = b" \t\r\n"


class Decoder(FrameDecoder):
    """Bytes of newline-delimited JSON in, one frame per line out.

    *max_line* limits the bytes of a line, a CR before its LF included.
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
    """Return *data*, the text of one JSON value, as a line; bytes must be UTF-8.

    Raises `UsageError` for text with a line end or a lone surrogate, and for blank text.
    """
    line = as_utf8(data)
    if b"\n" in line or b"\r" in line:
        raise UsageError("text with a line end cannot be sent as one line")
    if not line.strip(_WHITESPACE):
        raise UsageError("a blank line is not a frame")
    return line + b"\n"
