"""Answers to clients of HTTP/1.0, which know no chunks: the end of the connection ends them.

uvicorn closes the connection behind such an answer, but writes one of unknown length in chunks all
the same. Told that the answer is not chunked, it would count what goes out against a length. So the
length is one that anything fits.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def unframe(cycle: RequestResponseCycle) -> None:
    """Let the answer of *cycle* go out without chunks, however long it gets."""
    cycle.chunked_encoding = False
    cycle.expected_content_length = _AnyLength()


class _AnyLength(int):
    """The length of a body that nobody knows before its end: never exceeded, and reached anytime.

    It stays what it is while parts are taken off, in whatever order signs of life and pieces of the
    answer are written.
    """

    def __lt__(self, size: int) -> bool:
        return False

    def __sub__(self, size: int) -> _AnyLength:
        return self

    def __ne__(self, size: object) -> bool:
        return False
