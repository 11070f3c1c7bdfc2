"""Halves of surrogate pairs: none leaves, wherever it came in."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from laws.checks import read
from penstock import _json, apis
from penstock.apis.errors import error_info
from penstock.apis.transcript import Transcript
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, ToolCall, ToolResult
from penstock.request import Request, UserMessage
from penstock.tools import Tool

HALF = "a\ud83d"
OURS = pytest.mark.parametrize("name", ["openai-chat", "ollama", "qwen"])
_HALF = re.compile(r"\\\\|\\ud[89ab]..\\ud[c-f]..|(\\ud[89a-f]..)", re.IGNORECASE)


def has_half(data: object) -> bool:
    """Look for half a pair in *data* as a reader sees it, also in JSON inside of its strings."""
    text = json.dumps(data)
    return any(m[1] for m in _HALF.finditer(text)) or "\\\\ud83d" in text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain \\ud83d", b'"plain \\\\ud83d"'),
        (HALF, b'"a\\ufffd"'),
        ("\ud83d\ude00", None),
        (["\ude00\ud83d"], b'["\\ufffd\\ufffd"]'),
    ],
)
def test_what_goes_to_a_stranger_holds_no_half(value: object, expected: bytes | None) -> None:
    data = _json.encode_wire(value)
    if expected is not None:
        assert data == expected
    json.loads(data).encode() if isinstance(value, str) else None
    if isinstance(value, str):
        assert _json.encode_text(value) == data


def test_names_ids_and_reasons_hold_no_half() -> None:
    transcript = Transcript()
    transcript.begin(HALF, HALF)
    call = transcript.call("", HALF)
    call.add_name(HALF)
    transcript.fail(ErrorInfo(HALF, type=HALF), HALF)
    events = transcript.take()
    assert events[:2] == [MessageStart("a", "a"), ToolCallStart(0, "a", "a")]
    end = events[-1]
    assert isinstance(end, Failed)
    assert (end.error.message, end.error.type, end.message.raw_stop_reason) == ("a", "a", "a")
    assert error_info(HALF, type=HALF) == ErrorInfo("a", type="a")


def answer(end: Event) -> list[Event]:
    call = ToolCall(HALF, HALF, {"k": HALF})
    return [
        MessageStart(HALF, HALF),
        TextStart(0),
        TextDelta(0, HALF),
        TextEnd(0, HALF),
        ToolCallStart(1, HALF, HALF),
        ToolCallDelta(1, '{"k":"' + HALF + '"}'),
        ToolCallEnd(1, call),
        Part(2, Opaque("openai-chat", {"annotations": [HALF]})),
        end,
    ]


@OURS
def test_an_encoder_writes_no_half(name: str) -> None:
    failed = Failed("error", ErrorInfo(HALF, type=HALF), AssistantMessage())
    for end in (Done("tool_use", AssistantMessage()), failed):
        encoder = apis.get(name).encoder()
        data = b"".join(map(encoder.encode, answer(end))) + encoder.finish()
        assert not any(match[1] for match in _HALF.finditer(data.decode()))
        assert read(apis.get(name).decoder(), [data])


@OURS
def test_whole_answers_and_errors_hold_no_half(name: str) -> None:
    content: Any = [Text(HALF), ToolCall(HALF, HALF, {"k": HALF})]
    message = AssistantMessage(HALF, HALF, content, "tool_use")
    assert not has_half(apis.get(name).write_response(message))
    assert not has_half(apis.get(name).write_error(ErrorInfo(HALF, type=HALF)))


@OURS
def test_a_request_holds_no_half(name: str) -> None:
    call = AssistantMessage(content=[ToolCall(HALF, HALF, {"k": HALF})])
    request = Request(
        model="m",
        system=HALF,
        messages=[UserMessage([Text(HALF)]), call, ToolResult(HALF, HALF, HALF)],
        tools=[Tool(HALF, HALF, {"type": "object", "description": HALF})],
        stop=[HALF],
        metadata={"k": HALF},
        user=HALF,
    )
    assert not has_half(apis.get(name).write_request(request))
