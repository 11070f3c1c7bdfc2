"""Server-sent events: a decoder by the WHATWG rules, and an encoder.

The decoder follows "interpreting an event stream" of the HTML standard, with one exception: a last
block without its blank line is delivered, marked `Frame.unfinished`, because real upstreams end
like that. `Decoder.last_id` and `Decoder.retry` are as in the standard.

There are three levels, from fast to slow: a `feed` that is exactly one ``data: ...`` block, as most
are, is sliced from its bytes; other bytes are read line by line; an incomplete line is kept in the
splitter. The encoder refuses what the format cannot express, so that decoding returns what was
encoded.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import LimitError, UsageError
from penstock.framing import (
    MAX_EVENT,
    MAX_LINE,
    Frame,
    FrameDecoder,
    UniversalLineSplitter,
    as_utf8,
    check_limit,
)

__all__ = [
    "CONTENT_TYPE",
    "MAX_EVENT",
    "MAX_IDLE",
    "MAX_LINE",
    "MAX_RETRY",
    "Decoder",
    "Frame",
    "comment",
    "encode",
    "is_event_stream",
]

CONTENT_TYPE: Final = "text/event-stream"
"""The media type of a stream of server-sent events."""

MAX_IDLE: Final = 1024 * 1024
"""How many bytes in a row may belong to no event: keep-alive comments of many hours."""

MAX_RETRY: Final = 10**15 - 1
"""The longest reconnection time in milliseconds, about 30,000 years; a longer one is ignored."""

# Numbers, not bytes: `10 in data` is eight times faster than `b"\n" in data`.
_LF: Final = 10
_CR: Final = 13
_UNEVENTFUL: Final = (b"", b"event", b"id", b"retry")
_RETRY_DIGITS: Final = len(str(MAX_RETRY))


class Decoder(FrameDecoder):
    """Bytes of an event stream in, frames out.

    *max_line* limits the bytes of a line, *max_event* those of an event's data lines, *max_idle*
    those of comments, blank lines and other fields in a row without an event.
    """

    last_id: str
    """The id that a reconnection would send: that of the last dispatched block."""

    retry: int | None
    """The last reconnection time in milliseconds that the stream sent, if it did."""

    def __init__(
        self,
        *,
        max_line: int = MAX_LINE,
        max_event: int = MAX_EVENT,
        max_idle: int = MAX_IDLE,
    ) -> None:
        super().__init__()
        self.last_id = ""
        self.retry = None
        self._max_event = check_limit("max_event", max_event)
        self._max_idle = check_limit("max_idle", max_idle)
        self._lines = UniversalLineSplitter(check_limit("max_line", max_line))
        self._free_limit = min(max_line, max_event)  # Fewer bytes cannot exceed a limit.
        self._fresh = False  # Nothing is pending: the next byte starts a block.
        self._data: list[str] = []
        self._size = 0
        self._idle = 0  # bytes without an event
        self._event = ""
        self._id = ""

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Add bytes; return the frames that they complete.

        Raises `LimitError` for a line or an event above its limit, `UsageError` after `finish`.
        """
        if (
            self._fresh
            and isinstance(data, bytes)
            and 0 < len(data) <= self._free_limit
            and data[-1] == _LF
        ):
            return self._read_whole(data.splitlines())
        return super().feed(data)

    def _read_whole(self, lines: list[bytes]) -> list[Frame]:
        """Read whole lines that start a block and are too few to exceed a limit."""
        # The two usual shapes: chat completions and Gemini, and the Messages and Responses APIs.
        match lines:
            case [data, b""] if data.startswith(b"data: "):
                self._idle = 0
                return [Frame(data[6:].decode("utf-8", "replace"), "", self.last_id)]
            case [event, data, b""] if event.startswith(b"event: ") and data.startswith(b"data: "):
                name = event[7:].decode("utf-8", "replace")
                self._idle = 0
                return [Frame(data[6:].decode("utf-8", "replace"), name, self.last_id)]
        frames: list[Frame] = []
        self._read_lines(lines, frames)
        return frames

    def _read(self, data: bytes, frames: list[Frame]) -> None:
        self._read_lines(self._lines.split(data), frames)
        if self._lines.overflow is not None:
            self._fresh = False
            raise self._lines.overflow

    def _read_lines(self, lines: list[bytes], frames: list[Frame]) -> None:
        self._fresh = False  # also if a limit ends the loop
        for line in lines:
            if not line:
                self._dispatch(frames)
            elif line.startswith(b"data:"):
                self._add_data(line)
            else:
                self._read_field(line)
        self._fresh = (
            not self._data
            and not self._event
            and self._id == self.last_id
            and self._lines.at_line_start
        )

    def _read_end(self, frames: list[Frame]) -> None:
        self._fresh = False
        line = self._lines.take_rest()
        retry = self.retry
        if line.startswith(b"data:"):
            self._add_data(line)
        elif line:
            self._read_field(line)
        self.retry = retry  # The end may have cut the number.
        if self._data:
            # By the standard a frame without its blank line is discarded. Servers do end without
            # one, so it is delivered, and the decoder of the API decides what it means.
            frames.append(Frame("\n".join(self._data), self._event, self._id, unfinished=True))

    def _dispatch(self, frames: list[Frame]) -> None:
        # The SDKs of OpenAI and Anthropic emit an empty event for a block with only an id; here a
        # block without data is not a frame.
        self.last_id = self._id
        if self._data:
            frames.append(Frame("\n".join(self._data), self._event, self._id))
            self._data = []
            self._size = self._idle = 0
        else:
            self._count_idle(b"")
        self._event = ""

    def _add_data(self, line: bytes) -> None:
        self._size += len(line) + 1
        if self._size > self._max_event:
            raise LimitError(
                f"an event of more than {self._max_event} bytes",
                limit="max_event",
                value=self._max_event,
            )
        # WHATWG, "Interpreting an event stream": one space after the colon is dropped, no more.
        start = 6 if line.startswith(b" ", 5) else 5
        self._data.append(line[start:].decode("utf-8", "replace"))

    def _count_idle(self, line: bytes) -> None:
        """Count a line that adds nothing to an event's data."""
        self._idle += len(line) + 1
        if self._idle > self._max_idle:
            raise LimitError(
                f"more than {self._max_idle} bytes without an event",
                limit="max_idle",
                value=self._max_idle,
            )

    def _read_field(self, line: bytes) -> None:
        """Read a line that is not empty and not ``data:``; a comment has an empty field name.

        A line with an unknown field is not counted as idle: a body that is not a stream, such as
        JSON on one line, has only such lines.
        """
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field in _UNEVENTFUL:
            self._count_idle(line)
        if field == b"event":
            self._event = value.decode("utf-8", "replace")
        # An id with NUL is ignored, as the standard says.
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        # Only ASCII digits count; anything else is ignored.
        elif field == b"retry" and value.isdigit():
            digits = value.lstrip(b"0")
            if len(digits) <= _RETRY_DIGITS:
                self.retry = int(digits or b"0")
        elif field == b"data":
            # A line `data` without a colon is a field with an empty value.
            self._add_data(b"data:")


