"""Event streams of servers that leave out the blank lines between their frames.

By the rules of the format all of such a stream is one frame, which ends when the stream does. So
where a line of data that is a whole JSON object is followed by another line of a frame, the blank
line between the two is made up, and the answer comes while it is written.
"""

from __future__ import annotations

from typing import Final

from penstock import _json, sse
from penstock.errors import JSONParseError
from penstock.frames import Frame

_FIELDS: Final = (b"data:", b"event:", b"id:")


class Decoder(sse.Decoder):
    """Bytes of an event stream in, frames out, with or without blank lines."""

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


def _is_object(data: str) -> bool:
    if not data.startswith("{") or not data.rstrip().endswith("}"):
        return False
    try:
        return isinstance(_json.decode(data), dict)
    except JSONParseError:
        return False
