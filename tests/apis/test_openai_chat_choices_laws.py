"""However several answers are mixed into one stream, each of them is read as if it stood alone."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from laws.strategies import event_sequences
from penstock import apis
from penstock.apis.openai_chat.encode import ChoicesEncoder
from penstock.apis.openai_chat.tables import write_usage
from penstock.events import Done, Event, Failed
from penstock.messages import AssistantMessage, Usage, sum_usage

API = apis.get("openai-chat")
END = b"data: [DONE]\n\n"


def mixed(random: Random, answers: list[list[Event]]) -> list[tuple[int, Event]]:
    """Give the events of all *answers* in some order, each with the number of its answer."""
    waiting = [[(number, event) for event in events] for number, events in enumerate(answers)]
    order: list[tuple[int, Event]] = []
    while waiting := [events for events in waiting if events]:
        order.append(random.choice(waiting).pop(0))
    return order


def read(data: bytes) -> AssistantMessage:
    """Read a stream; what it counts and how it words an error is nobody's own here."""
    decoder = API.decoder()
    end = [*decoder.feed(data), *decoder.finish()][-1]
    assert isinstance(end, Done | Failed)
    message = end.message
    message.error = end.error if isinstance(end, Failed) else None
    message.usage = Usage()
    return message


def alone(events: list[Event]) -> AssistantMessage:
    encoder = API.encoder(model="m", id="x")
    return read(b"".join([*map(encoder.encode, events), encoder.finish()]))


def frames_of(data: bytes) -> list[dict[str, Any]]:
    *frames, last = data.split(b"\n\n")[:-1]
    assert last == END.strip()
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


def of_choice(frames: list[dict[str, Any]], number: int, *, has_failed: bool) -> bytes:
    """Give the stream of one choice out of the *frames* of all."""
    own = [
        {**frame, "choices": [{**frame["choices"][0], "index": 0}]}
        for frame in frames
        if frame.get("choices") and frame["choices"][0]["index"] == number
    ]
    own += [frame for frame in frames if has_failed and "error" in frame]
    ended = has_failed or any(frame["choices"][0]["finish_reason"] for frame in own)
    told = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in own)
    return told + END if ended else told


@settings(max_examples=60)
@given(st.lists(event_sequences(), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_each_choice_is_read_as_if_it_stood_alone(
    answers: list[tuple[list[Event], AssistantMessage]], random: Random
) -> None:
    encoder = ChoicesEncoder(len(answers), model="m", id="x")
    data, failed, ended = b"", -1, set()
    for number, event in mixed(random, [events for events, _ in answers]):
        said = encoder.encode(number, event)
        data += said
        if isinstance(event, Done | Failed) and said:
            ended.add(number)
            failed = number if b'"error":' in said else failed
    assert encoder.ended
    assert encoder.finish() == b""
    frames = frames_of(data)
    for number, (events, _) in enumerate(answers):
        told = read(of_choice(frames, number, has_failed=number == failed))
        if number in ended:
            assert told == alone(events)
        else:
            assert told.error is not None
            assert alone(events).text.startswith(told.text)
    tokens = [frame["usage"] for frame in frames if frame.get("usage")]
    usage = sum_usage([message.usage for _, message in answers])
    assert tokens == ([] if failed >= 0 or usage == Usage() else [write_usage(usage)])
