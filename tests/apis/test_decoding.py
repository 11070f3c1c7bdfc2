"""What every decoder does alike: streams that stop early, say nothing or are none at all."""

from __future__ import annotations

import json

import pytest

from laws.checks import read
from penstock import apis
from penstock.apis import Api
from penstock.events import Failed, TextDelta
from penstock.messages import ErrorInfo

APIS = pytest.mark.parametrize("api", [*map(apis.get, apis.names())], ids=apis.names())
CHAT = apis.get("openai-chat")


def error_of(api: Api, *pieces: bytes) -> ErrorInfo:
    end = read(api.decoder(), [*pieces])[-1]
    assert isinstance(end, Failed), end
    return end.error


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
    assert (error.kind, error.message) == ("malformed", "the stream holds no JSON")


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
