"""`penstock.framing`: what all framings have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frame_checks import Outcome, check_every_cut
from penstock.errors import LimitError, UsageError
from penstock.framing import Frame, as_utf8, check_limit, json_array, ndjson, sse

if TYPE_CHECKING:
    from penstock.framing import FrameDecoder

DECODERS = [
    pytest.param(sse.Decoder, id="sse"),
    pytest.param(ndjson.Decoder, id="ndjson"),
    pytest.param(json_array.Decoder, id="json_array"),
]


def test_a_frame_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Frame("a").data = "b"  # type: ignore[misc]


@pytest.mark.parametrize("make", DECODERS)
@pytest.mark.parametrize("stream", [b"", b"\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf \n"])
def test_nothing_gives_no_frames(make: type[FrameDecoder], stream: bytes) -> None:
    check_every_cut(make, stream, Outcome([]))


@pytest.mark.parametrize("make", DECODERS)
def test_a_decoder_ends_once(make: type[FrameDecoder]) -> None:
    decoder = make()
    decoder.feed(b"")
    decoder.finish()
    for _ in range(2):
        with pytest.raises(UsageError, match="finished"):
            decoder.feed(b"")
        with pytest.raises(UsageError, match="finished"):
            decoder.finish()


@pytest.mark.parametrize("make", DECODERS)
@pytest.mark.parametrize(
    "wrong", ["text", 3, None, [1]], ids=["text", "a number", "none", "a list"]
)
def test_a_decoder_takes_bytes_only(make: type[FrameDecoder], wrong: object) -> None:
    with pytest.raises(UsageError, match="takes bytes"):
        make().feed(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [sse.Decoder, ndjson.Decoder])
def test_the_start_of_a_mark_counts_once_it_is_none(
    make: type[sse.Decoder | ndjson.Decoder],
) -> None:
    decoder = make(max_line=1)
    assert decoder.feed(b"\xef") == decoder.feed(b"\xbb") == []
    for _ in range(2):
        with pytest.raises(LimitError):
            decoder.finish()


def test_text_becomes_bytes_and_bytes_stay() -> None:
    assert as_utf8("é") == as_utf8("é".encode()) == b"\xc3\xa9"
    with pytest.raises(UsageError, match="lone surrogate at 1"):
        as_utf8("a\ud83d")


def test_a_limit_must_let_something_through() -> None:
    assert check_limit("max_line", 1) == 1
    with pytest.raises(UsageError, match="max_line must be at least 1, not 0"):
        check_limit("max_line", 0)
