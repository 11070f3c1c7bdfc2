"""Several answers in one stream: each under its number, one end for all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.apis.openai_chat.encode import ChoicesEncoder, write_choices
from penstock.errors import UsageError
from penstock.events import Done, Event, Failed, MessageStart, TextDelta, TextEnd, TextStart
from penstock.messages import AssistantMessage, ErrorInfo, Text, Usage


def message(text: str) -> AssistantMessage:
    return AssistantMessage("a", "m", [Text(text)], "stop", usage=Usage(3, 4, total=7))


def events(text: str) -> list[Event]:
    done = Done("stop", message(text))
    return [MessageStart("a", "m"), TextStart(0), TextDelta(0, text), TextEnd(0, text), done]


def frames(data: bytes) -> list[Any]:
    lines = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: ")]
    return [line.decode() if line == b"[DONE]" else json.loads(line) for line in lines]


def texts(data: bytes) -> dict[int, str]:
    found: dict[int, str] = {}
    for frame in frames(data)[:-1]:
        for choice in frame.get("choices", ()):
            content = choice["delta"].get("content") or ""
            found[choice["index"]] = found.get(choice["index"], "") + content
    return found


def test_answers_go_out_as_they_come_under_their_numbers() -> None:
    encoder = ChoicesEncoder(2, model="m", id="x")
    pairs = zip(events("one"), events("two"), strict=True)
    data = b"".join(encoder.encode(0, a) + encoder.encode(1, b) for a, b in pairs)
    assert texts(data) == {0: "one", 1: "two"}
    assert encoder.ended
    assert encoder.finish() == b""


def test_the_tokens_of_all_are_told_once_and_then_the_last_word() -> None:
    encoder = ChoicesEncoder(2)
    data = b"".join(encoder.encode(n, event) for n in (1, 0) for event in events("x"))
    *_, usage, last = frames(data)
    assert (usage["choices"], usage["usage"]["total_tokens"], last) == ([], 14, "[DONE]")
    assert data.count(b"[DONE]") == 1
    assert data.count(b'"finish_reason":"stop"') == 2


def test_who_did_not_ask_for_tokens_is_not_told() -> None:
    encoder = ChoicesEncoder(1, usage=False)
    data = b"".join(encoder.encode(0, event) for event in events("x"))
    assert b'"usage"' not in data


def test_the_first_that_fails_ends_the_stream_for_all() -> None:
    encoder = ChoicesEncoder(2)
    data = b"".join(encoder.encode(0, event) for event in events("one")[:3])
    failed = Failed("error", ErrorInfo("broken"), AssistantMessage())
    data += encoder.encode(1, failed)
    data += b"".join(encoder.encode(0, event) for event in events("one")[3:])
    *_, error, last = frames(data)
    assert (error["error"]["message"], last) == ("broken", "[DONE]")


def test_a_stream_that_stops_is_ended_by_whoever_is_still_open() -> None:
    encoder = ChoicesEncoder(2)
    data = b"".join(encoder.encode(0, event) for event in events("one"))
    data += encoder.encode(1, MessageStart("a", "m"))
    data += encoder.encode(0, Done("stop", message("one")))  # it has ended: this says nothing
    data += encoder.finish()
    *_, error, last = frames(data)
    assert ("ended before" in error["error"]["message"], last) == (True, "[DONE]")


def test_whole_answers_are_choices_of_one() -> None:
    whole = write_choices([message("one"), message("two")], created=5)
    found = {c["index"]: c["message"]["content"] for c in whole["choices"]}
    assert (found, whole["usage"]["total_tokens"]) == ({0: "one", 1: "two"}, 14)


def test_no_answer_and_a_failed_one_have_no_whole_form() -> None:
    with pytest.raises(UsageError):
        write_choices([])
    with pytest.raises(UsageError):
        write_choices([AssistantMessage(error=ErrorInfo("broken"))])
