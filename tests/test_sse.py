"""`penstock.framing.sse`: the standard to the letter, at any cut, and back again."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frame_checks import Outcome, check_every_cut, decode
from laws.checks import check_linear
from laws.cutting import chunkings, cut_at, one_by_one
from penstock.errors import LimitError, UsageError
from penstock.framing import sse
from penstock.framing.sse import Frame
from sse_cases import CASES, Case

if TYPE_CHECKING:
    from collections.abc import Callable

CUTS = st.lists(st.integers(0, 200), max_size=8)
FIELDS = [b"data", b"data:", b"data: ", b"event", b"id", b"retry", b":", b": ", b" ", b"7", b"x"]
ENDS = [b"\n", b"\n\n", b"\r", b"\r\n"]
ODD_BYTES = [b"\0", b"\xef\xbb\xbf", b"\xef", b"\xc3", b"\xa9", b"\xf0\x9f"]
STREAMS = st.lists(st.sampled_from(FIELDS + ENDS + ODD_BYTES), max_size=30).map(b"".join)

LINES = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=20)
DATA = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=40)


def by_the_book(stream: bytes) -> list[Frame]:
    """Read a whole stream as the standard is written, and deliver what it would drop at the end."""
    text = stream.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    *lines, rest = re.split("\r\n|\r|\n", text)
    frames = []
    data = event = last_id = ""
    for number, line in enumerate([*lines, rest]):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data += value + "\n"
        elif field == "event":
            event = value
        elif field == "id" and "\0" not in value:
            last_id = value
        is_end = number == len(lines)
        if not line or is_end:
            if data:
                frames.append(Frame(data[:-1], event, last_id, unfinished=is_end))
            data = event = ""
    return frames


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_a_stream_means_the_same_at_every_cut(case: Case) -> None:
    for pieces in chunkings(case.stream):
        decoder = sse.Decoder()
        assert decode(decoder, pieces) == Outcome(case.frames), f"cut as {pieces}"
        assert (decoder.last_id, decoder.retry) == (case.last_id, case.retry), f"cut as {pieces}"


LATER_CASES = [case for case in CASES if not case.stream.startswith(b"\xef")]


@pytest.mark.parametrize("case", LATER_CASES, ids=[case.id for case in LATER_CASES])
def test_a_stream_means_the_same_behind_another(case: Case) -> None:
    for pieces in chunkings(case.stream):
        decoder = sse.Decoder()
        assert decode(decoder, [b": hi\n\n", *pieces]) == Outcome(case.frames), f"cut as {pieces}"
        assert (decoder.last_id, decoder.retry) == (case.last_id, case.retry), f"cut as {pieces}"


@given(stream=STREAMS, cuts=CUTS)
def test_any_stream_is_read_by_the_book(stream: bytes, cuts: list[int]) -> None:
    assert decode(sse.Decoder(), cut_at(stream, cuts)) == Outcome(by_the_book(stream))


@given(stream=st.binary(max_size=200), cuts=CUTS)
def test_any_bytes_are_read_by_the_book(stream: bytes, cuts: list[int]) -> None:
    assert decode(sse.Decoder(), cut_at(stream, cuts)) == Outcome(by_the_book(stream))


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(b"data: a\n\n", id="a frame in one read"),
        pytest.param(b"event: e\ndata: a\n\n", id="a named frame in one read"),
        pytest.param(b"data: a\n\ndata: b\n\n", id="two frames in one read"),
        pytest.param(b"data: a\r\n\r\n", id="a frame with CRLF"),
    ],
)
@pytest.mark.parametrize(
    "before",
    [
        pytest.param(b"", id="at the start"),
        pytest.param(b"data: x\n\n", id="after a frame"),
        pytest.param(b"data: x\n", id="in a block with data"),
        pytest.param(b"event: x\n", id="in a block with a name"),
        pytest.param(b"id: 1\n", id="in a block with an id"),
        pytest.param(b"id: 1\n\n", id="after an id"),
        pytest.param(b"data: x\r\r", id="after a CR"),
        pytest.param(b"data: x", id="in a line"),
        pytest.param(b"\xef\xbb", id="after half a mark"),
        pytest.param(b":\n", id="after a comment"),
    ],
)
def test_a_whole_frame_is_read_by_the_book_wherever_it_comes(before: bytes, piece: bytes) -> None:
    expected = Outcome(by_the_book(before + piece + piece))
    assert decode(sse.Decoder(), [before, piece, piece]) == expected


def test_a_frame_leaves_with_the_byte_that_ends_it() -> None:
    decoder = sse.Decoder()
    assert [len(decoder.feed(byte)) for byte in one_by_one(b"data: a\r\rdata: b\n\n")] == (
        [0] * 8 + [1] + [0] * 8 + [1]
    )


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_bytes_is_taken(kind: type[bytes | bytearray | memoryview]) -> None:
    decoder = sse.Decoder()
    assert decoder.feed(kind(b"data: a\n\n")) == [Frame("a")]
    assert decoder.feed(kind(b"data: b\n\nda")) == [Frame("b")]
    assert decoder.feed(kind(b"")) == []
    assert decoder.feed(kind(b"ta: c\n\n")) == [Frame("c")]


def test_a_buffer_may_be_used_again_after_a_feed() -> None:
    decoder, buffer = sse.Decoder(), bytearray(b"data: a")
    decoder.feed(buffer)
    buffer[:] = b"xxxxxxx"
    assert decoder.feed(b"\n\n") == [Frame("a")]


@pytest.mark.parametrize("wrong", ["data: a\n\n", 5, None], ids=["text", "a number", "nothing"])
def test_what_is_not_bytes_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match="takes bytes"):
        sse.Decoder().feed(wrong)  # type: ignore[arg-type]


def test_nothing_can_be_fed_after_the_end() -> None:
    decoder = sse.Decoder()
    decoder.feed(b"data: a\n\n")
    assert decoder.finish() == []
    with pytest.raises(UsageError, match="finished"):
        decoder.feed(b"data: b\n\n")
    with pytest.raises(UsageError, match="finished"):
        decoder.finish()


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"data: 12\n\n", Outcome([Frame("12")]), id="a line of the limit"),
        pytest.param(b"data: 123\n\n", Outcome([], "max_line"), id="a line over it"),
        pytest.param(b"\ndata: 123\n\n", Outcome([], "max_line"), id="a line over it, later"),
        pytest.param(b"data: 12\r\n\r\n", Outcome([Frame("12")]), id="its end does not count"),
        pytest.param(
            b"data: 1\n\ndata: 123\n\ndata: 2\n\n",
            Outcome([Frame("1")], "max_line"),
            id="the frames before it are delivered",
        ),
        pytest.param(
            b"data: 1\ndata: 123\n\n", Outcome([], "max_line"), id="the block around it is not"
        ),
        pytest.param(b": 1234567\n", Outcome([], "max_line"), id="comments count"),
        pytest.param(b"data: 123", Outcome([], "max_line"), id="the last line counts"),
        pytest.param(
            b"\xef\xbb\xbfdata: 12\n\n", Outcome([Frame("12")]), id="a mark does not count"
        ),
        pytest.param(b"data: 1\ndata: 2\n\n", Outcome([Frame("1\n2")]), id="an event of the limit"),
        pytest.param(b"data: 1\ndata: 23\n\n", Outcome([], "max_event"), id="an event over it"),
        pytest.param(b"data\n" * 4 + b"\n", Outcome([], "max_event"), id="empty lines add up"),
        pytest.param(
            b"data: 1\n: 23456\nid: 789\n: 01234\ndata: 2\n\n",
            Outcome([Frame("1\n2", "", "789")]),
            id="only data lines add up",
        ),
        pytest.param(
            b"data: 1\n\ndata: 2\n\ndata: 3\n\n",
            Outcome([Frame("1"), Frame("2"), Frame("3")]),
            id="an event counts for itself",
        ),
        pytest.param(
            b"data: 1\n\ndata: 2\ndata: 34", Outcome([Frame("1")], "max_event"), id="at the end"
        ),
    ],
)
def test_a_limit_holds_at_every_cut(stream: bytes, expected: Outcome) -> None:
    check_every_cut(partial(sse.Decoder, max_line=8, max_event=16), stream, expected)


@given(stream=STREAMS, cuts=CUTS, max_line=st.integers(1, 12), max_event=st.integers(1, 24))
def test_limits_do_not_depend_on_cuts(
    stream: bytes, cuts: list[int], max_line: int, max_event: int
) -> None:
    make = partial(sse.Decoder, max_line=max_line, max_event=max_event)
    outcome = decode(make(), cut_at(stream, cuts))
    assert outcome == decode(make(), [stream])
    book = by_the_book(stream)
    assert outcome.frames == book[: len(outcome.frames)]
    assert outcome.broken_limit or outcome.frames == book


def test_the_error_names_its_limit_and_stays() -> None:
    decoder = sse.Decoder(max_line=8)
    assert decoder.feed(b"data: a\n\ndata: 1234\n\n") == [Frame("a")]
    for call in (partial(decoder.feed, b"data:\n\n"), decoder.finish, decoder.finish):
        with pytest.raises(LimitError, match="more than 8 bytes") as caught:
            call()
        assert (caught.value.limit, caught.value.value) == ("max_line", 8)


def test_a_limit_that_nothing_passes_is_refused() -> None:
    with pytest.raises(UsageError, match="max_line"):
        sse.Decoder(max_line=0)
    with pytest.raises(UsageError, match="max_event"):
        sse.Decoder(max_event=0)


def feed_by_bytes(head: bytes, unit: bytes, size: int) -> None:
    decoder = sse.Decoder()
    for byte in one_by_one(head + unit * (size // len(unit))):
        decoder.feed(byte)
    decoder.finish()


@pytest.mark.parametrize(
    ("head", "unit"),
    [
        pytest.param(b"data: ", b"x", id="one long line"),
        pytest.param(b"", b"data: x\n", id="one long event"),
        pytest.param(b"", b"data: x\r\n\r\n", id="many events"),
        pytest.param(b": ", b"\xc3\xa9", id="one long comment"),
    ],
)
def test_bytes_fed_one_by_one_cost_the_same_each(head: bytes, unit: bytes) -> None:
    check_linear(partial(feed_by_bytes, head, unit), 3_000, 30_000, at_most=3, tries=3)


# --- encoder --------------------------------------------------------------------------------------


@given(
    frames=st.lists(st.builds(Frame, DATA, LINES, LINES), max_size=4),
    cuts=CUTS,
)
def test_what_is_encoded_is_decoded_again(frames: list[Frame], cuts: list[int]) -> None:
    stream = b"".join(sse.encode(one.data, event=one.event, id=one.id) for one in frames)
    assert decode(sse.Decoder(), cut_at(stream, cuts)) == Outcome(frames)


@given(retry=st.integers(0, sse.MAX_RETRY), data=DATA)
def test_a_retry_is_decoded_again(retry: int, data: str) -> None:
    decoder = sse.Decoder()
    assert decoder.feed(sse.encode(data, retry=retry)) == [Frame(data)]
    assert decoder.retry == retry


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(sse.encode("{}"), b"data: {}\n\n", id="text"),
        pytest.param(sse.encode(b"{}"), b"data: {}\n\n", id="bytes"),
        pytest.param(sse.encode(""), b"data: \n\n", id="nothing"),
        pytest.param(sse.encode(" a"), b"data:  a\n\n", id="a leading space"),
        pytest.param(sse.encode("a\n\nb\n"), b"data: a\ndata: \ndata: b\ndata: \n\n", id="lines"),
        pytest.param(sse.encode("a", event="e"), b"event: e\ndata: a\n\n", id="an event name"),
        pytest.param(
            sse.encode("a", event="e", id="1", retry=20),
            b"event: e\nid: 1\nretry: 20\ndata: a\n\n",
            id="all the fields",
        ),
        pytest.param(sse.encode("a", id=""), b"id: \ndata: a\n\n", id="an id taken back"),
        pytest.param(sse.comment(), b": \n\n", id="an empty comment"),
        pytest.param(sse.comment("a\r\nb\rc"), b": a\n: b\n: c\n\n", id="a comment in lines"),
    ],
)
def test_a_frame_is_written_as(written: bytes, expected: bytes) -> None:
    assert written == expected


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda: sse.encode("a\rb"), id="a CR in text"),
        pytest.param(lambda: sse.encode(b"a\r\nb"), id="a CRLF in bytes"),
        pytest.param(lambda: sse.encode("\ud83d"), id="a lone surrogate in data"),
        pytest.param(lambda: sse.encode("", event="a\nb"), id="a line end in a name"),
        pytest.param(lambda: sse.encode("", event="a\0"), id="NUL in a name"),
        pytest.param(lambda: sse.encode("", event="\ud83d"), id="a lone surrogate in a name"),
        pytest.param(lambda: sse.encode("", id="a\rb"), id="a CR in an id"),
        pytest.param(lambda: sse.encode("", id="\0"), id="NUL in an id"),
        pytest.param(lambda: sse.encode("", retry=-1), id="a time before now"),
        pytest.param(lambda: sse.encode("", retry=sse.MAX_RETRY + 1), id="a time without end"),
        pytest.param(lambda: sse.comment("\ud83d"), id="a lone surrogate in a comment"),
    ],
)
def test_what_the_format_cannot_say_is_refused(write: Callable[[], bytes]) -> None:
    with pytest.raises(UsageError):
        write()


@given(text=DATA)
def test_a_comment_is_seen_by_nobody(text: str) -> None:
    assert decode(sse.Decoder(), [sse.comment(text)]) == Outcome([])


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param("text/event-stream", True, id="the plain type"),
        pytest.param("text/event-stream; charset=utf-8", True, id="with a charset"),
        pytest.param("text/event-stream;charset=windows-1252", True, id="with another charset"),
        pytest.param("text/event-stream;", True, id="with a semicolon and nothing"),
        pytest.param(" text/event-stream ;x=y", True, id="with spaces around"),
        pytest.param("Text/Event-Stream", True, id="in capitals"),
        pytest.param("", False, id="nothing"),
        pytest.param("text/event-streams", False, id="a longer word"),
        pytest.param("x text/event-stream", False, id="a word before"),
        pytest.param("text/x; text/event-stream", False, id="as a parameter"),
        pytest.param("application/json", False, id="another type"),
    ],
)
def test_a_content_type_is_an_event_stream(header: str, *, expected: bool) -> None:
    assert sse.is_event_stream(header) is expected
