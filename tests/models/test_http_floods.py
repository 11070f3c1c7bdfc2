"""Servers that send far more than anybody can use: read in bounded turns, and ended honestly."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from itertools import repeat

import brotli
import pytest

from models.loopback_servers import ANSWER, Reply, serving, stream_of
from penstock import HTTPModel, Request
from penstock.apis import decoder
from penstock.errors import LimitError
from penstock.events import Event, Failed, TextDelta, ThinkingDelta, ToolCallDelta
from penstock.framing import MAX_LINE, sse
from penstock.messages import Text
from penstock.models.http import HTTPCall, aiohttp_transport
from penstock.models.http.aiohttp_transport import decompressor_for
from penstock.models.http.attempt import DENSE_PART, MAX_PART, MAX_TURN, split_events
from penstock.models.http.transport import UnreadableBodyError
from penstock.request import UserMessage

ASKED = Request(messages=[UserMessage([Text("When is high water?")])])
PIECE = 16_384


class Flood:
    """A transport whose answers are there at once: reading them never waits."""

    status = 200
    headers: Mapping[str, str] = {}

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.read = 0

    async def send(self, call: HTTPCall) -> Flood:
        del call
        return self

    async def close(self) -> None:
        """Close nothing."""

    async def aclose(self) -> None:
        """Close nothing."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for data in self._pieces:
            self.read += len(data)
            yield data


def chunk(**delta: object) -> bytes:
    return b"data: %s\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode()


