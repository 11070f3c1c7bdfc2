"""``/v1/completions`` returns the text of any response, and how it ended."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings

from laws.strategies import event_sequences
from penstock.apis.encoder import find_ending
from penstock.apis.fields import is_counted
from penstock.apis.openai_chat.tables import write_usage
from penstock.events import Done, Event, TextDelta, TextEnd, TextStart
from penstock.gateway.legacy_completions import LegacyCompletionFormat
from penstock.messages import AssistantMessage, ErrorInfo, Text

FINISHES = {"stop": "stop", "length": "length", "tool_use": "stop"}


def frames_of(data: bytes) -> list[dict[str, Any]]:
    *frames, last = data.split(b"\n\n")[:-1]
    assert last == b"data: [DONE]"
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


def test_texts_that_come_side_by_side_are_told_one_behind_the_other() -> None:
    message = AssistantMessage("a", "m", [Text("one"), Text("two")], "stop")
    encoder = LegacyCompletionFormat("cmpl-1", "m", 5).encoder()
    mixed: list[Event] = [
        *(TextStart(0), TextStart(1), TextDelta(1, "two"), TextEnd(1, "two")),
        *(TextDelta(0, "one"), TextEnd(0, "one"), Done("stop", message)),
    ]
    frames = frames_of(b"".join([*map(encoder.encode, mixed), encoder.finish()]))
    assert [frame["choices"][0]["text"] for frame in frames] == ["one", "two", ""]


@settings(max_examples=60)
@given(event_sequences())
def test_a_stream_tells_the_text_and_the_end_of_whatever_was_said(
    answer: tuple[list[Event], AssistantMessage],
) -> None:
    events, message = answer
    dialect = LegacyCompletionFormat("cmpl-1", "m", 5)
    encoder = dialect.encoder()
    frames = frames_of(b"".join([*map(encoder.encode, events), encoder.finish()]))
    choices = [frame["choices"][0] for frame in frames if frame.get("choices")]
    assert "".join(choice["text"] for choice in choices) == message.text
    ending = find_ending(message)
    if isinstance(ending, ErrorInfo):
        assert [list(frame) for frame in frames if "error" in frame] == [["error"]]
        assert not any(choice["finish_reason"] for choice in choices)
        return
    finish = FINISHES.get(ending, "content_filter")
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + [finish]
    tokens = [frame["usage"] for frame in frames if frame.get("usage")]
    assert tokens == ([write_usage(message.usage)] if is_counted(message.usage) else [])
    whole = dialect.write_whole(message)
    assert (whole["choices"][0]["text"], whole["choices"][0]["finish_reason"]) == (
        message.text,
        finish,
    )
