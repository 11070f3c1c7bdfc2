"""What the hot path reads is what the long way reads, however the reads fall."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws.checks import read
from laws.merging import merged
from penstock import apis
from penstock.apis.passages import Passage
from penstock.apis.shapes import Shape
from penstock.apis.transcript import Transcript
from penstock.errors import UsageError
from penstock.events import Failed, TextDelta

API = apis.get("openai-chat")
TEXTS = st.lists(
    st.sampled_from(["a", " word", "é", "日本", "😀", '"', "\\", "\\n", "\n", "\x7f", "\ufffd"])
    | st.text(max_size=3).filter(lambda text: text.isascii() or text.isprintable()),
    max_size=12,
)  # fmt: skip


def chunk(text: str, *, key: str = "content", **more: Any) -> bytes:
    data = {"id": "c", "choices": [{"index": 0, "delta": {key: text}}], **more}
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def text_of(reads: list[bytes]) -> str:
    return "".join(event.text for event in read(API.decoder(), reads) if type(event) is TextDelta)


@settings(max_examples=200)
@given(texts=TEXTS, more=st.sampled_from([{}, {"obfuscation": "x7"}, {"sequence_number": 3}]))
def test_a_frame_a_read_says_what_all_in_one_read_say(
    texts: list[str], more: dict[str, Any]
) -> None:
    reads = [chunk("begin", **more), *(chunk(text, **more) for text in ["plain", *texts])]
    one_by_one = merged(read(API.decoder(), reads))
    assert one_by_one == merged(read(API.decoder(), [b"".join(reads)]))
    assert text_of(reads) == "".join(["begin", "plain", *texts])


@pytest.mark.parametrize("padding", ["", "a", "Zz09", "a\\n", 'a"', "a b"])
def test_padding_may_differ_and_is_not_read(padding: str) -> None:
    reads = [chunk(" one", obfuscation="abc") for _ in range(3)] + [
        chunk(" two", obfuscation=padding)
    ]
    assert text_of(reads) == " one one one two"


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        (chunk("thought", key="reasoning_content"), "a a b"),
        (b": a comment\n\n", "a a b"),
        (b"event: error\n", "a a"),
        (b": half a comment ", "a a"),
        (b"data: {", "a a"),
        (b"\n", "a a b"),
    ],
    ids=["thinking", "a comment", "a name", "half a comment", "half a frame", "a blank line"],
)
def test_what_comes_between_two_alike_reads_counts(between: bytes, expected: str) -> None:
    reads = [chunk("a"), chunk(" a"), between, chunk(" b")]
    whole = text_of([b"".join(reads)])
    assert text_of(reads) == whole
    assert whole.startswith(expected)


def test_bytes_that_are_no_utf8_are_replaced_as_ever() -> None:
    broken = chunk("x").replace(b"x", b"\xe2\x82")
    assert text_of([chunk("a"), chunk("b"), broken]) == "ab\ufffd"


def test_a_text_that_ends_in_half_an_escape_is_not_read_short() -> None:
    broken = chunk("b").replace(b'"b"', b'"b\\"')
    decoder = API.decoder()
    read_all = [event for data in (chunk("a"), chunk("b"), broken) for event in decoder.feed(data)]
    assert [event.text for event in read_all if type(event) is TextDelta] == ["a", "b"]
    assert decoder.skipped == 1


def test_a_finished_decoder_reads_no_more() -> None:
    decoder = API.decoder()
    for _ in range(3):
        decoder.feed(chunk("a"))
    decoder.finish()
    with pytest.raises(UsageError):
        decoder.feed(chunk("a"))


def passage() -> Passage:
    return Transcript().text()


@pytest.mark.parametrize("text", ["é", "a\\b", "", "content"])
def test_a_text_that_may_stand_elsewhere_is_not_learnt(text: str) -> None:
    shape = Shape()
    data = json.dumps({"content": text})
    shape.learn(data, text, passage())
    assert shape.match(json.dumps({"content": "b"})) == (None, "")


def test_a_passage_that_has_ended_takes_no_more() -> None:
    shape, ended = Shape(), passage()
    shape.learn('{"content":"a"}', "a", ended)
    assert shape.match('{"content":"b"}') == (ended, "b")
    ended.close()
    assert shape.match('{"content":"b"}') == (None, "")


def test_a_frame_in_between_may_change_what_the_same_frame_says() -> None:
    def thought(index: int, text: str) -> bytes:
        type_ = "response.reasoning_summary_text.delta"
        data = {"type": type_, "item_id": "rs", "summary_index": index, "delta": text}
        return f"data: {json.dumps(data)}\n\n".encode()

    reads = [thought(0, "a"), thought(0, "b"), thought(1, "c"), thought(0, "d")]
    for chunks in (reads, [b"".join(reads)]):
        *_, end = read(apis.get("openai-responses").decoder(), chunks)
        assert isinstance(end, Failed)
        assert end.message.thinking == "ab\n\nc\n\nd"


@pytest.mark.parametrize("number", ["7", "0", "07", "7a", "é", "", '"7"', "\r7"])
def test_numbers_may_differ_if_they_are_some(number: str) -> None:
    numbered = [chunk(f" {word}", sequence_number=5) for word in ("one", "two", "three")]
    other = chunk(" four", sequence_number=5).replace(b": 5", b": " + number.encode())
    reads = [part.replace(b'r": ', b'r":') for part in (*numbered, other)]
    decoder, whole = API.decoder(), API.decoder()
    assert merged(read(decoder, reads)) == merged(read(whole, [b"".join(reads)]))
    assert decoder.skipped == whole.skipped
