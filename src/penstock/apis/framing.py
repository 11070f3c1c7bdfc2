"""Event streams of servers that leave out the blank lines between their frames.

By the rules of the format all of such a stream is one frame, which ends when the stream does. So
where a line of data that is a whole JSON object is followed by another line of a frame, the blank
line between the two is made up, and the answer comes while it is written.

A standard decoder ignores a line of an unknown field. In a stream that has begun, such a line may
be what is left of a frame (``ta: {"choices"…``, or the rest of a line that a server broke in two).
It is delivered as data, so that the decoder of the API sees that something was lost.
"""

from __future__ import annotations

import re
from typing import Final

from penstock import _json, sse
from penstock.errors import JSONParseError
from penstock.frames import Frame

_FIELDS: Final = (b"data:", b"event:", b"id:")
_NAME: Final = re.compile(rb"[a-z][a-z0-9_-]*")
_REST_OF_DATA: Final = frozenset(
    {b"data", b"dat", b"daa", b"dta", b"ata", b"da", b"dt", b"aa", b"at", b"ta", b"d", b"a", b"t"}
)
"""What is left of the name ``data`` when characters of it were lost; also in other spellings."""


class Decoder(sse.Decoder):
    """Bytes of an event stream in, frames out, with or without blank lines."""

    _has_begun = False  # Before the first frame, the body may not be a stream at all.

    def _read_whole(self, lines: list[bytes]) -> list[Frame]:
        frames = super()._read_whole(lines)
        if frames:
            self._has_begun = True
        return frames

    def _dispatch(self, frames: list[Frame]) -> None:
        super()._dispatch(frames)
        if frames:
            self._has_begun = True

    def _read_field(self, line: bytes) -> None:
        if self._has_begun and _is_lost_data(line):
            self._add_data(b"data:" + line)
        else:
            super()._read_field(line)

    def _read_lines(self, lines: list[bytes], frames: list[Frame]) -> None:
        if not self._lacks_blank_lines(lines):
            super()._read_lines(lines, frames)
            return
        for line in lines:
            if len(self._data) == 1 and line.startswith(_FIELDS) and _is_object(self._data[0]):
                self._dispatch(frames)
            super()._read_lines([line], frames)

    def _lacks_blank_lines(self, lines: list[bytes]) -> bool:
        """Tell whether data is followed by anything but a blank line, as it is in few streams."""
        has_data = bool(self._data)
        for line in lines:
            if has_data and line:
                return True
            has_data = line.startswith(b"data:")
        return False


def _is_lost_data(line: bytes) -> bool:
    """Return whether *line* may be what is left of a line of data: it has a piece of JSON in it."""
    if line.startswith(b":") or not (b'"' in line or line.endswith(b"}")):
        return False
    field, colon, _ = line.partition(b":")
    name = field.strip().lower()
    return not colon or name in _REST_OF_DATA or _NAME.fullmatch(name) is None


def _is_object(data: str) -> bool:
    if not data.startswith("{") or not data.rstrip().endswith("}"):
        return False
    try:
        return isinstance(_json.decode(data), dict)
    except JSONParseError:
        return False
