"""Arguments are whole when any reader of JSON takes them, and leave as such."""

from __future__ import annotations

import json
import math

import pytest

from laws import one_by_one
from laws.checks import read
from penstock import apis
from penstock.apis import Api
from penstock.apis.encoder import GuardedArguments, parse_object
from penstock.builder import message_events
from penstock.events import Done, Event, Failed, ToolCallDelta, ToolCallEnd, ToolCallStart
from penstock.messages import AssistantMessage, ToolCall

CLIENTS = pytest.mark.parametrize(
    "client",
    [*map(apis.get, ("openai-chat", "openai-responses", "anthropic"))],
    ids=lambda a: a.name,
)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("text", ['{"a": %s}', '{"a": [{"b": [1, %s]}]}'])
def test_a_number_without_end_makes_no_whole_object(text: str, number: str) -> None:
    assert parse_object(text % number) is None
    assert parse_object(text % "1e99") is not None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_leaves_as_it_was_understood_is_json(number: float) -> None:
    out = GuardedArguments()
    assert out.add("call me with ") == ""
    written = out.end(ToolCall("c", "f", {"a": number, "b": "\ud83d"}))
    assert json.loads(written, parse_constant=pytest.fail) == {"a": None, "b": "\ufffd"}


# --- what readers of JSON do not read alike ---


@pytest.mark.parametrize(
    "text",
    [
        '{"a":"safe","a":"evil"}',
        '{"a" : 1, "b": {"c": 1, "\\u0063" :2}}',
        '{"a": [{"b": ":", "b": 1}]}',
    ],
)
def test_a_key_that_is_there_twice_makes_no_whole_object(text: str) -> None:
    assert parse_object(text) is None


@pytest.mark.parametrize(
    "text", ['{"a": "\\":", "b": "\\" :"}', '{"a": {"b": 1}, "b": {"a": 1}}', '{"": {"": []}}']
)
def test_a_key_that_is_there_once_is_no_harm_whatever_strings_hold(text: str) -> None:
    assert parse_object(text) == json.loads(text)


def anthropic_stream(*pieces: str) -> bytes:
    block = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    frames: list[dict[str, object]] = [
        {"type": "message_start", "message": {"id": "m", "model": "x"}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    return b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)


def sent(client: Api, events: list[Event]) -> bytes:
    encoder = client.encoder(model="m", id="id-1")
    return b"".join(map(encoder.encode, events)) + encoder.finish()


BAD = {
    "a list": "[1, 2]",
    "a string": '"x"',
    "a number": "5",
    "a word": "true",
    "two objects": '{"a": 1}{"b": 2}',
    "a number that is too large": '{"a": 1e999}',
    "one that is too small": '{"a": [-1e999]}',
    "a key twice": '{"a": "safe", "a": "evil"}',
    "a key twice inside": '{"a": {"b": 1, "b": 2}}',
    "a key twice in relaxed JSON": "{'a': 1, 'a': 2}",
    "a cut object": '{"a": "x',
}


@CLIENTS
@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_bad_arguments_of_a_provider_are_a_call_that_nobody_can_run(client: Api, text: str) -> None:
    for pieces in ([text], one_by_one(text)):
        events = read(apis.get("anthropic").decoder(), [anthropic_stream(*pieces)])
        end = events[-1]
        assert isinstance(end, Failed)
        assert [call.complete for call in end.message.tool_calls] == [False]
        data = sent(client, events)
        assert client.check(data) == []
        assert not any(call.complete for call in read_back(client, data).tool_calls)


def read_back(client: Api, data: bytes) -> AssistantMessage:
    end = read(client.decoder(), [data])[-1]
    assert isinstance(end, Done | Failed)
    return end.message


@pytest.mark.parametrize("name", ["openai-chat", "ollama", "gemini"])
def test_an_object_of_arguments_with_a_number_that_is_too_large_is_not_complete(name: str) -> None:
    frames = {
        "openai-chat": 'data: {"choices":[{"message":{"tool_calls":[{"id":"c","function":'
        '{"name":"f","arguments":{"a":1e999}}}]},"finish_reason":"tool_calls"}]}\n\n',
        "ollama": '{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1e999}}}]},'
        '"done":true}\n',
        "gemini": 'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f",'
        '"args":{"a":1e999}}}]},"finishReason":"STOP"}]}\n\n',
    }
    end = read(apis.get(name).decoder(), [frames[name].encode()])[-1]
    assert isinstance(end, Failed)
    assert [call.complete for call in end.message.tool_calls] == [False]


@CLIENTS
def test_a_call_of_a_parser_that_json_has_no_words_for_is_not_complete(client: Api) -> None:
    """A printed ``1e999`` is infinity in Python, and its delta the same number."""
    call = ToolCall("c", "f", {"a": math.inf})
    message = AssistantMessage("r", "m", [call], "tool_use")
    events: list[Event] = [
        ToolCallStart(0, "c", "f"),
        ToolCallDelta(0, '{"a":1e999}'),
        ToolCallEnd(0, call),
        Done("tool_use", message),
    ]
    for written in (sent(client, events), sent(client, list(message_events(message)))):
        assert client.check(written) == []
        assert not any(call.complete for call in read_back(client, written).tool_calls)


HALVES = {
    '{"a": "\\ud83d"}': {"a": "\ufffd"},
    '{"a": "\\uD83D\\uDE00\\udE00x"}': {"a": "\U0001f600\ufffdx"},
    '{"a": "\\\\ud83d", "b\\ud83d": "\\\\"}': {"a": "\\ud83d", "b\ufffd": "\\"},
    '{"a": "\\ud83d\\n\\u00e9\\ud83d\\u0041"}': {"a": "\ufffd\n\u00e9\ufffdA"},
}


@pytest.mark.parametrize("text", HALVES)
def test_an_escape_of_half_a_pair_leaves_as_a_replacement_at_any_cut(text: str) -> None:
    call = ToolCall("c", "f", json.loads(text))
    cuts = [[text], one_by_one(text), *([text[:at], text[at:]] for at in range(1, len(text)))]
    for pieces in cuts:
        out = GuardedArguments()
        written = "".join([*map(out.add, pieces), out.end(call)])
        assert parse_object(written) == HALVES[text], pieces