def pieces(unit: bytes) -> Iterable[bytes]:
    return repeat(unit * (PIECE // len(unit) + 1))


def cut(data: bytes) -> list[bytes]:
    return [data[at : at + PIECE] for at in range(0, len(data), PIECE)]


async def turns_of(flood: Flood) -> tuple[list[list[Event]], int]:
    """Read *flood* to its end; return the batches, and how many turns another task had."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    model = HTTPModel("openai-chat", "http://127.0.0.1:1", "m", "", transport=flood)
    batches = [batch async for batch in model.batches(ASKED)]
    counting.cancel()
    return batches, turns


FLOODS: dict[str, tuple[bytes, str]] = {
    "comments": (b":\n\n", "bytes without an event"),
    "blank lines": (b"\n", "bytes without an event"),
    "event names": (b"event: x\n", "bytes without an event"),
    "spaces": (b" ", "a line of more than"),
    "a line": (b"data:xxxxxxxx", "a line of more than"),
    "empty objects": (b"data: {}\n\n", "frames in a row without content"),
    "empty deltas": (chunk(content=""), "frames in a row without content"),
    "lines that are no field": (b"xxxxxxxxxx\n", "bytes in a row without content"),
}


@pytest.mark.parametrize(("unit", "why"), FLOODS.values(), ids=FLOODS)
async def test_an_endless_answer_is_ended_and_leaves_others_their_turns(
    unit: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder, "MAX_SILENT", MAX_LINE + PIECE)
    monkeypatch.setattr(decoder, "MAX_SILENT_FRAMES", 5_000)
    flood = Flood(pieces(unit))
    batches, turns = await turns_of(flood)
    end = batches[-1][-1]
    assert isinstance(end, Failed)
    assert end.error.kind == "malformed"
    assert why in end.error.message
    assert turns >= flood.read // (2 * MAX_TURN)


async def test_a_read_of_very_many_frames_takes_several_turns() -> None:
    frames = b"data: x\n\n" * 1_800 + b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
    batches, turns = await turns_of(Flood([frames]))
    assert turns >= len(frames) // DENSE_PART
    assert batches[-1][-1].message.text == "a"  # type: ignore[union-attr]


async def test_calls_without_end_are_ended() -> None:
    def calls() -> Iterable[bytes]:
        for index in range(100_000):
            call = {"index": index, "id": f"c{index}", "function": {"name": "f"}}
            yield chunk(tool_calls=[call])

    batches, _ = await turns_of(Flood(calls()))
    end = batches[-1][-1]
    assert isinstance(end, Failed)
    assert "blocks" in end.error.message
    assert not any(call.complete for call in end.message.tool_calls)


@pytest.mark.parametrize("unit", [b"[],", b"{},", b"1,", b'{"delta":{"content":"a"}},', b"["])
async def test_a_frame_of_very_many_values_is_refused_before_it_is_read(unit: bytes) -> None:
    size = decoder.MAX_VALUES + 1
    data = b'data: {"choices":[' + unit * size + b"0]}\n\n"
    batches, _ = await turns_of(Flood(cut(data)))
    end = batches[-1][-1]
    assert isinstance(end, Failed)
    assert (end.error.kind, "JSON values" in end.error.message) == ("malformed", True)


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
async def test_a_giant_delta_comes_in_pieces_that_say_the_same(field: str) -> None:
    text = "giant " * 100_000
    data = chunk(**{field: text}) + b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
    batches, turns = await turns_of(Flood(cut(data)))
    deltas = [event for batch in batches for event in batch if hasattr(event, "text")]
    said = [event.text for event in deltas if isinstance(event, TextDelta | ThinkingDelta)]
    assert "".join(said) == text
    assert max(map(len, said)) <= MAX_PART
    assert turns >= len(text) // MAX_PART


async def test_a_whole_body_of_one_long_line_is_read() -> None:
    text = "long " * 500_000
    body = json.dumps(
        {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
    )
    batches, turns = await turns_of(Flood(cut(body.encode())))
    assert batches[-1][-1].message.text == text  # type: ignore[union-attr]
    assert turns >= len(text) // MAX_PART


def test_events_are_cut_where_they_say_too_much() -> None:
    events: list[Event] = [TextDelta(0, "a" * 25), ToolCallDelta(1, "b" * 7), TextDelta(2, "c")]
    parts = [*split_events(events, 10)]
    assert [[_said(event) for event in part] for part in parts] == [
        ["a" * 10], ["a" * 10], ["a" * 5, "b" * 7], ["c"]
    ]  # fmt: skip


def _said(event: Event) -> str:
    return event.arguments if isinstance(event, ToolCallDelta) else event.text  # type: ignore[union-attr]


# --- compression ---

PACKED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip, its older name": ("x-gzip", gzip.compress),
    "gzip in two members": (
        "gzip",
        lambda data: gzip.compress(data[:99]) + gzip.compress(b"") + gzip.compress(data[99:]),
    ),
    "deflate": ("deflate", zlib.compress),
    "deflate without a header": ("deflate", lambda data: zlib.compress(data, wbits=-15)),
    "brotli": ("br", brotli.compress),
}
packed = pytest.mark.parametrize(("encoding", "pack"), PACKED.values(), ids=PACKED)


@packed
@pytest.mark.parametrize("size", [1, 7, 16_384])
def test_a_packed_body_is_unpacked_whatever_its_cuts(
    encoding: str, pack: Callable[[bytes], bytes], size: int
) -> None:
    data = stream_of("openai-chat") * 20
    body, unpacker, read = pack(data), decompressor_for(encoding), b""
    assert unpacker is not None
    for at in range(0, len(body), size):
        unpacker.feed(body[at : at + size])
        while piece := unpacker.take(512):
            read += piece
    assert read == data


@packed
def test_a_bomb_is_unpacked_piece_by_piece_and_refused(
    encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    unpacker = decompressor_for(encoding)
    assert unpacker is not None
    unpacker.feed(pack(bytes(8_000_000)))
    sizes: list[int] = []
    with pytest.raises(UnreadableBodyError, match="unpacks to more than"):
        sizes.extend(map(len, iter(partial(unpacker.take, PIECE), b"")))
    assert max(sizes) <= 4 * PIECE
    assert sum(sizes) <= aiohttp_transport.MIN_BOMB


@packed
def test_what_is_not_packed_as_it_says_is_refused(
    encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    del pack
    unpacker = decompressor_for(encoding)
    assert unpacker is not None
    unpacker.feed(b"\xfe\x00 no compression at all \xff" * 20)
    with pytest.raises(UnreadableBodyError, match="cannot be decompressed"):
        unpacker.take(PIECE)


@pytest.mark.parametrize(
    ("encoding", "is_plain"), [("", True), ("identity", True), ("utf-8", True)]
)
def test_a_word_that_names_no_compression_means_nothing(encoding: str, *, is_plain: bool) -> None:
    assert (decompressor_for(encoding) is None) == is_plain


def test_a_compression_that_nobody_asked_for_is_named() -> None:
    with pytest.raises(UnreadableBodyError, match="zstd"):
        decompressor_for("zstd")


async def test_the_server_is_told_what_can_be_unpacked() -> None:
    reply = Reply([gzip.compress(stream_of("openai-chat"))], headers={"content-encoding": "gzip"})
    async with (
        serving(reply) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as model,
    ):
        assert (await model.complete(ASKED)).text == ANSWER.text
        assert upstream.seen[0].headers["accept-encoding"] == "gzip, deflate, br"


# --- the framing's own limit ---


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_bytes_without_an_event_are_counted_whatever_their_cuts(size: int) -> None:
    data = b": hello\n\nevent: x\nid: 1\n\n" * 2
    assert _frames(data, len(data), size) == []
    with pytest.raises(LimitError, match="without an event"):
        _frames(data, len(data) - 1, size)
    assert len(_frames((data + b"data: 1\n\n") * 5, len(data), size)) == 5


def _frames(data: bytes, limit: int, size: int) -> list[sse.Frame]:
    decoder = sse.Decoder(max_idle=limit)
    return [
        frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])
    ]
