"""`penstock.framing.json_array`: elements as soon as they end, at any cut, and nothing lost."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frame_checks import Outcome, check_every_cut, decode
from laws.checks import check_linear
from laws.cutting import chunkings, cut_at, one_by_one
from laws.strategies import JSON_VALUES
from penstock.errors import LimitError, UsageError
from penstock.framing import json_array
from penstock.framing.json_array import Frame

CUTS = st.lists(st.integers(0, 400), max_size=8)
PIECES = [b"[", b"]", b"{", b"}", b'"', b"\\", b",", b" ", b"\n", b"1", b"null", b'"a":', b"\xc3"]
BODIES = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)
GAPS = st.text(" \t\r\n", max_size=3)

GEMINI = b"""[{
  "candidates": [{"content": {"parts": [{"text": "Say \\"[1, 2]\\" \\\\"}]}}]
}
,\r
{
  "candidates": [{"finishReason": "STOP"}],
  "usageMetadata": {"totalTokenCount": 9}
}
]
"""


def whole(*texts: str) -> list[Frame]:
    return [Frame(text) for text in texts]


def cut(text: str) -> Frame:
    return Frame(text, unfinished=True)


@pytest.mark.parametrize(
    ("body", "frames"),
    [
        pytest.param(b"", [], id="nothing at all"),
        pytest.param(b" \n", [], id="white space"),
        pytest.param(b"[]", [], id="an empty array"),
        pytest.param(b' [ {"a": 1} ] ', whole('{"a": 1}'), id="white space around"),
        pytest.param(
            GEMINI, whole(*(GEMINI.decode()[1:-2].strip().split("\n,\r\n"))), id="a Gemini stream"
        ),
        pytest.param(b"[{},\r\n{}\n,{}]", whole("{}", "{}", "{}"), id="commas on either side"),
        pytest.param(b'[{"a":"}]"}]', whole('{"a":"}]"}'), id="brackets in a string"),
        pytest.param(rb'[{"a":"\"}]\\"}]', whole(r'{"a":"\"}]\\"}'), id="escapes in a string"),
        pytest.param(
            rb'[{"\\\"{":"\\\\"},{}]', whole(r'{"\\\"{":"\\\\"}', "{}"), id="many escapes"
        ),
        pytest.param(
            b"[[" + b'"a",' * 70 + b'"\\""],[]]',
            whole("[" + '"a",' * 70 + '"\\""]', "[]"),
            id="more strings than the scan takes at once",
        ),
        pytest.param(b"[[1,[2]],[]]", whole("[1,[2]]", "[]"), id="arrays as elements"),
        pytest.param(rb'["a,]","\"",""]', whole('"a,]"', r'"\""', '""'), id="strings as elements"),
        pytest.param(
            b"[1,-2.5e3 ,true,null]", whole("1", "-2.5e3", "true", "null"), id="words as elements"
        ),
        pytest.param(
            '[{"é":"…🙂"}]'.encode(), whole('{"é":"…🙂"}'), id="characters of several bytes"
        ),
        pytest.param(b'[{"a":"\xff"}]', whole('{"a":"\ufffd"}'), id="a byte that is not UTF-8"),
        pytest.param(b"\xef\xbb\xbf[{}]", whole("{}"), id="a leading mark"),
        # other bodies
        pytest.param(
            b'{"error": {"code": 400}}\n', whole('{"error": {"code": 400}}'), id="an error"
        ),
        pytest.param(
            b'[{"error": {"code": 400}}]\n', whole('{"error": {"code": 400}}'), id="an error inside"
        ),
        pytest.param(b'[{}]\n{"error":1}', whole("{}", '{"error":1}'), id="an error behind"),
        pytest.param(b"{}\n{}", whole("{}", "{}"), id="objects one after the other"),
        pytest.param(b"{},{}", [Frame("{}"), cut(",{}")], id="a comma outside an array"),
        pytest.param(b"[{}][{}]", whole("{}", "{}"), id="arrays one after the other"),
        pytest.param(b"<p>a, [b]</p>\n", [cut("<p>a, [b]</p>\n")], id="a web page"),
        pytest.param(b'"no"', [cut('"no"')], id="a string alone"),
        pytest.param(b"data: {}\n\n", [cut("data: {}\n\n")], id="an event stream"),
        pytest.param(b"[{}]!, [{}]", [Frame("{}"), cut("!, [{}]")], id="text behind the array"),
        # broken arrays
        pytest.param(b"[{}{}]", whole("{}", "{}"), id="a comma left out"),
        pytest.param(b"[,{},,{},]", whole("{}", "{}"), id="commas too many"),
        pytest.param(b"[{} oops, {}]", whole("{}", "oops", "{}"), id="a word behind an element"),
        pytest.param(b"[{}}, {}]", [Frame("{}"), cut("}, {}]")], id="a bracket too many"),
        pytest.param(b'[{"a":[1}],{}]', whole('{"a":[1}]', "{}"), id="brackets that do not match"),
        pytest.param(b'[a"b"{"c":1}]', whole("a", '"b"', '{"c":1}'), id="values side by side"),
        pytest.param(b"]", [cut("]")], id="an end without a beginning"),
        # cut bodies
        pytest.param(b"[", [], id="cut before an element"),
        pytest.param(b"[{},", whole("{}"), id="cut behind a comma"),
        pytest.param(b'[{},{"a":[1', [Frame("{}"), cut('{"a":[1')], id="cut in an object"),
        pytest.param(b'[{"a":"b\\', [cut('{"a":"b\\')], id="cut in an escape"),
        pytest.param(b'["\xf0\x9f', [cut('"\ufffd')], id="cut in a character"),
        pytest.param(b"[1, 2", [Frame("1"), cut("2")], id="cut in a number, for all we know"),
        pytest.param(b'{"error": ', [cut('{"error": ')], id="cut in an error"),
    ],
)
def test_a_body_means_the_same_at_every_cut(body: bytes, frames: list[Frame]) -> None:
    check_every_cut(json_array.Decoder, body, Outcome(frames))


@given(body=BODIES, cuts=CUTS)
def test_any_body_means_the_same_at_any_cut(body: bytes, cuts: list[int]) -> None:
    outcome = decode(json_array.Decoder(), cut_at(body, cuts))
    assert outcome == decode(json_array.Decoder(), [body])


@given(body=BODIES | st.binary(max_size=60), cuts=CUTS)
def test_nothing_but_white_space_commas_and_arrays_brackets_is_lost(
    body: bytes, cuts: list[int]
) -> None:
    frames = decode(json_array.Decoder(), cut_at(body, cuts)).frames
    at, text = 0, body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    for frame in frames:
        found = text.index(frame.data, at)
        assert not text[at:found].strip(" \t\r\n,[]")
        at = found + len(frame.data)
    assert not text[at:].strip(" \t\r\n,[]")


@given(values=st.lists(JSON_VALUES, max_size=4), gap=GAPS, indent=st.none() | st.just(2), cuts=CUTS)
def test_elements_come_out_as_their_exact_text(
    values: list[Any], gap: str, indent: int | None, cuts: list[int]
) -> None:
    texts = [json.dumps(value, indent=indent, ensure_ascii=False) for value in values]
    body = f"{gap}[{gap}{f'{gap},{gap}'.join(texts)}{gap}]{gap}".encode()
    assert decode(json_array.Decoder(), cut_at(body, cuts)) == Outcome(whole(*texts))


def test_an_element_leaves_with_the_byte_that_ends_it() -> None:
    decoder = json_array.Decoder()
    body = b'[{"a":[]}, "b", 12 ,3]'
    ends = [at for at, byte in enumerate(one_by_one(body)) if decoder.feed(byte)]
    assert ends == [body.index(b"}"), body.index(b'",'), body.index(b" ,"), len(body) - 1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b"", False, id="nothing"),
        pytest.param(b"[", True, id="an array"),
        pytest.param(b"[{}", True, id="an array with an element"),
        pytest.param(b"[{}]", False, id="an array that has ended"),
        pytest.param(b'{"a"', True, id="an object"),
        pytest.param(b'{"a":1}', False, id="an object that has ended"),
        pytest.param(b"oops", True, id="text"),
    ],
)
def test_a_body_is_known_to_be_open(body: bytes, *, expected: bool) -> None:
    for pieces in chunkings(body):
        decoder = json_array.Decoder()
        decode(decoder, pieces)
        assert decoder.is_open is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b"[[123],[4]]", Outcome(whole("[123]", "[4]")), id="an element of the limit"),
        pytest.param(b"[[1234]]", Outcome([], "max_event"), id="an element over it"),
        pytest.param(b"[1,[1234]]", Outcome(whole("1"), "max_event"), id="the ones before it come"),
        pytest.param(b"[123456]", Outcome([], "max_event"), id="a word over it"),
        pytest.param(b"12345", Outcome([cut("12345")]), id="text of the limit"),
        pytest.param(b"[] 123456", Outcome([], "max_event"), id="text over it"),
        pytest.param(b"       [  ,,  1   ]  ", Outcome(whole("1")), id="gaps do not count"),
    ],
)
def test_a_limit_holds_at_every_cut(body: bytes, expected: Outcome) -> None:
    check_every_cut(partial(json_array.Decoder, max_event=5), body, expected)


@given(body=BODIES, cuts=CUTS, limit=st.integers(1, 12))
def test_the_limit_does_not_depend_on_cuts(body: bytes, cuts: list[int], limit: int) -> None:
    outcome = decode(json_array.Decoder(max_event=limit), cut_at(body, cuts))
    assert outcome == decode(json_array.Decoder(max_event=limit), [body])


def test_the_error_comes_after_the_frames_and_stays() -> None:
    decoder = json_array.Decoder(max_event=4)
    assert decoder.feed(b"[1,[23456],7]") == [Frame("1")]
    for call in (partial(decoder.feed, b"[8]"), decoder.finish):
        with pytest.raises(LimitError, match="more than 4 bytes") as caught:
            call()
        assert (caught.value.limit, caught.value.value) == ("max_event", 4)


def test_nothing_can_be_fed_after_the_end() -> None:
    decoder = json_array.Decoder()
    decoder.finish()
    with pytest.raises(UsageError, match="finished"):
        decoder.feed(b"[{}]")


HOSTILE = [
    pytest.param(b"[[", b'"",', id="empty strings"),
    pytest.param(b"[[", rb'"\""', id="strings with escapes"),
    pytest.param(b'["', rb"\\", id="backslashes"),
    pytest.param(b'["', b"x", id="one long string"),
    pytest.param(b"[", b"[{", id="brackets that open"),
    pytest.param(b"[", b"1,", id="many words"),
    pytest.param(b"", b" ", id="white space"),
    pytest.param(b"", b"x", id="text"),
]


def feed_all(head: bytes, unit: bytes, step: int, size: int) -> None:
    body = head + unit * (size // len(unit))
    decoder = json_array.Decoder()
    for at in range(0, len(body), step):
        decoder.feed(body[at : at + step])
    decoder.finish()


@pytest.mark.parametrize(("head", "unit"), HOSTILE)
def test_bytes_fed_one_by_one_cost_the_same_each(head: bytes, unit: bytes) -> None:
    check_linear(partial(feed_all, head, unit, 1), 2_000, 20_000, at_most=3, tries=3)


@pytest.mark.parametrize(("head", "unit"), HOSTILE)
def test_bytes_fed_at_once_cost_the_same_each(head: bytes, unit: bytes) -> None:
    check_linear(partial(feed_all, head, unit, 1_000_000), 10_000, 200_000, at_most=5, tries=3)


@given(values=st.lists(JSON_VALUES, max_size=4), cuts=CUTS)
def test_what_is_encoded_is_decoded_again(values: list[Any], cuts: list[int]) -> None:
    encoder = json_array.Encoder()
    texts = [json.dumps(value) for value in values]
    body = b"".join(map(encoder.encode, texts)) + encoder.finish()
    assert json.loads(body) == values
    assert decode(json_array.Decoder(), cut_at(body, cuts)) == Outcome(whole(*texts))


def test_an_encoder_refuses_what_is_no_element() -> None:
    encoder = json_array.Encoder()
    for data in ("", b" \n", '"\ud83d"'):
        with pytest.raises(UsageError):
            encoder.encode(data)
    assert encoder.encode(b"{}") + encoder.finish() == b"[{}]"


def test_an_encoder_writes_nothing_after_the_end() -> None:
    encoder = json_array.Encoder()
    assert encoder.finish() == b"[]"
    with pytest.raises(UsageError):
        encoder.encode("{}")
    with pytest.raises(UsageError):
        encoder.finish()