def encode(
    data: str | bytes,
    *,
    event: str = "",
    id: str | None = None,  # noqa: A002 - the field's name on the wire
    retry: int | None = None,
) -> bytes:
    """Return the bytes of one event; a decoder returns *data*, *event* and *id* unchanged.

    *data* in bytes must be UTF-8. An *id* of ``""`` resets the last event id. Raises `UsageError`
    for what the format cannot express: a CR in *data*, a line end or NUL in *event* or *id*, a lone
    surrogate, a *retry* below 0 or above `MAX_RETRY`.
    """
    body = as_utf8(data)
    if _CR in body:
        raise UsageError("data with a CR cannot be sent: a decoder would read it as LF")
    if _LF in body:
        body = body.replace(b"\n", b"\ndata: ")
    if not event and id is None and retry is None:
        return b"data: " + body + b"\n\n"
    head = b"event: " + _field_value("event", event) + b"\n" if event else b""
    if id is not None:
        head += b"id: " + _field_value("id", id) + b"\n"
    if retry is not None:
        head += b"retry: " + _retry_value(retry) + b"\n"
    return head + b"data: " + body + b"\n\n"


def comment(text: str = "") -> bytes:
    """Return *text* as a comment, which clients ignore: a keep-alive between events.

    It ends with a blank line, for clients that split the stream there and read only the first line.
    """
    lines = as_utf8(text).splitlines() or [b""]
    # Not for google-genai: it adds every line without `data: ` to a buffer for JSON errors.
    return b"".join(b": " + line + b"\n" for line in lines) + b"\n"


def is_event_stream(content_type: str) -> bool:
    """Return whether a ``Content-Type`` header announces an event stream.

    Parameters are ignored, also a `;` without any: by the standard the stream is UTF-8 whatever its
    `charset` is.
    """
    return content_type.partition(";")[0].strip(" \t\r\n").lower() == CONTENT_TYPE


def _field_value(field: str, value: str) -> bytes:
    if "\n" in value or "\r" in value or "\0" in value:
        raise UsageError(f"{field} with a line end or NUL cannot be sent: {value!r}")
    return as_utf8(value)


def _retry_value(retry: int) -> bytes:
    if not 0 <= retry <= MAX_RETRY:
        raise UsageError(f"retry must be between 0 and {MAX_RETRY} milliseconds, not {retry}")
    return b"%d" % retry
