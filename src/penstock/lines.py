"""Bytes in pieces, cut into lines: what `sse` and `ndjson` stand on.

Lines are split before UTF-8 is decoded, so U+2028 and its like never end one. The beginning of a
line waits in a `bytearray`, which grows without being copied on each piece: a line of a megabyte
fed byte by byte costs what its bytes cost.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import LimitError

_LINE_ENDS: Final = (b"\n", b"\r")


class LineSplitter:
    """Lines that end with LF; a CR before it stays on the line, as JSON allows CR between tokens.

    No line may have more than *limit* bytes, its end and a byte order mark not counted. When one
    does, `split` still gives the lines before it; `overflow` then has the error, and no more lines
    come.
    """

    def __init__(self, limit: int) -> None:
        self.overflow: LimitError | None = None
        self._limit = limit
        self._begun = bytearray()

    def split(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the lines that they complete, without their ends."""
        lines = data.split(b"\n")
        rest = lines.pop()
        return self._assemble(lines, rest)

    def take_rest(self) -> bytes:
        """Take the line that no line end has completed."""
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
    """Lines that end with LF, CR or CRLF, whichever comes.

    A CR ends its line at once; an LF that follows, be it in the next piece, belongs to it.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._after_cr = False

    @property
    def at_line_start(self) -> bool:
        """Whether the next byte, whatever it is, is the first of a line."""
        return not self._begun and not self._after_cr

    def split(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the lines that they complete, without their ends."""
        if not data:
            return []
        # Unlike the one of str, this method knows these three line ends and no other.
        lines = data.splitlines()
        rest = b"" if data.endswith(_LINE_ENDS) else lines.pop()
        if self._after_cr and data.startswith(b"\n"):
            del lines[0]
        self._after_cr = data.endswith(b"\r")
        return self._assemble(lines, rest)
