"""A JSON array, element by element, which Gemini streams without ``alt=sse``: decoder and encoder.

The decoder splits elements and parses none. An element is delivered with its closing bracket or
quote, a number or a literal with the byte after it. Only the depth of brackets is counted, so an
element with mismatched brackets is delivered as it is, for the JSON parser to refuse.

Nothing of an unexpected body is lost: an object outside an array (an error body) is a frame too;
after any other text there, or after a `}` between elements, the rest is one frame, which is
delivered at the end with `Frame.unfinished` set. So is an element that the end cuts.

Each byte is read a bounded number of times, by a search that stops at brackets and at strings with
escapes. The state of an open element is its depth and whether a string is open, so a `feed` reads
only its own bytes.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from penstock.errors import LimitError, UsageError
from penstock.framing import MAX_EVENT, Frame, FrameDecoder, as_utf8, check_limit

__all__ = ["MAX_EVENT", "Decoder", "Encoder", "Frame"]

_WHITESPACE: Final = b" \t\r\n"
_OPEN_ARRAY, _CLOSE_ARRAY, _OPEN_OBJECT, _CLOSE_OBJECT, _QUOTE = b'[]{}"'

_OUTSIDE: Final = re.compile(rb"[ \t\r\n]*")
_BETWEEN: Final = re.compile(rb"[ \t\r\n,]*")
_WORD: Final = re.compile(rb'[^ \t\r\n,"\[\]{}]*')

# Text that does not change the depth: strings without escapes, and anything but brackets around
# them. The bound limits the memory of the matcher, which remembers each string to backtrack.
_PLAIN: Final = re.compile(rb'[^"\[\]{}]*(?:"[^"\\]*"[^"\[\]{}]*){0,64}')


class _Place(Enum):
    """Where the next byte is."""

    GAP = "before a value, between two, or after the last"
    VALUE = "in an object, an array or a string"
    WORD = "in a number or a literal"
    REST = "in text that is not an array of values"


# The kind of an element by its first byte; any other byte starts a word.
_ELEMENTS: Final = {
    _OPEN_OBJECT: _Place.VALUE,
    _OPEN_ARRAY: _Place.VALUE,
    _QUOTE: _Place.VALUE,
    _CLOSE_OBJECT: _Place.REST,
}

_DEPTHS: Final = {_OPEN_OBJECT: 1, _OPEN_ARRAY: 1, _CLOSE_OBJECT: -1, _CLOSE_ARRAY: -1}


class Decoder(FrameDecoder):
    """Bytes of a JSON array in, the exact text of each element out.

    *max_event* limits the bytes of an element.
    """

    def __init__(self, *, max_event: int = MAX_EVENT) -> None:
        super().__init__()
        self._max_event = check_limit("max_event", max_event)
        self._place = _Place.GAP
        self._in_array = False
        self._text = bytearray()  # of the open value
        self._depth = 0
        self._in_string = False
        self._escaped = False  # The last feed ended with a backslash, which escapes the next byte.

    @property
    def is_open(self) -> bool:
        """Whether an array or a value is open: at the end of the stream, it was cut."""
        return self._in_array or self._place is not _Place.GAP

    def _read(self, data: bytes, frames: list[Frame]) -> None:
        at = 0
        while at < len(data):
            if self._place is _Place.GAP:
                at = self._skip_gap(data, at)
                continue
            end, is_whole = self._find_end(data, at)
            self._keep(data[at:end])
            at = end
            if is_whole:
                frames.append(Frame(self._text.decode("utf-8", "replace")))
                self._text.clear()
                self._place = _Place.GAP

    def _read_end(self, frames: list[Frame]) -> None:
        if self._text:
            frames.append(Frame(self._text.decode("utf-8", "replace"), unfinished=True))

    def _skip_gap(self, data: bytes, at: int) -> int:
        """Skip to the next value and enter it."""
        at = _match_end(_BETWEEN if self._in_array else _OUTSIDE, data, at)
        if at == len(data):
            return at
        byte = data[at]
        if byte == (_CLOSE_ARRAY if self._in_array else _OPEN_ARRAY):
            self._in_array = not self._in_array
            return at + 1
        if self._in_array:
            self._place = _ELEMENTS.get(byte, _Place.WORD)
        else:
            self._place = _Place.VALUE if byte == _OPEN_OBJECT else _Place.REST
        self._in_string = byte == _QUOTE
        self._depth = 0 if self._in_string else 1
        self._keep(data[at : at + 1])
        return at + 1

    def _keep(self, piece: bytes) -> None:
        self._text += piece
        if len(self._text) > self._max_event:
            raise LimitError(
                f"an element of more than {self._max_event} bytes",
                limit="max_event",
                value=self._max_event,
            )

    def _find_end(self, data: bytes, at: int) -> tuple[int, bool]:
        """Return how far the open value reaches in *data*, and whether it ends there."""
        match self._place:
            case _Place.VALUE:
                return self._find_value_end(data, at)
            case _Place.WORD:
                end = _match_end(_WORD, data, at)
                return end, end < len(data)
            case _:
                return len(data), False

    def _find_value_end(self, data: bytes, at: int) -> tuple[int, bool]:
        while at < len(data):
            at = self._skip_string(data, at) if self._in_string else self._skip_plain(data, at)
            if self._depth == 0 and not self._in_string:
                return at, True
        return at, False

    def _skip_plain(self, data: bytes, at: int) -> int:
        """Skip to the end of the value, or into the next string that may have escapes."""
        while self._depth:
            at = _match_end(_PLAIN, data, at)
            if at == len(data):
                break
            byte = data[at]
            at += 1
            if byte == _QUOTE:
                self._in_string = True
                break
            self._depth += _DEPTHS[byte]
        return at

    def _skip_string(self, data: bytes, at: int) -> int:
        """Skip the open string: up to the next quote that is not escaped."""
        if self._escaped:
            self._escaped = False
            return at + 1
        quote = data.find(b'"', at)
        end = len(data) if quote == -1 else quote
        text = data[at:end]
        is_escaped = (len(text) - len(text.rstrip(b"\\"))) % 2 == 1
        if quote == -1:
            self._escaped = is_escaped
            return end
        self._in_string = is_escaped
        return end + 1


class Encoder:
    """Elements in, the bytes of one JSON array out: call `encode` for each, then `finish` once."""

    def __init__(self) -> None:
        self._lead = b"["
        self._finished = False

    def encode(self, data: str | bytes) -> bytes:
        """Return *data*, the text of one JSON value, as the next element; bytes must be UTF-8.

        Raises `UsageError` for blank text or a lone surrogate, and after `finish`.
        """
        element = as_utf8(data)
        if self._finished:
            raise UsageError("the array is finished: use a new encoder for each array")
        if not element.strip(_WHITESPACE):
            raise UsageError("blank text is not an element")
        lead, self._lead = self._lead, b",\r\n"
        return lead + element

    def finish(self) -> bytes:
        """Return the end of the array, or an empty array if there were no elements."""
        if self._finished:
            raise UsageError("the array is finished already")
        self._finished = True
        return b"[]" if self._lead == b"[" else b"]"


def _match_end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    """Return where the match of *pattern* at *at* ends; all patterns here match empty text too."""
    match = pattern.match(data, at)
    return match.end() if match else at
