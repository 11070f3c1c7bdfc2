"""What every decoder does alike: streams that stop early, say nothing or are none at all."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from laws import one_by_one
from laws.checks import read
from penstock import apis
from penstock.apis import Api
from penstock.events import Done, Event, Failed, TextDelta, TextEnd, TextStart
from penstock.messages import AssistantMessage, ErrorInfo, Text

APIS = pytest.mark.parametrize("api", [*map(apis.get, apis.names())], ids=apis.names())
CHAT = apis.get("openai-chat")


def error_of(api: Api, *pieces: bytes) -> ErrorInfo:
    end = read(api.decoder(), [*pieces])[-1]
    assert isinstance(end, Failed), end
    return end.error


def message_of(events: list[Event]) -> AssistantMessage:
    end = events[-1]
    assert isinstance(end, Done | Failed)
    return end.message


def frame(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n"


@APIS
@pytest.mark.parametrize(
    "body", [b'data: {"id":"c1","choi', b"event: mess", b"dat", b'{"model": "m", "mess', b'[{"a']
)
def test_a_stream_that_stops_inside_its_first_frame_was_cut(api: Api, body: bytes) -> None:
    error = error_of(api, body)
    assert (error.kind, error.retryable) == ("truncated", True)


@pytest.mark.parametrize("body", [b": keep-alive\n\n", b': keep-alive\n\ndata: {"id"'])
def test_a_stream_that_gave_no_more_than_a_sign_of_life_was_cut(body: bytes) -> None:
    error = error_of(CHAT, body)
    assert (error.kind, error.retryable) == ("truncated", True)


@APIS
@pytest.mark.parametrize("body", [b"<html>", b"oops", b"{bad}"])
def test_a_page_is_no_stream_that_was_cut(api: Api, body: bytes) -> None:
    assert error_of(api, body).kind != "truncated"


@pytest.mark.parametrize("api", [CHAT, apis.get("qwen")], ids=["openai-chat", "qwen"])
def test_a_mark_behind_nothing_but_garbage_is_no_good_end(api: Api) -> None:
    error = error_of(api, b"data: {bad\n\ndata: [DONE]\n\n")
    assert (error.kind, error.message) == ("malformed", "the stream contains no JSON")


@pytest.mark.parametrize(
    "body",
    [
        b'{"detail": [{"loc": ["body"], "msg": "why"}]}',
        b'[{"error": {"message": "why"}}]',
        b'{"errors": [{"message": "why"}]}',
        b': processing\n\n{"error": {"message": "why"}}',
        b'data: {"object": "error", "message": "why", "code": 400}\n\n',
        b'data: {"error": "why", "code": 400}\n\n',
        b'data: {"choices": [{"delta": {}, "error": {"message": "why"}}]}\n\n',
    ],
)
def test_an_error_keeps_its_words_in_whatever_shape_it_comes(body: bytes) -> None:
    error = error_of(CHAT, body)
    assert (error.message, error.kind) == ("why", "provider")


def test_a_line_of_another_server_is_an_error_to_ollama_too() -> None:
    assert error_of(apis.get("ollama"), b'{"detail": "why"}\n').message == "why"


# --- damaged frames ---

LOST = "LOST"


def stream_of(api: Api, words: list[str]) -> bytes:
    """Write an answer of one text that is said in *words*."""
    encoder = api.encoder(model="m", id="id-1")
    text = "".join(words)
    events: list[Event] = [TextStart(0), *(TextDelta(0, word) for word in words), TextEnd(0, text)]
    end = Done("stop", AssistantMessage(content=[Text(text)], stop_reason="stop"))
    data = b"".join(map(encoder.encode, [*events, end])) + encoder.finish()
    return data.replace(b"\r\n", b"\n")


def is_json(line: bytes) -> bool:
    try:
        json.loads(line.partition(b"{")[1] + line.partition(b"{")[2])
    except ValueError:
        return False
    return line.startswith((b"data:", b"{"))


def damages(line: bytes) -> Iterator[bytes]:
    """Give *line* damaged in many places: its end, its beginning or a piece inside is missing."""
    key = line.index(b'"') + 1
    for at in range(1, len(line) - 2, 4):
        if at >= key:  # Less than that is no sign of anything.
            yield line[:at] + b"\n"
        if line[at : at + 1] == b":":  # A comment is a comment, whatever it says.
            continue
        yield line[at:]
        piece = line[:at] + line[at + 2 :]
        if not is_json(piece):
            yield piece
        yield line[:at] + b"\n" + line[at:]


@APIS
def test_no_text_closes_over_a_damaged_frame(api: Api) -> None:
    data = stream_of(api, ["Transfer 1", LOST, "00 euros"])
    if api.name == "openai-responses":  # The end repeats the text whole.
        data = b"".join(
            f + b"\n\n" for f in data.split(b"\n\n")[:-1] if b"00 euros" not in f or b"delta" in f
        )
        data += b'event: response.completed\ndata: {"type":"response.completed","response":{}}\n\n'
    start = data.rindex(b"\n", 0, data.index(LOST.encode())) + 1
    line = data[start : data.index(b"\n", start) + 1]
    for number, damaged in enumerate(damages(line)):
        broken = data[:start] + damaged + data[start + len(line) :]
        events = read(api.decoder(), [broken])
        message = message_of(events)
        if LOST in message.text or "Transfer 1" not in message.text:
            continue
        assert isinstance(events[-1], Failed), damaged
        assert message.text == "Transfer 1"
        assert events[-1].error.kind in ("malformed", "truncated", "provider")
        if number % 10 == 0:
            assert read(api.decoder(), one_by_one(broken))[-1] == events[-1]


@APIS
@pytest.mark.parametrize("noise", [b"ping", b"OPENROUTER PROCESSING", b"null", b"{oh no", b"[]"])
def test_noise_between_frames_is_counted_and_no_more(api: Api, noise: bytes) -> None:
    data = stream_of(api, ["Hi", " there"])
    at = data.index(b" there")
    start = data.rindex(b"\n\n" if api.name != "ollama" else b"\n", 0, at) + 1
    noisy = noise + b"\n" if api.name == "ollama" else b"\ndata: " + noise + b"\n\n"
    decoder = api.decoder()
    events = read(decoder, [data[:start] + noisy + data[start:]])
    assert isinstance(events[-1], Done)
    assert (events[-1].message.text, decoder.skipped) == ("Hi there", 1)


def test_a_ping_inside_a_call_costs_nothing_and_a_piece_of_json_costs_the_call() -> None:
    begins = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a": "x'}}
    chunks = [
        {"tool_calls": [begins]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]},
    ]
    first, second = (
        b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n"
        for delta in chunks
    )
    end = b'data: {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}\n\n'
    for noise, is_complete in ((b"ping", True), (b"{oops", False), (b'{"choices": [{"de', False)):
        events = read(CHAT.decoder(), [first, b"data: " + noise + b"\n\n", second, end])
        (call,) = message_of(events).tool_calls
        assert call.complete is is_complete
        assert isinstance(events[-1], Done) is is_complete


@pytest.mark.parametrize("lost", [b'{"choices":[],"usage":{"prompt_tok', b'a": 3}}'])
def test_a_damaged_usage_behind_the_finish_costs_the_usage_alone(lost: bytes) -> None:
    said = b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\n'
    decoder = CHAT.decoder()
    end = read(decoder, [said, b"data: " + lost + b"\n\n", b"data: [DONE]\n\n"])[-1]
    assert isinstance(end, Done)
    assert decoder.skipped == 1


def test_a_field_of_a_servers_own_is_no_damage() -> None:
    own = b'meta: {"region": "eu"}\ncost: {"usd": 1}\n'
    data = frame("a") + b"\n" + own + frame("b") + b"\n" + own + b"\ndata: [DONE]\n\n"
    end = read(CHAT.decoder(), [data])[-1]
    assert isinstance(end, Done)
    assert end.message.text == "ab"


def test_an_error_without_a_field_name_inside_a_stream_is_read() -> None:
    body = frame("a") + b'\n{"error": {"message": "why"}}\n\n'
    assert error_of(CHAT, body).message == "why"


def test_gemini_does_not_end_well_inside_a_frame_after_an_early_stop() -> None:
    said = {"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]}
    data = b"data: " + json.dumps(said).encode() + b'\n\ndata: {"candidates": [{"cont'
    assert error_of(apis.get("gemini"), data).kind == "truncated"


# --- frames without blank lines ---


def test_frames_without_blank_lines_are_read_as_they_come() -> None:
    decoder = CHAT.decoder()
    assert decoder.feed(frame("a")) == []
    for before, text in ("ab", "bc", "cd"):
        events = decoder.feed(frame(text))
        assert [e.text for e in events if isinstance(e, TextDelta)] == [before]
    assert [e.text for e in decoder.feed(b"data: [DONE]\n") if isinstance(e, TextDelta)] == ["d"]


def test_the_names_of_frames_without_blank_lines_are_their_own() -> None:
    first = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n'
    events = apis.get("anthropic").decoder().feed(first + b"event: ping\n")
    assert isinstance(events[-1], Failed)


def test_an_object_of_several_lines_is_one_frame() -> None:
    lines = json.dumps(json.loads(frame("Hi")[6:]), indent=1).splitlines()
    body = "".join(f"data: {line}\n" for line in lines).encode()
    events = CHAT.decoder().feed(body + b"\n")
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["Hi"]
