"""The checker of Responses streams finds what a strict client would stumble over."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock import apis
from penstock.builder import message_events
from penstock.messages import AssistantMessage, ErrorInfo, Opaque, Text, Thinking, ToolCall

NAME = "openai-responses"
API = apis.get(NAME)
Events = list[dict[str, Any]]

BLOCKS: list[Any] = [
    Thinking("Hm", "sig"),
    Text("Hi"),
    Opaque(NAME, {"type": "annotations", "annotations": [{"type": "file_path"}]}),
    ToolCall("call_a", "f", {"a": 1}),
    ToolCall("call_b", "g", {}),
]


def stream(*blocks: Any, stop: Any = "tool_use", error: ErrorInfo | None = None) -> Events:
    message = AssistantMessage("resp_1", "m", [*(blocks or BLOCKS)], stop, error=error)
    encoder = API.encoder()
    data = b"".join([encoder.encode(event) for event in message_events(message)]) + encoder.finish()
    return [json.loads(line[6:]) for line in data.decode().splitlines() if line[:6] == "data: "]


def wire(events: Events, *, count: bool = True) -> bytes:
    if count:
        events = [{**event, "sequence_number": at} for at, event in enumerate(events)]
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()


def first(events: Events, kind: str, at: int = 0) -> dict[str, Any]:
    return [event for event in events if event["type"] == f"response.{kind}"][at]


def without(kind: str, at: int = 0) -> Callable[[Events], None]:
    return lambda events: events.remove(first(events, kind, at))


def without_any(kind: str) -> Callable[[Events], None]:
    def change(events: Events) -> None:
        events[:] = [event for event in events if event["type"] != f"response.{kind}"]

    return change


def changed(kind: str, *path: str, to: Any, at: int = 0) -> Callable[[Events], None]:
    def change(events: Events) -> None:
        value: Any = first(events, kind, at)
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = to

    return change


def twice(kind: str, at: int = 0) -> Callable[[Events], None]:
    return lambda events: events.insert(
        events.index(first(events, kind, at)), first(events, kind, at)
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (without("created"), "response.created does not come first"),
        (without("completed"), "there is no terminal event"),
        (twice("completed"), "something follows the end"),
        (changed("completed", "response", "id", to="resp_2"), "id or model changes"),
        (changed("completed", "response", "status", to="failed"), "the status of"),
        (changed("completed", "response", "output", to=[{}]), "output differs from the items"),
        (changed("completed", "response", "usage", to=None), "usage has no input_tokens"),
        (changed("completed", "response", "error", to={"code": "x"}), "did not fail"),
        (changed("created", "response", "created_at", to=None), "a response has no created_at"),
        (changed("created", "response", "output", to=[1]), "response.created has output"),
        (without("output_item.added"), "output_index does not count"),
        (without("output_item.done"), "is not done"),
        (twice("output_item.done"), "an item is done twice"),
        (changed("output_item.done", "item", "id", to="rs_9"), "the id of an item changes"),
        (changed("output_item.added", "item", "id", to="x_1", at=1), "the id of a message is"),
        (changed("output_item.added", "item", "role", to="user", at=1), "not the assistant's"),
        (changed("output_item.added", "item", "call_id", to="", at=2), "a call has no call_id"),
        (changed("output_item.added", "item", "name", to=None, at=2), "a call has no name"),
        (changed("output_item.added", "item", "call_id", to="call_a", at=3), "have one call_id"),
        (changed("output_item.added", "item", "arguments", to="{}", at=2), "begins with arguments"),
        (without("content_part.added"), "of a part that is not open"),
        (without("content_part.done"), "done before its part is"),
        (changed("content_part.added", "part", "text", to="x"), "a part begins with text"),
        (changed("content_part.done", "part", "text", to="x"), "a part differs from its deltas"),
        (changed("content_part.done", "part", "annotations", to=[]), "a part changes"),
        (without("output_text.done"), "a part is done before its text is"),
        (without("output_text.delta"), "output_text.done differs from its deltas"),
        (changed("output_text.delta", "logprobs", to=None), "logprobs are not a list"),
        (changed("output_text.delta", "delta", to=None), "output_text.delta has no text"),
        (changed("output_text.delta", "item_id", to="msg_9"), "of another item_id"),
        (changed("output_text.delta", "content_index", to=1), "of a part that is not open"),
        (changed("output_text.delta", "output_index", to=9), "of an item that was not added"),
        (changed("output_text.annotation.added", "annotation_index", to=1), "does not count"),
        (without("reasoning_summary_part.added"), "of a part that is not open"),
        (without("reasoning_summary_part.done"), "done before its part is"),
        (changed("reasoning_summary_text.done", "text", to="x"), "differs from its deltas"),
        (without("function_call_arguments.done"), "not those that were done"),
        (without_any("function_call_arguments.delta"), "a call's arguments have no deltas"),
        (changed("output_item.done", "item", "status", to="incomplete", at=2), "was cut is done"),
        (changed("output_item.done", "item", "status", to=None, at=1), "the status of a message"),
    ],
)
def test_each_fault_is_named(change: Callable[[Events], None], complaint: str) -> None:
    events = stream()
    assert API.check(wire(events)) == []
    change(events)
    found = API.check(wire(events))
    assert any(complaint in fault for fault in found), found


def test_numbers_count_from_zero_and_frames_have_names() -> None:
    events = stream()
    events[3]["sequence_number"] = 7
    assert API.check(wire(events, count=False)) == ["numbers do not count"]
    nameless = wire(stream()).replace(b"event: response.completed\n", b"")
    assert API.check(nameless) == ["a frame is not named by its event's type"]


def test_arguments_of_a_completed_answer_are_objects() -> None:
    events = stream(ToolCall("call_a", "f", {}))
    for kind, path in (
        ("function_call_arguments.delta", ["delta"]),
        ("function_call_arguments.done", ["arguments"]),
        ("output_item.done", ["item", "arguments"]),
    ):
        changed(kind, *path, to="[1")(events)
    events[-1]["response"]["output"][0]["arguments"] = "[1"
    assert API.check(wire(events)) == ["the arguments of a call are not a JSON object"]


def test_other_ends_have_their_reasons() -> None:
    events = stream(Text("Hi"), stop="length")
    changed("incomplete", "response", "incomplete_details", to=None)(events)
    assert API.check(wire(events)) == ["a response is incomplete for None"]
    events = stream(Text("Hi"), stop="error", error=ErrorInfo("no"))
    changed("failed", "response", "error", to={"code": None, "message": "no"})(events)
    assert API.check(wire(events)) == ["no error"]


def test_garbage_is_a_fault_and_a_mark_behind_the_end_is_none() -> None:
    good = wire(stream())
    assert API.check(good + b"data: [DONE]\n\n") == []
    assert API.check(b"data: [DONE]\n\n" + good) == ["[DONE] precedes the end"]
    assert "a frame is not a JSON object" in API.check(b"data: {oops\n\n" + good)
    assert API.check(b"") == ["there is no terminal event"]
    error = b'event: error\ndata: {"type":"error","sequence_number":0,"message":"no"}\n\n'
    assert API.check(error) == []
