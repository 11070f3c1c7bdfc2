"""The hot path reads the same as the full decoder, however the bytes are split."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws.checks import read
from laws.merging import merged
from penstock import apis
from penstock.apis.decoder import FrameTemplate
from penstock.apis.transcript import TextBlock, Transcript
from penstock.errors import UsageError
from penstock.events import Done, Failed, TextDelta

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


def passage() -> TextBlock:
    return Transcript().text()


@pytest.mark.parametrize("text", ["é", "a\\b", "", "content"])
def test_a_text_that_may_stand_elsewhere_is_not_learnt(text: str) -> None:
    shape = FrameTemplate()
    data = json.dumps({"content": text})
    shape.learn(data, text, passage())
    assert shape.match(json.dumps({"content": "b"})) == (None, "")


def test_a_passage_that_has_ended_takes_no_more() -> None:
    shape, ended = FrameTemplate(), passage()
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


# --- frames of several pieces, some of which make no event ---

PIECES = ["a", "b", " ", "0", "{", "}", '{"a":', '"x"', "index", "é", "\ud83d", "\ude00", "x\ud83d"]
Make = Callable[[Random], dict[str, Any]]


def chat_frame(chance: Random) -> dict[str, Any]:
    keys = chance.choice([("content",), ("reasoning_content",), (), ("content",)])
    delta: dict[str, Any] = {key: chance.choice(PIECES) for key in keys}
    calls = []
    for _ in range(chance.choice([0, 1, 1, 2])):
        function: dict[str, Any] = {"arguments": chance.choice(PIECES)}
        if chance.random() < 0.2:
            function["name"] = chance.choice(["f", "g", ""])
        calls.append({"index": chance.choice([0, 1]), "function": function})
    finish = "tool_calls" if chance.random() < 0.03 else None
    choice = {"index": 0, "delta": delta | {"tool_calls": calls}, "finish_reason": finish}
    return {"id": chance.choice(["c", "c", "a"]), "choices": [choice]}


def gemini_frame(chance: Random) -> dict[str, Any]:
    parts = [
        {"text": chance.choice(PIECES), **({"thought": True} if chance.random() < 0.4 else {})}
        for _ in range(chance.choice([1, 1, 2]))
    ]
    return {"candidates": [{"content": {"parts": parts}}], "responseId": chance.choice("ra")}


def ollama_frame(chance: Random) -> dict[str, Any]:
    keys = chance.choice([("content",), ("thinking",), ("thinking", "content")])
    return {"message": {key: chance.choice(PIECES) for key in keys}, "done": False}


def responses_frame(chance: Random) -> dict[str, Any]:
    kind = chance.choice(["output_text", "function_call_arguments", "reasoning_summary_text"])
    index = chance.choice([0, 1, 2])
    data = {"item_id": f"i{index}", "output_index": index, "delta": chance.choice(PIECES)}
    return {"type": f"response.{kind}.delta", **data, "sequence_number": chance.choice([1, 23])}


def varied(chance: Random, frame: str) -> str:
    """Give *frame* once more, often with another of its pieces in one place."""
    if chance.random() < 0.4:
        return frame
    old, new = (json.dumps(chance.choice(PIECES)) for _ in range(2))
    return frame.replace(f": {old}", f": {new}", 1)


def reads_of(chance: Random, make: Make, wire: str) -> list[bytes]:
    frames: list[str] = []
    while len(frames) < 10:
        frame = json.dumps(make(chance))
        frames += [frame] + [varied(chance, frame) for _ in range(chance.randint(0, 3))]
    reads = [wire.format(frame).encode() for frame in frames]
    return reads if chance.random() < 0.7 else [b"".join(reads[:5]), b"".join(reads[5:])]


@pytest.mark.parametrize(
    ("api", "make", "wire", "rounds"),
    [
        ("openai-chat", chat_frame, "data: {}\n\n", 900),
        ("gemini", gemini_frame, "data: {}\n\n", 300),
        ("ollama", ollama_frame, "{}\n", 300),
        ("openai-responses", responses_frame, "data: {}\n\n", 300),
    ],
)
def test_the_hot_path_gives_the_events_of_the_long_way(
    api: str, make: Make, wire: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(7)
    streams = [reads_of(chance, make, wire) for _ in range(rounds)]
    hot = [read(apis.get(api).decoder(), reads) for reads in streams]
    monkeypatch.setattr(FrameTemplate, "learn", lambda shape, *_: shape.forget())
    for reads, events in zip(streams, hot, strict=True):
        assert events == read(apis.get(api).decoder(), reads), reads


def test_a_call_without_a_name_loses_nothing_beside_another() -> None:
    def calls(*pieces: tuple[int, str], name: str = "") -> bytes:
        named = {"name": name} if name else {}
        said = [{"index": at, "function": {**named, "arguments": text}} for at, text in pieces]
        return chunk("", tool_calls=None).replace(
            b'{"content": ""}', json.dumps({"tool_calls": said}).encode()
        )

    reads = [
        calls((1, "{"), name="g"),
        calls((0, '{"a":1')),
        calls((0, "0"), (1, " ")),
        calls((0, "0"), (1, "}")),
        calls((0, "}")),
        calls((0, ""), name="f"),
        b"data: [DONE]\n\n",
    ]
    *_, end = read(API.decoder(), reads)
    assert isinstance(end, Done)
    assert [(call.name, call.arguments) for call in end.message.tool_calls] == [
        ("g", {}),
        ("f", {"a": 100}),
    ]


# --- several frames in a read ---


def frames_of(texts: list[str], **more: Any) -> bytes:
    return b"".join(chunk(text, **more) for text in texts)


@pytest.mark.parametrize("start", ["", "event: message\n"], ids=["data only", "with a name"])
def test_frames_of_a_read_that_differ_in_their_text_are_not_decoded(
    start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = API.decoder()
    named = [start.encode() + chunk(text) for text in ("one", " two", " é\n", ' "q"')]
    decoder.feed(b"".join(named[:2]))
    monkeypatch.setattr(decoder, "_read_object", lambda *_: pytest.fail("a frame was decoded"))
    events = decoder.feed(b"".join(named[2:] * 3))
    assert [event.text for event in events if type(event) is TextDelta] == [" é\n", ' "q"'] * 3


@pytest.mark.parametrize(
    "last",
    [
        chunk("thought", key="reasoning_content"),
        b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
        b"data: [DONE]\n\n",
        b": a comment\n\n",
        b"\n\n",
        chunk("x")[:20],
        chunk(""),
        chunk("x").replace(b'"x"', b'"x'),
        chunk("x").replace(b'"x"', b'"\\"'),
        chunk("x").replace(b"x", b"\xe2\x82"),
        chunk("x").replace(b"\n\n", b"\r\n\r\n"),
    ],
    ids=range(11),
)
def test_what_follows_frames_that_are_alike_counts(last: bytes) -> None:
    first, more = frames_of(["a", " b"]), frames_of([" c", " d", " e"])
    for middle in (more + last, last + more, more + last + more):
        whole, parts = API.decoder(), API.decoder()
        expected = merged(read(whole, [first + middle]))
        assert merged(read(parts, [first, middle])) == expected
        assert parts.skipped == whole.skipped
