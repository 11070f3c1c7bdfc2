"""How a framing is tried: pieces in, frames out, and the limit that ended it, if one did."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laws.cutting import chunkings
from penstock.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.framing import Frame, FrameDecoder


class Outcome(NamedTuple):
    frames: list[Frame]
    broken_limit: str | None = None


def decode(decoder: FrameDecoder, pieces: Iterable[bytes]) -> Outcome:
    """Feed *pieces* and finish; a limit ends it, and what came before counts."""
    frames: list[Frame] = []
    try:
        for piece in pieces:
            frames += decoder.feed(piece)
        frames += decoder.finish()
    except LimitError as error:
        return Outcome(frames, error.limit)
    return Outcome(frames)


def check_every_cut(make: Callable[[], FrameDecoder], data: bytes, expected: Outcome) -> None:
    """Check that *data* decodes as *expected* whole, byte by byte and at every single cut."""
    for pieces in chunkings(data):
        assert decode(make(), pieces) == expected, f"cut as {pieces}"
