"""Every field of what providers and clients really send, as every type of JSON.

A decoder never raises, whatever a field holds, and ends with one terminal event. What reads a whole
answer never raises either; what reads a request raises `UsageError` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path as FilePath
from typing import Any

import pytest

from laws import effort
from laws.checks import check_honest_end, read
from penstock import MessageBuilder, apis
from penstock.apis import Api
from penstock.builder import message_events
from penstock.errors import UsageError
from penstock.events import Event
from penstock.messages import (
    AssistantMessage,
    ErrorInfo,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from penstock.request import (
    Image,
    ReasoningOptions,
    Request,
    ResponseFormat,
    SystemMessage,
    ToolChoice,
    UserMessage,
)
from penstock.tools import Tool

PROVIDERS = FilePath(__file__).parents[1] / "vectors" / "providers.jsonl"
VECTORS = [json.loads(line) for line in PROVIDERS.read_text(encoding="utf-8").splitlines()]
APIS = pytest.mark.parametrize("api", [*map(apis.get, apis.names())], ids=apis.names())

Path = tuple[str | int, ...]


def deep(depth: int) -> Any:
    value: Any = {}
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


VALUES: list[list[Any]] = [
    [None, True, False],
    [0, -1, 7, 2**40, 2**70, -(2**70), 10**30],
    [1.5, float("inf"), float("nan"), -0.0],
    ["", " ", "0", "stop", "text", "[DONE]"],
    ["null", "[]", "{}", '{"a": 1', '{"a": 1e999}', '{"a": 1, "a": 2}', '"x"'],
    ["\ud83d", "\ude00x", {"\ud83d": "\ud83d"}, '{"a": "\\ud83d"}'],
    [[], [None], [1, "a"], ["x"], [[]]],
    [[{}], [[{}]], [{"a": []}], [{"type": []}]],
    [{}, {"": None}, {"a": {}}, {"text": 5}, {"type": "text"}, {"message": {}}, {"type": []}],
    [deep(40), deep(300), {"a": float("inf")}, {"message": "x"}],
]
"""Values of every type, some of which only Python writes; of each row one is tried in a field."""


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Give the way to every field and every item of *value*."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else inner:
        yield from paths(item, (*path, key))


def replaced(value: Any, path: Path, new: Any) -> Any:
    """Copy *value* with *new* at *path*."""
    if not path:
        return new
    key, *rest = path
    copy = value.copy()
    copy[key] = replaced(value[key], tuple(rest), new)
    return copy


def shape(path: Path) -> Path:
    """Give *path* without the numbers in it: items of a list are alike."""
    return tuple("#" if isinstance(key, int) else key for key in path)


def frames_of(text: str) -> list[tuple[str, Any]]:
    """Take a stream apart: what stands before each JSON object, and the object."""
    found: list[tuple[str, Any]] = []
    for line in text.splitlines():
        head, brace, rest = line.partition("{")
        try:
            found.append((head, json.loads(brace + rest)))
        except ValueError:
            found.append((line, None))
    return found


def written(frames: list[tuple[str, Any]]) -> bytes:
    lines = [head + ("" if data is None else json.dumps(data)) for head, data in frames]
    return "\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass")


USAGE = Usage(7, 5, 2, 1, 1, 16)
RICH = AssistantMessage(
    "id-1",
    "m",
    [
        Thinking("Hm.", "c2ln"),
        Text("Hi"),
        ToolCall("c1", "f", {"a": "x", "b": [1, None]}),
        Text("!"),
    ],
    "tool_use",
    usage=USAGE,
)
ENDS = [
    RICH,
    AssistantMessage("id-1", "m", [Text("Hi")], "length", usage=USAGE),
    AssistantMessage("id-1", "m", [], "error", error=ErrorInfo("no", "refusal")),
    AssistantMessage("id-1", "m", [Text("Hi")], "error", error=ErrorInfo("busy", status=529)),
]
"""Answers that every API can write."""


def chat(**delta: Any) -> dict[str, Any]:
    return {"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def candidate(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [*parts]}, **fields}]}


SUMMARY = {"summary_thought": {"content": ["a", "b"]}, "summary_title": {"content": ["t"]}}
FRAMES: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [
        chat(
            content=[{"type": "thinking", "thinking": [{"text": "a"}]}, {"text": "b"}],
            reasoning_details=[
                {"id": "c", "text": "a", "summary": "b", "signature": "s", "data": "d"}
            ],
            annotations=[{"type": "url_citation"}],
            refusal="no",
        ),
        chat(tool_calls=[{
            "index": 0, "id": "c", "type": "custom", "custom": {"name": "p", "input": "x"},
            "extra_content": {"google": {"thought_signature": "s"}},
        }]),
        chat(function_call={"name": "f", "arguments": "{}"}),
        {"choices": [{"message": {"content": "x"}, "usage": {"prompt_tokens": 3}, "error": None}]},
        {"error": {"message": "no", "code": 400, "type": "t", "metadata": {"raw": "x"}}},
    ],
    "gemini": [
        {"response": candidate({"text": "a", "thought": True, "thoughtSignature": "c2ln"})},
        candidate({"functionCall": {
            "name": "f", "id": "c", "willContinue": True,
            "partialArgs": [{"jsonPath": "$.a[0]", "stringValue": "x", "willContinue": True}],
        }}),
        candidate({"functionCall": {"partialArgs": [{"jsonPath": "$.b", "numberValue": 1.5}]}}),
        candidate({"functionCall": {"name": "g", "args": {"a": 1}}, "thoughtSignature": "c2ln"}),
        candidate(
            {"executableCode": {"code": "x"}},
            groundingMetadata={"groundingChunks": [{"web": {}}]}, finishMessage="m", index=0,
        ),
        {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"}},
        {"error": {"message": "no", "code": 400, "details": [{"retryDelay": "3s"}]}},
    ],
    "ollama": [
        {"model": "m", "message": {"role": "assistant", "content": "a", "thinking": "b"}},
        {"response": "a", "thinking": "b"},
        {"message": {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]},
         "model": "m"},
        {"error": "no", "done": False},
        {"done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 4},
    ],
    "qwen": [
        {"response.created": {"chat_id": "c", "parent_id": "p", "response_id": "r"}},
        chat(phase="think", content="a", status="typing", extra=SUMMARY),
        chat(phase="thinking_summary", content="", status="typing", extra=SUMMARY),
        chat(phase="web_search", content="", status="finished", extra={"web_search_info": [{}]}),
        chat(phase="answer", content="a", status="typing"),
        {"success": False, "data": {"code": "x", "details": "no", "num": 3}},
        {"choices": [], "response_id": "r",
         "usage": {"input_tokens": 3, "output_tokens_details": {}}},
    ],
}  # fmt: skip
"""Frames with the fields that no vector has."""


def streams(api: Api) -> Iterator[list[tuple[str, Any]]]:
    """Give streams of *api*: of the vectors, of our encoder, and of the frames above."""
    for vector in VECTORS:
        if apis.get(vector["provider"]).name == api.name:
            yield frames_of(vector["sse"])
    for message in ENDS:
        encoder = api.encoder(model="m", id="id-1")
        data = b"".join(map(encoder.encode, message_events(message))) + encoder.finish()
        yield frames_of(data.decode())
    head = "" if api.name == "ollama" else "data: "
    blank = [] if api.name == "ollama" else [("", None)]
    for number, frame in enumerate(frames := FRAMES.get(api.name, [])):
        lead = [frames[0]] if number else []
        yield [entry for data in (*lead, frame, *frames[4:5]) for entry in ((head, data), *blank)]


def mutated(data: Any, seen: set[Any], kind: object = None) -> Iterator[Any]:
    """Give *data* with each field that was not *seen* as a value of each row, one after another."""
    for path in paths(data):
        if (kind, shape(path)) in seen:
            continue
        seen.add((kind, shape(path)))
        for row in VALUES:
            yield replaced(data, path, row[len(seen) % len(row)])


BEGINNINGS = ("response.created", "response.in_progress", "response.incomplete", "response.failed")


def mutations(api: Api) -> Iterator[bytes]:
    """Give the streams of *api*, each with one field of one frame changed."""
    seen: set[Any] = set()
    for frames in streams(api):
        for number, (head, data) in reversed([*enumerate(frames)]):
            kind = data.get("type") if isinstance(data, dict) else None
            kind = "response.completed" if kind in BEGINNINGS else kind  # They say much the same.
            for changed in mutated(data, seen, kind):
                yield written([*frames[:number], (head, changed), *frames[number + 1 :]])


def message_of(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


@APIS
def test_no_field_of_a_stream_makes_a_decoder_raise_or_an_encoder_unlawful(api: Api) -> None:
    targets = cycle([*map(apis.get, ("openai-chat", "openai-responses", "anthropic"))])
    for data, target in zip(effort.some(mutations(api)), targets, strict=False):
        events = read(api.decoder(), [data])
        check_honest_end(events, cut=False)
        message_of(events)
        encoder = target.encoder(model="m", id="id-1")
        out = b"".join(map(encoder.encode, events)) + encoder.finish()
        assert target.check(out) == [], data


@APIS
def test_no_field_of_a_whole_answer_makes_its_reader_raise(api: Api) -> None:
    seen: set[Any] = set()
    for whole in (*map(api.write_response, ENDS[:2]), *FRAMES.get(api.name, [])):
        for data in mutated(whole, seen):
            message = api.read_response(data)
            assert message.stop_reason is not None


REQUEST = Request(
    model="m",
    system="Be brief.",
    messages=[
        UserMessage([Text("hi"), Image("image/png", "iVBO"), Image(url="https://a.example/x.png")]),
        RICH,
        ToolResult("c1", "f", "found"),
        SystemMessage("more"),
        UserMessage([Text("go")]),
    ],
    tools=[Tool("f", "does", {"type": "object", "properties": {"a": {"type": "string"}}})],
    tool_choice=ToolChoice("tool", "f"),
    parallel_tool_calls=False,
    max_tokens=99,
    temperature=0.5,
    stop=["x"],
    n=2,
    response_format=ResponseFormat("schema", {"type": "object"}, "n", strict=True),
    reasoning=ReasoningOptions("low", 1024, "auto"),
    stream=True,
    include_usage=True,
    metadata={"k": "v"},
    user="u",
)


@APIS
def test_no_field_of_a_request_makes_its_reader_raise_anything_but_a_usage_error(api: Api) -> None:
    others = cycle([*map(apis.get, apis.names())])
    for data, other in zip(mutated(api.write_request(REQUEST), set()), others, strict=False):
        with suppress(UsageError):
            other.write_request(api.read_request(data))
