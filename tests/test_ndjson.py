"""`penstock.framing.ndjson`: a line is a frame, at any cut."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frame_checks import Outcome, check_every_cut, decode
from laws.checks import check_linear
from laws.cutting import cut_at, one_by_one
from penstock.errors import LimitError, UsageError
from penstock.framing import ndjson
from penstock.framing.ndjson import Frame

CUTS = st.lists(st.integers(0, 200), max_size=8)
PIECES = [b"{", b"}", b'"a"', b" ", b"\t", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"\xc3", b"\xa9"]
STREAMS = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)
TEXTS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])).filter(
    lambda text: text.strip(" \t")
)


def by_the_book(stream: bytes) -> list[Frame]:
    """Read a whole stream in the most direct way."""
    text = stream.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    *lines, rest = text.split("\n")
    frames = [Frame(line.removesuffix("\r")) for line in lines if line.strip(" \t\r")]
    return [*frames, Frame(rest, unfinished=True)] if rest.strip(" \t\r") else frames


@pytest.mark.parametrize(
    ("stream", "frames"),
    [
        pytest.param(b"", [], id="nothing at all"),
        pytest.param(b'{"a":1}\n{"b":2}\n', [Frame('{"a":1}'), Frame('{"b":2}')], id="two lines"),
        pytest.param(b"{}\r\n[]\r\n", [Frame("{}"), Frame("[]")], id="lines that end with CRLF"),
        pytest.param(b"[1,\r2]\n", [Frame("[1,\r2]")], id="a lone CR is white space of JSON"),
        pytest.param(b"1\r\r\n", [Frame("1\r")], id="one CR belongs to the end"),
        pytest.param(b"\n\r\n{}\n \t\n\n", [Frame("{}")], id="blank lines are skipped"),
        pytest.param(b" {} \n", [Frame(" {} ")], id="white space around a value is kept"),
        pytest.param(
            '{"a":"\u2028\u2029\u0085"}\n\x0b\x0c\n'.encode(),
            [Frame('{"a":"\u2028\u2029\u0085"}'), Frame("\x0b\x0c")],
            id="other separators end no line and are not blank",
        ),
        pytest.param(
            b'{}\n{"done":true}',
            [Frame("{}"), Frame('{"done":true}', unfinished=True)],
            id="a last line without its end",
        ),
        pytest.param(b'{"a":"\xc3', [Frame('{"a":"\ufffd', unfinished=True)], id="a cut line"),
        pytest.param(b"{}\n  ", [Frame("{}")], id="blanks at the end"),
        pytest.param(b"\xef\xbb\xbf{}\n", [Frame("{}")], id="a leading mark is dropped"),
        pytest.param(
            b"{}\n\xef\xbb\xbf{}\n", [Frame("{}"), Frame("\ufeff{}")], id="a later mark is kept"
        ),
        pytest.param("é…🙂\n".encode(), [Frame("é…🙂")], id="characters of several bytes"),
        pytest.param(b"\xff\n\xf0\x9f\n", [Frame("\ufffd"), Frame("\ufffd")], id="not UTF-8"),
        pytest.param(b"a\0b\n", [Frame("a\0b")], id="NUL is kept"),
    ],
)
def test_lines_mean_the_same_at_every_cut(stream: bytes, frames: list[Frame]) -> None:
    check_every_cut(ndjson.Decoder, stream, Outcome(frames))


@given(stream=STREAMS | st.binary(max_size=100), cuts=CUTS)
def test_any_bytes_are_read_by_the_book(stream: bytes, cuts: list[int]) -> None:
    assert decode(ndjson.Decoder(), cut_at(stream, cuts)) == Outcome(by_the_book(stream))


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"1234\n", Outcome([Frame("1234")]), id="a line of the limit"),
        pytest.param(b"12345\n", Outcome([], "max_line"), id="a line over it"),
        pytest.param(b"123\r\n", Outcome([Frame("123")]), id="a CR counts"),
        pytest.param(b"1234\r\n", Outcome([], "max_line"), id="a CR may be too much"),
        pytest.param(b"12345", Outcome([], "max_line"), id="the last line counts"),
        pytest.param(b"     \n", Outcome([], "max_line"), id="blanks count"),
        pytest.param(b"\xef\xbb\xbf1234", Outcome([Frame("1234", unfinished=True)]), id="no mark"),
        pytest.param(
            b"1\n2\n34567\n8\n", Outcome([Frame("1"), Frame("2")], "max_line"), id="in between"
        ),
    ],
)
def test_a_limit_holds_at_every_cut(stream: bytes, expected: Outcome) -> None:
    check_every_cut(partial(ndjson.Decoder, max_line=4), stream, expected)


@given(stream=STREAMS, cuts=CUTS, limit=st.integers(1, 12))
def test_the_limit_does_not_depend_on_cuts(stream: bytes, cuts: list[int], limit: int) -> None:
    outcome = decode(ndjson.Decoder(max_line=limit), cut_at(stream, cuts))
    assert outcome == decode(ndjson.Decoder(max_line=limit), [stream])


def test_the_error_comes_after_the_frames_and_stays() -> None:
    decoder = ndjson.Decoder(max_line=4)
    assert decoder.feed(b"1\n23456\n7\n") == [Frame("1")]
    for call in (partial(decoder.feed, b"8\n"), decoder.finish):
        with pytest.raises(LimitError, match="more than 4 bytes") as caught:
            call()
        assert (caught.value.limit, caught.value.value) == ("max_line", 4)


def test_nothing_can_be_fed_after_the_end() -> None:
    decoder = ndjson.Decoder()
    decoder.finish()
    with pytest.raises(UsageError, match="finished"):
        decoder.feed(b"{}\n")


def feed_by_bytes(unit: bytes, size: int) -> None:
    decoder = ndjson.Decoder()
    for byte in one_by_one(unit * (size // len(unit))):
        decoder.feed(byte)
    decoder.finish()


@pytest.mark.parametrize("unit", [b"x", b"{}\n", b"\r"], ids=["one line", "many lines", "only CR"])
def test_bytes_fed_one_by_one_cost_the_same_each(unit: bytes) -> None:
    check_linear(partial(feed_by_bytes, unit), 3_000, 30_000, at_most=3, tries=3)


@given(texts=st.lists(TEXTS, max_size=4), cuts=CUTS)
def test_what_is_encoded_is_decoded_again(texts: list[str], cuts: list[int]) -> None:
    # A mark in front would be dropped; JSON text never begins with one.
    stream = b"{}\n" + b"".join(ndjson.encode(text) for text in texts)
    frames = [Frame("{}"), *map(Frame, texts)]
    assert decode(ndjson.Decoder(), cut_at(stream, cuts)) == Outcome(frames)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("a\nb", id="an LF in text"),
        pytest.param(b"a\r", id="a CR in bytes"),
        pytest.param("", id="nothing"),
        pytest.param(" \t", id="blanks"),
        pytest.param('"\ud83d"', id="a lone surrogate"),
    ],
)
def test_what_a_line_cannot_hold_is_refused(data: str | bytes) -> None:
    with pytest.raises(UsageError):
        ndjson.encode(data)
